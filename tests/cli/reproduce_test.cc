// The command `reproduce`, on a recipe of seconds.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/folder_lock.h"
#include "cli/training_run.h"

namespace lshformer::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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
         "model_type": "bert", "tokenizer_name": "{words}", "train_file": "{data}/train.tsv",
         "config_overrides": "hidden_size=8,num_hidden_layers=1,num_attention_heads=2,intermediate_size=8",
         "validation_file": "{data}/dev.tsv", "do_eval": true, "max_seq_length": 32, "max_steps": 2, "seeds": "1,2"}},
        {"name": "pairs", "of": "sentiment", "metric": "eval_pairs_fraction"}],
      "rows": [{"name": "exact", "against": "paper"}, {"name": "hashed", "flags": {"attention": {"type": "reformer", "chunk": 8, "rounds": 1}}},
               {"name": "paper", "published": {"sentiment": 0.125}}]})");
  }
  std::vector<std::string> Reproduce(const std::vector<std::string>& more) const {
    std::vector<std::string> words{LSHFORMER_BINARY,         "reproduce",    folder_ / "small.json", "--input",
                                   "data=" + folder_.path(), "--output_dir", folder_ / "out"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void Change(const std::string& from, const std::string& to) const {
    std::string text = folder_.Read("small.json");
    ASSERT_NE(text.find(from), std::string::npos) << from;
    folder_.Write("small.json", text.replace(text.find(from), from.size(), to));
  }
  // What a cell's command was told, as the results say.
  std::string RunOf(const std::string& row, const std::string& column) const {
    const Json results = Results("out/small/results.json");
    for (const Json& cell : results.at("cells"))
      if (cell.at("row") == row && cell.at("column") == column) return "out/runs/" + cell.at("run").get<std::string>();
    ADD_FAILURE() << "no cell " << row << "/" << column;
    return "";
  }
};

TEST_F(ReproduceTest, MakesTheTableAndKeepsWhatIsFinished) {
  const std::string first = Succeeds(Reproduce({"--quiet"})).out;
  for (const char* text :
       {"A small table", "nobody's", "A note.", "exact", "hashed", "0.125", " ± ", "ratio to the published"})
    EXPECT_THAT(first, HasSubstr(text));
  for (const char* page : {"out/report.html", "out/small/report.html", "out/report.md", "out/small/report.md"})
    EXPECT_THAT(folder_.Read(page), HasSubstr("0.125")) << page;
  const std::string exact = RunOf("exact", "sentiment");
  const Json hashed = Results(RunOf("hashed", "sentiment") + "/all_results.json");
  EXPECT_LT(hashed.at("eval_pairs_fraction").at("mean"), 1);
  EXPECT_GT(hashed.at("eval_hashed_fraction").at("mean"), 0);
  EXPECT_FALSE(Results(exact + "/all_results.json").contains("eval_pairs_fraction"));
  const auto made = std::filesystem::last_write_time(folder_ / (exact + "/seed-1/model.safetensors"));
  const std::string entry = folder_.Read(exact + ".json");
  EXPECT_EQ(Succeeds(Reproduce({"--quiet"})).out, first);
  EXPECT_EQ(std::filesystem::last_write_time(folder_ / (exact + "/seed-1/model.safetensors")), made);
  EXPECT_EQ(folder_.Read(exact + ".json"), entry) << "it was not even started";
}

// One number in a file of results, and the page says another.
TEST_F(ReproduceTest, ThePageSaysWhatTheFilesSay) {
  Succeeds(Reproduce({"--quiet", "--row", "exact"}));
  const std::string file = RunOf("exact", "sentiment") + "/all_results.json";
  Json results = Results(file);
  results["eval_loss"]["mean"] = 0.4321;
  EXPECT_THAT(folder_.Read("out/report.html"), Not(HasSubstr("0.4321")));
  folder_.Write(file, results.dump());
  EXPECT_THAT(Succeeds(Reproduce({"--quiet", "--row", "exact"})).out, HasSubstr("0.4321"));
  EXPECT_THAT(folder_.Read("out/report.html"), HasSubstr("0.4321"));
}

TEST_F(ReproduceTest, APageOfSomebodyElseStays) {
  for (const char* page : {"out/report.html", "out/small/report.html"}) {
    folder_.Write(page, "mine");
    EXPECT_THAT(Fails(Reproduce({"--quiet"}), 2), HasSubstr("report.html is no page of this program"));
    EXPECT_EQ(folder_.Read(page), "mine");
    std::filesystem::remove(folder_ / page);
  }
}

// With other flags it is another run, which joins those that there are. Seeds join the run itself.
TEST_F(ReproduceTest, OtherFlagsAreAnotherRun) {
  Succeeds(Reproduce({"--quiet", "--row", "exact"}));
  const std::string exact = RunOf("exact", "sentiment"), state = folder_.Read(exact + "/seed-1/trainer_state.json");
  Change("\"max_steps\": 2", "\"max_steps\": 1");
  Succeeds(Reproduce({"--quiet", "--row", "exact"}));
  EXPECT_NE(RunOf("exact", "sentiment"), exact);
  Change("\"max_steps\": 1", "\"max_steps\": 2");
  Change("\"seeds\": \"1,2\"", "\"seeds\": \"1,2,3\"");
  Succeeds(Reproduce({"--quiet", "--row", "exact"}));
  EXPECT_EQ(RunOf("exact", "sentiment"), exact);
  EXPECT_EQ(Results(exact + "/all_results.json").at("seeds"), Json({1, 2, 3}));
  EXPECT_EQ(folder_.Read(exact + "/seed-1/trainer_state.json"), state);
}

// An evaluation is made again where its model was; what is half written, where that can be told.
TEST_F(ReproduceTest, WhatIsLostOrOldIsMadeAgain) {
  folder_.Write("small.json", R"({
    "title": "T", "inputs": {"data": "a folder"}, "flags": {"validation_file": "{data}/dev.tsv", "max_seq_length": 32},
    "steps": [{"name": "words", "command": "tokenizer train", "flags": {"input": ["{data}/train.tsv"], "vocab_size": 120}}],
    "columns": [
      {"name": "train", "command": "train", "metric": "train_loss", "flags": {
       "model_type": "bert", "tokenizer_name": "{words}", "train_file": "{data}/train.tsv",
       "config_overrides": "hidden_size=8,num_hidden_layers=1,num_attention_heads=2,intermediate_size=8",
       "do_eval": true, "max_steps": 2}},
      {"name": "again", "command": "evaluate", "metric": "eval_loss",
       "flags": {"model_name_or_path": "{train}", "task": "text-classification"}}],
    "rows": [{"name": "one"}]})");
  Succeeds(Reproduce({"--quiet"}));
  const std::string train = RunOf("one", "train"), again = RunOf("one", "again");
  const Json loss = Results(again + "/eval_results.json").at("eval_loss");
  EXPECT_EQ(loss, Results(train + "/eval_results.json").at("eval_loss"));
  // The evaluation is older than its model says: made again.
  Json entry = Results(train + ".json");
  entry["finished_at"] = Results(again + ".json").at("finished_at").get<int64_t>() + 1;
  folder_.Write(train + ".json", entry.dump());
  folder_.Write(again + "/eval_results.json", R"({"eval_loss": 77})");
  Succeeds(Reproduce({"--quiet"}));
  EXPECT_EQ(Results(again + "/eval_results.json").at("eval_loss"), loss);
  // What it left is gone, or it was never finished: made again.
  std::filesystem::remove_all(folder_ / again);
  Succeeds(Reproduce({"--quiet"}));
  EXPECT_EQ(Results(again + "/eval_results.json").at("eval_loss"), loss);
  entry = Results(again + ".json");
  entry.erase("finished_at");
  folder_.Write(again + ".json", entry.dump());
  folder_.Write(again + "/eval_results.json", "{\"eval_lo");
  Succeeds(Reproduce({"--quiet"}));
  EXPECT_EQ(Results(again + "/eval_results.json").at("eval_loss"), loss);
  folder_.Write(again + ".json", entry.dump().substr(0, 30));
  EXPECT_THAT(Fails(Reproduce({"--quiet"}), 1), HasSubstr("is no whole entry of a run; remove it"));
  entry["lshformer"]["version"] = "0.0.1";
  folder_.Write(again + ".json", entry.dump());
  EXPECT_THAT(Fails(Reproduce({"--quiet"}), 1), HasSubstr("the run was made by lshformer 0.0.1"));
}

