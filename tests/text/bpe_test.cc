// Byte-pair encoding: equality with Hugging Face's `tokenizers` on answers made by tools/make_bpe_golden.py (XLM-R's
// pieces among them), the merges against a readable reference, and what bad files say.
#include "text/bpe/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <string>

#include "base/files.h"
#include "text/bpe/byte_level.h"
#include "text/bpe/word_pattern.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::TempFolder;

const std::string kBpeGolden = std::string(LSHFORMER_SOURCE_DIR) + "/tests/golden/";

// The folder that a golden file's first line describes.
void WriteGoldenFolder(const Json& head, const TempFolder& folder) {
  folder.Write("tokenizer_config.json", head["settings"].dump());
  const std::string files = head["files"];
  if (files == "modernbert") {
    Json json = ParseJson(ReadFile(kBpeGolden + "bpe/tokenizer.json"), "golden");
    for (const auto& [key, value] : head["changes"].items()) json[key] = value;
    folder.Write("tokenizer.json", json.dump());
  } else if (files == "roberta") {
    for (const char* name : {"vocab.json", "merges.txt"}) folder.Write(name, ReadFile(kBpeGolden + "bpe/" + name));
  } else {
    folder.Write("sentencepiece.bpe.model", ReadFile(kBpeGolden + "sentencepiece/spiece.model"));
  }
}

class BpeGoldenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(BpeGoldenTest, IdsTypesOffsetsAndDecodedText) {
  std::istringstream lines(ReadFile(kBpeGolden + "bpe/" + GetParam() + ".jsonl"));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const TempFolder folder, saved;
  WriteGoldenFolder(ParseJson(line, "golden"), folder);
  const auto tokenizer = Tokenizer::Load(folder.path());
  tokenizer->Save(saved.path(), 64);
  const auto again = Tokenizer::Load(saved.path());
  EXPECT_EQ(again->model_max_length(), 64);
  EXPECT_EQ(again->vocab_size(), tokenizer->vocab_size());
  int cases = 0;
  for (; std::getline(lines, line); ++cases) {
    SCOPED_TRACE(line.substr(0, 400));
    const Json expected = ParseJson(line, "golden");
    std::optional<std::string> pair;
    if (!expected["pair"].is_null()) pair = expected["pair"].get<std::string>();
    const Encoding encoding = tokenizer->Encode(expected["text"].get<std::string>(), pair, {});
    EXPECT_EQ(Json(encoding.ids), expected["ids"]);
    EXPECT_EQ(Json(encoding.type_ids), expected["types"]);
    EXPECT_EQ(Json(encoding.offsets), expected["offsets"]);
    EXPECT_EQ(again->Encode(expected["text"].get<std::string>(), pair, {}).ids, encoding.ids);
    EXPECT_EQ(tokenizer->Decode(encoding.ids, false), expected["decoded"]);
    EXPECT_EQ(tokenizer->Decode(encoding.ids, true), expected["plain"]);
  }
  EXPECT_GE(cases, 80);
}

