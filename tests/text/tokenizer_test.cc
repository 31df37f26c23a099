#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/parallel.h"
#include "text/wordpiece/wordpiece.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr const char* kVocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\nhello\n.\nx\n##x\n";

std::shared_ptr<const Tokenizer> Make(const std::string& vocab = kVocab, const WordPieceOptions& options = {}) {
  return std::make_shared<WordPieceTokenizer>(Vocabulary(vocab, "vocab.txt"), "vocab.txt", options);
}

std::string LoadError(const std::string& vocab, const std::string& config = "") {
  const testing::TempFolder folder;
  folder.Write("vocab.txt", vocab);
  if (!config.empty()) folder.Write("tokenizer_config.json", config);
  return ErrorOf([&] { Tokenizer::Load(folder.path()); });
}

TEST(TokenizerTest, PiecesCarryTheirPlaces) {
  const Encoding encoding = Make()->Encode("Únaffable  hello.");
  EXPECT_THAT(encoding.ids, ElementsAre(2, 5, 6, 7, 8, 9, 3));
  EXPECT_THAT(encoding.offsets,
              ElementsAre(Pair(0, 0), Pair(0, 2), Pair(2, 5), Pair(5, 9), Pair(11, 16), Pair(16, 17), Pair(0, 0)));
  EXPECT_FALSE(encoding.truncated);
}