// One line: the command's words, with the cell that they are of.
TEST_F(ReproduceTest, AFailureIsOneLineThatNamesTheRunAndItsLog) {
  folder_.Write("dev.tsv", "sentence\tlabel\n");
  const testing::CommandResult result = testing::RunCommand(Reproduce({"--quiet"}));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, ::testing::StartsWith("lshformer: small exact/sentiment: "));
  EXPECT_THAT(result.err, HasSubstr("dev.tsv: holds no examples"));
  EXPECT_THAT(result.err, HasSubstr("lshformer train ended with status 1"));
  EXPECT_THAT(result.err, HasSubstr("out/runs/train-"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("A small table")) << "what there is";
}

// All at once, before anything runs: inputs, files that are not there, with what belongs there.
TEST_F(ReproduceTest, AllThatIsMissingIsNamed) {
  const std::string recipe = folder_ / "small.json";
  EXPECT_THAT(Fails({LSHFORMER_BINARY, "reproduce", recipe, "--dry_run"}, 2),
              HasSubstr("--input data=VALUE: required: a folder"));
  const std::string files = Fails({LSHFORMER_BINARY, "reproduce", recipe, "--dry_run", "--input", "data=/none"}, 2);
  for (const char* name : {"/none/train.tsv (--input): no such file or folder; there belongs: a folder",
                           "/none/dev.tsv (--validation_file)"})
    EXPECT_THAT(files, HasSubstr(name));
  const std::string full = Fails({LSHFORMER_BINARY, "reproduce", "bert-lsh/table-3", "--data_dir", "/none"}, 2);
  EXPECT_THAT(full, HasSubstr("/none/"));
  EXPECT_THAT(Fails({LSHFORMER_BINARY, "reproduce", "bert-lsh/table-3"}, 2), HasSubstr("--data_dir: required"));
  EXPECT_THAT(Fails({LSHFORMER_BINARY, "reproduce", "bert-lsh/table-3", "--quick", "--data_dir", "/none"}, 2),
              HasSubstr("--quick: makes its own data"));
}

