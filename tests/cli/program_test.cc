// The program as a shell sees it: output, one line of error, exit status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "base/json.h"
#include "lshformer/version.h"
#include "util/temp_folder.h"

namespace lshformer::cli {
namespace {

using ::lshformer::testing::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class ProgramTest : public ::testing::Test {
 protected:
  struct Result {
    int status = -1;
    std::string out, err;
  };

  // `words` as a shell reads them, redirections included.
  Result Run(const std::string& words) {
    const std::string command = std::string("\"") + LSHFORMER_BINARY + "\" " + words + " 2>" + (folder_ / "err");
    Result result;
    FILE* pipe = popen(("(" + command + ") </dev/null").c_str(), "r");
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) result.out.append(buffer, n);
    const int status = pclose(pipe);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.err = folder_.Read("err");
    return result;
  }

  // Exit status 2, nothing on stdout, one line on stderr, which is returned.
  std::string Wrong(const std::string& words, int status = 2) {
    const Result result = Run(words);
    EXPECT_EQ(result.status, status) << words;
    EXPECT_THAT(result.out, IsEmpty()) << words;
    EXPECT_THAT(result.err, AllOf(StartsWith("lshformer: "), EndsWith("\n"))) << words;
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << words;
    EXPECT_LE(result.err.size(), 300u) << words;
    return result.err;
  }

  TempFolder folder_;
};

const char* const kCommands[] = {"quickstart", "info",    "tokenizer", "pretrain",  "train",     "evaluate",
                                 "predict",    "search",  "serve",     "inspect",   "attention", "bench",
                                 "tune",       "convert", "synth",     "reproduce", "report"};

TEST_F(ProgramTest, Version) {
  const Result result = Run("--version");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "lshformer " LSHFORMER_VERSION "\n");
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_EQ(Run("train --version").out, result.out);
}

TEST_F(ProgramTest, HelpNamesEveryCommandAndOnlyThose) {
  const Result result = Run("--help");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, IsEmpty());
  for (const char* command : kCommands) EXPECT_THAT(result.out, HasSubstr(std::string("\n  ") + command + " "));
  const std::string listed = result.out.substr(result.out.find("\nCommands:\n"));
  const std::regex command("\n  [a-z]");
  EXPECT_EQ(std::distance(std::sregex_iterator(listed.begin(), listed.end(), command), std::sregex_iterator()),
            std::ssize(kCommands));
  EXPECT_THAT(Wrong("compile"), HasSubstr("unknown command"));
}

TEST_F(ProgramTest, EveryCommandHasHelpWithTheCommonFlags) {
  std::vector<std::string> commands(std::begin(kCommands), std::end(kCommands));
  for (const char* nested : {"bench attention", "bench train", "tokenizer train", "tokenizer vectors",
                             "tokenizer encode", "tokenizer decode"})
    commands.push_back(nested);
  for (const std::string& command : commands) {
    const Result result = Run(command + " --help");
    EXPECT_EQ(result.status, 0) << command;
    EXPECT_THAT(result.err, IsEmpty()) << command;
    EXPECT_THAT(result.out, HasSubstr("Usage: lshformer " + command)) << command;
    EXPECT_THAT(result.out, HasSubstr("--threads N")) << command;
    EXPECT_EQ(Run(command + " -h").out, result.out);
  }
}

TEST_F(ProgramTest, WrongUsageIsOneLineAndStatus2) {
  EXPECT_THAT(Wrong(""), HasSubstr("expected a command"));
  EXPECT_THAT(Wrong("trian"), HasSubstr("did you mean \"train\"?"));
  EXPECT_THAT(Wrong("bench"), HasSubstr("attention"));
  EXPECT_THAT(Wrong("info --build --threads 0"), HasSubstr("--threads: expected 1 to"));
  EXPECT_THAT(Wrong("--threads -1 info --build"), HasSubstr("--threads: expected 1 to"));
  EXPECT_THAT(Wrong("info --build --isa avx1024"), HasSubstr("--isa"));
  EXPECT_THAT(Wrong("info --build --log_level wran"), HasSubstr("did you mean \"warn\"?"));
  EXPECT_THAT(Wrong("info --build --log_format yaml"), HasSubstr("--log_format: expected text or json"));
  EXPECT_THAT(Wrong("info --biuld"), HasSubstr("did you mean \"--build\"?"));
  EXPECT_THAT(Wrong("info"), HasSubstr("expected a model folder, --model_type or --build"));
  EXPECT_THAT(Wrong("info --build somewhere"), HasSubstr("expected a model folder, --model_type or --build"));
  EXPECT_THAT(Wrong("info \"$(printf '%0500d' 1)\" \"$(printf 'a\\377\\nb')\""), HasSubstr("\\xFF\\x0A"));
}

