// What holds of every text: offsets are places in it and ascend, ids are in range, words come back.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "text/utf8.h"
#include "text/wordpiece/wordpiece.h"
#include "util/property.h"

namespace lshformer {
namespace {

using testing::Holds;

// Letters with all their pieces, so that every word of letters can be spelt.
std::unique_ptr<WordPieceTokenizer> Make(bool lowercase) {
  std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nab\n##bc\n##cab\n日\n語\né\n##é\n";
  for (char c = 'a'; c <= 'z'; ++c) vocab.append(1, c).append("\n##").append(1, c).append("\n");
  WordPieceOptions options;
  options.normalizer = {.lowercase = lowercase, .strip_accents = lowercase};
  return std::make_unique<WordPieceTokenizer>(Vocabulary(vocab, "vocab.txt"), "vocab.txt", options);
}

// Text of parts at which normalisers and word splitters go wrong.
rc::Gen<std::string> Text() {
  const std::vector<std::string> parts{
      "a",      "b",       "abc",    "zab",    " ",      "  ",  "\t", "\n", "A",
      "É",      "e\u0301", "\u0130", "\u00df", "日",     "語",  "😀",  ".",  "'",
      "[MASK]", "[SEP]",   "\u200b", "\u00a0", "\ufffd", "##a", "[",  "]",  std::string(1, 0)};
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(parts)),
                      [](const std::vector<std::string>& chosen) {
                        std::string text;
                        for (const std::string& part : chosen) text += part;
                        return text;
                      });
}

int64_t CodePoints(const std::string& text) { return std::count_if(text.begin(), text.end(), BeginsCodePoint); }

TEST(TokenizerProperty, OffsetsLieInTheTextAndAscend) {
  for (const bool lowercase : {true, false}) {
    const auto tokenizer = Make(lowercase);
    EXPECT_TRUE(Holds("offsets", 500, [&] {
      const std::string text = *Text(), pair = *Text();
      const Encoding encoding = tokenizer->Encode(text, pair, {.add_special_tokens = false});
      RC_ASSERT(encoding.ids.size() == encoding.offsets.size());
      RC_ASSERT(encoding.ids.size() == encoding.type_ids.size());
      const int64_t lengths[2] = {CodePoints(text), CodePoints(pair)};
      int32_t last_begin[2] = {0, 0}, last_end[2] = {0, 0};
      for (size_t i = 0; i < encoding.ids.size(); ++i) {
        RC_ASSERT(encoding.ids[i] >= 0 && encoding.ids[i] < tokenizer->vocab_size());
        const int32_t part = encoding.type_ids[i];
        RC_ASSERT(part == 0 || part == 1);
        const auto [begin, end] = encoding.offsets[i];
        RC_ASSERT(begin < end && end <= lengths[part]);
        RC_ASSERT(begin >= last_begin[part] && end >= last_end[part]);  // a character may give several pieces
        last_begin[part] = begin, last_end[part] = end;
      }
    }));
  }
}

TEST(TokenizerProperty, WordsOfLettersComeBack) {
  const auto tokenizer = Make(true);
  EXPECT_TRUE(Holds("decode", 300, [&] {
    const auto letter = rc::gen::resize(rc::kNominalSize, rc::gen::inRange<char>('a', 'z' + 1));
    const auto word = rc::gen::nonEmpty(rc::gen::scale(0.15, rc::gen::container<std::string>(letter)));
    const auto words = *rc::gen::container<std::vector<std::string>>(word);
    std::string text;
    for (const std::string& one : words) text += (text.empty() ? "" : " ") + one;
    const Encoding encoding = tokenizer->Encode(text);
    RC_ASSERT(tokenizer->Decode(encoding.ids, true) == text);
    // The pieces, put together by their offsets, are the text.
    std::string spelt;
    for (size_t i = 1; i + 1 < encoding.ids.size(); ++i) {
      const auto [begin, end] = encoding.offsets[i];
      const std::string& piece = tokenizer->Token(encoding.ids[i]);
      RC_ASSERT(text.substr(begin, end - begin) == piece.substr(piece.starts_with("##") ? 2 : 0));
      if (spelt.size() < static_cast<size_t>(begin)) spelt += ' ';
      spelt += text.substr(begin, end - begin);
    }
    RC_ASSERT(spelt == text);
  }));
}

TEST(TokenizerProperty, ALimitCutsTheEnd) {
  const auto tokenizer = Make(true);
  EXPECT_TRUE(Holds("limit", 300, [&] {
    const std::string text = *Text();
    const int limit = *rc::gen::inRange(3, 20);
    const Encoding whole = tokenizer->Encode(text), cut = tokenizer->Encode(text, {}, {.max_length = limit});
    RC_ASSERT(cut.ids.size() == std::min<size_t>(whole.ids.size(), limit));
    RC_ASSERT(cut.truncated == (cut.ids.size() < whole.ids.size()));
    RC_ASSERT(std::equal(cut.ids.begin(), cut.ids.end() - 1, whole.ids.begin()));
    RC_ASSERT(cut.ids.back() == tokenizer->sep_id());
  }));
}

}  // namespace
}  // namespace lshformer