// Ours are looked at beside theirs, whichever of ours are chosen.
TEST_F(ReproduceTest, PublishedRowsStayUnderRow) {
  const std::string table = Succeeds(Reproduce({"--quiet", "--row", "exact"})).out;
  EXPECT_THAT(table, HasSubstr("paper"));
  EXPECT_THAT(table, HasSubstr("0.125"));
  EXPECT_THAT(table, Not(HasSubstr("hashed")));
}

TEST_F(ReproduceTest, TheListSaysWhatEachTakes) {
  const std::string list = Succeeds({LSHFORMER_BINARY, "reproduce", "--list"}).out;
  for (const char* text : {"bert-lsh/table-2, bert-lsh/fig-2", "on two cores: ", " quick, ", " full",
                           "data of the full form: pretrain/books/train/*"})
    EXPECT_THAT(list, HasSubstr(text));
  const std::string one = Succeeds({LSHFORMER_BINARY, "reproduce", "albert/sharing", "--list"}).out;
  EXPECT_THAT(one, HasSubstr("--input text=VALUE: text to pretrain on"));
  EXPECT_THAT(one, HasSubstr("--row none: nothing shared"));
}

// A cell at which another process is at work keeps its log, which that process writes.
TEST_F(ReproduceTest, ACellInUseIsLeftAlone) {
  Succeeds(Reproduce({"--quiet", "--row", "exact"}));
  const std::string exact = RunOf("exact", "sentiment");
  std::filesystem::remove(folder_ / (exact + ".json"));
  folder_.Write(exact + ".log", "half a table");
  const FolderLock lock(folder_ / exact, "test");
  ASSERT_TRUE(lock.held());
  const testing::CommandResult result = testing::RunCommand(Reproduce({"--quiet", "--row", "exact"}));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("--output_dir: " + (folder_ / exact) + " is in use by process "));
  EXPECT_EQ(folder_.Read(exact + ".log"), "half a table");
}

// A step that several rows need: who comes second waits for the first.
TEST_F(ReproduceTest, AStepInUseIsWaitedFor) {
  const std::string lines = Succeeds(Reproduce({"--dry_run"})).out;
  const size_t begin = lines.find("/runs/tokenizer-train-") + std::string("/runs/").size();
  const std::string step = "out/runs/" + lines.substr(begin, lines.find('\n', begin) - begin);
  auto lock = std::make_unique<const FolderLock>(folder_ / (step + ".lock"), "test");
  ASSERT_TRUE(lock->held());
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    EXPECT_FALSE(std::filesystem::exists(folder_ / (step + ".json"))) << "it was not begun";
    lock.reset();
  });
  const testing::CommandResult result = testing::RunCommand(Reproduce({"--no_progress", "--row", "exact"}));
  other.join();
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("another process is making it"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / (step + ".json")));
}

