// The files of a tokenizer's folder, and which of them counts: as transformers reads them. Ids and offsets of tokens
// with flags are what transformers 5.24 gives of the same files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/tokenizer.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::TempFolder;

constexpr const char* kVocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nlake\nThe\nthe\ncafe\ncafé\n##s\n日\nk\n##a\n##y\n.\n";

std::string Added(int id, const std::string& content, const std::string& flags = "") {
  const auto flag = [&](const char* name) { return flags.find(name) != std::string::npos; };
  return Json{{"id", id},
              {"content", content},
              {"single_word", flag("single_word")},
              {"lstrip", flag("lstrip")},
              {"rstrip", flag("rstrip")},
              {"normalized", flag("normalized")},
              {"special", flag("special")}}
      .dump();
}

// A tokenizer.json of these tokens, as transformers writes it.
std::string TokenizerJson(const std::string& vocabulary, bool lowercase, const std::string& added_tokens) {
  Json vocab = Json::object();
  std::istringstream lines(vocabulary);
  for (std::string line; std::getline(lines, line);) vocab[line] = vocab.size();
  Json json = ParseJson(R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null},
    "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3],
    "cls": ["[CLS]", 2]}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true}, "model": {"type": "WordPiece",
    "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}})",
                        "json");
  json["normalizer"]["lowercase"] = lowercase;
  json["model"]["vocab"] = vocab;
  json["added_tokens"] = ParseJson("[" + added_tokens + "]", "added");
  return json.dump();
}

using Files = std::map<std::string, std::string>;

std::shared_ptr<const Tokenizer> Load(const Files& files) {
  const TempFolder folder;
  for (const auto& [name, contents] : files) folder.Write(name, contents);
  return Tokenizer::Load(folder.path());
}

std::string LoadError(const Files& files) {
  return ErrorOf([&] { Load(files); });
}

std::vector<int32_t> Ids(const Files& files, const std::string& text) {
  return Load(files)->Encode(text, {}, {.add_special_tokens = false}).ids;
}

