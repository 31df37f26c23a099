#include "data/corpus.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <optional>

#include "base/parallel.h"
#include "data/shared_folder.h"
#include "data/small_tokenizer.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::SmallTokenizer;
using testing::TempFolder;

std::vector<std::string> Rows(const std::string& path, bool line_by_line = false, int64_t* replaced = nullptr) {
  RowReader reader(path, line_by_line);
  std::vector<std::string> rows;
  std::string row;
  while (reader.Next(row)) rows.push_back(row);
  if (replaced != nullptr) *replaced = reader.replaced();
  return rows;
}

std::string Gzip(const std::string& folder, const std::string& contents) {
  const std::string path = folder + "/text.txt.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, contents.data(), static_cast<unsigned>(contents.size()));
  gzclose(file);
  return path;
}

// Text of `rows` rows; row i has 1 + i % 7 one-letter words.
std::string Letters(int rows, const char* separator) {
  std::string text;
  for (int i = 0; i < rows; ++i) {
    for (int w = 0; w <= i % 7; ++w) text += std::string(1, static_cast<char>('a' + (i + w) % 26)) + " ";
    text += separator;
  }
  return text;
}

// What HF's group_texts does with the rows, written again.
std::vector<std::vector<int32_t>> NaiveBlocks(const Tokenizer& tokenizer, const std::vector<std::string>& rows,
                                              size_t block) {
  std::vector<std::vector<int32_t>> blocks;
  for (size_t group = 0; group < rows.size(); group += 1000) {
    std::vector<int32_t> joined;
    for (size_t i = group; i < std::min(rows.size(), group + 1000); ++i) {
      const Encoding encoding = tokenizer.Encode(rows[i]);
      joined.insert(joined.end(), encoding.ids.begin(), encoding.ids.end());
    }
    for (size_t begin = 0; begin + block <= joined.size(); begin += block) {
      blocks.emplace_back(joined.begin() + begin, joined.begin() + begin + block);
    }
  }
  return blocks;
}

TEST(RowReader, ParagraphsEndAtBlankLines) {
  TempFolder folder;
  const std::string path = folder.Write("a.txt", "\xEF\xBB\xBFone\r\ntwo\r\n\r\n \t\nthree\n\n\n\nfour\nfive");
  EXPECT_THAT(Rows(path), ElementsAre("one two", "three", "four five"));
  EXPECT_THAT(Rows(path, true), ElementsAre("one", "two", "three", "four", "five"));
}

TEST(RowReader, Pairs) {
  TempFolder folder;
  const auto pairs = [&](const std::string& file, const std::string& text) {
    RowReader reader(folder.Write(file, text), /*line_by_line=*/true);
    std::vector<std::string> rows;
    std::optional<std::string> pair;
    for (std::string row; reader.Next(row, &pair);) rows.push_back(row + "|" + pair.value_or("none"));
    return rows;
  };
  EXPECT_THAT(pairs("a.txt", "one\ntwo\n"), ElementsAre("one|none", "two|none"));
  EXPECT_THAT(pairs("a.jsonl", R"({"text": "a", "text_pair": "b"}
{"text": "c"}
{"text": "d", "text_pair": null}
{"text": "e", "text_pair": ""})"),
              ElementsAre("a|b", "c|none", "d|none", "e|"));
  const std::string questions = R"({"context": "she", "question": "who"}
{"context": "he", "question": "what"}
)";
  EXPECT_THAT(pairs("q.jsonl", questions), ElementsAre("who|she", "what|he"));
  for (const char* line : {R"({"question": "who"})", R"({"id": "1", "body": "a text"})"})
    EXPECT_THAT(ErrorOf([&] { pairs("alone.jsonl", line); }),
                HasSubstr(R"(alone.jsonl:1: expected "text", or "question" and "context")"));
  EXPECT_THAT(Rows(folder.Write("c.jsonl", questions)), ElementsAre("she", "he")) << "a corpus has no pairs";
  EXPECT_THAT(ErrorOf([&] { pairs("bad.jsonl", questions + R"({"question": "how"})"); }),
              HasSubstr("bad.jsonl:3: \"context\""));
}

TEST(RowReader, GzipIsReadDirectly) {
  TempFolder folder;
  const std::string text = Letters(300, "\n\n");
  EXPECT_EQ(Rows(Gzip(folder.path(), text)), Rows(folder.Write("a.txt", text)));
}

TEST(RowReader, InvalidUtf8IsReplacedAndCounted) {
  TempFolder folder;
  int64_t replaced = 0;
  const std::string path = folder.Write("a.txt", std::string("a\xFF") + "b \xC3\n\nc" + std::string(1, '\0') + "d\n");
  const std::vector<std::string> rows = Rows(path, false, &replaced);
  EXPECT_EQ(replaced, 2);
  EXPECT_THAT(rows, ElementsAre("a\xEF\xBF\xBD"
                                "b \xEF\xBF\xBD",
                                std::string("c\0d", 3)));
}

