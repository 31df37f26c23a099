// Unigram models of tokenizer.json: equality with Hugging Face's `tokenizers` on answers made by
// tools/make_unigram_golden.py, and what such a file must not do.
#include "text/unigram/unigram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "base/files.h"
#include "text/base64.h"
#include "text/graphemes.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::TempFolder;

const std::string kUnigramFolder = std::string(LSHFORMER_SOURCE_DIR) + "/tests/golden/unigram/";

class UnigramGoldenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(UnigramGoldenTest, IdsOffsetsAndDecodedText) {
  std::istringstream lines(ReadFile(kUnigramFolder + GetParam() + ".jsonl"));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const TempFolder folder;
  folder.Write("tokenizer.json", ReadFile(kUnigramFolder + "tokenizer.json"));
  folder.Write("tokenizer_config.json", line);
  folder.Write("spiece.model", "tokenizer.json counts");
  const auto tokenizer = Tokenizer::Load(folder.path());
  int cases = 0;
  for (; std::getline(lines, line); ++cases) {
    SCOPED_TRACE(line.substr(0, 400));
    const Json expected = ParseJson(line, "golden");
    const Encoding encoding = tokenizer->Encode(expected["text"].get<std::string>());
    EXPECT_EQ(Json(encoding.ids), expected["ids"]);
    EXPECT_EQ(Json(encoding.offsets), expected["offsets"]);
    if (!expected["decoded"].is_null()) {
      EXPECT_EQ(tokenizer->Decode(encoding.ids, true), expected["decoded"]);
    }
  }
  EXPECT_GE(cases, 100);
}

INSTANTIATE_TEST_SUITE_P(All, UnigramGoldenTest, ::testing::Values("as_saved", "cased", "accents"),
                         [](const auto& instance) { return std::string(instance.param); });

// A tokenizer.json of these parts; the vocabulary is <unk>, [CLS], [SEP], [MASK], <pad>, ▁, a, b, ab, ▁a, c.
Json UnigramJson() {
  return ParseJson(R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [
    {"id": 0, "content": "<unk>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
    "normalizer": null, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
    {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}], "pair": [{"SpecialToken":
    {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}], "special_tokens":
    {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}},
    "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
    "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [["<unk>", 0.0], ["[CLS]", 0.0],
    ["[SEP]", 0.0], ["[MASK]", 0.0], ["<pad>", 0.0], ["▁", -1.0], ["a", -2.0], ["b", -2.0], ["ab", -4.0], ["▁a", -2.5],
    ["c", -5]]}})",
                   "unigram");
}

std::shared_ptr<const Tokenizer> LoadJson(const Json& json, const std::string& config = "{}") {
  const TempFolder folder;
  folder.Write("tokenizer.json", json.dump());
  folder.Write("tokenizer_config.json", config);
  return Tokenizer::Load(folder.path());
}

Encoding Bare(const Json& json, const std::string& text) {
  return LoadJson(json)->Encode(text, {}, {.add_special_tokens = false});
}

std::string ErrorWith(const char* pointer, const Json& value) {
  Json json = UnigramJson();
  json[Json::json_pointer(pointer)] = value;
  return ErrorOf([&] { LoadJson(json); });
}

TEST(UnigramTest, TheBestPiecesAndOfEqualOnesTheLongestLast) {
  const Encoding encoding = Bare(UnigramJson(), "aab xyc  ");
  // ▁a before ▁ and a; a and b score what ab does, and came later. x and y are no pieces: one token of both.
  EXPECT_THAT(encoding.ids, ElementsAre(9, 8, 5, 0, 10, 5, 5));
  EXPECT_THAT(encoding.offsets,
              ElementsAre(Pair(0, 1), Pair(1, 3), Pair(3, 4), Pair(4, 6), Pair(6, 7), Pair(7, 8), Pair(8, 9)));
  EXPECT_EQ(LoadJson(UnigramJson())->Decode(encoding.ids, false), "aab <unk>c  ");
}

