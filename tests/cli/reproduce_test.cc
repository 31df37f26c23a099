// The command `reproduce`, on a recipe of seconds.
#include <algorithm>
#include <filesystem>

#include "base/folder_lock.h"
#include "cli/training_run.h"

namespace lshformer::cli {
namespace {

using ::testing::HasSubstr;

class ReproduceTest : public TrainingRunTest {
 protected:
  void SetUp() override {
    TrainingRunTest::SetUp();
    for (const auto& [name, seed] : {std::pair("train.tsv", "1"), {"dev.tsv", "2"}})
      Succeeds({LSHFORMER_BINARY, "synth", "--task", "classification", "--examples", "40", "--seed", seed, "--output",
                folder_ / name});
    folder_.Write("small.json", R"({
      "title": "A small table", "source": "nobody's", "notes": ["A note."], "inputs": {"data": "a folder"},
      "steps": [{"name": "words", "command": "tokenizer train", "flags": {"input": "{data}/train.tsv", "vocab_size": 120}}],
      "columns": [{"name": "sentiment", "command": "train", "metric": "eval_loss", "flags": {
         "model_type": "bert", "tokenizer_name": "{output}/words", "train_file": "{data}/train.tsv",
         "config_overrides": "hidden_size=8,num_hidden_layers=1,num_attention_heads=2,intermediate_size=8",
         "validation_file": "{data}/dev.tsv", "do_eval": true, "max_seq_length": 32, "max_steps": 2, "seeds": "1,2"}},
        {"name": "pairs", "of": "sentiment", "metric": "eval_pairs_fraction"}],
      "rows": [{"name": "exact"}, {"name": "hashed", "flags": {"attention": {"type": "reformer", "chunk": 8, "rounds": 1}}},
               {"name": "paper", "published": {"sentiment": 0.125}}]})");
  }
  std::vector<std::string> Reproduce(const std::vector<std::string>& more) const {
    std::vector<std::string> words{LSHFORMER_BINARY,         "reproduce",    folder_ / "small.json", "--input",
                                   "data=" + folder_.path(), "--output_dir", folder_ / "out"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(ReproduceTest, MakesTheTableAndKeepsWhatIsFinished) {
  const std::string first = Succeeds(Reproduce({"--quiet"})).out;
  for (const char* text : {"A small table", "nobody's", "A note.", "exact", "hashed", "0.125", " ± "})
    EXPECT_THAT(first, HasSubstr(text));
  EXPECT_THAT(folder_.Read("out/report.html"), HasSubstr("0.125"));
  const Json hashed = Results("out/hashed/sentiment/all_results.json");
  EXPECT_LT(hashed.at("eval_pairs_fraction").at("mean"), 1);
  EXPECT_GT(hashed.at("eval_hashed_fraction").at("mean"), 0);
  EXPECT_FALSE(Results("out/exact/sentiment/all_results.json").contains("eval_pairs_fraction"));
  const auto made = std::filesystem::last_write_time(folder_ / "out/exact/sentiment/seed-1/model.safetensors");
  EXPECT_EQ(Succeeds(Reproduce({"--quiet"})).out, first);
  EXPECT_EQ(std::filesystem::last_write_time(folder_ / "out/exact/sentiment/seed-1/model.safetensors"), made);
}

TEST_F(ReproduceTest, APageOfSomebodyElseStays) {
  folder_.Write("out/report.html", "mine");
  EXPECT_THAT(Fails(Reproduce({"--quiet"}), 2), HasSubstr("report.html is no page of this program"));
  EXPECT_EQ(folder_.Read("out/report.html"), "mine");
}

// What stands there was made with other flags: a cell with them is not that one. Seeds may join.
TEST_F(ReproduceTest, OtherFlagsAreAnotherRun) {
  const auto change = [&](const std::string& from, const std::string& to) {
    std::string text = folder_.Read("small.json");
    text.replace(text.find(from), from.size(), to);
    folder_.Write("small.json", text);
  };
  Succeeds(Reproduce({"--quiet", "--row", "exact"}));
  const std::string state = folder_.Read("out/exact/sentiment/seed-1/trainer_state.json");
  change("\"max_steps\": 2", "\"max_steps\": 1");
  const testing::CommandResult other = testing::RunCommand(Reproduce({"--quiet", "--row", "exact"}));
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("out/exact/sentiment: was made with other flags"));
  EXPECT_THAT(other.out, HasSubstr("A small table")) << "what there is";
  EXPECT_EQ(folder_.Read("out/exact/sentiment/seed-1/trainer_state.json"), state);
  change("\"max_steps\": 1", "\"max_steps\": 2");
  change("\"seeds\": \"1,2\"", "\"seeds\": \"1,2,3\"");
  Succeeds(Reproduce({"--quiet", "--row", "exact"}));
  EXPECT_EQ(Results("out/exact/sentiment/all_results.json").at("seeds"), Json({1, 2, 3}));
}

// An evaluation is made again where its model was.
TEST_F(ReproduceTest, AnEvaluationIsOfTheModelThatIsThere) {
  folder_.Write("small.json", R"({
    "title": "T", "inputs": {"data": "a folder"}, "flags": {"validation_file": "{data}/dev.tsv", "max_seq_length": 32},
    "steps": [{"name": "words", "command": "tokenizer train", "flags": {"input": ["{data}/train.tsv"], "vocab_size": 120}}],
    "columns": [
      {"name": "train", "command": "train", "metric": "train_loss", "flags": {
       "model_type": "bert", "tokenizer_name": "{output}/words", "train_file": "{data}/train.tsv",
       "config_overrides": "hidden_size=8,num_hidden_layers=1,num_attention_heads=2,intermediate_size=8",
       "do_eval": true, "max_steps": 2}},
      {"name": "again", "command": "evaluate", "metric": "eval_loss",
       "flags": {"model_name_or_path": "{output}/{row}/train", "task": "text-classification"}}],
    "rows": [{"name": "one"}]})");
  Succeeds(Reproduce({"--quiet"}));
  EXPECT_EQ(Results("out/one/again/eval_results.json").at("eval_loss"),
            Results("out/one/train/eval_results.json").at("eval_loss"));
  const Json first = Results("out/one/again/eval_results.json").at("eval_loss");
  std::string text = folder_.Read("small.json");
  text.replace(text.find("\"max_steps\": 2"), 14, "\"max_steps\": 9");
  folder_.Write("small.json", text);
  std::filesystem::remove_all(folder_ / "out/one/train");
  Succeeds(Reproduce({"--quiet"}));
  EXPECT_NE(Results("out/one/again/eval_results.json").at("eval_loss"), first);
  EXPECT_EQ(Results("out/one/again/eval_results.json").at("eval_loss"),
            Results("out/one/train/eval_results.json").at("eval_loss"));
}

// One line: the command's words, with the cell that they are of.
TEST_F(ReproduceTest, AFailureIsOneLineThatNamesTheRunAndItsLog) {
  folder_.Write("dev.tsv", "sentence\tlabel\n");
  const testing::CommandResult result = testing::RunCommand(Reproduce({"--quiet"}));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, ::testing::StartsWith("lshformer: exact/sentiment: "));
  EXPECT_THAT(result.err, HasSubstr("dev.tsv: holds no examples"));
  EXPECT_THAT(result.err, HasSubstr("lshformer train ended with status 1"));
  EXPECT_THAT(result.err, HasSubstr("out/exact/sentiment.log"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

// All at once, before anything runs: inputs, the folder, files that are not there.
TEST_F(ReproduceTest, AllThatIsMissingIsNamed) {
  const std::string recipe = folder_ / "small.json";
  EXPECT_THAT(Fails({LSHFORMER_BINARY, "reproduce", recipe, "--dry_run"}, 2),
              HasSubstr("--input data=VALUE: required: a folder; and --output_dir"));
  const std::string files = Fails({LSHFORMER_BINARY, "reproduce", recipe, "--dry_run", "--input", "data=/none"}, 2);
  for (const char* name : {"--output_dir: required", "/none/train.tsv (--input)", "/none/dev.tsv (--validation_file)"})
    EXPECT_THAT(files, HasSubstr(name));
}

// Ours are looked at beside theirs, whichever of ours are chosen.
TEST_F(ReproduceTest, PublishedRowsStayUnderRow) {
  const std::string table = Succeeds(Reproduce({"--quiet", "--row", "exact"})).out;
  EXPECT_THAT(table, HasSubstr("paper"));
  EXPECT_THAT(table, HasSubstr("0.125"));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("hashed")));
}

TEST_F(ReproduceTest, TheListHasHoursAndInputs) {
  const std::string list = Succeeds({LSHFORMER_BINARY, "reproduce", "--list"}).out;
  for (const char* text : {"hours", "albert-pretraining", "1 to 3", "text, validation"})
    EXPECT_THAT(list, HasSubstr(text));
  EXPECT_THAT(Succeeds({LSHFORMER_BINARY, "reproduce", "albert-pretraining", "--list"}).out,
              HasSubstr("text file to evaluate on"));
}

// A cell at which another process is at work keeps its log, which that process writes.
TEST_F(ReproduceTest, ACellInUseIsLeftAlone) {
  folder_.Write("out/exact/sentiment.log", "half a table");
  Succeeds({LSHFORMER_BINARY, "tokenizer", "train", "--input", folder_ / "train.tsv", "--vocab_size", "120",
            "--output_dir", folder_ / "out/words"});
  const FolderLock lock(folder_ / "out/exact/sentiment", "test");
  ASSERT_TRUE(lock.held());
  const testing::CommandResult result = testing::RunCommand(Reproduce({"--quiet"}));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("--output_dir: " + (folder_ / "out/exact/sentiment is in use by process ")));
  EXPECT_EQ(folder_.Read("out/exact/sentiment.log"), "half a table");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/exact/sentiment.flags.json"));
}

// A command does not outlive the process that waits for it, and saves its state first.
TEST_F(ReproduceTest, StoppedOrKilledItTakesItsCommandAlong) {
  std::string text = folder_.Read("small.json");
  const std::string steps = "\"max_steps\": 2, \"seeds\": \"1,2\"";
  ASSERT_NE(text.find(steps), std::string::npos);
  folder_.Write("small.json", text.replace(text.find(steps), steps.size(), "\"max_steps\": 3000, \"save_steps\": 20"));
  const std::string cell = folder_ / "out/exact/sentiment";
  for (const int signal : {SIGINT, SIGKILL}) {
    SCOPED_TRACE(signal);
    std::filesystem::remove_all(folder_ / "out");
    const testing::CommandResult stopped =
        Interrupt(Reproduce({"--quiet", "--threads", "1"}), signal, std::chrono::minutes(2),
                  [&] { return !NewestCheckpoint(cell).empty(); });
    EXPECT_EQ(stopped.status, 128 + signal);
    const auto begin = std::chrono::steady_clock::now();
    while (std::filesystem::exists(cell + "/" + kLockFile) &&
           std::chrono::steady_clock::now() - begin < std::chrono::minutes(2))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_FALSE(std::filesystem::exists(cell + "/" + kLockFile));
    EXPECT_FALSE(std::filesystem::exists(cell + "/trainer_state.json")) << "it ran to its end";
    EXPECT_FALSE(NewestCheckpoint(cell).empty());
  }
}

// Not after the hours that all the others take.
TEST_F(ReproduceTest, AWrongFlagIsFoundBeforeAnythingRuns) {
  const std::string text = folder_.Read("small.json"), place = "\"rounds\": 1}";
  for (const auto& [flags, what] :
       {std::pair("\"max_step\": 1", "unknown flag --max_step (did you mean \"--max_steps\"?)"),
        {"\"max_steps\": \"many\"", "--max_steps: expected an integer, got \"many\""}}) {
    std::string changed = text;
    folder_.Write("small.json", changed.replace(text.find(place), place.size(), place + ", " + flags));
    EXPECT_THAT(Fails(Reproduce({}), 2), HasSubstr(std::string("lshformer: hashed/sentiment: ") + what));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  }
}

TEST_F(ReproduceTest, SaysWhatItWouldRun) {
  const std::string lines = Succeeds(Reproduce({"--dry_run", "--row", "hashed"})).out;
  EXPECT_THAT(lines, HasSubstr("lshformer tokenizer train --input "));
  EXPECT_THAT(lines, HasSubstr("--attention '{\"type\":\"reformer\",\"chunk\":8,\"rounds\":1}'"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  EXPECT_THAT(Succeeds({LSHFORMER_BINARY, "reproduce", "--list"}).out, HasSubstr("albert-pretraining"));
  EXPECT_THAT(Fails({LSHFORMER_BINARY, "reproduce", "albert-pretrainin", "--output_dir", folder_ / "o"}, 2),
              HasSubstr("did you mean \"albert-pretraining\"?"));
  EXPECT_THAT(Fails({LSHFORMER_BINARY, "reproduce", "albert-pretraining", "--output_dir", folder_ / "o"}, 2),
              HasSubstr("--input text=VALUE: required: folder of text files"));
  EXPECT_THAT(Fails(Reproduce({"--input", "nothing"}), 2), HasSubstr("--input: expected NAME=VALUE, got \"nothing\""));
}

}  // namespace
}  // namespace lshformer::cli
