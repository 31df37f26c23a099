// `predict` stopped, killed and resumed; matrices; what stands for lines of JSON.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>

#include "base/folder_lock.h"
#include "base/json.h"
#include "cli/call.h"
#include "cli/random_models.h"
#include "io/matrix_file.h"
#include "io/safetensors.h"
#include "util/interrupt.h"

namespace lshformer::cli {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::CommandResult;
using ::lshformer::testing::InterruptCommand;
using ::lshformer::testing::RunCommand;
using ::lshformer::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

struct ResumedTask {
  const char* task;
  const char* model;  // and the folder that it is in
  int signal;
  bool gzip, twice = false;
};

void PrintTo(const ResumedTask& resumed, std::ostream* out) { *out << resumed.task; }

// Models of every head with random weights, made once.
class PredictResumeTest : public ::testing::TestWithParam<ResumedTask> {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    SaveRandomModels(*folder_, {{"lm", Task::kMaskedLm},
                                {"classes", Task::kSequenceClassification},
                                {"questions", Task::kQuestionAnswering},
                                {"choices", Task::kMultipleChoice}});
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static Words Predict(const std::string& task, const std::string& model, const Words& more) {
    Words words{LSHFORMER_BINARY, "predict", "--task", task, "--model_name_or_path", *folder_ / model};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // Lines for any task, every 500th of them bad.
  static std::string Lines(int count) {
    const std::string words = kModelWords;
    std::string lines;
    for (int i = 0; i < count; ++i) {
      std::string text = "[MASK]";
      for (int word = 0; word <= i * 17 % 13; ++word) text += " " + words.substr(word % 7 * 3, 12);
      lines += i % 500 == 7
                   ? "{\"id\": \"bad\"}\n"
                   : "{\"id\": " + std::to_string(i) + ", \"text\": \"" + text + "\", \"question\": \"the of\", " +
                         "\"context\": \"" + text + "\", \"options\": [\"to\", \"in a\"]}\n";
    }
    return lines;
  }

  static std::string Input(const std::string& name, const std::string& lines, bool gzip) {
    if (!gzip) return folder_->Write(name, lines);
    const std::string path = *folder_ / (name + ".gz");
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, lines.data(), static_cast<unsigned>(lines.size()));
    gzclose(file);
    return path;
  }