// The names that people bring along, with the flag of each command.
TEST_F(ProgramTest, NamesOfOtherProgramsAreAnsweredWithOurs) {
  const std::pair<const char*, const char*> cases[] = {
      {"predict --model m", "\"--model_name_or_path\""},
      {"tokenizer encode --model m", "\"--tokenizer\""},
      {"info --model m", "the folder is an argument without a flag: info DIR"},
      {"bench model --model_name_or_path m", "the folder is an argument without a flag: bench model DIR"},
      {"train --lr 1", "\"--learning_rate\""},
      {"train --batch_size 8", "\"--per_device_train_batch_size\""},
      {"evaluate --batch_size 8", "\"--per_device_eval_batch_size\""},
      {"predict --batch-size 8", "\"--batch_tokens\""},
      {"bench attention --batch_size 8", "\"--batch\""},
      {"train --epochs 3", "\"--num_train_epochs\""},
      {"train --max_length 128", "\"--max_seq_length\""},
      {"bench model --max_length 128", "\"--max_seq_length\""},
      {"pretrain --train f", "\"--train_file\""},
      {"train --dataset f", "\"--train_file\""},
      {"evaluate --dataset f", "\"--validation_file\""},
      {"predict --dataset f", "\"--input\""},
      {"train --output d", "\"--output_dir\""},
      {"predict --output_dir d", "\"--output\""},
      {"train --fp16", "\"--bf16\""},
      {"train --num_workers 2", "\"--threads\""},
      {"predict --resume_from_checkpoint auto", "\"--resume\""},
      {"embed", "\"predict --task feature-extraction\""},
      {"encode", "\"predict --task feature-extraction\" (vectors) or \"tokenizer encode\""},
      {"finetune", "\"train\""},
      {"fine-tune", "\"train\""},
      {"eval", "\"evaluate\""},
  };
  for (const auto& [words, ours] : cases) {
    EXPECT_THAT(Wrong(words), HasSubstr("unknown ")) << words;
    EXPECT_THAT(Wrong(words), HasSubstr(ours)) << words;
  }
}

// A file where a folder is wanted: its folder is told, whatever the command. And the other way round.
TEST_F(ProgramTest, FilesAreNoFoldersAndFoldersNoFiles) {
  const testing::TempFolder folder;
  const std::string weights = folder.Write("m/model.safetensors", "x"),
                    is = "model.safetensors is a file, expected a folder";
  for (const std::string& words :
       {"predict --task fill-mask --text a --model_name_or_path " + weights, "info " + weights,
        "bench model " + weights, "tokenizer encode --input x --tokenizer " + weights,
        "evaluate --tokenizer_name " + weights, "tune --model_name_or_path " + weights,
        "convert --model_name_or_path " + weights}) {
    EXPECT_THAT(Wrong(words), HasSubstr(is)) << words;
    EXPECT_THAT(Wrong(words), HasSubstr("that of the file is " + (folder / "m"))) << words;
  }
  const Result result = Run("tokenizer vectors --output o --input " + folder.path());
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("is a folder, expected a file"));
}

