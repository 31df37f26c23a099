// Any bytes as a text and a pair (split at the first 0xFF): what holds of every encoding, under all settings.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/parses.h"
#include "text/utf8.h"
#include "text/wordpiece/wordpiece.h"

namespace lshformer {
namespace {

using testing::Check;

std::unique_ptr<WordPieceTokenizer> Make(bool lowercase, bool strip_accents) {
  WordPieceOptions options;
  options.normalizer = {.lowercase = lowercase, .strip_accents = strip_accents, .ideographs = lowercase};
  options.added = {{.content = "[E]", .lstrip = true},
                   {.content = "[E]x", .rstrip = true},
                   {.content = "plus", .special = false, .single_word = true}};
  std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nab\n##bc\nabc\né\n##é\n日\n";
  for (char c = '!'; c <= '~'; ++c) vocab.append(1, c).append("\n##").append(1, c).append("\n");
  return std::make_unique<WordPieceTokenizer>(Vocabulary(vocab, "vocab.txt"), "vocab.txt", options);
}

void CheckEncoding(const WordPieceTokenizer& tokenizer, const std::string& text, const std::string& pair) {
  const auto count = [](const std::string& part) {
    return static_cast<int32_t>(std::count_if(part.begin(), part.end(), BeginsCodePoint));
  };
  const int32_t lengths[2] = {count(text), count(pair)};
  const Encoding whole = tokenizer.Encode(text, pair, {.add_special_tokens = false});
  Check(!whole.truncated, "nothing is cut unasked");
  int32_t last[2] = {0, 0};
  for (size_t i = 0; i < whole.ids.size(); ++i) {
    const auto part = static_cast<size_t>(whole.type_ids[i]);
    const auto [begin, end] = whole.offsets[i];
    Check(begin < end && end <= lengths[part], "offsets are in the text");
    Check(begin >= last[part] - 1 && end >= last[part], "offsets ascend");  // one character may give several pieces
    last[part] = end;
  }
  tokenizer.Decode(whole.ids, true);
  for (const int length : {3, 4, 9}) {
    const Encoding cut =
        tokenizer.Encode(text, pair.empty() ? std::nullopt : std::optional(pair), {.max_length = length});
    const size_t specials = pair.empty() ? 2 : 3;
    Check(cut.ids.size() <= static_cast<size_t>(length) && cut.ids.size() == cut.offsets.size(),
          "as short as asked for");
    Check(cut.truncated == (cut.ids.size() < whole.ids.size() + specials), "a cut is told");
    if (pair.empty())
      Check(std::equal(cut.ids.begin() + 1, cut.ids.end() - 1, whole.ids.begin()), "the beginning is left");
  }
}

}  // namespace
}  // namespace lshformer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  static const std::unique_ptr<WordPieceTokenizer> tokenizers[] = {Make(true, true), Make(true, false),
                                                                   Make(false, true), Make(false, false)};
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t split = std::min(bytes.find('\xFF'), bytes.size());
  int64_t replaced = 0;
  const std::string text = CleanUtf8(bytes.substr(0, split), &replaced);
  const std::string pair = CleanUtf8(bytes.substr(std::min(split + 1, size)), &replaced);
  Check(IsValidUtf8(text) && IsValidUtf8(pair), "cleaned text is UTF-8");
  Check(replaced > 0 || IsValidUtf8(bytes.substr(0, split)), "what was replaced is counted");
  for (const auto& tokenizer : tokenizers) CheckEncoding(*tokenizer, text, pair);
  return 0;
}