TEST(UnigramTest, WhereASymbolIsPutBeforeAWord) {
  const auto ids = [](const char* scheme, const char* text) {
    Json json = UnigramJson();
    json["pre_tokenizer"]["prepend_scheme"] = scheme;
    return Bare(json, text).ids;
  };
  EXPECT_THAT(ids("always", "a<unk>a"), ElementsAre(9, 0, 9));
  EXPECT_THAT(ids("first", "a<unk>a"), ElementsAre(9, 0, 6));
  EXPECT_THAT(ids("never", "a<unk>a"), ElementsAre(6, 0, 6));
  EXPECT_THAT(ids("always", " a"), ElementsAre(9)) << "it has one";
  Json early = UnigramJson();
  early["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"str_rep", "▁"}, {"add_prefix_space", true}};
  EXPECT_THAT(Bare(early, "a").ids, ElementsAre(9));
  Json words = UnigramJson();
  words["pre_tokenizer"] = {{"type", "Sequence"},
                            {"pretokenizers", {{{"type", "WhitespaceSplit"}}, words["pre_tokenizer"]}}};
  EXPECT_THAT(Bare(words, " \t a\u3000b ").ids, ElementsAre(9, 5, 7)) << "white space is gone";
}

TEST(UnigramTest, UnknownCharactersThatMakeAPieceAreIt) {
  Json json = UnigramJson();
  // Where scores are so high that two unknown characters are better than the piece that they are.
  for (Json& piece : json["model"]["vocab"]) piece[1] = 100;
  json["model"]["vocab"].push_back({"xy", 100});
  EXPECT_THAT(Bare(json, "xy").ids, ElementsAre(5, 11));
}

TEST(UnigramTest, StepsOfTheNormaliserCarryPlaces) {
  Json json = UnigramJson();
  json["normalizer"] =
      ParseJson(R"({"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "<<"},
    "content": "ab"}, {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "Replace", "pattern":
    {"Regex": " {2,}"}, "content": " "}]})",
                "json");
  const Encoding encoding = Bare(json, "B<<   Á\u0323ª");
  EXPECT_THAT(encoding.ids, ElementsAre(5, 7, 8, 9, 6));
  EXPECT_THAT(encoding.offsets, ElementsAre(Pair(0, 1), Pair(0, 1), Pair(2, 3), Pair(5, 7), Pair(8, 9)));
}

// AlbertTokenizer makes its parts of its settings and their defaults: here the file has Metaspace alone, no steps, and
// another unknown piece.
TEST(UnigramTest, OfAnAlbertTokenizerTheSettingsCount) {
  const auto encode = [](const std::string& settings, const std::string& text) {
    const auto tokenizer = LoadJson(UnigramJson(), R"({"tokenizer_class": "AlbertTokenizer")" + settings + "}");
    return tokenizer->Encode(text, {}, {.add_special_tokens = false});
  };
  const Encoding words = encode("", "Á  b ");
  EXPECT_THAT(words.ids, ElementsAre(9, 5, 7));
  EXPECT_THAT(words.offsets, ElementsAre(Pair(0, 1), Pair(3, 4), Pair(3, 4)));
  EXPECT_THAT(encode(R"(, "do_lower_case": false)", "A").ids, ElementsAre(5, 1));
  EXPECT_THAT(encode(R"(, "keep_accents": true)", "á").ids, ElementsAre(5, 1));
  EXPECT_THAT(encode(R"(, "add_prefix_space": false)", "ab").ids, ElementsAre(8));
  EXPECT_THAT(Bare(UnigramJson(), "A").ids, ElementsAre(5, 0)) << "no class: the file counts";
}

TEST(UnigramTest, WhatIsNotSupportedIsRefusedByName) {
  EXPECT_THAT(ErrorWith("/normalizer", {{"type", "Prepend"}, {"prepend", "x"}}),
              HasSubstr("tokenizer.json: \"normalizer\": the type \"Prepend\" is not supported"));
  EXPECT_THAT(ErrorWith("/normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "a+"}}}, {"content", ""}}),
              HasSubstr("the pattern {\"Regex\":\"a+\"} is not supported"));
  EXPECT_THAT(ErrorWith("/normalizer", {{"type", "Replace"}, {"pattern", {{"String", ""}}}, {"content", ""}}),
              HasSubstr("is not supported"));
  EXPECT_THAT(ErrorWith("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAA"}}),
              HasSubstr("base64"));
  EXPECT_THAT(ErrorWith("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}}),
              HasSubstr("precompiled_charsmap"));
  EXPECT_THAT(ErrorWith("/pre_tokenizer", {{"type", "ByteLevel"}}),
              HasSubstr("\"pre_tokenizer\": the type \"ByteLevel\""));
  EXPECT_THAT(ErrorWith("/pre_tokenizer/replacement", "_"), HasSubstr("expected the replacement"));
  EXPECT_THAT(ErrorWith("/pre_tokenizer/prepend_scheme", "last"), HasSubstr("prepend_scheme"));
  EXPECT_THAT(ErrorWith("/decoder", {{"type", "Fuse"}}),
              HasSubstr("\"decoder\": expected the type Metaspace, got \"Fuse\""));
  EXPECT_THAT(ErrorWith("/post_processor", 7), HasSubstr("\"post_processor\""));
  EXPECT_THAT(ErrorWith("/model/byte_fallback", true), HasSubstr("byte_fallback"));
  EXPECT_THAT(ErrorWith("/model/unk_id", nullptr), HasSubstr("unk_id"));
  EXPECT_THAT(ErrorWith("/model/unk_id", 11), HasSubstr("unk_id"));
  EXPECT_THAT(ErrorWith("/model/vocab", Json::array()), HasSubstr("a list \"vocab\""));
  EXPECT_THAT(ErrorWith("/model/vocab/3", {"x"}), HasSubstr("entry 3: expected [piece, score]"));
  EXPECT_THAT(ErrorWith("/model/vocab/3/0", std::string(1025, 'x')), HasSubstr("piece 3: expected at most 1024 bytes"));
  EXPECT_THAT(ErrorOf([] { LoadJson(UnigramJson(), R"({"tokenizer_class": "BertTokenizer"})"); }),
              HasSubstr("the model is Unigram"));
}