INSTANTIATE_TEST_SUITE_P(All, BpeGoldenTest,
                         ::testing::Values("roberta", "roberta_space", "modernbert", "modernbert_split", "xlm_roberta"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(ByteLevelTest, EveryByteIsACharacterOfItsOwn) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(BytesOfCharacters(InByteCharacters(bytes)), bytes);
  EXPECT_EQ(InByteCharacters(" \n\u00e9"), "\u0120\u010a\u00c3\u00a9");
  EXPECT_EQ(BytesOfCharacters("a b"), std::nullopt) << "a space is written otherwise";
  EXPECT_EQ(BytesOfCharacters("\u65e5"), std::nullopt);
}

std::vector<std::string> WordsOf(const WordPattern& pattern, std::string_view text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = WordEnd(pattern, text, at);
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

// What Python's `regex` gives of the same expressions.
TEST(WordPatternTest, WordsOfTheExpressions) {
  const WordPattern gpt2, later{.later = true, .digits = 3};
  EXPECT_THAT(WordsOf(gpt2, "I'll  say:\t 12345 caf\u00e9s, 'S!!\n\n x "),
              ElementsAre("I", "'ll", " ", " say", ":", "\t", " 12345", " caf\u00e9s", ",", " '", "S", "!!", "\n\n",
                          " x", " "));
  EXPECT_THAT(WordsOf(later, "I'LL  say:\t 12345 \"caf\u00e9s, 'S!!\n\n x \r\n  y "),
              ElementsAre("I", "'LL", " ", " say", ":", "\t", " ", "123", "45", " \"", "caf\u00e9s", ",", " '", "S",
                          "!!\n\n", " x", " \r\n", " ", " y", " "));
  EXPECT_THAT(WordsOf(later, "'\u017fun 'tis it'd\tx"), ElementsAre("'\u017f", "un", " '", "tis", " it", "'d", "\tx"));
  EXPECT_THAT(WordsOf(gpt2, "a\u00a0\u3000b \u0661\u00b2"), ElementsAre("a", "\u00a0", "\u3000", "b", " \u0661\u00b2"));
  EXPECT_EQ(WordPatternOf("\\w+"), std::nullopt);
}

// A folder of older files with these tokens; 256 bytes come first.
struct OldFiles {
  std::string vocab, merges;
};
OldFiles MakeBpeFiles(const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[InByteCharacters(std::string(1, static_cast<char>(byte)))] = byte;
  OldFiles files;
  files.merges = "#version: 0.2\n";
  for (const auto& [left, right] : merges) {
    if (!vocab.contains(left + right)) vocab[left + right] = vocab.size();
    files.merges += left + " " + right + "\n";
  }
  for (const char* special : {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}) vocab[special] = vocab.size();
  files.vocab = vocab.dump();
  return files;
}

std::shared_ptr<const Tokenizer> LoadBpeFiles(const OldFiles& files, const std::string& config = "{}") {
  const TempFolder folder;
  folder.Write("vocab.json", files.vocab);
  folder.Write("merges.txt", files.merges);
  folder.Write("tokenizer_config.json", config);
  return Tokenizer::Load(folder.path());
}

std::vector<std::string> TokensOfText(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> tokens;
  for (const int32_t id : tokenizer.Encode(text, {}, {.add_special_tokens = false}).ids)
    tokens.push_back(tokenizer.Token(id));
  return tokens;
}

// The pair of the lowest rank, the first of equal ones, again and again.
std::vector<std::string> MergedByHand(std::string_view word,
                                      const std::vector<std::pair<std::string, std::string>>& merges) {
  std::vector<std::string> symbols;
  for (const char c : word) symbols.emplace_back(1, c);
  while (true) {
    size_t best = merges.size(), place = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i)
      for (size_t rank = 0; rank < best; ++rank)
        if (merges[rank] == std::pair(symbols[i], symbols[i + 1])) best = rank, place = i;
    if (best == merges.size()) return symbols;
    symbols[place] += symbols[place + 1];
    symbols.erase(symbols.begin() + static_cast<int64_t>(place) + 1);
  }
}

TEST(BpeTest, MergesAsTheReferenceDoes) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    // Each token is made in one way, as training makes them.
    std::vector<std::pair<std::string, std::string>> merges;
    std::vector<std::string> tokens{"a", "b", "c"};
    while (tokens.size() < 40) {
      const std::string left = tokens[random() % tokens.size()], right = tokens[random() % tokens.size()];
      if (std::find(tokens.begin(), tokens.end(), left + right) != tokens.end()) continue;
      merges.emplace_back(left, right);
      tokens.push_back(left + right);
    }
    const auto tokenizer = LoadBpeFiles(MakeBpeFiles(merges));
    for (int i = 0; i < 50; ++i) {
      std::string word;
      for (size_t n = 1 + random() % 30; n > 0; --n) word += "abc"[random() % 3];
      ASSERT_EQ(TokensOfText(*tokenizer, word), MergedByHand(word, merges)) << word;
    }
  }
}

