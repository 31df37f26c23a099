// Any bytes as a line whose texts are cut before it is parsed: what was JSON stays the same JSON, but for shorter
// texts.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "fuzz/parses.h"
#include "infer/long_line.h"
#include "text/tokenizer.h"

namespace {

using lshformer::Json;
using lshformer::testing::Check;

void CheckShorter(const Json& whole, const Json& shorter) {
  Check(shorter.is_object() && shorter.size() == whole.size(), "the keys stay");
  for (const auto& [key, value] : whole.items()) {
    Check(shorter.contains(key), "the keys stay");
    const Json& left = shorter[key];
    if (left == value) continue;
    Check(key == "text" || key == "text_pair", "only texts are cut");
    Check(left.is_string() && value.is_string(), "only strings are cut");
    Check(value.get_ref<const std::string&>().starts_with(left.get_ref<const std::string&>()), "a beginning is left");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  Json whole;
  const bool is_json = testing::Parses([&] { whole = ParseJson(line, "line"); });
  for (const size_t longest : {1, 5, 40}) {
    const std::optional<std::string> cut = WithShorterTexts(line, longest);
    if (!cut) continue;
    Check(cut->size() < size && IsValidUtf8(*cut), "a cut line is shorter and still text");
    if (!is_json) continue;
    Json shorter;
    Check(testing::Parses([&] { shorter = ParseJson(*cut, "shorter"); }), "what was JSON stays JSON");
    CheckShorter(whole, shorter);
    // A key may be written with escapes; it is then not seen as "text", and its value stays.
    if (line.find("\\u") != line.npos) continue;
    for (const char* key : {"text", "text_pair"}) {
      if (shorter.contains(key) && shorter[key].is_string())
        Check(shorter[key].get_ref<const std::string&>().size() <= longest, "a text is as short as asked for");
    }
  }
  return 0;
}