TEST(RowReader, LongParagraphsGoOnInTheNextRow) {
  TempFolder folder;
  std::string text;
  for (int i = 0; i < 300000; ++i) text += "word" + std::to_string(i) + (i % 10 == 9 ? "\n" : " ");
  const std::vector<std::string> rows = Rows(folder.Write("a.txt", text));
  ASSERT_GT(rows.size(), 1u);
  std::string joined;
  for (const std::string& row : rows) {
    EXPECT_LE(row.size(), RowReader::kMaximalRow);
    joined += row + (row.size() + 1 < RowReader::kMaximalRow ? " " : "");
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::erase(joined, ' ');
  std::erase(text, ' ');
  EXPECT_EQ(joined, text) << "no word is lost or cut";
}

TEST(RowReader, ALineWithoutSpacesIsCutBetweenCharacters) {
  TempFolder folder;
  std::string text;
  for (int i = 0; i < 500000; ++i) text += "\xE2\x82\xAC";  // €
  int64_t replaced = 0;
  const std::vector<std::string> rows = Rows(folder.Write("a.txt", text), false, &replaced);
  std::string joined;
  for (const std::string& row : rows) {
    EXPECT_LE(row.size(), RowReader::kMaximalRow);
    EXPECT_TRUE(IsValidUtf8(row));
    joined += row;
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(replaced, 0);
  EXPECT_EQ(Rows(folder.Write("b.txt", text), true).size(), 1u) << "line_by_line keeps the beginning of a line alone";
}

// The key of the text is chosen over all rows.
TEST(RowReader, TheFirstRowMayLackTheText) {
  TempFolder folder;
  const std::string titled = "{\"title\": \"T\"}\n{\"title\": \"U\", \"text\": \"one\"}\n";
  EXPECT_THAT(Rows(folder.Write("a.jsonl", titled + "{\"text\": \"two\"}\n")), ElementsAre("one", "two"));
  EXPECT_THAT(ErrorOf([&] { Rows(folder.Write("b.jsonl", titled + "{\"title\": \"V\"}\n")); }),
              HasSubstr("b.jsonl:3: \"text\" is missing"))
      << "behind a row that has it";
  EXPECT_THAT(Rows(folder.Write("c.jsonl", "{\"id\": \"7\", \"body\": \"one\"}\n")), ElementsAre("one"))
      << "an index is no text";
}

TEST(RowReader, JsonLinesGiveTheirText) {
  TempFolder folder;
  const std::string text = folder.Write(
      "a.jsonl", "{\"id\": 1, \"label\": \"x\", \"text\": \"one\\ntwo\"}\n\n{\"text\": \"three\", \"more\": []}\n");
  EXPECT_THAT(Rows(text), ElementsAre("one\ntwo", "three"));
  EXPECT_THAT(Rows(folder.Write("b.json", "{\"n\": 1, \"body\": \"first\"}\n{\"body\": \"second\"}")),
              ElementsAre("first", "second"));
  EXPECT_THAT(ErrorOf([&] { Rows(folder.Write("c.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n")); }),
              AllOf(HasSubstr("c.jsonl:2"), HasSubstr("text")));
  EXPECT_THAT(ErrorOf([&] { Rows(folder.Write("d.jsonl", "{\"n\": 1}\n")); }),
              HasSubstr("d.jsonl:1: no key holds text"));
  EXPECT_THAT(ErrorOf([&] { Rows(folder.Write("e.jsonl", "[1]\n")); }), HasSubstr("e.jsonl:1: expected a JSON object"));
  EXPECT_THAT(Rows(folder.Write("a.json", "[{\"text\": \"one\"},\n {\"text\": \"two\"}]")), ElementsAre("one", "two"));
  EXPECT_THAT(Rows(folder.Write("d.json", "{\"data\": [\n{\"text\": \"one\", \"score\": NaN}]}")), ElementsAre("one"));
  EXPECT_THAT(ErrorOf([&] { Rows(folder.Write("f.jsonl", "{\"text\": \n")); }), HasSubstr("f.jsonl:1"));
}

TEST(Corpus, BlocksAreThoseOfGroupTexts) {
  const auto tokenizer = SmallTokenizer();
  TempFolder folder;
  for (const int rows : {10, 999, 1000, 1001, 2500}) {
    const std::string path = folder.Write("a.txt", Letters(rows, "\n\n"));
    const auto expected = NaiveBlocks(*tokenizer, Rows(path), 32);
    CorpusOptions options;
    options.max_seq_length = 32;
    CorpusStatistics statistics;
    const SequenceSet set = ReadCorpus({path}, *tokenizer, options, &statistics);
    ASSERT_EQ(set.size(), static_cast<int64_t>(expected.size())) << rows;
    for (int64_t i = 0; i < set.size(); ++i) {
      ASSERT_EQ(std::vector<int32_t>(set.ids(i).begin(), set.ids(i).end()), expected[i]) << "block " << i;
    }
    EXPECT_EQ(statistics.rows, rows);
    EXPECT_EQ(statistics.tokens, set.tokens() + statistics.dropped_tokens);
  }
}

// Groups run across the borders of files, as rows of one data set do.
TEST(Corpus, SeveralFilesAreOneCorpus) {
  const auto tokenizer = SmallTokenizer();
  TempFolder folder;
  const std::string text = Letters(600, "\n\n");
  CorpusOptions options;
  options.max_seq_length = 64;
  const SequenceSet together = ReadCorpus({folder.Write("a.txt", text + text)}, *tokenizer, options);
  const SequenceSet apart = ReadCorpus({folder.Write("b.txt", text), folder.Write("c.txt", text)}, *tokenizer, options);
  ASSERT_EQ(together.size(), apart.size());
  for (int64_t i = 0; i < apart.size(); ++i) {
    ASSERT_TRUE(std::equal(apart.ids(i).begin(), apart.ids(i).end(), together.ids(i).begin())) << i;
  }
}

TEST(Corpus, ThreadsDoNotMatter) {
  const auto tokenizer = SmallTokenizer();
  TempFolder folder;
  const std::string path = folder.Write("a.txt", Letters(3000, "\n\n"));
  const int before = Threads();
  SetThreads(1);
  const SequenceSet one = ReadCorpus({path}, *tokenizer, {});
  SetThreads(4);
  const SequenceSet four = ReadCorpus({path}, *tokenizer, {});
  SetThreads(before);
  ASSERT_EQ(one.size(), four.size());
  for (int64_t i = 0; i < one.size(); ++i) {
    ASSERT_TRUE(std::equal(one.ids(i).begin(), one.ids(i).end(), four.ids(i).begin()));
  }
}

TEST(Corpus, LessThanABlockIsKept) {
  const auto tokenizer = SmallTokenizer();
  TempFolder folder;
  const SequenceSet set = ReadCorpus({folder.Write("a.txt", "a b\n\nc\n")}, *tokenizer, {});
  ASSERT_EQ(set.size(), 1);
  EXPECT_THAT(std::vector<int32_t>(set.ids(0).begin(), set.ids(0).end()), ElementsAre(2, 5, 6, 3, 2, 7, 3));
}

TEST(Corpus, LineByLineCutsAtTheMaximalLength) {
  const auto tokenizer = SmallTokenizer();
  TempFolder folder;
  CorpusOptions options;
  options.line_by_line = true;
  options.max_seq_length = 5;
  CorpusStatistics statistics;
  const SequenceSet set =
      ReadCorpus({folder.Write("a.txt", "a b\n\nc d e f g h\nz\n")}, *tokenizer, options, &statistics);
  ASSERT_EQ(set.size(), 3);
  EXPECT_THAT(std::vector<int32_t>(set.ids(1).begin(), set.ids(1).end()), ElementsAre(2, 7, 8, 9, 3));
  EXPECT_EQ(statistics.truncated_rows, 1);
  EXPECT_EQ(set.max_length(), 5);
}

// The same sequences as of the whole text, and what lies far behind them is never looked at.
TEST(Corpus, TheFirstSequencesNeedNoMoreThanTheirText) {
  TempFolder folder;
  const auto tokenizer = SmallTokenizer();
  const std::string first = folder.Write("first.txt", Letters(45'000, "\n\n")), missing = folder / "missing.txt";
  for (const bool line_by_line : {false, true}) {
    CorpusOptions options{.line_by_line = line_by_line, .max_seq_length = 16};
    const SequenceSet all = ReadCorpus({first}, *tokenizer, options);
    for (const int64_t wanted : {int64_t{1}, int64_t{500}, int64_t{4000}}) {
      options.max_sequences = wanted;
      CorpusStatistics statistics;
      const SequenceSet some = ReadCorpus({first, missing}, *tokenizer, options, &statistics);
      ASSERT_EQ(some.size(), wanted);
      EXPECT_LT(statistics.rows, 45'000);
      for (int64_t i = 0; i < wanted; ++i)
        ASSERT_TRUE(std::equal(some.ids(i).begin(), some.ids(i).end(), all.ids(i).begin(), all.ids(i).end())) << i;
    }
    options.max_sequences = all.size() + 1;
    EXPECT_THAT(ErrorOf([&] { ReadCorpus({first, missing}, *tokenizer, options); }), HasSubstr("missing.txt"));
  }
}

TEST(Corpus, BadFilesAreNamed) {
  const auto tokenizer = SmallTokenizer();
  TempFolder folder;
  const auto error = [&](const std::string& path) { return ErrorOf([&] { ReadCorpus({path}, *tokenizer, {}); }); };
  EXPECT_THAT(error(folder.Write("empty.txt", "")), HasSubstr("empty.txt: holds no text"));
  EXPECT_THAT(error(folder.Write("blank.txt", " \n\t\n\r\n")), HasSubstr("blank.txt: holds no text"));
  EXPECT_THAT(error(folder.Write("nul.txt", std::string(10, '\0'))), HasSubstr("nul.txt: holds no text"));
  EXPECT_THAT(error(folder / "missing.txt"), HasSubstr("missing.txt"));
  EXPECT_THAT(error(folder.path()), HasSubstr(folder.path()));
  EXPECT_THAT(error(folder.Write("cut.gz", std::string("\x1F\x8B\x08\0\0\0\0\0\0\x03\x4B", 11))), HasSubstr("cut.gz"));
  EXPECT_THAT(error(folder.Write("long.txt", "short\n" + std::string(100 << 20, 'x'))), HasSubstr("long.txt:2"));
  EXPECT_THAT(error(folder.Write("table.tsv", "a\tb\n1\t2\n")), HasSubstr("table.tsv: a table, expected plain text"));
  // A good file does not hide an empty one.
  EXPECT_THAT(ErrorOf([&] {
                ReadCorpus({folder.Write("good.txt", "a\n"), folder / "empty.txt"}, *tokenizer, {});
              }),
              HasSubstr("empty.txt: holds no text"));
  EXPECT_THAT(ErrorOf([&] { ReadCorpus({folder / "good.txt"}, *tokenizer, {.max_seq_length = 2}); }),
              HasSubstr("max_seq_length: expected at least 3, got 2"));
}

// Blocks of two novels and lines of one, against Hugging Face's tokenizers and group_texts on the same files.
TEST(Corpus, RealTextAgreesWithHuggingFace) {
  const std::string shared = testing::SharedFolder();
  if (shared.empty()) GTEST_SKIP() << "no real data here (LSHFORMER_SHARED_DIR)";
  const auto tokenizer = Tokenizer::Load(shared + "/data/tokenizers/bertlsh-32k");
  const auto fingerprint = [](const SequenceSet& set) {  // FNV-1a over ids, with a mark after each sequence
    uint64_t hash = 1469598103934665603u;
    const auto add = [&](uint64_t word) { hash = (hash ^ word) * 1099511628211u; };
    for (int64_t i = 0; i < set.size(); ++i) {
      for (const int32_t id : set.ids(i)) add(static_cast<uint64_t>(id));
      add(0xFFFFFFFF);
    }
    return hash;
  };
  CorpusOptions options;
  options.max_seq_length = 128;
  const std::string books = shared + "/data/pretrain/books/valid/";
  const SequenceSet blocks =
      ReadCorpus({books + "Austen_Pride_1813.txt", books + "Stevenson_Treasure_1883.txt"}, *tokenizer, options);
  EXPECT_EQ(blocks.size(), 1880);
  EXPECT_EQ(fingerprint(blocks), 0x6dd31121fb0b76d0u);
  options.line_by_line = true;
  const SequenceSet lines = ReadCorpus({shared + "/data/pretrain/wikitext-2/test.txt"}, *tokenizer, options);
  EXPECT_EQ(lines.size(), 2891);
  EXPECT_EQ(fingerprint(lines), 0x86dd0a7e669c3a29u);
}

TEST(Corpus, SplitsTheFirstPercentageOff) {
  const auto make = [] {
    SequenceSet set;
    for (int32_t i = 0; i < 250; ++i) set.Add(std::vector<int32_t>{i});
    return set;
  };
  const auto [train, validation] = SplitValidation(make(), 5);
  EXPECT_EQ(validation.size(), 12);
  EXPECT_EQ(train.size(), 238);
  EXPECT_EQ(validation.ids(0)[0], 0);
  EXPECT_EQ(train.ids(0)[0], 12);
  EXPECT_EQ(SplitValidation(make(), 0.01).second.size(), 1) << "at least one";
  for (const double p : {0.0, 100.0, -1.0}) {
    EXPECT_THAT(ErrorOf([&] { SplitValidation(make(), p); }),
                HasSubstr("validation_split_percentage: expected more than 0 and less than 100"));
  }
  SequenceSet one;
  one.Add(std::vector<int32_t>{1});
  EXPECT_THAT(ErrorOf([&] { SplitValidation(std::move(one), 50); }),
              HasSubstr("the training data has 1 sequence, too few to split"));
}

}  // namespace
}  // namespace lshformer