  static TempFolder* folder_;
};
TempFolder* PredictResumeTest::folder_ = nullptr;

// Stopped or killed, of two tasks once more, and resumed: the bytes and the status of a run that was never stopped,
// whatever the threads and batches of each.
TEST_P(PredictResumeTest, EndsWithTheBytesOfAWholeRun) {
  const auto [task, model, signal, gzip, twice] = GetParam();
  constexpr int kLines = 6000;
  const std::string input = Input("lines.jsonl", Lines(kLines), gzip);
  const auto run = [&](const std::string& out, const Words& more) {
    Words words = Predict(task, model, {"--input", input, "--output", *folder_ / out});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const CommandResult whole = RunCommand(run("whole.jsonl", {}));
  EXPECT_EQ(whole.status, 1) << "some lines are bad";
  const std::string out = *folder_ / "out.jsonl", unfinished = *folder_ / ".lshformer-out.jsonl.predict";
  Words more{"--batch_tokens", "32", "--threads", "1"};
  for (size_t least : {size_t{20000}, size_t{60000}}) {
    const CommandResult stopped = InterruptCommand(run("out.jsonl", more), signal, [&] {
      std::error_code error;
      const auto size = fs::file_size(unfinished + "/lines", error);
      return !error && size > least;
    });
    ASSERT_EQ(stopped.status, 128 + signal) << stopped.err;
    if (signal == SIGKILL) {
      EXPECT_FALSE(fs::exists(out));
    } else {
      EXPECT_THAT(stopped.err, AllOf(HasSubstr(" lines are done, in "), HasSubstr("--resume goes on behind them")));
      EXPECT_EQ(std::count(stopped.err.begin(), stopped.err.end(), '\n'), 1) << stopped.err;
      const std::string done = folder_->Read("out.jsonl");
      EXPECT_TRUE(done.ends_with('\n'));
      EXPECT_TRUE(folder_->Read("whole.jsonl").starts_with(done));
    }
    if (!twice) break;
    const CommandResult other = RunCommand(run("out.jsonl", {"--resume", "--max_seq_length", "32"}));
    EXPECT_EQ(other.status, 2);
    EXPECT_THAT(other.err, HasSubstr("was begun with --max_seq_length 0, got 32"));
    more = {"--batch_tokens", "64", "--threads", "2", "--resume"};
  }
  const CommandResult resumed = RunCommand(run("out.jsonl", {"--resume"}));
  EXPECT_EQ(resumed.status, whole.status) << resumed.err;
  EXPECT_EQ(resumed.err, whole.err);
  EXPECT_TRUE(folder_->Read("out.jsonl") == folder_->Read("whole.jsonl"));
  EXPECT_FALSE(fs::exists(unfinished));
  // Of one that is whole nothing is left to do.
  EXPECT_EQ(RunCommand(run("out.jsonl", {"--resume"})).status, whole.status);
  fs::remove(out);
}

INSTANTIATE_TEST_SUITE_P(Tasks, PredictResumeTest,
                         ::testing::Values(ResumedTask{"text-classification", "classes", SIGINT, false, true},
                                           ResumedTask{"fill-mask", "lm", SIGKILL, true, true},
                                           ResumedTask{"feature-extraction", "lm", SIGTERM, false},
                                           ResumedTask{"question-answering", "questions", SIGKILL, false},
                                           ResumedTask{"multiple-choice", "choices", SIGINT, true}),
                         [](const auto& info) {
                           std::string name = info.param.task;
                           std::erase(name, '-');
                           return name;
                         });

class PredictOutputTest : public PredictResumeTest {
 protected:
  static CommandResult Classify(const Words& more, const std::string& input = "/dev/null") {
    return RunCommand(Predict("text-classification", "classes", more), input);
  }
  static CommandResult Embed(const Words& more) { return RunCommand(Predict("feature-extraction", "lm", more)); }
};

// Of an output without a record the last line is answered again: what this run would not answer is not gone on with.
TEST_F(PredictOutputTest, LinesOfAnotherModelAreNotGoneOnWith) {
  const std::string input = folder_->Write("few.jsonl", Lines(30)), out = *folder_ / "few.out.jsonl";
  EXPECT_EQ(Classify({"--input", input, "--output", out}).status, 1);
  const std::string whole = folder_->Read("few.out.jsonl");
  size_t half = 0;
  for (int line = 0; line < 15; ++line) half = whole.find('\n', half) + 1;
  folder_->Write("few.out.jsonl", whole.substr(0, half) + "{\"id\": 16, \"resu");
  EXPECT_EQ(Classify({"--input", input, "--output", out, "--resume"}).status, 1);
  EXPECT_EQ(folder_->Read("few.out.jsonl"), whole);
  const std::string other = "{\"id\": 0, \"results\": [{\"label\": \"LABEL_0\", \"score\": 0.5}]}\n";
  folder_->Write("few.out.jsonl", other);
  const CommandResult refused = Classify({"--input", input, "--output", out, "--resume"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("few.out.jsonl is not what this run answers"));
  EXPECT_EQ(folder_->Read("few.out.jsonl"), other);
  folder_->Write("few.out.jsonl", whole + whole);
  EXPECT_THAT(Classify({"--input", input, "--output", out, "--resume"}).err, HasSubstr("few.out.jsonl has 60 lines"));
  // Neither does it go on with other weights, where there is a record.
  EXPECT_FALSE(fs::exists(*folder_ / ".lshformer-few.out.jsonl.predict"));
}

TEST_F(PredictOutputTest, ResumingNeedsWhatCanBeReadAgain) {
  const std::string input = folder_->Write("some.jsonl", Lines(3)), out = *folder_ / "some.out.jsonl";
  for (const auto& [words, what] : std::vector<std::pair<Words, std::string>>{
           {{"--input", "-", "--output", out, "--resume"}, "--input that can be read again, got stdin"},
           {{"--input", input, "--resume"}, "--output that is a regular file, got standard output"},
           {{"--input", input, "--output", "/dev/null", "--resume"}, "--output that is a regular file, got /dev/null"},
           {{"--text", "the", "--output", out, "--resume"}, "--resume: is for --input or --text_file"}}) {
    const CommandResult result = Classify(words);
    EXPECT_EQ(result.status, 2) << what;
    EXPECT_THAT(result.err, HasSubstr(what));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(PredictOutputTest, TheInputIsNoOutput) {
  const std::string text = Lines(3), input = folder_->Write("same.jsonl", text);
  fs::create_symlink(input, *folder_ / "link.jsonl");
  fs::create_hard_link(input, *folder_ / "hard.jsonl");
  for (const std::string& output :
       {input, *folder_ / "link.jsonl", *folder_ / "hard.jsonl", *folder_ / "classes/../same.jsonl"}) {
    const CommandResult result = Classify({"--input", input, "--output", output});
    EXPECT_EQ(result.status, 2) << output;
    EXPECT_THAT(result.err, HasSubstr("is the file of --input too"));
    EXPECT_EQ(Classify({"--input", "-", "--output", output}, input).status, 2);
  }
  EXPECT_EQ(folder_->Read("same.jsonl"), text);
  const std::string config = folder_->Read("classes/config.json");
  for (const char* name : {"config.json", "model.safetensors", "vocab.txt"}) {
    const CommandResult result = Classify({"--input", input, "--output", *folder_ / (std::string("classes/") + name)});
    EXPECT_EQ(result.status, 2) << name;
    EXPECT_THAT(result.err, HasSubstr("is a file of the model or tokenizer in"));
  }
  EXPECT_EQ(folder_->Read("classes/config.json"), config);
}

TEST_F(PredictOutputTest, ASecondRunIntoAnOutputIsRefused) {
  const std::string input = folder_->Write("two.jsonl", Lines(3)), out = *folder_ / "two.out.jsonl";
  const FolderLock lock(*folder_ / ".lshformer-two.out.jsonl.predict", "test");
  const CommandResult result = Classify({"--input", input, "--output", out});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("--output: "), HasSubstr("is in use by process " + std::to_string(getpid()))));
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(PredictOutputTest, AMatrixHasTheNumbersOfTheLines) {
  const std::string input = folder_->Write("matrix.jsonl", Lines(1200)), npy = *folder_ / "m.npy",
                    safetensors = *folder_ / "m.safetensors";
  const Words common{"--input", input, "--pooling", "mean", "--output"};
  const auto with = [&](const std::string& output) {
    Words words = common;
    words.push_back(output);
    return Embed(words);
  };
  const CommandResult lines = with("-"), first = with(npy), second = with(safetensors);
  EXPECT_EQ(first.status, 1) << "bad lines";
  EXPECT_EQ(first.err, lines.err);
  EXPECT_EQ(second.status, 1);
  const SafetensorsFile file(safetensors);
  const std::vector<int64_t> shape{1200, 32};
  std::vector<float> values(1200 * 32);
  CopyTo(file.Get(kMatrixTensor, DType::kF32, shape), std::span(values), "m");
  const std::string raw = folder_->Read("m.npy"), header = MatrixHeader(MatrixFormat::kNpy, 1200, 32);
  ASSERT_EQ(raw.size(), header.size() + values.size() * sizeof(float));
  EXPECT_TRUE(raw.starts_with(header));
  EXPECT_EQ(std::memcmp(raw.data() + header.size(), values.data(), values.size() * sizeof(float)), 0);
  std::istringstream stream(lines.out);
  std::string line;
  for (size_t row = 0; std::getline(stream, line); ++row) {
    const Json answer = ParseJson(line, "line");
    for (size_t column = 0; column < 32; ++column) {
      const float value = values[row * 32 + column];
      if (answer.contains("error"))
        EXPECT_TRUE(std::isnan(value));
      else
        EXPECT_EQ(value, answer["embedding"][column].get<float>()) << row;
    }
  }
  EXPECT_FALSE(fs::exists(*folder_ / ".lshformer-m.npy.predict"));
}

TEST_F(PredictOutputTest, AMatrixIsForVectors) {
  const std::string input = folder_->Write("few.jsonl", Lines(3)), npy = *folder_ / "x.npy";
  EXPECT_THAT(Embed({"--input", input, "--output", npy}).err, HasSubstr("--pooling none does not give"));
  EXPECT_THAT(Embed({"--input", input, "--output", npy, "--pooling", "cls", "--resume"}).err, HasSubstr("--resume: "));
  EXPECT_THAT(Classify({"--input", input, "--output", npy}).err, HasSubstr("is for --task feature-extraction"));
  EXPECT_FALSE(fs::exists(npy));
  EXPECT_EQ(Embed({"--text", "the of", "--pooling", "cls", "--output", npy}).status, 0);
  EXPECT_TRUE(folder_->Read("x.npy").starts_with(MatrixHeader(MatrixFormat::kNpy, 1, 32)));
  EXPECT_EQ(Embed({"--text", "the of", "--pooling", "cls", "--output", *folder_ / "Y.NPY"}).status, 0);
  EXPECT_EQ(folder_->Read("Y.NPY"), folder_->Read("x.npy"));
  const CommandResult other = Embed({"--text", "the", "--pooling", "cls", "--output", *folder_ / "x.npz"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("x.npz: another kind of file"), HasSubstr(".jsonl"), HasSubstr(".npy")));
  EXPECT_FALSE(fs::exists(*folder_ / "x.npz"));
}

// Stopped, a matrix leaves nothing, and what stood in its place stays.
TEST_F(PredictOutputTest, AMatrixIsThereAsAWhole) {
  const std::string input = folder_->Write("long.jsonl", Lines(20000)), npy = folder_->Write("old.npy", "old"),
                    rows = *folder_ / ".lshformer-old.npy.predict/rows";
  const Words words = Predict("feature-extraction", "lm",
                              {"--input", input, "--pooling", "cls", "--output", npy, "--batch_tokens", "32"});
  for (const int signal : {SIGTERM, SIGKILL}) {
    const CommandResult stopped = InterruptCommand(words, signal, [&] {
      std::error_code error;
      const auto size = fs::file_size(rows, error);
      return !error && size > 0;
    });
    EXPECT_EQ(stopped.status, 128 + signal);
    EXPECT_EQ(folder_->Read("old.npy"), "old");
    EXPECT_EQ(fs::exists(rows), signal == SIGKILL);
  }
  EXPECT_EQ(Embed({"--text", "the", "--pooling", "cls", "--output", npy}).status, 0);
  EXPECT_FALSE(fs::exists(*folder_ / ".lshformer-old.npy.predict"));
}

TEST_F(PredictOutputTest, PlainTextIsToldOnce) {
  const std::string text = folder_->Write("notes.txt", "the of and\n\nto in a\n"),
                    list = folder_->Write("list.json", "[{\"text\": \"the\"}]");
  const CommandResult result = Classify({"--input", text});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, AllOf(HasSubstr("notes.txt: not lines of JSON"), HasSubstr("--text_file")));
  EXPECT_THAT(Classify({"--input", list}).err, HasSubstr("list.json: a JSON list; --input takes one object a line"));
  for (const auto& [name, contents, form] : std::vector<std::array<std::string, 3>>{
           {"long.json", "[\n  {\n    \"text\": \"the\"\n  },\n  {\"text\": \"of\"}\n]\n", "a JSON list;"},
           {"short.json", "[{\"text\": \"the\"},\n{\"text\": \"of\"},\n{\"text\": \"a\"}]\n", "a JSON list;"},
           {"one.json", "{\n\"text\": \"the\"\n}\n", "an object over several lines;"},
           {"rows.csv", "text,label\nthe,1\n", "a table, not lines of JSON;"}}) {
    const CommandResult other = Classify({"--input", folder_->Write(name, contents)});
    EXPECT_EQ(other.status, 1);
    EXPECT_EQ(other.out, "");
    EXPECT_THAT(other.err, AllOf(HasSubstr(name + ": " + form), HasSubstr("{\"text\": …}; --text_file takes")));
  }
  // Bad lines among good ones, even as the first, are answered one by one.
  for (const char* bad : {"{", "["}) {
    const CommandResult lines =
        Classify({"--input", folder_->Write("bad.jsonl", bad + std::string("\n{\"text\": \"of\"}\n"))});
    EXPECT_EQ(std::count(lines.out.begin(), lines.out.end(), '\n'), 2) << bad << lines.err;
  }
  EXPECT_THAT(Wrong({"predict", "--task", "question-answering", "--model_name_or_path", *folder_ / "questions",
                     "--input", text},
                    1),
              HasSubstr("{\"question\": …, \"context\": …}"));
  const CommandResult lines = Classify({"--text_file", text});
  EXPECT_EQ(lines.status, 1) << "a blank line is a bad one";
  EXPECT_EQ(std::count(lines.out.begin(), lines.out.end(), '\n'), 3);
}

TEST_F(PredictOutputTest, AFilesNameIsNoText) {
  const std::string text = folder_->Write("context.txt", "\xEF\xBB\xBFthe of and to in a");
  EXPECT_THAT(Classify({"--text", text}).err, AllOf(HasSubstr("is a file"), HasSubstr("--text_file")));
  const auto ask = [&](const Words& more) {
    Words words = Predict("question-answering", "questions", {"--question", "the"});
    words.insert(words.end(), more.begin(), more.end());
    return RunCommand(words);
  };
  const CommandResult named = ask({"--context", text});
  EXPECT_EQ(named.status, 2);
  EXPECT_THAT(named.err, HasSubstr("--context_file"));
  const CommandResult read = ask({"--context_file", text});
  EXPECT_EQ(read.status, 0) << read.err;
  EXPECT_EQ(read.out, ask({"--context", "the of and to in a"}).out);
  EXPECT_THAT(ask({"--context_file", text, "--context", "a"}).err, HasSubstr("--context_file: stands instead"));
  EXPECT_THAT(ask({"--context_file", folder_->Write("empty.txt", "")}).err,
              AllOf(HasSubstr("--context_file "), HasSubstr("empty.txt: \"context\" has no tokens")));
  EXPECT_THAT(ask({"--context_file", *folder_ / "none.txt"}).err, HasSubstr("none.txt: cannot open"));
}

// What the folder is, not only what it lacks.
TEST_F(PredictOutputTest, AWrongTaskNamesTheModelsOwn) {
  EXPECT_THAT(Wrong({"predict", "--task", "question-answering", "--model_name_or_path", *folder_ / "classes",
                     "--question", "a", "--context", "the"},
                    1),
              HasSubstr("classes is a text-classification model (BertForSequenceClassification)"));
  EXPECT_THAT(Wrong({"predict", "--task", "multiple-choice", "--model_name_or_path", *folder_ / "classes", "--input",
                     folder_->Write("few.jsonl", Lines(3))},
                    1),
              HasSubstr("classes is a text-classification model (BertForSequenceClassification)"));
}

}  // namespace
}  // namespace lshformer::cli
