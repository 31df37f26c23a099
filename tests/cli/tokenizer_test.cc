// The tokenizer command as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "util/command.h"
#include "util/sanitized.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::AllOf;
using testing::CommandResult;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TempFolder;

class TokenizerCommandTest : public ::testing::Test {
 protected:
  TokenizerCommandTest() {
    folder_.Write("tokenizer/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nun\n##x\n.\nx\n");
  }

  CommandResult Run(std::vector<std::string> words, const std::string& input = "/dev/null") const {
    words.insert(words.begin(), {LSHFORMER_BINARY, "tokenizer"});
    return testing::RunCommand(words, input);
  }
  CommandResult Encode(std::string_view text, std::vector<std::string> flags = {}) const {
    flags.insert(flags.begin(), {"encode", "--tokenizer", folder_ / "tokenizer", "--input", folder_.Write("in", text)});
    return Run(flags);
  }
  CommandResult Decode(std::string_view lines) const {
    return Run({"decode", "--tokenizer", folder_ / "tokenizer", "--input", folder_.Write("in", lines)});
  }

  TempFolder folder_;
};

TEST_F(TokenizerCommandTest, EncodesLines) {
  const CommandResult result = Encode("Unx hello\n\n[MASK]x");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(
      result.out,
      "{\"input_ids\": [2, 6, 7, 5, 3], \"token_type_ids\": [0, 0, 0, 0, 0], \"tokens\": [\"[CLS]\", \"un\", \"##x\", "
      "\"hello\", \"[SEP]\"], \"offsets\": [[0, 0], [0, 2], [2, 3], [4, 9], [0, 0]]}\n"
      "{\"input_ids\": [2, 3], \"token_type_ids\": [0, 0], \"tokens\": [\"[CLS]\", \"[SEP]\"], \"offsets\": [[0, 0], "
      "[0, 0]]}\n"
      "{\"input_ids\": [2, 4, 9, 3], \"token_type_ids\": [0, 0, 0, 0], \"tokens\": [\"[CLS]\", \"[MASK]\", \"x\", "
      "\"[SEP]\"], \"offsets\": [[0, 0], [0, 6], [6, 7], [0, 0]]}\n");
}

