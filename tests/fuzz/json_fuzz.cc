// Any bytes as JSON: what is accepted says the same when it is written and read again, and obeys the limits.
#include <algorithm>
#include <cstdint>

#include "attention/spec.h"
#include "base/json.h"
#include "fuzz/parses.h"

namespace {

using lshformer::Json;
using lshformer::testing::Check;

int Depth(const Json& json) {
  int depth = 0;
  if (!json.is_structured()) return 0;
  for (const Json& item : json) depth = std::max(depth, Depth(item));
  return depth + 1;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr JsonLimits kLimits{.depth = 8, .bytes = 1 << 16, .values = 1000};
  Json json;
  if (!testing::Parses([&] { json = ParseJson(text, "f.json", kLimits); })) return 0;
  Check(Depth(json) <= kLimits.depth, "depth is limited");
  Check(size <= kLimits.bytes, "size is limited");
  Check(text.find('\0') == text.npos, "no NUL");
  const std::string written = json.dump();  // throws if a string is not UTF-8
  Check(ParseJson(written, "again").dump() == written, "writing and reading again changes nothing");
  Check(!ShownValue(json).empty(), "every value can be shown");
  if (AttentionSpec spec; testing::Parses([&] { spec = ParseAttentionSpec(json, "f.json"); }))
    Check(ParseAttentionSpec(ToJson(spec), "again") == spec, "a spec reads back as itself");
  for (const char* key : {"bands", "x"}) {
    testing::Parses([&] { GetInt(json, key, "f.json", -5, 5); });
    testing::Parses([&] { GetString(json, key, "f.json"); });
  }
  return 0;
}