TEST(UnigramTest, SavedAsItWas) {
  const TempFolder folder, saved;
  folder.Write("tokenizer.json", UnigramJson().dump());
  const auto tokenizer = Tokenizer::Load(folder.path());
  tokenizer->Save(saved.path(), 64);
  EXPECT_EQ(saved.Read("tokenizer.json"), UnigramJson().dump());
  const auto again = Tokenizer::Load(saved.path());
  EXPECT_EQ(again->model_max_length(), 64);
  EXPECT_EQ(again->vocab_size(), tokenizer->vocab_size());
  EXPECT_EQ(again->Encode("A ab [MASK] Á").ids, tokenizer->Encode("A ab [MASK] Á").ids);
}

// Parts of a long text give what the whole does; a word without end is cut, in linear time and bounded memory.
TEST(UnigramTest, LongTextsAndLongWords) {
  std::string text;
  while (text.size() < (size_t{3} << 20)) text += "aab ab  b ca ";
  const auto tokenizer = LoadJson(UnigramJson());
  const Encoding all = tokenizer->Encode(text, {}, {.add_special_tokens = false});
  const Encoding part = tokenizer->Encode("aab ab  b ca aab", {}, {.add_special_tokens = false});
  const size_t period = part.ids.size() - 2;
  for (size_t i = 0; i + 1 < all.ids.size(); ++i)
    ASSERT_EQ(all.ids[i], (i % period == 0 ? 9 : part.ids[i % period])) << i;
  EXPECT_EQ(all.offsets.back().second, static_cast<int32_t>(text.size()));
  const Encoding word = tokenizer->Encode(std::string(size_t{3} << 20, 'a'));
  EXPECT_EQ(word.offsets[word.offsets.size() - 2].second, 3 << 20);
}

TEST(GraphemeTest, ClustersOfTheStandard) {
  const auto clusters = [](std::string_view text) {
    const NormalizedText characters = OriginalText(text, 0);
    std::vector<size_t> sizes;
    for (size_t at = 0; at < characters.size();) {
      const size_t end = GraphemeEnd(characters, at);
      sizes.push_back(end - at);
      at = end;
    }
    return sizes;
  };
  EXPECT_THAT(clusters("ab\r\n\n"), ElementsAre(1, 1, 2, 1));
  EXPECT_THAT(clusters("e\u0301\u0323x\u200d\u0301 \u0308"), ElementsAre(3, 3, 2));
  EXPECT_THAT(clusters("\U0001F468\u200d\U0001F469\u200d\U0001F467a"), ElementsAre(5, 1)) << "a family";
  EXPECT_THAT(clusters("\U0001F1E9\U0001F1EA\U0001F1EB\U0001F1F7\U0001F1E9"), ElementsAre(2, 2, 1)) << "flags";
  EXPECT_THAT(clusters("\u1100\u1161\u11a8\uac01\u11a8\uac00\u11a8\u1100"), ElementsAre(3, 2, 2, 1)) << "Hangul";
  EXPECT_THAT(clusters("\u0600a\u0903\u0600\n\u0301"), ElementsAre(3, 1, 1, 1));
}

TEST(Base64Test, OnlyWhatIsBase64) {
  EXPECT_EQ(DecodeBase64(""), "");
  EXPECT_EQ(DecodeBase64("TQ=="), "M");
  EXPECT_EQ(DecodeBase64("TWE="), "Ma");
  EXPECT_EQ(DecodeBase64("TWFu+/8="), "Man\xfb\xff");
  for (const char* bad : {"T", "TW", "TWE", "TQ=T", "T===", "====", "TR==", "TW E", "TWF\n"})
    EXPECT_EQ(DecodeBase64(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace lshformer
