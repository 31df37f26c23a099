#include "cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer::cli {
namespace {

using ::lshformer::testing::ErrorOf;
using ::lshformer::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A program like ours in small: common flags, a command, a command with commands, one with a positional argument.
class ArgumentsTest : public ::testing::Test {
 protected:
  ArgumentsTest() {
    app_.add_option("--threads", threads_);
    app_.add_option("--seed", seed_);
    app_.add_flag("--quiet", quiet_);
    CLI::App* train = app_.add_subcommand("train", "");
    train->add_flag("--do_eval", do_eval_);
    train->add_option("--learning_rate", rate_);
    train->add_option("--train_file", files_)->type_name("FILE");
    train->add_option("--output_dir", name_)->type_name("DIR");
    train->add_option("--lengths", lengths_)->delimiter(',');
    train->add_option("--text", text_);
    train->add_option("--attention", attention_)->type_name("TYPE|JSON");
    train->add_option("--min_length", length_)->type_name("auto|N");
    app_.set_version_flag("--version", "1");
    CLI::App* bench = app_.add_subcommand("bench", "");
    bench->require_subcommand(1);
    bench->add_subcommand("attention", "")
        ->add_option("--spec", names_)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    bench->add_subcommand("train", "")->add_option("--runs", threads_);
    CLI::App* report = app_.add_subcommand("report", "");
    report->add_option("RUN", files_)->type_name("RUN");
    report->add_option("--names", names_);
    report->add_option("--ports", lengths_)->delimiter(',');
    app_.require_subcommand(1);
  }

  std::vector<std::string> Order(std::vector<std::string> words) { return OrderArguments(app_, words); }
  std::string Wrong(std::vector<std::string> words) {
    return ErrorOf([&] { Order(words); });
  }
  std::string WriteFlags(const std::string& json) {
    WriteFileAtomically(folder_.path() + "/flags.json", json);
    return folder_.path() + "/flags.json";
  }

