// Any bytes as an object whose "id" is copied as it was written: the same value, in no more bytes; without the object,
// no reading beyond its end.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "fuzz/parses.h"
#include "infer/member_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lshformer::Json;
  using lshformer::testing::Check;
  const std::string json(reinterpret_cast<const char*>(data), size);
  const std::optional<std::string> id = lshformer::MemberText(json, "id");
  Json object;
  if (!lshformer::testing::Parses([&] { object = lshformer::ParseJson(json, "in"); })) return 0;
  if (!object.is_object()) return 0;
  Check(id.has_value() == object.contains("id"), "an id is found where there is one");
  if (!id) return 0;
  Check(lshformer::ParseJson(*id, "id") == object["id"], "the id's value stays");
  Check(id->size() <= json.size() && id->find_first_of("\r\n") == id->npos, "the id is a piece of one line");
  return 0;
}