// A token has the whole character that one of its bytes is of, and loses the spaces at its ends.
TEST(BpeTest, PlacesOfBytesAndSpaces) {
  const OldFiles files = MakeBpeFiles({{"\u0120", "a"}, {"\u0120", "\u0120"}});
  const auto tokenizer = LoadBpeFiles(files);
  const Encoding encoding = tokenizer->Encode("\u65e5 a  a", "b", {});
  EXPECT_THAT(encoding.offsets, ElementsAre(Pair(0, 0), Pair(0, 1), Pair(0, 1), Pair(0, 1), Pair(2, 3), Pair(4, 4),
                                            Pair(5, 6), Pair(0, 0), Pair(0, 0), Pair(0, 1), Pair(0, 0)));
  const int32_t cls = tokenizer->Id("<s>"), sep = tokenizer->Id("</s>");
  EXPECT_THAT(tokenizer->Encode("b", "b", {}).ids, ElementsAre(cls, 'b', sep, sep, 'b', sep));
  EXPECT_THAT(tokenizer->Encode("b", "b", {}).type_ids, ElementsAre(0, 0, 0, 0, 0, 0));
  const auto spaced = LoadBpeFiles(files, R"({"add_prefix_space": true, "trim_offsets": true})");
  EXPECT_THAT(spaced->Encode("a a").offsets, ElementsAre(Pair(0, 0), Pair(0, 1), Pair(2, 3), Pair(0, 0)));
  const auto whole = LoadBpeFiles(files, R"({"trim_offsets": false})");
  EXPECT_THAT(whole->Encode("b a").offsets, ElementsAre(Pair(0, 0), Pair(0, 1), Pair(1, 3), Pair(0, 0)));
}

// Four template tokens stand around two texts, and what is left is shared out.
TEST(BpeTest, PairsAreCutToWhatTheTemplateLeaves) {
  const auto tokenizer = LoadBpeFiles(MakeBpeFiles({}));
  const int32_t cls = tokenizer->Id("<s>"), sep = tokenizer->Id("</s>");
  const Encoding encoding = tokenizer->Encode("abcdef", "xyz", {.max_length = 8});
  EXPECT_THAT(encoding.ids, ElementsAre(cls, 'a', 'b', sep, sep, 'x', 'y', sep));
  EXPECT_TRUE(encoding.truncated);
  EXPECT_THAT(ErrorOf([&] { tokenizer->Encode("a", "b", {.max_length = 3}); }), HasSubstr("expected at least 4"));
  EXPECT_THAT(ErrorOf([&] { CheckMaxSeqLength(5, /*texts=*/2, tokenizer.get()); }), HasSubstr("at least 6, got 5"));
}

// One word of a megabyte, and one of spaces: neither time nor memory is quadratic in it.
TEST(BpeTest, LongWords) {
  std::vector<std::pair<std::string, std::string>> merges{{"a", "a"}, {"\u0120", "\u0120"}};
  for (int i = 0; i < 8; ++i) {
    const auto& [left, right] = merges[merges.size() - 2];
    merges.emplace_back(left + right, left + right);
  }
  const auto tokenizer = LoadBpeFiles(MakeBpeFiles(merges));
  for (const char c : {'a', ' ', 'x'}) {
    const std::string word(size_t{1} << 20, c);
    const Encoding encoding = tokenizer->Encode(word, {}, {.add_special_tokens = false});
    EXPECT_EQ(encoding.ids.size(), c == 'x' ? word.size() : word.size() / 32);
    EXPECT_EQ(encoding.offsets.back().second, 1 << 20);
    EXPECT_TRUE(tokenizer->Encode(word, {}, {.max_length = 16}).truncated);
  }
}

// A text in parts is what the whole is.
TEST(BpeTest, LongTextsInParts) {
  const auto tokenizer = LoadBpeFiles(MakeBpeFiles({{"a", "b"}, {"\u0120", "ab"}, {"\u0120", "\u0120"}}));
  std::string text;
  while (text.size() < (size_t{3} << 20)) text += "ab ab  ab7 b, ";
  const Encoding all = tokenizer->Encode(text, {}, {.add_special_tokens = false});
  const Encoding part = tokenizer->Encode("ab ab  ab7 b, ab ab  ab7 b, ab", {}, {.add_special_tokens = false});
  const size_t period = (part.ids.size() - 1) / 2;
  for (size_t i = period; i + 1 < all.ids.size(); ++i) ASSERT_EQ(all.ids[i], part.ids[period + i % period]) << i;
}