TEST_F(ProgramTest, VariablesStandForFlagsThatAreNotGiven) {
  const auto threads = [&](const char* words) {
    const Result result = Run(words);
    return result.status == 0 ? Json::parse(result.out)["cpu"]["threads"].get<int>() : -1;
  };
  setenv("LSHFORMER_THREADS", "3", 1);
  EXPECT_EQ(threads("info --build --json"), 3);
  EXPECT_EQ(threads("info --build --json --threads 2"), 2);
  setenv("LSHFORMER_THREADS", "0", 1);
  EXPECT_THAT(Wrong("info --build"), HasSubstr("LSHFORMER_THREADS: expected 1 to 1024, got 0"));
  EXPECT_EQ(threads("info --build --json --threads 2"), 2);
  unsetenv("LSHFORMER_THREADS");
  setenv("LSHFORMER_ISA", "avx1024", 1);
  EXPECT_THAT(Wrong("info --build"), HasSubstr("LSHFORMER_ISA: expected auto"));
  setenv("LSHFORMER_ISA", "scalar", 1);
  EXPECT_EQ(Json::parse(Run("info --build --json").out)["isa"]["active"], "scalar");
  unsetenv("LSHFORMER_ISA");
}

TEST_F(ProgramTest, AttentionsToCompareAreSeparatedByCommasOrFlags) {
  const auto names = [&](const std::string& flags) {
    const Result result = Run("bench attention --lengths 16 --heads 1 --runs 1 --no_machine --quiet --json " + flags);
    const Json report = Json::parse(result.out);
    std::vector<std::string> found;
    for (const Json& row : report["results"]) found.push_back(row["attention"]);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  };
  EXPECT_THAT(names(""), ElementsAre("dense", "simhash"));
  EXPECT_THAT(names("--attention dense,reformer"), ElementsAre("dense", "reformer"));
  EXPECT_THAT(names("--attention '{\"type\": \"reformer\", \"rounds\": 1}' --attention simhash"),
              ElementsAre("reformer", "simhash"));
  EXPECT_THAT(Wrong("bench attention --attention dense,exact"), HasSubstr("got \"exact\""));
}

TEST_F(ProgramTest, AFailureIsOneLineAndStatus1) {
  EXPECT_THAT(Wrong("info /nowhere", 1), HasSubstr("/nowhere: no such folder"));
  EXPECT_THAT(Wrong("info $(printf '%0999d' 1)", 1), HasSubstr("…: File name too long"));
  const std::string config = folder_.Write("broken/config.json", "{");
  EXPECT_THAT(Wrong("info " + (folder_ / "broken"), 1), HasSubstr("broken/config.json"));
}

TEST_F(ProgramTest, OutputThatCannotBeWrittenIsAFailure) {
  EXPECT_THAT(Wrong("--help >/dev/full", 1), HasSubstr("standard output: cannot write: disk full"));
  EXPECT_THAT(Wrong("info --build >/dev/full", 1), HasSubstr("standard output: cannot write: disk full"));
}

// Closed input is no empty input, and lost results are no success.
TEST_F(ProgramTest, ClosedStreamsAreFailures) {
  folder_.Write("vocab.txt", "[UNK]\na\n");
  const std::string encode = "tokenizer encode --tokenizer " + folder_.path();
  EXPECT_EQ(Wrong(encode + " --input - <&-", 1), "lshformer: stdin: is closed, expected input\n");
  EXPECT_EQ(Wrong(encode + " --input /dev/stdin <&-", 1), "lshformer: stdin: is closed, expected input\n");
  EXPECT_EQ(Wrong("evaluate --task question-answering --predictions - --references - <&-", 1),
            "lshformer: stdin: is closed, expected input\n");
  const std::string text = folder_.Write("text", "a\n");
  EXPECT_EQ(Wrong(encode + " --input " + text + " >&-", 1),
            "lshformer: standard output: cannot write: Bad file descriptor\n");
  EXPECT_EQ(Wrong("info --build >&-", 1), "lshformer: standard output: cannot write: Bad file descriptor\n");
  EXPECT_EQ(Wrong(encode + " --input " + text + " >/dev/full", 1),
            "lshformer: standard output: cannot write: disk full\n");
}