  TempFolder folder_;
  CLI::App app_{"", "lshformer"};
  int threads_ = 0;
  uint64_t seed_ = 0;
  double rate_ = 0;
  bool quiet_ = false, do_eval_ = false;
  std::string text_, attention_, length_, name_;
  std::vector<std::string> files_, names_;
  std::vector<int> lengths_;
};

// What other programs call it, of this command, also in a file of flags and with dashes; before what is merely similar.
TEST_F(ArgumentsTest, OtherNamesAreAnsweredWithOurs) {
  EXPECT_EQ(Wrong({"train", "--lr", "1"}), "unknown flag --lr (did you mean \"--learning_rate\"?)");
  EXPECT_EQ(Wrong({"train", "--learning-rate=1"}), "unknown flag --learning-rate (did you mean \"--learning_rate\"?)");
  EXPECT_EQ(Wrong({"train", "--dataset", "f"}), "unknown flag --dataset (did you mean \"--train_file\"?)");
  EXPECT_EQ(Wrong({"train", "--output", "d"}), "unknown flag --output (did you mean \"--output_dir\"?)");
  EXPECT_EQ(Wrong({"train", "--random_state", "1"}), "unknown flag --random_state (did you mean \"--seed\"?)");
  EXPECT_EQ(Wrong({"finetune"}), "unknown command \"finetune\" (did you mean \"train\"?)");
  EXPECT_EQ(Wrong({"fine-tune"}), "unknown command \"fine-tune\" (did you mean \"train\"?)");
  EXPECT_EQ(Wrong({"benchmark"}), "unknown command \"benchmark\" (did you mean \"bench\"?)");
}

TEST_F(ArgumentsTest, CommonFlagsBeforeAndAfterTheCommandAreTheSame) {
  const auto want = ElementsAre("--threads", "2", "train", "--do_eval=true");
  EXPECT_THAT(Order({"--threads", "2", "train", "--do_eval"}), want);
  EXPECT_THAT(Order({"train", "--do_eval", "--threads=2"}), want);
  EXPECT_THAT(Order({"bench", "--seed", "1", "train", "--runs", "5", "--quiet"}),
              ElementsAre("--seed", "1", "--quiet=true", "bench", "train", "--runs", "5"));
}

TEST_F(ArgumentsTest, BooleansTakeAnOptionalValue) {
  EXPECT_THAT(Order({"train", "--do_eval", "false", "--quiet"}),
              ElementsAre("--quiet=true", "train", "--do_eval=false"));
  EXPECT_THAT(Order({"train", "--do_eval=true"}), ElementsAre("train", "--do_eval=true"));
  EXPECT_EQ(Wrong({"train", "--do_eval=yes"}), "--do_eval: expected true or false, got \"yes\"");
  EXPECT_EQ(Wrong({"train", "--do_eval", "yes"}), "--do_eval: expected true or false, got \"yes\"");
}

TEST_F(ArgumentsTest, NumbersAreDecimalAndMayBeNegative) {
  EXPECT_THAT(Order({"train", "--learning_rate", "-5e-5"}), ElementsAre("train", "--learning_rate", "-5e-5"));
  EXPECT_THAT(Order({"train", "--threads", "010", "--lengths", "-0,007"}),
              ElementsAre("--threads", "10", "train", "--lengths", "-0,7"));
  EXPECT_EQ(Wrong({"train", "--threads", "0x10"}), "--threads: expected an integer, got \"0x10\"");
  EXPECT_EQ(Wrong({"train", "--threads", "1.5"}), "--threads: expected an integer, got \"1.5\"");
  EXPECT_EQ(Wrong({"train", "--threads="}), "--threads: expected an integer, got \"\"");
  EXPECT_EQ(Wrong({"train", "--seed", "-1"}), "--seed: expected 0 or more, got -1");
  EXPECT_EQ(Wrong({"train", "--seed", "18446744073709551616"}), "--seed: 18446744073709551616 is out of range");
  EXPECT_THAT(Order({"train", "--seed", "18446744073709551615"}),
              ElementsAre("--seed", "18446744073709551615", "train"));
  for (const char* bad : {"nan", "inf", "1e", "", "0x1p3", "1,5"})
    EXPECT_EQ(Wrong({"train", "--learning_rate", bad}),
              fmt::format("--learning_rate: expected a number, got \"{}\"", bad));
  EXPECT_EQ(Wrong({"train", "--learning_rate", "1e999"}), "--learning_rate: 1e999 is out of range");
}

TEST_F(ArgumentsTest, ListsMayBeWordsRepetitionsOrCommas) {
  EXPECT_THAT(Order({"train", "--train_file", "a", "b", "--train_file", "c"}),
              ElementsAre("train", "--train_file", "a", "--train_file", "b", "--train_file", "c"));
  EXPECT_EQ(Wrong({"train", "--lengths", "1,,2"}), "--lengths: expected an integer, got \"\"");
  // Where positional arguments follow, a list flag takes one word.
  EXPECT_THAT(Order({"report", "--names", "x", "run1", "run2"}), ElementsAre("report", "run1", "run2", "--names", "x"));
  EXPECT_THAT(Order({"report", "run1", "run2", "--names", "x", "y"}),
              ElementsAre("report", "run1", "run2", "--names", "x", "--names", "y"));
  // Numbers in a list of numbers are no positional arguments.
  EXPECT_THAT(Order({"report", "run1", "--ports", "1", "2,3", "run2"}),
              ElementsAre("report", "run1", "run2", "--ports", "1", "--ports", "2,3"));
}

TEST_F(ArgumentsTest, AMissingValueIsNotTheNextFlag) {
  EXPECT_EQ(Wrong({"train", "--text"}), "--text: expected a value");
  EXPECT_THAT(Wrong({"train", "--text", "--do_eval"}), HasSubstr("--text: expected a value, got the flag --do_eval"));
  EXPECT_THAT(Order({"train", "--text=--do_eval"}), ElementsAre("train", "--text", "--do_eval"));
  EXPECT_THAT(Order({"train", "--text", ""}), ElementsAre("train", "--text", ""));
  EXPECT_THAT(Order({"train", "--text", "-"}), ElementsAre("train", "--text", "-"));
}

TEST_F(ArgumentsTest, TyposSuggestTheNearest) {
  EXPECT_EQ(Wrong({"trian"}), "unknown command \"trian\" (did you mean \"train\"?)");
  EXPECT_EQ(Wrong({"bench", "atention"}), "unknown command \"bench atention\" (did you mean \"attention\"?)");
  EXPECT_EQ(Wrong({"train", "--learnin_rate", "1"}), "unknown flag --learnin_rate (did you mean \"--learning_rate\"?)");
  EXPECT_EQ(Wrong({"train", "--thread=1"}), "unknown flag --thread (did you mean \"--threads\"?)");
  EXPECT_EQ(Wrong({"train", "--zzz"}), "unknown flag --zzz");
  EXPECT_THAT(Wrong({"--do_eval", "train"}), HasSubstr("a command's own flags follow its name"));
  EXPECT_THAT(Wrong({"train", "-x"}), HasSubstr("unknown flag -x"));
}

TEST_F(ArgumentsTest, GivenTwiceTheLastCounts) {
  EXPECT_THAT(Order({"--seed", "1", "train", "--seed", "2"}), ElementsAre("--seed", "2", "train"));
  EXPECT_THAT(Order({"train", "--do_eval", "--do_eval", "false"}), ElementsAre("train", "--do_eval=false"));
}

TEST_F(ArgumentsTest, RepeatableFlagsKeepTheirOrder) {
  EXPECT_THAT(Order({"bench", "attention", "--spec", "b", "--spec", "a"}),
              ElementsAre("bench", "attention", "--spec", "b", "--spec", "a"));
}

TEST_F(ArgumentsTest, AMissingCommand) {
  EXPECT_THAT(Wrong({}), HasSubstr("expected a command"));
  EXPECT_THAT(Wrong({"--threads", "2"}), HasSubstr("expected a command"));
  EXPECT_EQ(Wrong({"bench"}), "bench: expected one of its commands: attention, train");
  EXPECT_THAT(Order({"bench", "--help"}), ElementsAre("bench", "--help"));
  EXPECT_THAT(Order({"--help", "train"}), ElementsAre("train", "--help"));
}

TEST_F(ArgumentsTest, AFileHoldsFlagsAndTheCommandLineOverridesIt) {
  const std::string file = WriteFlags(
      R"({"seed": 7, "do_eval": true, "learning_rate": 5e-05, "train_file": ["a", "b"],
          "attention": {"type": "simhash", "bands": 3}, "lengths": [1, 2]})");
  EXPECT_THAT(Order({"train", file, "--seed", "9", "--train_file", "c"}),
              ElementsAre("--seed", "9", "train", "--do_eval=true", "--learning_rate", "5e-05", "--attention",
                          R"({"type":"simhash","bands":3})", "--lengths", "1", "--lengths", "2", "--train_file", "c"));
}