// ---- Files

Json BpeJson() {
  return ParseJson(
      R"({"normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null, "added_tokens":
    [{"id": 4, "content": "<mask>", "special": true, "lstrip": true}], "model": {"type": "BPE", "unk_token": "<unk>",
    "fuse_unk": true, "byte_fallback": true, "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3, "<mask>": 4, "<0xC3>": 5,
    "<0xA9>": 6, "abb": 7}, "merges": ["a b", ["ab", "b"]]}})",
      "bpe");
}

std::shared_ptr<const Tokenizer> LoadBpeParts(const Json& json, const std::string& config = "{}",
                                              const std::string& model = "{}") {
  const TempFolder folder;
  folder.Write("tokenizer.json", json.dump());
  folder.Write("tokenizer_config.json", config);
  folder.Write("config.json", model);
  return Tokenizer::Load(folder.path());
}

TEST(BpeTest, CharactersWithBytesToFallBackOn) {
  const auto tokenizer = LoadBpeParts(BpeJson());
  EXPECT_THAT(tokenizer->Encode("abb\u00e9xya <mask>b").ids, ElementsAre(7, 5, 6, 0, 1, 4, 2));
  EXPECT_EQ(tokenizer->mask_id(), 4);
  EXPECT_EQ(tokenizer->cls_id(), -1) << "no file names one";
  EXPECT_EQ(tokenizer->vocab_size(), 8);
  Json apart = BpeJson();
  apart["model"]["fuse_unk"] = false;
  EXPECT_THAT(LoadBpeParts(apart)->Encode("xy").ids, ElementsAre(0, 0));
  apart["model"]["unk_token"] = nullptr;
  EXPECT_THAT(LoadBpeParts(apart)->Encode("xay").ids, ElementsAre(1)) << "left out";
  Json whole = BpeJson();
  whole["model"]["merges"] = Json::array();
  EXPECT_THAT(LoadBpeParts(whole)->Encode("ab").ids, ElementsAre(1, 2));
  whole["model"]["ignore_merges"] = true;
  EXPECT_THAT(LoadBpeParts(whole)->Encode("ab").ids, ElementsAre(3));
}