TEST(TokenizerTest, PairsHaveTypesAndAnEmptyPairIsOne) {
  EXPECT_THAT(Make()->Encode("x", "hello", {}).type_ids, ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(Make()->Encode("x", std::nullopt, {}).ids, ElementsAre(2, 10, 3));
  EXPECT_THAT(Make()->Encode("x", "", {}).ids, ElementsAre(2, 10, 3, 3)) << "an empty pair is a text";
  EXPECT_THAT(Make()->Encode("x", "", {}).type_ids, ElementsAre(0, 0, 0, 1));
}

TEST(TokenizerTest, TruncatedSaysWhetherATokenIsMissing) {
  const auto truncated = [](const char* text, std::optional<std::string_view> pair, int length) {
    return Make()->Encode(text, pair, {.max_length = length}).truncated;
  };
  EXPECT_FALSE(truncated("x x x", {}, 5));
  EXPECT_FALSE(truncated("x x x  \n ", {}, 5));
  EXPECT_TRUE(truncated("x x x", {}, 4));
  EXPECT_TRUE(truncated("x x x [MASK]", {}, 5));
  EXPECT_TRUE(truncated("x unaffable", {}, 5));
  EXPECT_FALSE(truncated("x x", "x", 6));
  EXPECT_TRUE(truncated("x x", "x", 5));
}

TEST(TokenizerTest, LengthWithoutRoomForSpecialTokensIsAnError) {
  EXPECT_THAT(ErrorOf([] { Make()->Encode("x", {}, {.max_length = 1}); }), HasSubstr("at least 2"));
  EXPECT_THAT(ErrorOf([] { Make()->Encode("x", "x", {.max_length = 2}); }), HasSubstr("at least 3"));
  EXPECT_THAT(ErrorOf([] { Make()->Encode("x", "x", {.max_length = -1}); }), HasSubstr("got -1"));
}

TEST(TokenizerTest, InvalidUtf8IsAnErrorOrReplaced) {
  EXPECT_THAT(ErrorOf([] { Make()->Encode("x\xff"); }), HasSubstr("UTF-8"));
  EXPECT_THAT(ErrorOf([] { Make()->Encode("x", "\xed\xa0\x80", {}); }), HasSubstr("UTF-8"));
  int64_t replaced = 0;
  // One U+FFFD for each maximal part of a character: a lone byte, a truncated character, each byte of a surrogate.
  EXPECT_EQ(CleanUtf8("a\xff\xe2\x82z\xed\xa0\x80", &replaced), "a\uFFFD\uFFFDz\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replaced, 5);
  EXPECT_EQ(CleanUtf8("plain ascii text", &replaced), "plain ascii text");
  EXPECT_EQ(replaced, 5);
  for (const char* bad : {"\xc0\x80", "\xe0\x80\x80", "\xf4\x90\x80\x80", "\xf0\x8f\xbf\xbf", "\x80", "abcdefgh\xc3"})
    EXPECT_FALSE(IsValidUtf8(bad)) << bad;
  EXPECT_TRUE(IsValidUtf8(std::string_view("\0é日🤗", 10)));
}

TEST(TokenizerTest, BadVocabulariesNameTheLine) {
  EXPECT_THAT(LoadError(""), HasSubstr("empty file"));
  EXPECT_THAT(LoadError("[CLS]\na\n"), HasSubstr("\"[UNK]\""));
  EXPECT_THAT(LoadError("[UNK]\na\xff\n"), AllOf(HasSubstr("vocab.txt:2"), HasSubstr("a\\xFF")));
  EXPECT_THAT(LoadError("[UNK]\n" + std::string(100000, '\xff') + "\n"), HasSubstr("vocab.txt:2"));
}

TEST(TokenizerTest, BadFoldersAndSettingsNameTheFile) {
  const testing::TempFolder folder;
  EXPECT_THAT(ErrorOf([&] { Tokenizer::Load(folder.path()); }), HasSubstr("no vocab.txt and no tokenizer.json"));
  EXPECT_THAT(ErrorOf([&] { Tokenizer::Load(folder.path() + "/none"); }), HasSubstr("no such folder"));
  for (const auto& [config, message] : std::vector<std::pair<const char*, const char*>>{
           {"[1]", "expected a JSON object"},
           {"{", "tokenizer_config.json"},
           {R"({"do_lower_case": "yes"})", "do_lower_case"},
           {R"({"strip_accents": 1})", "strip_accents"},
           {R"({"unk_token": 7})", "unk_token"},
           {R"({"unk_token": ""})", "empty string"},
           {R"({"unk_token": "<unk>"})", "<unk>"},
           {R"({"added_tokens_decoder": []})", "expected an object"},
           {R"({"added_tokens_decoder": {"x": {"content": "[PAD]"}}})", "expected a token id as key"},
           {R"({"added_tokens_decoder": {"9": {"content": "[PAD]"}}})", "has id 0"},
           {R"({"added_tokens_decoder": {"9": {"content": "new"}}})", "id 9 is that of \".\""},
           {R"({"added_tokens_decoder": {"4194304": {"content": "new"}}})", "an id from 0 to 4194303"},
           {R"({"truncation_side": "middle"})", "truncation_side"}}) {
    EXPECT_THAT(LoadError(kVocab, config), HasSubstr(message)) << config;
  }
}

TEST(TokenizerTest, BlankAndRepeatedLinesOfAVocabularyHaveTheirNumbers) {
  const auto tokenizer = Make("[UNK]\na\n\nb\na\n\nc\n");
  EXPECT_EQ(tokenizer->vocab_size(), 11) << "seven lines, and the special tokens that they lack";
  EXPECT_THAT(tokenizer->Encode("a b c", {}, {.add_special_tokens = false}).ids, ElementsAre(4, 3, 6));
  EXPECT_EQ(tokenizer->Token(1), "a") << "the first line's number is no text's";
  EXPECT_EQ(tokenizer->Token(2), "");
  EXPECT_EQ(tokenizer->Token(tokenizer->mask_id()), "[MASK]") << "behind the last line";
  EXPECT_EQ(tokenizer->Decode({1, 3}, false), "a b");
}

TEST(TokenizerTest, LineEndsOfTheVocabularyDoNotMatter) {
  std::string crlf;
  for (const char* c = kVocab; *c != 0; ++c) crlf += *c == '\n' ? std::string("\r\n") : std::string(1, *c);
  crlf.resize(crlf.size() - 2);
  EXPECT_EQ(Make(crlf)->vocab_size(), 12);
  EXPECT_EQ(Make(crlf)->Encode("unaffable hello").ids, Make()->Encode("unaffable hello").ids);
  EXPECT_THAT(
      Make("[UNK]\nboat  \nthe\t\r\nlake\u00a0\n")->Encode("boat the lake", {}, {.add_special_tokens = false}).ids,
      ElementsAre(1, 2, 3));
}

TEST(TokenizerTest, SpecialTokensThatTheVocabularyLacksGetIdsAtItsEnd) {
  const auto tokenizer = Make("[UNK]\nx\n");
  EXPECT_EQ(tokenizer->vocab_size(), 6);
  EXPECT_EQ(tokenizer->Token(tokenizer->cls_id()), "[CLS]");
  EXPECT_TRUE(tokenizer->IsSpecial(tokenizer->mask_id()));
  EXPECT_EQ(tokenizer->Encode("x[MASK]").ids[2], tokenizer->mask_id());
}

TEST(TokenizerTest, SavedAndLoadedItIsTheSame) {
  WordPieceOptions options;
  options.normalizer = {.lowercase = false, .strip_accents = true, .ideographs = false};
  options.mask = "<m>";
  options.clean_up_spaces = true;
  options.added = {{.content = "[E]", .special = false, .lstrip = true}};
  const auto tokenizer = Make(kVocab, options);
  const testing::TempFolder folder;
  tokenizer->Save(folder.path(), 0);
  const auto loaded = Tokenizer::Load(folder.path());
  ASSERT_EQ(loaded->vocab_size(), tokenizer->vocab_size());
  EXPECT_EQ(loaded->mask_id(), tokenizer->mask_id());
  EXPECT_FALSE(loaded->IsSpecial(loaded->Id("[E]")));
  for (const char* text : {"Hello ùn [MASK] <m> x  [E].", "日本"}) {
    EXPECT_EQ(loaded->Encode(text).ids, tokenizer->Encode(text).ids);
    EXPECT_EQ(loaded->Encode(text).offsets, tokenizer->Encode(text).offsets);
    EXPECT_EQ(loaded->Decode(loaded->Encode(text).ids, true), tokenizer->Decode(tokenizer->Encode(text).ids, true));
  }
}

// transformers reads all of them, keys that mean nothing here included.
TEST(TokenizerTest, SavesTheFilesItCameWithByteForByte) {
  const std::map<std::string, std::string> files{
      {"vocab.txt", "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\nx\r\n"},
      {"tokenizer_config.json", "{\"do_lower_case\":true, \"model_max_length\": 512,\"name_or_path\": \"old\"}"},
      {"special_tokens_map.json", "{\"mask_token\": {\"content\": \"[MASK]\", \"lstrip\": true}}"},
      {"added_tokens.json", "{}"}};
  const testing::TempFolder folder, saved;
  for (const auto& [name, contents] : files) folder.Write(name, contents);
  const auto tokenizer = Tokenizer::Load(folder.path());
  EXPECT_EQ(tokenizer->model_max_length(), 512);
  std::filesystem::remove_all(folder.path());  // it may be the output folder, which is cleared first
  for (const int64_t length : {0, 512}) {
    tokenizer->Save(saved.path(), length);
    for (const auto& [name, contents] : files) EXPECT_EQ(saved.Read(name), contents) << name;
  }
  tokenizer->Save(saved.path(), 64);
  EXPECT_EQ(saved.Read("tokenizer_config.json"),
            "{\n  \"do_lower_case\": true,\n  \"model_max_length\": 64,\n  \"name_or_path\": \"old\"\n}\n");
  EXPECT_EQ(Tokenizer::Load(saved.path())->model_max_length(), 64);
}

// A tokenizer.json of another vocabulary would be what transformers reads.
TEST(TokenizerTest, SavingLeavesNoFileOfAnotherTokenizer) {
  const testing::TempFolder saved;
  saved.Write("tokenizer.json", "{}");
  saved.Write("added_tokens.json", "{}");
  saved.Write("model.safetensors", "x");
  Make()->Save(saved.path(), 32);
  EXPECT_FALSE(std::filesystem::exists(saved / "tokenizer.json"));
  EXPECT_FALSE(std::filesystem::exists(saved / "added_tokens.json"));
  EXPECT_EQ(saved.Read("model.safetensors"), "x");
  EXPECT_EQ(Tokenizer::Load(saved.path())->model_max_length(), 32);
}

TEST(TokenizerTest, LengthsThatLimitNothingAreNone) {
  for (const char* length : {"1000000000000000019884624838656", "1e30", "null", "0", "-1", "\"512\""}) {
    const testing::TempFolder folder;
    folder.Write("vocab.txt", kVocab);
    folder.Write("tokenizer_config.json", fmt::format("{{\"model_max_length\": {}}}", length));
    EXPECT_EQ(Tokenizer::Load(folder.path())->model_max_length(), 0) << length;
  }
}

// The layout that newer HF releases write: tokenizer.json without vocab.txt.
TEST(TokenizerTest, ReadsTokenizerJson) {
  const std::string good =
      R"({"truncation": {"max_length": 3}, "added_tokens": [{"id": 2, "content": "[CLS]", "special": true},
    {"id": 6, "content": "[E]", "special": false}], "normalizer": {"type": "BertNormalizer", "clean_text": true,
    "handle_chinese_chars": true, "strip_accents": null, "lowercase": false}, "pre_tokenizer": {"type": "BertPreTokenizer"},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 100, "vocab": {"[UNK]": 1, "[PAD]": 0, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "X": 5}},
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}})";
  const std::string templates =
      R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
    {"Sequence": {"type_id": 0, "id": "A"}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}], "pair": [{"SpecialToken":
    {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}], "special_tokens":
    {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}})";
  const auto load = [](const std::string& json) {
    const testing::TempFolder folder;
    folder.Write("tokenizer.json", json);
    return Tokenizer::Load(folder.path());
  };
  EXPECT_THAT(load(good)->Encode("X x [E][MASK]").ids, ElementsAre(2, 5, 1, 6, 4, 3));
  const testing::TempFolder saved;
  load(good)->Save(saved.path(), 8);
  EXPECT_EQ(saved.Read("tokenizer.json"), good);
  EXPECT_FALSE(std::filesystem::exists(saved / "vocab.txt")) << "read before tokenizer.json, without its settings";
  EXPECT_THAT(Tokenizer::Load(saved.path())->Encode("X x [E][MASK]").ids, ElementsAre(2, 5, 1, 6, 4, 3));
  const auto with = [](std::string json, const std::string& from, const std::string& to) {
    return json.replace(json.find(from), from.size(), to);
  };
  const auto error = [&](const std::string& from, const std::string& to) {
    return ErrorOf([&] { load(with(good, from, to)); });
  };
  EXPECT_THAT(load(with(good, "\"type\": \"WordPiece\", ", ""))->Encode("X").ids, ElementsAre(2, 5, 3)) << "early";
  EXPECT_THAT(load(with(good, "\"unk_token\": \"[UNK]\"", "\"unk_token\": \"[PAD]\""))->Encode("x").ids,
              ElementsAre(2, 0, 3));
  EXPECT_THAT(error("\"id\": 2", "\"id\": 3"), HasSubstr("id 2 in the vocabulary, but 3 in \"added_tokens\""));
  // What stands around texts.
  const std::string bert = R"({"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})";
  const std::string templated = with(good, bert, templates);
  const Encoding pair = load(templated)->Encode("X", "X", {});
  EXPECT_THAT(pair.ids, ElementsAre(2, 5, 3, 5, 3));
  EXPECT_THAT(
      load(with(good, bert, R"({"type": "BertProcessing", "sep": ["X", 5], "cls": ["[CLS]", 2]})"))->Encode("").ids,
      ElementsAre(2, 5));
  for (const char* other :
       {"{}", "{\"type\": \"RobertaProcessing\", \"sep\": [\"[SEP]\", 3]}",
        "{\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 4], \"cls\": [\"[CLS]\", 2]}",
        "{\"type\": \"BertProcessing\", \"sep\": 3, \"cls\": [\"[CLS]\", 2]}",
        "{\"type\": \"TemplateProcessing\", \"single\": 7, \"pair\": []}", "7", "[]",
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"~/\"}}, 1, 2], "
        "\"pair\": 1, \"special_tokens\": 3}"})
    EXPECT_THAT(error(bert, other), HasSubstr("\"post_processor\"")) << other;
  for (const auto& [from, to] :
       {std::pair("\"ids\": [3]", "\"ids\": [4]"), std::pair("\"B\", \"type_id\": 1", "\"B\", \"type_id\": -1"),
        std::pair("{\"id\": \"B\"", "{\"id\": \"A\"")})
    EXPECT_THAT(ErrorOf([&] { load(with(templated, from, to)); }),
                HasSubstr("\"post_processor\" (TemplateProcessing)"));
  EXPECT_THAT(load(with(good, bert, "null"))->Encode("X", "X", {}).ids, ElementsAre(5, 5));
  EXPECT_THAT(load(with(good, bert, R"({"type": "RobertaProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})"))
                  ->Encode("X", "X", {})
                  .type_ids,
              ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(error("WordPiece", "WordLevel"), HasSubstr("expected the type WordPiece, Unigram or BPE"));
  EXPECT_THAT(error("\"BertNormalizer\"", "7"), HasSubstr("\"type\""));
  EXPECT_THAT(error("\"X\": 5", "\"X\": 4"), HasSubstr("\"[MASK]\" and \"X\" have the same id 4"));
  EXPECT_THAT(error("\"X\": 5", "\"X\": -1"), HasSubstr("an id from 0 to 4194303 for \"X\", got -1"));
  EXPECT_THAT(error("\"X\": 5", "\"X\": 4194304"), HasSubstr("an id from 0 to"));
  EXPECT_THAT(error("\"##\"", "\"@@\""), HasSubstr("prefix"));
  EXPECT_THAT(error("{\"[UNK]\"", "{\"[UNX]\""), HasSubstr("[UNK]"));
  EXPECT_THAT(error("\"vocab\": {", "\"vocab\": 3, \"v\": {"), HasSubstr("expected an object \"vocab\""));
}