TEST_F(TokenizerCommandTest, CutsAndLeavesOutSpecialTokens) {
  const CommandResult result = Encode("x x x x", {"--add_special_tokens", "false", "--max_seq_length", "2"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("\"input_ids\": [9, 9],"));
  EXPECT_THAT(result.err, HasSubstr("1 of 1 texts were cut to 2 tokens"));
}

TEST_F(TokenizerCommandTest, ABadJsonLineIsAnsweredInItsPlace) {
  const CommandResult result = Encode(
      "{\"id\": 7, \"text\": \"x\", \"text_pair\": \"hello\"}\n{\"id\": 8, \"text\": 3}\nno\n{\"text\": \"\xff\"}\n"
      "{\"text\": \".\", \"text_pair\": null}\n",
      {"--jsonl"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(StartsWith("lshformer: 3 of 5 lines"), HasSubstr("in:2")));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 5);
  EXPECT_THAT(result.out, HasSubstr("[2, 9, 3, 5, 3], \"token_type_ids\": [0, 0, 0, 1, 1]"));
  EXPECT_THAT(result.out, HasSubstr("{\"id\":8,\"error\":"));
  EXPECT_THAT(result.out, HasSubstr("[2, 8, 3]"));
}

TEST_F(TokenizerCommandTest, InvalidUtf8OfRawTextIsReplacedAndCounted) {
  const CommandResult result = Encode("x\xff\nx \xc3\n");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("2 invalid UTF-8 sequences"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
}

TEST_F(TokenizerCommandTest, ALineOver64MiBIsRefused) {
  const std::string line(100 << 20, 'x');
  const std::string output = folder_.Write("old.jsonl", "old");
  const CommandResult raw = Encode("x\n" + line + "\nx\n", {"--output", output});
  EXPECT_EQ(raw.status, 1);
  EXPECT_THAT(raw.err, HasSubstr("in:2"));
  EXPECT_EQ(folder_.Read("old.jsonl"), "old");
  const CommandResult jsonl = Encode("{\"text\": \"x\"}\n" + line + "\n{\"text\": \"x\"}\n", {"--jsonl"});
  EXPECT_EQ(jsonl.status, 1);
  EXPECT_EQ(std::count(jsonl.out.begin(), jsonl.out.end(), '\n'), 3);
}

// The encoding of a long line, many times its size as JSON, is written while it is made.
TEST_F(TokenizerCommandTest, MemoryIsThatOfTheLongestLine) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer keeps freed memory";
  std::string text;
  for (int i = 0; i < 2'000'000; ++i) text += i % 100 == 0 ? "hello\n" : "hello ";
  const double short_lines = Encode(text, {"--output", "/dev/null"}).max_resident_mb;
  const double empty = Encode("", {"--output", "/dev/null"}).max_resident_mb;
  EXPECT_LT(short_lines, empty + 120);
  std::replace(text.begin(), text.end(), '\n', ' ');
  EXPECT_LT(Encode(text, {"--output", "/dev/null"}).max_resident_mb, empty + 200);  // its JSON: 60 MB; 16 bytes a token
}

// What is replaced on the way is not said where the command then fails.
TEST_F(TokenizerCommandTest, OneFailureIsOneLine) {
  const std::string bytes = folder_.Write("binary", "\xff\xfe\xff \xff\n");
  for (const char* type : {"wordpiece", "unigram"}) {
    const CommandResult result =
        Run({"train", "--type", type, "--input", bytes, "--vocab_size", "5", "--output_dir", folder_ / "trained"});
    EXPECT_EQ(result.status, 1) << type;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

// added_tokens.json is read, and a class that is not ours is refused by name.
TEST_F(TokenizerCommandTest, TheFilesOfAFolderCount) {
  folder_.Write("tokenizer/added_tokens.json", R"({"kayak": 10})");
  EXPECT_THAT(Encode("a KAYAKx").out, HasSubstr("\"input_ids\": [2, 1, 10, 9, 3]"));
  folder_.Write("tokenizer/tokenizer_config.json", R"({"tokenizer_class": "BertJapaneseTokenizer"})");
  const CommandResult refused = Encode("a");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("tokenizer_config.json"), HasSubstr("\"BertJapaneseTokenizer\"")));
}

TEST_F(TokenizerCommandTest, Decodes) {
  const CommandResult result = Decode("[2, 6, 7, 8, 3]\n{\"ids\": [5]}\n{\"input_ids\": []}\n");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "[CLS] unx. [SEP]\nhello\n\n");
  EXPECT_THAT(Decode("[2]\n[10]\n").err, AllOf(HasSubstr("in:2"), HasSubstr("0 to 9, got 10")));
  EXPECT_THAT(Decode("[2]\n[\"x\"]\n").err, HasSubstr("in:2: expected an id"));
  EXPECT_THAT(Decode("3\n").err, HasSubstr("in:1: expected a list of ids"));
  EXPECT_THAT(Decode("[4294967298]\n").err, HasSubstr("expected an id"));
}

TEST_F(TokenizerCommandTest, ABadLineOfIdsIsAnsweredInItsPlace) {
  const CommandResult result = Decode("[6, 7]\nno\n[10]\n\n[5]");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(StartsWith("lshformer: 3 of 5 lines could not be decoded, the first: "),
                                HasSubstr("in:2: invalid JSON")));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
  EXPECT_THAT(result.out,
              AllOf(StartsWith("unx\n{\"error\":\""), HasSubstr("in:3: token id: expected 0 to 9, got 10\"}\n")));
  EXPECT_THAT(result.out, ::testing::EndsWith("\"}\nhello\n"));
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 5);
}

TEST_F(TokenizerCommandTest, TrainsAndRefusesToOverwrite) {
  const std::string text = folder_.Write("text", "the hashing of keys, the keys of hashing\nthe caf\xc3\xa9\n");
  const std::vector<std::string> train = {"train",        "--type", "wordpiece",    "--input",          text,
                                          "--vocab_size", "60",     "--output_dir", folder_ / "trained"};
  EXPECT_EQ(Run(train).status, 0);
  const CommandResult again = Run(train);
  EXPECT_EQ(again.status, 1);
  EXPECT_THAT(again.err, HasSubstr("not empty"));
  const CommandResult result = Run({"encode", "--tokenizer", folder_ / "trained", "--input", text});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("[UNK]")));
  EXPECT_EQ(Run({"train", "--type", "bpe", "--input", text, "--output_dir", folder_ / "u"}).status, 2);
  const CommandResult small = Run({"train", "--input", text, "--vocab_size", "9", "--output_dir", folder_ / "small"});
  EXPECT_EQ(small.status, 1);
  EXPECT_THAT(small.err, HasSubstr("expected at least"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "small"));
}

constexpr const char* kSquad = R"({"data": [{"paragraphs": [{"context": "The hashing of keys isn't new.",
  "qas": [{"id": "1", "question": "What isn't new?", "answers": []}]}]}]})";

