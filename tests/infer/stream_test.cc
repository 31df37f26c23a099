#include "infer/stream.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <thread>

#include "base/parallel.h"
#include "infer/fake_model.h"

namespace lshformer {
namespace {

using testing::Answer;
using testing::FakeSetup;
using ::testing::HasSubstr;

struct Streamed {
  std::vector<std::string> lines;
  StreamStatistics statistics;
};

Streamed Stream(const Pipeline& pipeline, LineReader& reader) {
  std::string out;
  const LineSink sink{[&](std::string_view piece) { out += piece; }, [] {}};
  Streamed streamed;
  streamed.statistics = PredictLines(pipeline, reader, sink);
  EXPECT_TRUE(out.empty() || out.back() == '\n');
  std::istringstream stream(out);
  for (std::string line; std::getline(stream, line);) streamed.lines.push_back(line);
  return streamed;
}

Streamed Stream(const Pipeline& pipeline, const FakeSetup& setup, const std::string& input) {
  LineReader reader(setup.folder.Write("in.jsonl", input));
  return Stream(pipeline, reader);
}

// Lines of all lengths, in no order of length.
std::string MixedLines(int count) {
  std::string input;
  for (int i = 0; i < count; ++i) {
    std::string text = "[MASK]";
    for (int word = 0; word < i * 7 % 11; ++word) text += word % 2 == 0 ? " the" : " cat";
    input += "{\"id\": " + std::to_string(i) + ", \"text\": \"" + text + "\"}\n";
  }
  return input;
}

TEST(PredictLinesTest, OrderIsKeptAndEachAnswerIsThatOfItsLineAlone) {
  constexpr int kLines = 3000;  // three windows
  const std::string input = MixedLines(kLines);
  std::vector<std::string> first;
  for (const int batch_tokens : {1, 40, 4096}) {
    FakeSetup setup(PredictTask::kFillMask);
    setup.options.batch_tokens = batch_tokens;
    const Pipeline pipeline = setup.Make();
    const Streamed streamed = Stream(pipeline, setup, input);
    ASSERT_EQ(streamed.lines.size(), static_cast<size_t>(kLines));
    EXPECT_EQ(streamed.statistics.lines, kLines);
    EXPECT_EQ(streamed.statistics.bad, 0);
    if (first.empty()) {
      first = streamed.lines;
      std::istringstream lines(input);
      std::string line;
      for (int i = 0; std::getline(lines, line); i += 1) {
        if (i % 97 != 0) continue;
        EXPECT_EQ(ParseJson(first[static_cast<size_t>(i)], "out"), Answer(pipeline, line));
      }
    }
    EXPECT_EQ(streamed.lines, first) << batch_tokens;
  }
}

TEST(PredictLinesTest, BatchesKeepTheirBudgetAndShareCalls) {
  FakeSetup setup(PredictTask::kFillMask);
  setup.options.batch_tokens = 64;
  const Pipeline pipeline = setup.Make();
  Stream(pipeline, setup, MixedLines(500));
  int64_t tokens = 0;
  for (const int64_t call : setup.model->calls) {
    EXPECT_LE(call, 64);
    tokens += call;
  }
  EXPECT_LE(static_cast<int64_t>(setup.model->calls.size()), tokens / 48);  // batches are at least three quarters full
}

TEST(PredictLinesTest, BadLinesAnswerInTheirPlace) {
  FakeSetup setup(PredictTask::kTextClassification);
  const Streamed streamed = Stream(
      setup.Make(), setup,
      "{\"id\": 1, \"text\": \"the\"}\nnot json\n\n{\"id\": 4, \"text\": \"\"}\r\n{\"id\": 5, \"text\": \"cat\"}");
  ASSERT_EQ(streamed.lines.size(), 5U);
  EXPECT_EQ(streamed.statistics.bad, 3);
  EXPECT_THAT(streamed.statistics.first_error, HasSubstr("in.jsonl:2"));
  EXPECT_THAT(streamed.lines[0], HasSubstr("{\"id\": 1, \"results\""));
  EXPECT_THAT(streamed.lines[1], HasSubstr("{\"id\": null, \"error\""));
  EXPECT_THAT(streamed.lines[2], HasSubstr("in.jsonl:3"));
  EXPECT_THAT(streamed.lines[3], HasSubstr("{\"id\": 4, \"error\""));
  EXPECT_THAT(streamed.lines[4], HasSubstr("{\"id\": 5, \"results\""));
}

TEST(PredictLinesTest, ALineOverTheLimitIsOneBadLine) {
  FakeSetup setup(PredictTask::kTextClassification);
  const std::string path = setup.folder.Write(
      "in.jsonl", "{\"text\": \"the\"}\n{\"text\": \"" + std::string(200000, 'a') + "\"}\n{\"text\": \"cat\"}\n");
  LineReader reader(path, {.longest = 1000});
  const Streamed streamed = Stream(setup.Make(), reader);
  ASSERT_EQ(streamed.lines.size(), 3U);
  EXPECT_THAT(streamed.lines[1], HasSubstr("in.jsonl:2"));
  EXPECT_THAT(streamed.lines[2], HasSubstr("results"));
}

TEST(PredictLinesTest, AnEmptyFileHasNoAnswers) {
  FakeSetup setup(PredictTask::kTextClassification);
  EXPECT_TRUE(Stream(setup.Make(), setup, "").lines.empty());
}

TEST(PredictLinesTest, GzipIsReadDirectly) {
  FakeSetup setup(PredictTask::kTextClassification);
  const std::string path = setup.folder / "in.jsonl.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzputs(file, "{\"text\": \"the\"}\n{\"text\": \"cat\"}\n");
  gzclose(file);
  LineReader reader(path);
  EXPECT_EQ(Stream(setup.Make(), reader).lines.size(), 2U);
}

TEST(PredictLinesTest, CutTextsAreCounted) {
  FakeSetup setup(PredictTask::kTextClassification);
  setup.options.max_seq_length = 5;
  const Streamed streamed =
      Stream(setup.Make(), setup, "{\"text\": \"a a a a\"}\n{\"text\": \"a a a\"}\n{\"text\": \"a a a a a a\"}\n");
  EXPECT_EQ(streamed.statistics.truncated, 2);
}

// A line of text is what {"text": …} is with that text, quotes and blanks at its ends included.
TEST(PredictLinesTest, PlainLinesAreTexts) {
  FakeSetup setup(PredictTask::kTextClassification);
  const Pipeline pipeline = setup.Make();
  const auto text = [&](const std::string& lines, LineFormat format) {
    LineReader reader(setup.folder.Write("in", lines));
    std::string out;
    const StreamStatistics statistics =
        PredictLines(pipeline, reader, {[&](std::string_view piece) { out += piece; }, [] {}}, {}, format);
    return std::pair(out, statistics.bad);
  };
  const auto [plain, bad] = text("\xEF\xBB\xBFthe cat\n\n  sat \"on\" \r\n\xFF\n{\"text\": 1}", LineFormat::kText);
  EXPECT_EQ(bad, 2);  // the blank one, and the one that is no UTF-8
  const auto [json, bad_json] = text(
      "{\"text\": \"the cat\"}\n{\"text\": \"\"}\n{\"text\": \"  sat \\\"on\\\" \"}\n{\"text\": \"\xFF\"}\n"
      "{\"text\": \"{\\\"text\\\": 1}\"}",
      LineFormat::kJson);
  EXPECT_EQ(bad_json, 2);
  std::istringstream left(plain), right(json);
  std::string a, b;
  for (int line = 0; std::getline(left, a) && std::getline(right, b); ++line) {
    if (line != 3) {
      EXPECT_EQ(a, b) << line;
    }
  }
  EXPECT_THAT(plain, HasSubstr("in:4: \\\"text\\\": expected UTF-8"));
}

// Rows in the order of the lines, one each, whatever is wrong with a line.
TEST(EmbedLinesTest, ARowALine) {
  FakeSetup setup(PredictTask::kFeatureExtraction);
  setup.options.embedding.pooling = Pooling::kMean;
  const Pipeline pipeline = setup.Make();
  const std::string lines =
      "{\"text\": \"the cat\"}\nnot json\n{\"text\": \"a\", \"pooling\": \"none\"}\n{\"text\": \"a\", \"pooling\": "
      "\"cls\"}\n";
  LineReader reader(setup.folder.Write("in.jsonl", lines));
  std::vector<std::vector<float>> rows;
  const StreamStatistics statistics =
      EmbedLines(pipeline, reader, [&](std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); });
  EXPECT_EQ(statistics.lines, 4);
  EXPECT_EQ(statistics.bad, 2);
  EXPECT_THAT(statistics.first_error, HasSubstr("in.jsonl:2"));
  ASSERT_EQ(rows.size(), 4u);
  const std::vector<TextInput> texts{{"the cat"}, {"a"}};
  EXPECT_EQ(rows[0], pipeline.Embed({&texts[0], 1})[0].value.values);
  EXPECT_EQ(rows[3], pipeline.Embed({&texts[1], 1}, EmbedOptions{Pooling::kCls, false})[0].value.values);
  for (const size_t bad : {size_t{1}, size_t{2}}) {
    EXPECT_EQ(rows[bad].size(), rows[0].size());
    EXPECT_TRUE(std::all_of(rows[bad].begin(), rows[bad].end(), [](float x) { return std::isnan(x); }));
  }
}

// What is done is handed on after some forward calls, not after a whole window: a signal costs no more than that.
TEST(PredictLinesTest, APieceIsAFewForwardCalls) {
  FakeSetup setup(PredictTask::kTextClassification);
  setup.options.batch_tokens = 16;
  const Pipeline pipeline = setup.Make();
  std::string input;
  for (int i = 0; i < 500; ++i) input += "{\"text\": \"the cat\"}\n";
  LineReader reader(setup.folder.Write("in.jsonl", input));
  std::vector<size_t> calls;
  PredictLines(pipeline, reader, {[](std::string_view) {}, [&] { calls.push_back(setup.model->calls.size()); }});
  ASSERT_FALSE(calls.empty());
  size_t before = 0;
  for (const size_t now : calls) {
    EXPECT_LE(now - before, static_cast<size_t>(kPieceBatches) + 1);
    before = now;
  }
}

TEST(PredictLinesTest, AnswersDoNotDependOnThreads) {
  FakeSetup setup(PredictTask::kFillMask);
  const Pipeline pipeline = setup.Make();
  const std::string input = MixedLines(300);
  const int threads = Threads();
  SetThreads(1);
  const std::vector<std::string> one = Stream(pipeline, setup, input).lines;
  SetThreads(4);
  EXPECT_EQ(Stream(pipeline, setup, input).lines, one);
  SetThreads(threads);
}

// Someone who asks over a pipe and waits for the answer before asking again must get it.
TEST(PredictLinesTest, ALineOnAPipeIsAnsweredBeforeTheNextOneComes) {
  FakeSetup setup(PredictTask::kTextClassification);
  const Pipeline pipeline = setup.Make();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto ask = [&](const std::string& line) {
    ASSERT_EQ(write(ends[1], line.data(), line.size()), static_cast<ssize_t>(line.size()));
  };
  ask("{\"text\": \"the\"}\n");
  int answers = 0;
  std::thread answering([&] {
    LineReader reader("/proc/self/fd/" + std::to_string(ends[0]));
    const LineSink sink{[](std::string_view) {},
                        [&] {
                          // The next question is asked only now; after the third the pipe is closed.
                          if (++answers < 3) ask("{\"text\": \"cat\"}\n");
                          if (answers == 3) close(ends[1]);
                        }};
    PredictLines(pipeline, reader, sink);
  });
  answering.join();
  close(ends[0]);
  EXPECT_EQ(answers, 3);
}

// A window may hold many lines with large answers; they are worked off piece by piece.
TEST(PredictLinesTest, LargeAnswersAreWrittenInPieces) {
  FakeSetup setup(PredictTask::kFeatureExtraction);
  setup.config.hidden_size = 200000;
  setup.config.num_attention_heads = 1;
  const Pipeline pipeline = setup.Make();
  std::string input;
  for (int i = 0; i < 12; ++i) input += "{\"text\": \"the cat sat\"}\n";
  LineReader reader(setup.folder.Write("in.jsonl", input));
  int flushes = 0;
  const LineSink sink{[](std::string_view) {}, [&] { ++flushes; }};
  EXPECT_EQ(PredictLines(pipeline, reader, sink).lines, 12);
  EXPECT_GE(flushes, 3);  // 12 lines of 5 x 200000 numbers, at most 2^22 a piece
}

// Long contexts take their time: whoever waits has the first answers while the later questions are worked on.
TEST(PredictLinesTest, QuestionsAreAnsweredAsTheyAreFinished) {
  FakeSetup setup(PredictTask::kQuestionAnswering);
  setup.options.batch_tokens = 64;
  const Pipeline pipeline = setup.Make();
  std::string input;
  for (int i = 0; i < 40; ++i) {
    if (i == 7) input += "{\"id\": 7}\n";
    std::string context = "sat";
    for (int word = 0; word < i * 11 % 60; ++word) context += " cat";
    if (i != 7) input += fmt::format("{{\"id\": {}, \"question\": \"a\", \"context\": \"{}\"}}\n", i, context);
  }
  LineReader reader(setup.folder.Write("in.jsonl", input));
  std::string out;
  std::vector<size_t> calls_at_flush, lines_at_flush;
  const LineSink sink{[&](std::string_view piece) { out += piece; },
                      [&] {
                        calls_at_flush.push_back(setup.model->calls.size());
                        lines_at_flush.push_back(static_cast<size_t>(std::count(out.begin(), out.end(), '\n')));
                      }};
  EXPECT_EQ(PredictLines(pipeline, reader, sink).lines, 40);
  ASSERT_GE(lines_at_flush.size(), 5u);
  EXPECT_GT(lines_at_flush.front(), 0u);
  EXPECT_LT(calls_at_flush.front(), setup.model->calls.size() / 2);
  int64_t tokens = 0;
  for (const int64_t call : setup.model->calls) tokens += call;
  EXPECT_LE(static_cast<int64_t>(setup.model->calls.size()), tokens / 44 + 1);  // batches stay full
  std::istringstream lines(out), questions(input);
  std::string line, question;
  for (int i = 0; std::getline(lines, line) && std::getline(questions, question); ++i) {
    EXPECT_EQ(ParseJson(line, "out")["id"], i);
    if (i != 7) {
      EXPECT_EQ(ParseJson(line, "out"), Answer(pipeline, question));
    }
  }
}

}  // namespace
}  // namespace lshformer
