// Equality with Hugging Face's fast BERT tokenizer, on answers made by tools/make_wordpiece_golden.py.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "text/tokenizer.h"
#include "text/utf8.h"
#include "text/words/words.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

const std::string kWordPieceFolder = std::string(LSHFORMER_SOURCE_DIR) + "/tests/golden/wordpiece/";

class GoldenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, IdsTypesOffsetsAndDecodedText) {
  std::istringstream lines(ReadFile(kWordPieceFolder + GetParam() + ".jsonl"));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const testing::TempFolder folder;
  folder.Write("tokenizer_config.json", line);
  folder.Write("vocab.txt", ReadFile(kWordPieceFolder + "vocab.txt"));
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Load(folder.path());
  int cases = 0;
  for (; std::getline(lines, line); ++cases) {
    SCOPED_TRACE(line.substr(0, 400));
    const Json expected = ParseJson(line, "golden");
    EncodeOptions options;
    options.add_special_tokens = expected["add_special_tokens"];
    options.max_length = expected["max_length"];
    const std::string pair = expected["text_pair"];  // "": none
    const Encoding encoding = tokenizer->Encode(expected["text"].get<std::string>(),
                                                pair.empty() ? std::nullopt : std::optional(pair), options);
    EXPECT_EQ(Json(encoding.ids), expected["input_ids"]);
    EXPECT_EQ(Json(encoding.type_ids), expected["token_type_ids"]);
    EXPECT_EQ(Json(encoding.offsets), expected["offsets"]);
    EXPECT_EQ(tokenizer->Decode(encoding.ids, false), expected["decoded"]);
    EXPECT_EQ(tokenizer->Decode(encoding.ids, true), expected["decoded_plain"]);
  }
  EXPECT_GT(cases, 300);
}

INSTANTIATE_TEST_SUITE_P(Configs, GoldenTest,
                         ::testing::Values("uncased", "cased", "uncased_with_accents", "cased_without_accents",
                                           "own_tokens"),
                         [](const auto& info) { return std::string(info.param); });

class JoiningSink final : public WordSink {
 public:
  bool Add(const Word& word) override {
    if (!joined.empty()) joined += '\x1f';
    joined += word.text;
    return true;
  }
  std::string joined;
};

uint64_t Fnv1a(std::string_view bytes) {
  uint64_t value = 0xCBF29CE484222325;
  for (const char byte : bytes) value = (value ^ static_cast<uint8_t>(byte)) * 0x100000001B3;
  return value;
}

// The words of "a" + c + "b" for 4096 code points c from `begin`.
uint64_t HashOfWords(char32_t begin, const NormalizerOptions& options) {
  std::string all;
  bool first = true;
  for (char32_t c = begin; c < begin + 4096; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text = "a";
    AppendUtf8(c, text);
    text += 'b';
    JoiningSink sink;
    SplitWords(text, 0, options, sink);
    if (!first) all += '\x1e';
    first = false;
    all += sink.joined;
  }
  return Fnv1a(all);
}

TEST(CodePointsTest, EveryCodePointIsNormalisedAndSplitAsByHf) {
  std::istringstream hashes(ReadFile(kWordPieceFolder + "code_points.txt"));
  const NormalizerOptions uncased, cased{.lowercase = false, .strip_accents = false};
  uint64_t expected_uncased = 0, expected_cased = 0;
  char32_t begin = 0;
  for (; hashes >> std::hex >> expected_uncased >> expected_cased; begin += 4096) {
    EXPECT_EQ(HashOfWords(begin, uncased), expected_uncased) << "U+" << std::hex << static_cast<uint32_t>(begin);
    EXPECT_EQ(HashOfWords(begin, cased), expected_cased) << "U+" << std::hex << static_cast<uint32_t>(begin);
  }
  EXPECT_EQ(begin, 0x110000u);
}

}  // namespace
}  // namespace lshformer