TEST_F(TokenizerCommandTest, TrainsWords) {
  const std::string text = folder_.Write("text.txt", "the keys of\nhashing\n\nthe keys\n");
  const auto train = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"train", "--type", "words", "--input", text, folder_.Write("squad.json", kSquad)});
    return Run(flags);
  };
  EXPECT_EQ(train({"--output_dir", folder_ / "words"}).status, 0);
  EXPECT_EQ(folder_.Read("words/words.txt"), "[PAD]\n[UNK]\nkeys\nhashing\nis\nn't\nnew\nof\nthe\n");
  const CommandResult result =
      Run({"encode", "--tokenizer", folder_ / "words", "--input", folder_.Write("in", "Keys isn't\n")});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, StartsWith("{\"input_ids\": [2, 4, 5]"));
  EXPECT_EQ(train({"--output_dir", folder_ / "few", "--vocab_size", "3"}).status, 0);
  EXPECT_EQ(folder_.Read("few/words.txt"), "[PAD]\n[UNK]\nkeys\n");
  const CommandResult cased = train({"--output_dir", folder_ / "cased", "--do_lower_case", "false"});
  EXPECT_EQ(cased.status, 2);
  EXPECT_THAT(cased.err, HasSubstr("--do_lower_case: is not for --type words"));
}

TEST_F(TokenizerCommandTest, MakesWordVectors) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the keys of hashing\n\n";
  const std::string input = folder_.Write("text.txt", text), squad = folder_.Write("squad.json", kSquad);
  const auto vectors = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"vectors", "--input", input, squad, "--vector_size", "4", "--min_count", "2"});
    return Run(flags);
  };
  const CommandResult one = vectors({"--output", "-", "--threads", "1"});
  EXPECT_EQ(one.status, 0);
  EXPECT_EQ(one.err, "");
  EXPECT_THAT(one.out, StartsWith("7 4\nthe "));
  EXPECT_EQ(vectors({"--output", "-", "--threads", "3"}).out, one.out);
  EXPECT_NE(vectors({"--output", "-", "--seed", "7"}).out, one.out);
  EXPECT_NE(vectors({"--output", "-", "--epochs", "1"}).out, one.out);
  EXPECT_EQ(vectors({"--output", folder_ / "vectors.txt"}).out, "");
  EXPECT_EQ(folder_.Read("vectors.txt"), one.out);
  const CommandResult none = Run({"vectors", "--input", input, "--output", "-", "--min_count", "1000"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("--input: expected two words that occur 1000 times (--min_count) or more, got 0"));
  EXPECT_EQ(vectors({"--output", "-", "--negative", "0"}).status, 2);
}

TEST_F(TokenizerCommandTest, TrainsAUnigramModel) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "The hashing of keys, the keys of hashing in 1,000 buckets.\n";
  folder_.Write("text", text);
  const auto train = [&](const char* vocab_size, const char* output, std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), {"train", "--type", "unigram", "--input", folder_ / "text", "--vocab_size", vocab_size,
                                 "--output_dir", folder_ / output});
    return Run(flags);
  };
  const CommandResult trained = train("34", "unigram");
  EXPECT_EQ(trained.status, 0);
  EXPECT_EQ(trained.out, "");
  EXPECT_EQ(trained.err, "");
  const CommandResult result =
      Run({"encode", "--tokenizer", folder_ / "unigram", "--input", folder_.Write("in", "KEYS [MASK]\n")});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, StartsWith("{\"input_ids\": [2, "));
  EXPECT_THAT(result.out, HasSubstr("\"[MASK]\", \"[SEP]\"]"));
  const CommandResult decoded = Run({"decode", "--tokenizer", folder_ / "unigram", "--input",
                                     folder_.Write("ids", result.out), "--skip_special_tokens"});
  EXPECT_EQ(decoded.out, "keys\n");

  const CommandResult large = train("5000", "large");
  EXPECT_EQ(large.status, 1);
  EXPECT_THAT(large.err, StartsWith("lshformer: --vocab_size: expected at most "));
  EXPECT_EQ(std::count(large.err.begin(), large.err.end(), '\n'), 1);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "large"));
  const CommandResult small = train("5", "small");
  EXPECT_EQ(small.status, 1);
  EXPECT_EQ(small.err, "lshformer: --vocab_size: expected more than the 5 special tokens, got 5\n");
  const CommandResult ignored = train("34", "other", {"--min_frequency", "3"});
  EXPECT_EQ(ignored.status, 2);
  EXPECT_THAT(ignored.err, HasSubstr("--min_frequency: is for --type wordpiece and words\n"));
}

}  // namespace
}  // namespace lshformer
