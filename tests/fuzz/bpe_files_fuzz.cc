// Any bytes as the files of byte-level BPE, parted by 0xFF: vocab.json, merges.txt, tokenizer_config.json, and a text.
// What loads is a tokenizer that works; its tokens of a text say the text again, and it reads back as itself when it is
// saved.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fuzz/parses.h"
#include "text/code_points.h"
#include "text/tokenizer.h"
#include "util/temp_folder.h"

namespace {

using namespace lshformer;
using testing::Check;

constexpr const char* kFiles[] = {"vocab.json", "merges.txt", "tokenizer_config.json"};

void CheckEncoding(const Tokenizer& tokenizer, const std::string& text) {
  const Encoding encoding = tokenizer.Encode(text, text, {});
  const auto end = static_cast<int32_t>(CountCodePoints(text));
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    Check(encoding.ids[i] >= 0 && encoding.ids[i] < tokenizer.vocab_size(), "ids are in range");
    const auto [from, to] = encoding.offsets[i];
    Check(from >= 0 && from <= to && to <= end, "offsets are in the text");
  }
  Check(IsValidUtf8(tokenizer.Decode(encoding.ids, false)), "decoded text is UTF-8");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const testing::TempFolder folder;
  for (const char* name : kFiles) {
    const std::string_view file = rest.substr(0, rest.find('\xFF'));
    rest.remove_prefix(std::min(rest.size(), file.size() + 1));
    if (!file.empty()) folder.Write(name, file);
  }
  std::shared_ptr<const Tokenizer> tokenizer;
  if (!testing::Parses([&] { tokenizer = Tokenizer::Load(folder.path()); })) return 0;
  const std::string text = CleanUtf8(rest, nullptr);
  CheckEncoding(*tokenizer, text);
  CheckEncoding(*tokenizer, "The caf\u00e9's <mask> \u65e5\u672c  12 3\u0301\r\n\n x" + text);
  const testing::TempFolder saved;
  if (!testing::Parses([&] { tokenizer->Save(saved.path(), 512); })) return 0;
  const std::shared_ptr<const Tokenizer> again = Tokenizer::Load(saved.path());
  Check(again->vocab_size() == tokenizer->vocab_size(), "a saved tokenizer has as many tokens");
  Check(again->Encode(text).ids == tokenizer->Encode(text).ids, "a saved tokenizer gives the same ids");
  return 0;
}