// Before 0.1.0 there was --device, which took "cpu" and did nothing: files of flags from then are still read.
TEST_F(ProgramTest, DeviceIsNoFlagAndOldFilesThatHaveItAreRead) {
  EXPECT_THAT(Wrong("info --build --device cpu"), HasSubstr("unknown flag --device"));
  const std::string cpu = folder_.Write("cpu.json", R"({"device": "cpu", "build": true})");
  EXPECT_EQ(Run("info " + cpu).out, Run("info --build").out);
  EXPECT_EQ(Run("info " + cpu).err, "");
  const std::string cuda = folder_.Write("cuda.json", R"({"build": true, "device": "cuda"})");
  EXPECT_EQ(Wrong("info " + cuda), "lshformer: " + cuda + ": device: models run on the CPU, got \"cuda\"\n");
}

TEST_F(ProgramTest, HelpKeepsTheOptionsOfLshForThoseWhoAsk) {
  for (const std::string command : {"predict", "train", "pretrain", "evaluate", "tune", "convert", "inspect",
                                    "attention", "bench attention", "bench model", "bench train"}) {
    const Result plain = Run(command + " --help"), full = Run(command + " --help_attention");
    EXPECT_EQ(full.status, 0) << command << full.err;
    EXPECT_THAT(plain.out, AllOf(HasSubstr("--help_attention"), Not(HasSubstr("--lsh_bands")))) << command;
    EXPECT_THAT(plain.out, Not(HasSubstr("Reformer attention"))) << command;
    EXPECT_THAT(full.out, AllOf(HasSubstr("--lsh_bands"), HasSubstr("--lsh_count_pairs_once"))) << command;
    EXPECT_THAT(full.out, HasSubstr("Usage: lshformer " + command)) << command;
  }
  EXPECT_THAT(Run("predict --help").out, HasSubstr("--attention TYPE|JSON"));
  EXPECT_THAT(Wrong("synth --help_attention"), HasSubstr("unknown flag --help_attention"));
}

TEST_F(ProgramTest, InfoBuildTellsWhatTheProgramIsMadeOf) {
  const Result text = Run("info --build --threads 1"), json = Run("--threads 1 info --build --json");
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.err, IsEmpty());
  EXPECT_THAT(text.out, AllOf(HasSubstr(LSHFORMER_VERSION), HasSubstr("oneDNN"), HasSubstr("1 threads used")));
  const Json info = ParseJson(json.out, "info");
  EXPECT_EQ(info["version"], LSHFORMER_VERSION);
  EXPECT_EQ(info["cpu"]["threads"], 1);
  EXPECT_EQ(info["devices"], Json::array({"cpu"}));
  EXPECT_EQ(info["isa"]["active"], info["isa"]["available"][0]);
  EXPECT_EQ(info["isa"]["no_amx"].is_null(), info["isa"]["active"] == "amx");
  // An instruction set asked for is the one in use.
  const std::string last = info["isa"]["available"].back();
  EXPECT_EQ(ParseJson(Run("info --build --json --isa " + last).out, "info")["isa"]["active"], last);
}

// The parameter count of BERT-base with the masked-LM head, from the architecture: 109,514,298.
TEST_F(ProgramTest, InfoOfAModelFolderNeedsNoWeights) {
  folder_.Write("model/config.json",
                R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 30522,
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    "max_position_embeddings": 512, "type_vocab_size": 2})");
  const Result result = Run("info " + (folder_ / "model") + " --json --attention simhash --lengths 128,4096");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  const Json info = ParseJson(result.out, "info");
  EXPECT_EQ(info["parameters_total"], 109514298);
  EXPECT_TRUE(info["weights"].is_null());
  ASSERT_EQ(info["costs"].size(), 4u);  // two lengths, exact and SimHash
  const auto attention_flops = [&](size_t row) { return info["costs"][row]["attention_flops"].get<double>(); };
  EXPECT_LT(attention_flops(3), attention_flops(2));              // the hash skips pairs
  EXPECT_NEAR(attention_flops(2) / attention_flops(0), 1024, 1);  // exact attention is quadratic: (4096 / 128)²
  EXPECT_THAT(Run("info " + (folder_ / "model")).out, HasSubstr("109514298"));
}

}  // namespace
}  // namespace lshformer::cli