TEST(TokenizerTest, IdsOutOfRangeAreErrors) {
  EXPECT_THAT(ErrorOf([] { Make()->Token(12); }), HasSubstr("0 to 11, got 12"));
  EXPECT_THAT(ErrorOf([] { Make()->Decode({-1}, true); }), HasSubstr("got -1"));
  EXPECT_EQ(Make()->Id("nothing"), -1);
}

// The answer of a text does not depend on the texts around it, nor on threads.
TEST(TokenizerTest, AllAtOnceOrOneByOne) {
  const auto tokenizer = Make();
  std::vector<std::string> texts;
  std::vector<std::optional<std::string>> pairs;
  for (int i = 0; i < 1000; ++i) {
    texts.push_back(std::string(static_cast<size_t>(i % 37), 'x') + " hello é日 [MASK]");
    pairs.emplace_back();
    if (i % 3 > 0) pairs.back() = i % 3 == 1 ? "" : "unaffable.";
  }
  const int threads = Threads();
  for (const int count : {1, 4}) {
    SetThreads(count);
    const std::vector<Encoding> all = EncodeAll(*tokenizer, texts, pairs, {.max_length = 20});
    for (size_t i = 0; i < texts.size(); ++i) {
      const Encoding one = tokenizer->Encode(texts[i], pairs[i], {.max_length = 20});
      ASSERT_EQ(all[i].ids, one.ids);
      ASSERT_EQ(all[i].offsets, one.offsets);
      ASSERT_EQ(all[i].truncated, one.truncated);
    }
  }
  SetThreads(threads);
  EXPECT_THAT(ErrorOf([&] { EncodeAll(*tokenizer, texts, {"x"}, {}); }), HasSubstr("1000, got 1"));
}