// Of a class that makes its parts itself the file's do not count; with ModernBERT the file does, whatever the class.
TEST(BpeTest, WhoseParts) {
  Json json = BpeJson();
  json["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_THAT(LoadBpeParts(json)->Encode("AB").ids, ElementsAre(3));
  const auto roberta = LoadBpeParts(json, R"({"tokenizer_class": "RobertaTokenizer"})");
  EXPECT_THAT(roberta->Encode("ABa").ids, ElementsAre(roberta->cls_id(), 1, roberta->sep_id()))
      << "bytes that are no token are left out";
  EXPECT_THAT(LoadBpeParts(json, R"({"tokenizer_class": "GemmaTokenizer"})", R"({"model_type": "modernbert"})")
                  ->Encode("AB")
                  .ids,
              ElementsAre(3));
  EXPECT_THAT(ErrorOf([&] { LoadBpeParts(json, R"({"tokenizer_class": "GemmaTokenizer"})"); }),
              HasSubstr("GemmaTokenizer"));
  EXPECT_THAT(ErrorOf([&] { LoadBpeParts(json, R"({"tokenizer_class": "BertTokenizer"})"); }),
              HasSubstr("the model is BPE, which is not that of"));
}

TEST(BpeTest, WhatIsNotSupportedIsRefusedByName) {
  const auto error = [](const char* pointer, const Json& value) {
    Json json = BpeJson();
    json[Json::json_pointer(pointer)] = value;
    return ErrorOf([&] { LoadBpeParts(json); });
  };
  EXPECT_THAT(error("/model/dropout", 0.1), HasSubstr("\"dropout\": expected null, got 0.1"));
  EXPECT_THAT(error("/model/continuing_subword_prefix", "##"), HasSubstr("\"continuing_subword_prefix\""));
  EXPECT_THAT(error("/model/end_of_word_suffix", "</w>"), HasSubstr("\"end_of_word_suffix\""));
  EXPECT_THAT(error("/model/unk_token", "<none>"), HasSubstr("unknown token \"<none>\""));
  EXPECT_THAT(error("/model/merges/1", {"ab", "c"}), HasSubstr("merge 2: \"c\" is no token of the vocabulary"));
  EXPECT_THAT(error("/model/merges/1", {"b", "b"}), HasSubstr("merge 2: \"bb\" is no token"));
  EXPECT_THAT(error("/model/merges/1", "a b c"), HasSubstr("merge 2: expected two tokens with a space between them"));
  EXPECT_THAT(error("/model/merges/1", 7), HasSubstr("merge 2: expected two tokens, got 7"));
  EXPECT_THAT(error("/model/merges", "a b"), HasSubstr("\"merges\": expected a list"));
  EXPECT_THAT(error("/model/vocab/b", 1), HasSubstr("have the same id 1"));
  EXPECT_THAT(error("/model/vocab", Json::array()), HasSubstr("expected an object \"vocab\""));
  EXPECT_THAT(error("/pre_tokenizer", {{"type", "Metaspace"}}), HasSubstr("\"Metaspace\" is not supported with a BPE"));
  EXPECT_THAT(error("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "\\w+"}}}, {"behavior", "Isolated"}}),
              HasSubstr("Split: the pattern {\"Regex\":\"\\\\w+\"}"));
  EXPECT_THAT(error("/pre_tokenizer", {{"type", "ByteLevel"}}), HasSubstr("\"byte_fallback\" with a ByteLevel"));
  EXPECT_THAT(error("/normalizer", {{"type", "Nmt"}}), HasSubstr("the type \"Nmt\" is not supported"));
  EXPECT_THAT(error("/decoder", {{"type", "WordPiece"}}), HasSubstr("\"decoder\": the type \"WordPiece\""));
  EXPECT_THAT(error("/post_processor", {{"type", "Sequence"}, {"processors", {{{"type", "Sequence"}}}}}),
              HasSubstr("\"post_processor\""));
}

TEST(BpeTest, OlderFilesThatAreNone) {
  const OldFiles good = MakeBpeFiles({{"a", "b"}});
  const auto error = [&](const std::string& vocab, const std::string& merges, const std::string& config = "{}") {
    return ErrorOf([&] { LoadBpeFiles({vocab, merges}, config); });
  };
  EXPECT_EQ(error(good.vocab, good.merges), "(nothing thrown)");
  EXPECT_EQ(error(good.vocab, "#version: 0.2\r\na b\r\n"), "(nothing thrown)");
  EXPECT_THAT(error(good.vocab, "a b\na c\n"), HasSubstr("merges.txt: merge 2: \"ac\" is no token"));
  EXPECT_THAT(error(good.vocab, "a b\nab\n"), HasSubstr("merges.txt:2: expected two tokens"));
  EXPECT_THAT(error(good.vocab, "a b\n\n"), HasSubstr("merges.txt:2: expected two tokens"));
  EXPECT_THAT(error(good.vocab, "a \xC3\n"), HasSubstr("merges.txt:1: expected UTF-8"));
  EXPECT_THAT(error("[]", good.merges), HasSubstr("vocab.json"));
  EXPECT_THAT(error(good.vocab.substr(0, 100), good.merges), HasSubstr("vocab.json"));
  EXPECT_THAT(error(good.vocab, good.merges, R"({"tokenizer_class": "BertTokenizer"})"),
              HasSubstr("vocab.json is RobertaTokenizer's"));
  const TempFolder folder;
  folder.Write("vocab.json", good.vocab);
  EXPECT_THAT(ErrorOf([&] { Tokenizer::Load(folder.path()); }), HasSubstr("no merges.txt beside vocab.json"));
  folder.Write("merges.txt", good.merges);
  folder.Write("vocab.txt", "[UNK]\na\n");
  EXPECT_THAT(ErrorOf([&] { Tokenizer::Load(folder.path()); }), HasSubstr("both vocab.txt and vocab.json"));
  folder.Write("config.json", R"({"model_type": "roberta"})");
  EXPECT_EQ(Tokenizer::Load(folder.path())->Id("ab"), 256) << "the class says which";
}

}  // namespace
}  // namespace lshformer