TEST_F(ArgumentsTest, AFlagThatIsANumberOrAWordTakesBothFromAFile) {
  EXPECT_THAT(Order({"train", WriteFlags(R"({"min_length": 7})")}), ElementsAre("train", "--min_length", "7"));
  EXPECT_THAT(Order({"train", WriteFlags(R"({"min_length": "auto"})")}), ElementsAre("train", "--min_length", "auto"));
}

TEST_F(ArgumentsTest, AnEmptyNameIsNoFile) {
  EXPECT_EQ(Wrong({"train", "--train_file", ""}), "--train_file: expected a file, got \"\"");
  EXPECT_EQ(Wrong({"train", "--train_file", "a", ""}), "--train_file: expected a file, got \"\"");
  EXPECT_EQ(Wrong({"train", "--output_dir="}), "--output_dir: expected a folder, got \"\"");
  EXPECT_EQ(Wrong({"report", "run", ""}), "RUN: expected a name, got \"\"");
  EXPECT_THAT(Wrong({"train", WriteFlags(R"({"train_file": ["a", ""]})")}),
              HasSubstr("flags.json: train_file: expected a file, got \"\""));
}

TEST_F(ArgumentsTest, NumbersAndSwitchesInAFileHaveNoQuotes) {
  const auto wrong = [&](const char* json) { return Wrong({"train", WriteFlags(json)}); };
  EXPECT_THAT(wrong(R"({"seed": "10"})"),
              HasSubstr("flags.json: seed: expected a value without quotes, got the text \"10\""));
  EXPECT_THAT(wrong(R"({"learning_rate": "1e-3"})"), HasSubstr("learning_rate: expected a value without quotes"));
  EXPECT_THAT(wrong(R"({"do_eval": "true"})"), HasSubstr("do_eval: expected a value without quotes"));
  EXPECT_THAT(wrong(R"({"min_length": "7"})"), HasSubstr("min_length: expected a value without quotes"));
  EXPECT_THAT(wrong(R"({"lengths": [1, "2"]})"), HasSubstr("lengths: expected a value without quotes"));
  EXPECT_THAT(Order({"train", WriteFlags(R"({"text": "10"})")}), ElementsAre("train", "--text", "10"));
  EXPECT_THAT(Order({"train", WriteFlags(R"({"lengths": "1,2"})")}), ElementsAre("train", "--lengths", "1,2"));
}