// A published vocabulary of 30,522 tokens, where it is at hand.
TEST(TokenizerTest, PublishedVocabulary) {
  const char* const variable = std::getenv("LSHFORMER_SHARED_DIR");
  const std::string shared = variable != nullptr ? variable : std::string(LSHFORMER_SOURCE_DIR) + "/../shared";
  const std::string folder = shared + "/data/tokenizers/bert-base-uncased";
  if (!std::filesystem::exists(folder + "/vocab.txt")) GTEST_SKIP() << "no " << folder << " (LSHFORMER_SHARED_DIR)";
  const auto tokenizer = Tokenizer::Load(folder);
  EXPECT_EQ(tokenizer->vocab_size(), 30522);
  EXPECT_THAT(tokenizer->Encode("Hello wörld [MASK]ing", "abc", {}).ids,
              ElementsAre(101, 7592, 2088, 103, 13749, 102, 5925, 102));
  // Each token that can be a word on its own is found as itself.
  for (int32_t id = 1996; id < 30522; ++id) {
    const std::string& token = tokenizer->Token(id);
    const bool word = std::all_of(token.begin(), token.end(), [](char c) { return c >= 'a' && c <= 'z'; });
    if (!word) continue;
    EXPECT_THAT(tokenizer->Encode(token, {}, {.add_special_tokens = false}).ids, ElementsAre(id));
  }
}

}  // namespace
}  // namespace lshformer
