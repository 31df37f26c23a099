#include "text/words/word_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "text/code_points.h"
#include "text/utf8.h"
#include "text/words/english_words.h"
#include "text/words/word_vocabulary.h"
#include "util/errors.h"
#include "util/property.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr const char* kWords = "[PAD]\n[UNK]\nthe\nLondon\nNASA\n\"\ndo\nn't\n.\nÉcole\nstraße\n";
constexpr const char* kCharacters = "[PAD]\n[UNK]\na\nb\nt\nh\ne\né\n😀\n";

WordTokenizer MakeWords(std::string_view words = kWords, std::string_view characters = kCharacters) {
  return WordTokenizer(words, "words.txt", characters, "characters.txt");
}

std::vector<int32_t> CharactersOf(const Encoding& encoding, size_t token) {
  return {encoding.characters.begin() + encoding.cu_characters[token],
          encoding.characters.begin() + encoding.cu_characters[token + 1]};
}

TEST(WordTokenizerTest, WordsHaveIdsPlacesAndCharacters) {
  const Encoding encoding = MakeWords().Encode("The tab  don't 😀.");
  EXPECT_THAT(encoding.ids, ElementsAre(2, 1, 6, 7, 1, 8));
  EXPECT_THAT(encoding.offsets,
              ElementsAre(Pair(0, 3), Pair(4, 7), Pair(9, 11), Pair(11, 14), Pair(15, 16), Pair(16, 17)));
  EXPECT_THAT(encoding.type_ids, ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(CharactersOf(encoding, 0), ElementsAre(1, 5, 6));  // of the spelling: T is unknown
  EXPECT_THAT(CharactersOf(encoding, 1), ElementsAre(4, 2, 3));
  EXPECT_THAT(CharactersOf(encoding, 4), ElementsAre(8));
  EXPECT_EQ(encoding.cu_characters.size(), encoding.ids.size() + 1);
}

TEST(WordTokenizerTest, LooksUpFourSpellings) {
  const WordTokenizer tokenizer = MakeWords();
  EXPECT_EQ(tokenizer.Find("the"), 2);
  EXPECT_EQ(tokenizer.Find("THE"), 2);
  EXPECT_EQ(tokenizer.Find("london"), 3);
  EXPECT_EQ(tokenizer.Find("LONDON"), 3);
  EXPECT_EQ(tokenizer.Find("nasa"), 4);
  EXPECT_EQ(tokenizer.Find("école"), 9);
  EXPECT_EQ(tokenizer.Find("STRAßE"), 10);
  EXPECT_EQ(tokenizer.Find("LONdONx"), 1);
  EXPECT_THAT(CaseVariants("ǆungla"), ElementsAre("ǆungla", "ǅungla", "ǄUNGLA"));
  EXPECT_THAT(CaseVariants("école"), ElementsAre("école", "École", "ÉCOLE"));
  // The exact spelling comes before all others, lower case before Capitalised.
  const WordTokenizer all = MakeWords("[PAD]\n[UNK]\nUS\nUs\nus\nIT\nIt\n");
  EXPECT_EQ(all.Find("US"), 2);
  EXPECT_EQ(all.Find("uS"), 4);
  EXPECT_EQ(all.Find("it"), 6);
}

TEST(WordTokenizerTest, SpecialWordsAreNoneInText) {
  const WordTokenizer tokenizer = MakeWords();
  EXPECT_EQ(tokenizer.Find("[PAD]"), 1);
  EXPECT_EQ(tokenizer.Encode("[UNK]").ids.size(), 3u);
  EXPECT_THAT(tokenizer.Encode("x..[PAD]..x").ids, ElementsAre(1, 1, 1, 1, 1));
  EXPECT_EQ(tokenizer.cls_id(), -1);
  EXPECT_TRUE(tokenizer.IsSpecial(0) && tokenizer.IsSpecial(1));
  EXPECT_FALSE(tokenizer.IsSpecial(2));
  EXPECT_EQ(tokenizer.Decode({2, 0, 1, 3}, true), "the London");
  EXPECT_EQ(tokenizer.Decode({2, 1}, false), "the [UNK]");
  EXPECT_THAT(ErrorOf([&] { tokenizer.Decode({11}, true); }), HasSubstr("expected 0 to 10, got 11"));
}

TEST(WordTokenizerTest, PairsAndTruncationKeepTheCharacters) {
  const WordTokenizer tokenizer = MakeWords();
  const Encoding pair = tokenizer.Encode("the tab", "bat the", {});
  EXPECT_THAT(pair.ids, ElementsAre(2, 1, 1, 2));
  EXPECT_THAT(pair.type_ids, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(pair.cu_characters, ElementsAre(0, 3, 6, 9, 12));
  EXPECT_THAT(CharactersOf(pair, 2), ElementsAre(3, 2, 4));
  const Encoding cut = tokenizer.Encode("the tab a", "bat the", {.max_length = 3});
  EXPECT_TRUE(cut.truncated);
  EXPECT_THAT(cut.type_ids, ElementsAre(0, 0, 1));
  EXPECT_EQ(cut.characters.size(), 9u);
  EXPECT_THAT(cut.cu_characters, ElementsAre(0, 3, 6, 9)) << "of the first text two words are left, of the other one";
}

// As they are, one of the two texts without a word.
TEST(WordTokenizerTest, TextsWithoutWords) {
  const WordTokenizer tokenizer = MakeWords();
  EXPECT_THAT(tokenizer.Encode("").ids, IsEmpty());
  EXPECT_THAT(tokenizer.Encode(" ", "the", {}).cu_characters, ElementsAre(0, 3));
  EXPECT_THAT(tokenizer.Encode("the", " ", {}).cu_characters, ElementsAre(0, 3));
  EXPECT_THAT(tokenizer.Encode(" ").characters, IsEmpty());
}

TEST(WordTokenizerTest, LongWordsAndLongTexts) {
  const WordTokenizer tokenizer = MakeWords();
  const Encoding word = tokenizer.Encode(std::string(10'000, 'a'));
  EXPECT_THAT(word.offsets, ElementsAre(Pair(0, 10'000)));
  EXPECT_EQ(word.characters, std::vector<int32_t>(kCharactersPerWord, 2));
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "the ";
  const Encoding encoding = tokenizer.Encode(text);
  EXPECT_EQ(encoding.ids, std::vector<int32_t>(100'000, 2));
  EXPECT_EQ(encoding.characters.size(), 300'000u);
}

// Text of parts at which rules meet.
rc::Gen<std::string> Text() {
  const std::vector<std::string> parts{"a", "b",       "don't",  "U.S.", " ",  "  ",     "\t", "''", "``",
                                       "'", "\"",      ".",      "..",   ",",  "-",      "É",  "日", "😀",
                                       "$", "e\u0301", "\u00a0", "10",   "km", "(",      ")",  ":",  "/",
                                       "@", "%",       "—",      "s",    "am", "\u200d", "C",  "°",  "www.x.com"};
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(parts)),
                      [](const std::vector<std::string>& chosen) {
                        std::string text;
                        for (const std::string& part : chosen) text += part;
                        return text;
                      });
}

std::string Spelled(std::u32string_view word) {
  std::string spelled;
  for (const char32_t c : word) AppendUtf8(c, spelled);
  return spelled;
}

TEST(WordTokenizerProperty, PlacesSliceTheTextToItsWords) {
  EXPECT_TRUE(testing::Holds("places", 2000, [] {
    const std::string text = *Text();
    const CodePointIndex index(text);
    std::string visible;
    int32_t last = 0;
    SplitEnglish(text, 0, [&](const EnglishWord& word) {
      RC_ASSERT(word.begin >= last && word.begin < word.end && word.end <= index.size());
      std::string slice(index.Slice(word.begin, word.end));
      if (const size_t doubled = std::min(slice.rfind("''"), slice.rfind("``"));
          doubled != slice.npos && doubled + 2 == slice.size())
        slice.replace(doubled, 2, "\"");
      RC_ASSERT(slice == Spelled(word.text));
      // Nothing but white space is between words.
      const std::string_view between = index.Slice(last, word.begin);
      for (const char* at = between.data(); at != between.data() + between.size();)
        RC_ASSERT(IsEnglishSpace(NextCodePoint(at)));
      last = word.end;
      return true;
    });
  }));
}

TEST(WordTokenizerProperty, EveryWordHasItsCharacters) {
  const WordTokenizer tokenizer = MakeWords();
  EXPECT_TRUE(testing::Holds("characters", 500, [&] {
    const std::string text = *Text(), pair = *Text();
    const int length = *rc::gen::inRange(0, 8);
    const Encoding encoding = tokenizer.Encode(text, pair, {.max_length = length});
    RC_ASSERT(length == 0 || encoding.ids.size() <= static_cast<size_t>(length));
    if (encoding.ids.empty()) return;
    RC_ASSERT(encoding.cu_characters.size() == encoding.ids.size() + 1);
    RC_ASSERT(static_cast<size_t>(encoding.cu_characters.back()) == encoding.characters.size());
    for (size_t i = 0; i < encoding.ids.size(); ++i) {
      const int32_t count = encoding.cu_characters[i + 1] - encoding.cu_characters[i];
      RC_ASSERT(count >= 1 && count <= kCharactersPerWord);
    }
    for (const int32_t id : encoding.characters) RC_ASSERT(id >= 1 && id < tokenizer.character_vocab_size());
  }));
}

TEST(WordTokenizerTest, IsLoadedAndSavedByteForByte) {
  const testing::TempFolder folder, saved;
  folder.Write("words.txt", "[PAD]\r\n[UNK]\r\nthe\r\n");
  folder.Write("characters.txt", "[PAD]\n[UNK]\nt");
  saved.Write("vocab.txt", "of another tokenizer\n");
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Load(folder.path());
  EXPECT_EQ(tokenizer->vocab_size(), 3);
  EXPECT_EQ(tokenizer->character_vocab_size(), 3);
  tokenizer->Save(saved.path(), 400);
  EXPECT_EQ(saved.Read("words.txt"), folder.Read("words.txt"));
  EXPECT_EQ(saved.Read("characters.txt"), folder.Read("characters.txt"));
  EXPECT_EQ(saved.entries(), 4u) << "the vocabulary of the other tokenizer is gone";
  const std::shared_ptr<const Tokenizer> again = Tokenizer::Load(saved.path());
  EXPECT_EQ(again->model_max_length(), 400);
  EXPECT_EQ(again->Encode("The t").characters, tokenizer->Encode("The t").characters);
}

TEST(WordTokenizerTest, BadFilesAreRefusedByLine) {
  const auto words = [](const char* text) { return ErrorOf([&] { MakeWords(text); }); };
  EXPECT_THAT(words(""), HasSubstr("words.txt: expected one token a line, got an empty file"));
  EXPECT_THAT(words("[PAD]\n"), HasSubstr("words.txt:2: expected [UNK], got the end of the file"));
  EXPECT_THAT(words("[UNK]\n[PAD]\n"), HasSubstr("words.txt:1: expected [PAD], got \"[UNK]\""));
  EXPECT_THAT(words("[PAD]\n[UNK]\na\n\nb\n"), HasSubstr("words.txt:4: expected a token, got a blank line"));
  EXPECT_THAT(words("[PAD]\n[UNK]\na\na\n"), HasSubstr("words.txt:4: token \"a\" is already on line 3"));
  EXPECT_THAT(words("[PAD]\n[UNK]\n\xff\n"), HasSubstr("words.txt:3: expected UTF-8"));
  const auto characters = [](const char* text) { return ErrorOf([&] { MakeWords(kWords, text); }); };
  EXPECT_THAT(characters("a\n"), HasSubstr("characters.txt:1: expected [PAD]"));
  for (const char* line : {"ab", "\u00a0", " ", "\x01", "e\u0301"})
    EXPECT_THAT(characters(fmt::format("[PAD]\n[UNK]\nx\n{}\n", line).c_str()), HasSubstr("characters.txt:4: expected"))
        << line;
  EXPECT_THAT(characters("[PAD]\n[UNK]\nx\nx\n"), HasSubstr("characters.txt:4: token \"x\" is already on line 3"));
}

TEST(WordTokenizerTest, BadFoldersAreRefused) {
  const auto error = [](const std::vector<std::pair<const char*, const char*>>& files) {
    const testing::TempFolder folder;
    for (const auto& [name, contents] : files) folder.Write(name, contents);
    return ErrorOf([&] { Tokenizer::Load(folder.path()); });
  };
  EXPECT_THAT(error({{"words.txt", kWords}}), HasSubstr("words.txt without characters.txt"));
  EXPECT_THAT(error({{"words.txt", kWords}, {"characters.txt", kCharacters}, {"vocab.txt", kWords}}),
              HasSubstr("both words.txt and vocab.txt"));
  EXPECT_THAT(error({{"words.txt", kWords}, {"characters.txt", "[PAD]\n[UNK]\n\n"}}), HasSubstr("characters.txt:3: "));
  EXPECT_THAT(error({{"words.txt", kWords},
                     {"characters.txt", kCharacters},
                     {"tokenizer_config.json", R"({"unk_token": "<unk>"})"}}),
              HasSubstr("its settings call them \"[PAD]\" and \"<unk>\""));
  EXPECT_THAT(error({{"words.txt", kWords},
                     {"characters.txt", kCharacters},
                     {"tokenizer_config.json", R"({"additional_special_tokens": ["[E]"]})"}}),
              HasSubstr("has no added tokens"));
}

TEST(WordVocabularyTest, TheMostFrequentWordsAndAllCharacters) {
  WordVocabularyBuilder builder;
  builder.Add({"the cat, the dog", "the dog. a\x01"});
  EXPECT_EQ(builder.words(), 9);
  EXPECT_EQ(builder.Count("the"), 3);
  const auto all = builder.Build(1, 100);
  EXPECT_EQ(all->vocab_size(), 8);  // the dog , . a\x01 cat
  EXPECT_EQ(all->Token(2), "the");
  EXPECT_EQ(all->Token(3), "dog");
  EXPECT_EQ(all->Token(4), ",") << "equally frequent: in the order of their bytes";
  EXPECT_EQ(all->CharacterId(U't'), 2) << "four times";
  EXPECT_EQ(all->CharacterId(U'\x01'), 1) << "control characters have no id";
  EXPECT_EQ(builder.Build(2, 100)->vocab_size(), 4);
  EXPECT_EQ(builder.Build(1, 3)->vocab_size(), 3);
  EXPECT_EQ(builder.Build(2, 100)->character_vocab_size(), all->character_vocab_size());
  EXPECT_THAT(ErrorOf([&] { builder.Build(1, 2); }), HasSubstr("vocab_size: expected at least 3"));
  EXPECT_THAT(ErrorOf([&] { builder.Build(4, 10); }), HasSubstr("no word of the text occurs 4 times"));
  EXPECT_THAT(ErrorOf([&] { WordVocabularyBuilder().Build(1, 10); }), HasSubstr("expected text with words"));
}

TEST(WordVocabularyTest, WordsThatThereAreVectorsOf) {
  WordVocabularyBuilder builder;
  builder.Add({"London PARIS"});
  const Spellings spellings = builder.AllSpellings();
  EXPECT_EQ(std::set<std::string>(spellings.begin(), spellings.end()),
            (std::set<std::string>{"London", "london", "LONDON", "PARIS", "paris", "Paris"}));
  const auto tokenizer = builder.Build({"paris", "LONDON"});
  EXPECT_THAT(tokenizer->Encode("London PARIS").ids, ElementsAre(3, 2));
}

TEST(WordVocabularyTest, DropsTheRarestWhenThereAreTooMany) {
  WordVocabularyBuilder builder(10);
  for (int i = 0; i < 40; ++i) builder.Add({"often w" + std::to_string(i)});
  EXPECT_EQ(builder.Count("often"), 40);
  EXPECT_LE(builder.Build(1, 100)->vocab_size(), 12);
}

TEST(WordVocabularyTest, DoesNotDependOnThreads) {
  std::vector<std::string> texts;
  for (int i = 0; i < 3000; ++i)
    texts.push_back("word" + std::to_string(i * i % 977) + " of text, and " + std::to_string(i % 70));
  const auto words = [&](int threads) {
    SetThreads(threads);
    WordVocabularyBuilder builder;
    builder.Add(texts);
    const auto tokenizer = builder.Build(2, 500);
    std::vector<std::string> tokens;
    for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) tokens.push_back(tokenizer->Token(id));
    return tokens;
  };
  const int threads = Threads();
  const auto one = words(1), five = words(5);
  SetThreads(threads);
  EXPECT_EQ(one, five);
}

}  // namespace
}  // namespace lshformer