TEST_F(ArgumentsTest, AFlagFileIsPlainJsonWithPlainNames) {
  EXPECT_THAT(Wrong({"train", WriteFlags(R"({"--seed": 1})")}),
              HasSubstr("flags.json: --seed: expected the flag's name without dashes"));
  EXPECT_THAT(Wrong({"train", WriteFlags("\x1F\x8B\x08")}), HasSubstr("flags.json: is compressed"));
  EXPECT_THAT(Wrong({"train", "flags.json.gz"}), HasSubstr("a file of flags is plain JSON"));
  EXPECT_THAT(Wrong({"train", WriteFlags(R"({"help": true})")}), HasSubstr("help: has no place in a file of flags"));
}

// Exit 2 is wrong usage; a file that is not there is a failure.
TEST_F(ArgumentsTest, ABrokenFlagFileIsWrongUsage) {
  for (const char* broken : {R"({"seed": )", R"({"seed": 1, "seed": 2})", R"({"sed": 1})", "[]", ""})
    EXPECT_THROW(Order({"train", WriteFlags(broken)}), UsageError) << broken;
  try {
    Order({"train", "/nowhere/flags.json"});
    FAIL();
  } catch (const UsageError&) {
    FAIL();
  } catch (const Error&) {
  }
}

TEST_F(ArgumentsTest, WhatIsNoFileOfFlagsIsAnInputWhereThoseAreFiles) {
  for (const char* other : {R"({"results": []})", R"([1])", R"({"log_history": [], "global_step": 3})"}) {
    const std::string path = WriteFlags(other);
    EXPECT_THAT(Order({"report", path}), ElementsAre("report", path)) << other;
  }
  const std::string flags = WriteFlags(R"({"names": "x"})");
  EXPECT_THAT(Order({"report", flags}), ElementsAre("report", "--names", "x"));
  EXPECT_THAT(Wrong({"report", WriteFlags(R"({"name": "x"})")}), HasSubstr("did you mean \"--names\"?"));
}

TEST_F(ArgumentsTest, AFlagFileIsStrict) {
  const auto wrong = [&](const char* json) { return Wrong({"train", WriteFlags(json)}); };
  EXPECT_THAT(wrong(R"({"do_evl": true})"),
              HasSubstr("flags.json: unknown flag --do_evl (did you mean \"--do_eval\"?)"));
  EXPECT_THAT(wrong(R"({"seed": [1]})"), HasSubstr("flags.json: seed: takes one value, got a list"));
  EXPECT_THAT(wrong(R"({"seed": null})"), HasSubstr("flags.json: seed: expected a value, got null"));
  EXPECT_THAT(wrong(R"({"seed": 1.5})"), HasSubstr("flags.json: seed: expected an integer, got \"1.5\""));
  EXPECT_THAT(wrong(R"({"seed": "abc"})"), HasSubstr("flags.json: seed: expected an integer, got \"abc\""));
  EXPECT_THAT(wrong(R"({"do_eval": 1})"), HasSubstr("flags.json: do_eval: expected true or false, got \"1\""));
  EXPECT_THAT(wrong(R"({"text": "a\u0000b"})"), HasSubstr("flags.json: text: a NUL character"));
  EXPECT_THAT(wrong(R"({"version": true})"), HasSubstr("flags.json: version: has no place in a file of flags"));
  EXPECT_THAT(wrong(R"({"text": 5})"), HasSubstr("flags.json: text: expected text, got 5"));
  EXPECT_THAT(wrong(R"({"text": true})"), HasSubstr("flags.json: text: expected text, got true"));
  EXPECT_THAT(wrong(R"({"text": {"a": 1}})"), HasSubstr("flags.json: text: expected a value, got"));
  EXPECT_THAT(wrong(R"({"train_file": ["a", 1]})"), HasSubstr("flags.json: train_file: expected text, got 1"));
  EXPECT_THAT(wrong(R"({"attention": 1})"), HasSubstr("flags.json: attention: expected text, got 1"));
  EXPECT_THAT(wrong(R"([1])"), HasSubstr("flags.json: expected an object of flags"));
  EXPECT_THAT(wrong(R"({"seed": 1, "seed": 2})"), HasSubstr("seed"));
  EXPECT_THAT(wrong(R"({"seed": )"), HasSubstr("flags.json"));
  EXPECT_THAT(Wrong({"train", "/nowhere/flags.json"}), HasSubstr("/nowhere/flags.json"));
  EXPECT_THAT(Wrong({"train", "--do_eval", WriteFlags("{}")}), HasSubstr("right after the command"));
}

}  // namespace
}  // namespace lshformer::cli