TEST(TokenizerFolderTest, TokenizerJsonCountsBesideOlderFiles) {
  const Files files{{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nother\n"},
                    {"tokenizer.json", TokenizerJson(kVocabulary, true, Added(18, "kayak", "normalized"))}};
  EXPECT_THAT(Ids(files, "a kayak"), ElementsAre(5, 18));
  Files with_pieces = files;
  with_pieces["spiece.model"] = "no model";
  EXPECT_THAT(Ids(with_pieces, "a kayak"), ElementsAre(5, 18));
}

TEST(TokenizerFolderTest, AddedTokensJsonGivesIds) {
  Files files{{"vocab.txt", kVocabulary}, {"added_tokens.json", R"({"Kay": 19, "<e1>": 18})"}};
  EXPECT_THAT(Ids(files, "a KAY <e1> kays"), ElementsAre(5, 19, 18, 19, 1)) << "matched in normalised text";
  EXPECT_FALSE(Load(files)->IsSpecial(18));
  files["special_tokens_map.json"] = R"({"additional_special_tokens": ["<e1>"]})";
  EXPECT_TRUE(Load(files)->IsSpecial(18));
  EXPECT_THAT(Ids(files, "<E1>"), ElementsAre(1, 1, 1)) << "a special token is matched verbatim";
  files["added_tokens.json"] = R"({"Kay": 30})";
  EXPECT_THAT(Ids(files, "kay <e1>"), ElementsAre(30, 31)) << "the file's number holds; what comes after is after it";
  EXPECT_EQ(Load(files)->Token(20), "") << "a hole";
  files["added_tokens.json"] = R"({"lake": 30})";
  EXPECT_THAT(LoadError(files), HasSubstr("\"lake\" has id 7 in the vocabulary, but 30 in added_tokens.json"));
  files["added_tokens.json"] = R"({"kay": 18, "yak": 18})";
  EXPECT_THAT(LoadError(files), HasSubstr("/added_tokens.json: id 18 is that of \"kay\" and of \"yak\""));
  files["added_tokens.json"] = R"({"kay": "18"})";
  EXPECT_THAT(LoadError(files), HasSubstr("added_tokens.json: expected an id for \"kay\""));
  files["added_tokens.json"] = R"({"kay": 99999999999})";
  EXPECT_THAT(LoadError(files), HasSubstr("an id from 0 to 4194303"));
}

// The list in tokenizer_config.json is complete: transformers then looks at neither of the other files.
TEST(TokenizerFolderTest, TheListOfAddedTokensGoesBeforeOlderFiles) {
  const Files files{{"vocab.txt", kVocabulary},
                    {"tokenizer_config.json", R"({"added_tokens_decoder": {"18": {"content": "kay"}}})"},
                    {"added_tokens.json", R"({"old": 18})"},
                    {"special_tokens_map.json", R"({"additional_special_tokens": ["old"]})"}};
  EXPECT_THAT(Ids(files, "KAY"), ElementsAre(18));
  EXPECT_EQ(Load(files)->Id("old"), -1);
}

TEST(TokenizerFolderTest, SpecialTokensMapGoesOverTheSettings) {
  const Files files{
      {"vocab.txt", kVocabulary},
      {"tokenizer_config.json", R"({"mask_token": "a", "bos_token": "<s>", "x_token": "<x>"})"},
      {"special_tokens_map.json", R"({"mask_token": {"content": "lake", "lstrip": true, "normalized": true}})"}};
  const auto tokenizer = Load(files);
  EXPECT_EQ(tokenizer->mask_id(), 7);
  const Encoding encoding = tokenizer->Encode("b LAKE<s><x>", {}, {.add_special_tokens = false});
  EXPECT_THAT(encoding.ids, ElementsAre(6, 7, 18, 19));
  EXPECT_THAT(encoding.offsets, ElementsAre(Pair(0, 1), Pair(1, 6), Pair(6, 9), Pair(9, 12)));
}

// BertTokenizer makes its normaliser of the settings and their defaults, whatever tokenizer.json says.
TEST(TokenizerFolderTest, SettingsGoOverTheNormalizer) {
  const auto ids = [](bool file_lowercases, const std::string& settings, const std::string& model = "{}") {
    return Ids({{"tokenizer.json", TokenizerJson(kVocabulary, file_lowercases, "")},
                {"tokenizer_config.json", settings},
                {"config.json", model}},
               "The Café 日");
  };
  EXPECT_THAT(ids(true, R"({"tokenizer_class": "BertTokenizer", "do_lower_case": false})"), ElementsAre(8, 1, 13));
  EXPECT_THAT(ids(false, R"({"tokenizer_class": "BertTokenizerFast"})"), ElementsAre(9, 10, 13)) << "the default";
  EXPECT_THAT(ids(false, R"({"tokenizer_class": "BertTokenizer", "do_lower_case": true, "strip_accents": false})"),
              ElementsAre(9, 11, 13));
  EXPECT_THAT(ids(false, "{}", R"({"model_type": "bert"})"), ElementsAre(9, 10, 13)) << "the model says the class";
  EXPECT_THAT(ids(false, "{}"), ElementsAre(8, 1, 13)) << "nothing does";
  EXPECT_THAT(ids(false, R"({"do_lower_case": true})"), ElementsAre(9, 10, 13));
  EXPECT_THAT(ids(false, R"({"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": true})"),
              ElementsAre(8, 1, 13))
      << "a class that reads tokenizer.json alone";
}

TEST(TokenizerFolderTest, TokensInNormalisedText) {
  const std::string added = Added(18, "Kay", "normalized") + "," + Added(19, "New  Lake", "normalized lstrip") + "," +
                            Added(20, "b.", "normalized single_word rstrip") + "," + Added(21, "<E>", "special") + "," +
                            Added(22, "Ay", "normalized special");
  const auto encode = [&](const std::string& text) {
    return Load({{"tokenizer.json", TokenizerJson(kVocabulary, true, added)}})
        ->Encode(text, {}, {.add_special_tokens = false});
  };
  const Encoding glued = encode("aKÁYs KAY ay<e><E>");
  EXPECT_THAT(glued.ids, ElementsAre(5, 18, 1, 18, 22, 1, 1, 1, 21)) << "pieces of words go on as words";
  EXPECT_THAT(glued.offsets, ElementsAre(Pair(0, 1), Pair(1, 4), Pair(4, 5), Pair(6, 9), Pair(10, 12), Pair(12, 13),
                                         Pair(13, 14), Pair(14, 15), Pair(15, 18)));
  const Encoding stripped = encode("a \t new\t lake b.  a ab. b.b");
  EXPECT_THAT(stripped.ids, ElementsAre(5, 19, 20, 5, 1, 17, 6, 17, 6));
  EXPECT_THAT(stripped.offsets[1], Pair(1, 13)) << "with the white space before it";
  EXPECT_THAT(stripped.offsets[2], Pair(14, 18)) << "with the white space behind it";
  // The white space between the two is taken by the first and begins the second, whose ideographs stand apart.
  const std::string next = Added(18, "kay", "normalized rstrip") + "," + Added(19, "日本", "normalized");
  const auto overlapping = Load({{"tokenizer.json", TokenizerJson(kVocabulary, true, next)}})
                               ->Encode("kay 日本 kay日本", {}, {.add_special_tokens = false});
  EXPECT_THAT(overlapping.ids, ElementsAre(18, 19, 18, 19));
  const Encoding marks = encode("ka\u0301\u0323y");
  EXPECT_THAT(marks.ids, ElementsAre(18));
  EXPECT_THAT(marks.offsets, ElementsAre(Pair(0, 5)));
}

TEST(TokenizerFolderTest, ATokenInWhiteSpaceThatTheOneBeforeTookIsFoundToo) {
  using Ids = std::vector<int32_t>;
  using Places = std::vector<std::pair<int32_t, int32_t>>;
  const auto check = [](const std::string& added, const std::string& text, const Ids& ids, const Places& places) {
    const auto tokenizer = Load({{"tokenizer.json", TokenizerJson(kVocabulary, true, added)}});
    const Encoding encoding = tokenizer->Encode(text, {}, {.add_special_tokens = false});
    EXPECT_EQ(encoding.ids, ids) << text;
    EXPECT_EQ(encoding.offsets, places) << text;
  };
  const std::string verbatim = Added(18, "LO", "rstrip") + "," + Added(19, "  ") + "," + Added(20, "ZZ", "lstrip");
  check(verbatim, "LO  the", {18, 19, 9}, {{0, 4}, {2, 4}, {4, 7}});
  check(verbatim, "LO   the", {18, 19, 9}, {{0, 5}, {2, 4}, {5, 8}});
  check(verbatim, "LO     a", {18, 19, 19, 5}, {{0, 7}, {2, 4}, {4, 6}, {7, 8}});
  check(verbatim, "LO  ", {18, 19}, {{0, 4}, {2, 4}});
  check(verbatim, "LO  ZZ a", {18, 19, 20, 5}, {{0, 4}, {2, 4}, {4, 6}, {7, 8}});
  check(verbatim, "日 LO  日", {13, 18, 19, 13}, {{0, 1}, {2, 6}, {4, 6}, {6, 7}});
  check(Added(18, "LO", "rstrip") + "," + Added(19, " ", "lstrip"), "LO a", {18, 5}, {{0, 3}, {3, 4}});
  // "\t" is " " in normalised text, and ideographs stand between two.
  const std::string normalized = Added(18, "kay", "rstrip normalized") + "," + Added(19, "\t", "normalized");
  check(normalized, "kay  a", {18, 19, 19, 5}, {{0, 5}, {3, 4}, {4, 5}, {5, 6}});
  check(normalized, "kay\t", {18, 19}, {{0, 4}, {3, 4}});
  check(normalized, "日kay 日", {19, 13, 19, 18, 19, 19, 13, 19},
        {{0, 1}, {0, 1}, {0, 1}, {1, 6}, {4, 5}, {5, 6}, {5, 6}, {5, 6}});
  // Lower case is made of a text before its tokens are found.
  const auto tokenizer = Load({{"tokenizer.json", TokenizerJson(kVocabulary, false, verbatim)}});
  EXPECT_THAT(tokenizer->Encode("LO   The", {}, {.add_special_tokens = false, .lower_case = true}).ids,
              ElementsAre(18, 19, 9));
}

// Names in the settings that differ from those of tokenizer.json: BertTokenizer puts the named tokens around texts,
// classes that read tokenizer.json alone keep its own, and find the named ones in texts.
TEST(TokenizerFolderTest, NamesThatDifferFromTokenizerJson) {
  const auto files = [](const char* tokenizer_class, const std::string& names, const char* map = "{}") {
    return Files{
        {"tokenizer.json", TokenizerJson(kVocabulary, true, Added(1, "[UNK]", "special"))},
        {"tokenizer_config.json", "{\"tokenizer_class\": \"" + std::string(tokenizer_class) + "\"" + names + "}"},
        {"special_tokens_map.json", map}};
  };
  const auto ids = [&](const auto&... arguments) {
    return Load(files(arguments...))->Encode("the <s> [UNK] ☃", "a", {}).ids;
  };
  const char *bert = "BertTokenizer", *generic = "PreTrainedTokenizerFast";
  EXPECT_THAT(ids(bert, R"(, "sep_token": "[SEP]", "cls_token": "[CLS]", "unk_token": "[UNK]")"),
              ElementsAre(2, 9, 1, 1, 1, 1, 1, 3, 5, 3));
  EXPECT_THAT(ids(bert, R"(, "sep_token": "<s>")"), ElementsAre(2, 9, 18, 1, 1, 18, 5, 18));
  EXPECT_THAT(ids(bert, "", R"({"cls_token": "lake"})"), ElementsAre(7, 9, 1, 1, 1, 1, 1, 3, 5, 3));
  EXPECT_THAT(ids(bert, R"(, "unk_token": "lake")"), ElementsAre(2, 9, 7, 7, 7, 1, 7, 3, 5, 3));
  EXPECT_THAT(LoadError(files(bert, R"(, "unk_token": "<s>")")),
              HasSubstr("tokenizer_config.json: \"unk_token\": \"<s>\" is not in the vocabulary of tokenizer.json"));
  EXPECT_THAT(LoadError(files(bert, "", R"({"unk_token": "<s>"})")),
              HasSubstr("special_tokens_map.json: \"unk_token\""));
  for (const char* key : {"cls_token", "sep_token", "unk_token"})
    EXPECT_THAT(ids(generic, ", \"" + std::string(key) + "\": \"<s>\""), ElementsAre(2, 9, 18, 1, 1, 3, 5, 3)) << key;
}

// Classes that are made of the settings have the added tokens of tokenizer_config.json's list alone.
TEST(TokenizerFolderTest, TheListOfAddedTokensGoesBeforeTokenizerJson) {
  const auto ids = [](const char* tokenizer_class) {
    const std::string added = Added(18, "kay") + "," + Added(19, "yak");
    return Ids({{"tokenizer.json", TokenizerJson(kVocabulary, true, added)},
                {"tokenizer_config.json", "{\"tokenizer_class\": \"" + std::string(tokenizer_class) +
                                              R"(", "added_tokens_decoder": {"19": {"content": "yak"}}})"}},
               "kay yak");
  };
  EXPECT_THAT(ids("BertTokenizer"), ElementsAre(14, 15, 16, 19));
  EXPECT_THAT(ids("PreTrainedTokenizerFast"), ElementsAre(18, 19));
}

TEST(TokenizerFolderTest, HolesInTheIdsOfTokenizerJson) {
  std::string json = TokenizerJson(kVocabulary, true, Added(40, "kay", "normalized"));
  const std::string lake = "\"lake\":7,";
  json.erase(json.find(lake), lake.size());
  const auto tokenizer = Load({{"tokenizer.json", json}});
  EXPECT_THAT(tokenizer->Encode("the lake kay").ids, ElementsAre(2, 9, 1, 40, 3));
  EXPECT_EQ(tokenizer->vocab_size(), 41);
  EXPECT_EQ(tokenizer->Token(7), "");
}

TEST(TokenizerFolderTest, ListedSpecialTokensAreWhatTokenizerJsonSays) {
  const auto tokenizer =
      Load({{"tokenizer.json", TokenizerJson(kVocabulary, true, Added(18, "<e1>") + "," + Added(5, "a"))},
            {"tokenizer_config.json", R"({"extra_special_tokens": ["<e1>", "a", "<e2>"]})"}});
  EXPECT_FALSE(tokenizer->IsSpecial(18));
  EXPECT_FALSE(tokenizer->IsSpecial(5));
  EXPECT_TRUE(tokenizer->IsSpecial(tokenizer->Id("<e2>"))) << "the file does not have it";
  EXPECT_EQ(tokenizer->Id("<e2>"), 19);
}

TEST(TokenizerFolderTest, TextsThatAreTooLongLoseTheirBeginningWhereTheSettingsSaySo) {
  const auto cut = [](const std::string& settings, const char* text, std::optional<std::string_view> pair, int length) {
    return Load({{"vocab.txt", kVocabulary}, {"tokenizer_config.json", settings}})
        ->Encode(text, pair, {.max_length = length});
  };
  const std::string left = R"({"truncation_side": "left", "padding_side": "left"})";
  const Encoding encoding = cut(left, "a b lake the", std::nullopt, 4);
  EXPECT_THAT(encoding.ids, ElementsAre(2, 7, 9, 3));
  EXPECT_THAT(encoding.offsets, ElementsAre(Pair(0, 0), Pair(4, 8), Pair(9, 12), Pair(0, 0)));
  EXPECT_TRUE(encoding.truncated);
  EXPECT_FALSE(cut(left, "a b", std::nullopt, 4).truncated);
  EXPECT_THAT(cut(R"({"truncation_side": "right"})", "a b lake the", std::nullopt, 4).ids, ElementsAre(2, 5, 6, 3));
  // The longer loses first, then both, of an odd number the second has one more.
  EXPECT_THAT(cut(left, "a b lake the", "a", 6).ids, ElementsAre(2, 7, 9, 3, 5, 3));
  EXPECT_THAT(cut(left, "a b lake the", "a b lake", 6).ids, ElementsAre(2, 7, 9, 3, 7, 3));
  EXPECT_THAT(cut(left, "a b lake", "a b lake the", 6).ids, ElementsAre(2, 7, 3, 7, 9, 3));
  // tokenizer.json's side, where the settings do not say.
  std::string json = TokenizerJson(kVocabulary, true, "");
  json.replace(json.find("\"truncation\":null"), 17, R"("truncation":{"direction":"Left","max_length":3})");
  const auto ids = [&](const std::string& settings) {
    return Load({{"tokenizer.json", json}, {"tokenizer_config.json", settings}})
        ->Encode("a b lake", {}, {.max_length = 3})
        .ids;
  };
  EXPECT_THAT(ids("{}"), ElementsAre(2, 7, 3));
  EXPECT_THAT(ids(R"({"truncation_side": "right"})"), ElementsAre(2, 5, 3));
}

TEST(TokenizerFolderTest, WhatWouldChangeTokensIsRefusedByName) {
  const auto error = [](const std::string& settings) {
    return LoadError({{"vocab.txt", kVocabulary}, {"tokenizer_config.json", settings}});
  };
  EXPECT_THAT(error(R"({"tokenizer_class": "BertJapaneseTokenizer"})"),
              HasSubstr("tokenizer_config.json: \"tokenizer_class\": \"BertJapaneseTokenizer\""));
  EXPECT_THAT(error(R"({"tokenizer_class": "XLMRobertaTokenizerFast"})"), HasSubstr("\"tokenizer_class\" is another"));
  EXPECT_THAT(error(R"({"tokenizer_class": "AlbertTokenizer"})"), HasSubstr("\"tokenizer_class\" is another"));
  for (const char* key :
       {R"("word_tokenizer_type": "mecab")", R"("do_word_tokenize": false)", R"("do_subword_tokenize": false)",
        R"("do_basic_tokenize": false)", R"("never_split": ["a"])", R"("subword_tokenizer_type": "character")",
        R"("split_special_tokens": true)", R"("clean_text": false)", R"("wordpieces_prefix": "@@")",
        R"("add_bos_token": true)", R"("auto_map": {"AutoTokenizer": ["x.Y", null]})"}) {
    const std::string name(key, std::string_view(key).find(':'));
    EXPECT_THAT(error("{" + std::string(key) + "}"), HasSubstr("tokenizer_config.json: " + name)) << key;
  }
  EXPECT_THAT(
      LoadError({{"vocab.txt", kVocabulary}, {"config.json", R"({"tokenizer_class": "BertJapaneseTokenizer"})"}}),
      HasSubstr("config.json: \"tokenizer_class\""));
  for (const char* harmless :
       {R"("do_basic_tokenize": true, "never_split": null, "sp_model_kwargs": {}, "padding_side": "left")",
        R"("tokenizer_class": "DistilBertTokenizer", "word_tokenizer_type": "basic", "unknown": 1)"})
    EXPECT_EQ(error("{" + std::string(harmless) + "}"), "(nothing thrown)") << harmless;
  const auto json_error = [](const char* from, const char* to) {
    std::string json = TokenizerJson(kVocabulary, true, "");
    return LoadError({{"tokenizer.json", json.replace(json.find(from), std::string_view(from).size(), to)}});
  };
  EXPECT_THAT(json_error("BertNormalizer", "Lowercase"), HasSubstr("\"normalizer\": expected the type BertNormalizer"));
  EXPECT_THAT(json_error("BertPreTokenizer", "Whitespace"), HasSubstr("\"pre_tokenizer\": expected the type BertPre"));
  EXPECT_THAT(json_error(R"({"type":"WordPiece","prefix")", R"({"type":"BPEDecoder","prefix")"),
              HasSubstr("\"decoder\": expected the type WordPiece, got \"BPEDecoder\""));
  EXPECT_THAT(json_error("\"clean_text\":true", "\"clean_text\":false"), HasSubstr("\"clean_text\""));
}

// What was read is what is written, and what is written gives the same tokens.
TEST(TokenizerFolderTest, SavedFoldersKeepAddedTokensAndTheirNumbers) {
  const std::string added = Added(18, "Kay", "normalized lstrip") + "," + Added(25, "<E>", "special");
  for (const Files& files :
       {Files{{"vocab.txt", kVocabulary}, {"added_tokens.json", R"({"Kay": 18, "<E>": 25})"}},
        Files{{"vocab.txt", kVocabulary},
              {"tokenizer_config.json", R"({"additional_special_tokens": ["<E>"], "truncation_side": "left"})"},
              {"special_tokens_map.json", R"({"mask_token": {"content": "[MASK]", "lstrip": true}})"}},
        Files{{"tokenizer.json", TokenizerJson(kVocabulary, false, added)}},
        Files{{"tokenizer.json", TokenizerJson(kVocabulary, false, added)},
              {"vocab.txt", kVocabulary},
              {"tokenizer_config.json", R"({"mask_token": {"content": "[MASK]", "rstrip": true}})"},
              {"config.json", R"({"model_type": "bert"})"}}}) {
    const auto tokenizer = Load(files);
    const TempFolder saved;
    tokenizer->Save(saved.path(), 64);
    for (const auto& [name, contents] : files)
      if (name != "tokenizer_config.json" && name != "config.json") {
        EXPECT_EQ(saved.Read(name), contents);
      }
    if (files.contains("config.json")) saved.Write("config.json", files.at("config.json"));
    const auto again = Tokenizer::Load(saved.path());
    EXPECT_EQ(again->vocab_size(), tokenizer->vocab_size());
    EXPECT_EQ(again->truncates_left(), tokenizer->truncates_left());
    for (const char* text : {"The  KAY <E>  [MASK] a kays", "<e> Café lake"}) {
      const Encoding expected = tokenizer->Encode(text, {}, {.max_length = 6}),
                     got = again->Encode(text, {}, {.max_length = 6});
      EXPECT_EQ(got.ids, expected.ids);
      EXPECT_EQ(got.offsets, expected.offsets);
    }
  }
}

}  // namespace
}  // namespace lshformer