// A command does not outlive the process that waits for it, and saves its state first.
TEST_F(ReproduceTest, StoppedOrKilledItTakesItsCommandAlong) {
  Succeeds(Reproduce({"--quiet", "--row", "exact"}));
  Change("\"max_steps\": 2, \"seeds\": \"1,2\"", "\"max_steps\": 3000, \"save_steps\": 20");
  const auto training = [&] {  // the folder of the run that is not the first one
    std::string newest;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "out/runs"))
      if (entry.is_directory() && !NewestCheckpoint(entry.path()).empty()) newest = entry.path();
    return newest;
  };
  for (const int signal : {SIGINT, SIGKILL}) {
    SCOPED_TRACE(signal);
    std::filesystem::remove_all(folder_ / "out/runs");
    const testing::CommandResult stopped =
        Interrupt(Reproduce({"--quiet", "--threads", "1", "--row", "exact"}), signal, std::chrono::minutes(2),
                  [&] { return std::filesystem::exists(folder_ / "out/runs") && !training().empty(); });
    EXPECT_EQ(stopped.status, 128 + signal);
    const std::string cell = training();
    ASSERT_FALSE(cell.empty());
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
    EXPECT_THAT(Fails(Reproduce({}), 2), HasSubstr(std::string("lshformer: small hashed/sentiment: ") + what));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  }
}

// A file is told to be a recipe by any of its main keys, so that a slip in one is named as what it is.
TEST_F(ReproduceTest, ASlipInAMainKeyIsNamed) {
  Change("\"columns\"", "\"colums\"");
  const std::string error = Fails(Reproduce({}), 1);
  EXPECT_THAT(error, HasSubstr("small.json"));
  EXPECT_THAT(error, HasSubstr("\"colums\""));
  EXPECT_THAT(error, Not(HasSubstr("flag")));
}

TEST_F(ReproduceTest, SaysWhatItWouldRun) {
  const std::string lines = Succeeds(Reproduce({"--dry_run", "--row", "hashed"})).out;
  EXPECT_THAT(lines, HasSubstr("lshformer tokenizer train --input "));
  EXPECT_THAT(lines, HasSubstr("--attention '{\"type\":\"reformer\",\"chunk\":8,\"rounds\":1}'"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  const std::string quick =
      Succeeds({LSHFORMER_BINARY, "reproduce", "albert/sop", "--quick", "--dry_run", "--output_dir", "o"}).out;
  EXPECT_THAT(quick, StartsWith("mkdir -p o/runs/synth-")) << "the file's folder, which the command does not make";
  EXPECT_THAT(Fails({LSHFORMER_BINARY, "reproduce", "albert/sop", "--list", "--row", "sop"}, 2),
              HasSubstr("--row: has no effect beside --list"));
  EXPECT_THAT(Fails({LSHFORMER_BINARY, "reproduce", "albert-pretraining"}, 2), HasSubstr("it is albert/sharing now"));
  EXPECT_THAT(Fails({LSHFORMER_BINARY, "reproduce", "bert-lsh/table2"}, 2),
              HasSubstr("did you mean \"bert-lsh/table-"));
  EXPECT_THAT(Fails(Reproduce({"--input", "nothing"}), 2), HasSubstr("--input: expected NAME=VALUE, got \"nothing\""));
}

// The quick form of what is shipped: every command has the flags that it is given, and a few of them are run.
TEST_F(ReproduceTest, AllOfTheQuickFormCanBeRun) {
  const std::string lines = Succeeds({LSHFORMER_BINARY, "reproduce", "all", "--quick", "--dry_run"}).out;
  EXPECT_GT(std::count(lines.begin(), lines.end(), '\n'), 80);
  const std::string figure =
      Succeeds({LSHFORMER_BINARY, "reproduce", "bert-lsh/fig-1", "--quick", "--quiet", "--output_dir", folder_ / "out"})
          .out;
  EXPECT_THAT(figure, HasSubstr("10.24"));
  EXPECT_THAT(figure, HasSubstr("163.8"));
  EXPECT_THAT(figure, Not(HasSubstr("does not hold")));
  const Json results = Results("out/bert-lsh/fig-1/results.json");
  for (const Json& claim : results.at("claims")) EXPECT_EQ(claim.at("kind"), "holds") << claim;
  EXPECT_EQ(results.at("runs").size(), 1u) << "sixteen cells of one benchmark";
}

}  // namespace
}  // namespace lshformer::cli
