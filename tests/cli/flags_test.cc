#include "cli/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/help.h"
#include "jobs/run_folder.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer::cli {
namespace {

using ::lshformer::testing::ErrorOf;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string Check(const CLI::Validator& check, std::string value) { return check(value); }

TEST(Checks, SayWhatWasExpected) {
  EXPECT_THAT(Check(OneOf({"zero", "mean", "none"}), "mean"), IsEmpty());
  EXPECT_EQ(Check(OneOf({"zero", "mean", "none"}), "zreo"),
            "expected zero, mean or none, got \"zreo\" (did you mean \"zero\"?)");
  const CLI::Validator tasks = OneOf({"fill-mask", "text-classification", "question-answering", "feature-extraction"});
  for (const auto& [typed, ours] : {std::pair("sentiment-analysis", "text-classification"),
                                    {"text-embedding", "feature-extraction"},
                                    {"embeddings", "feature-extraction"},
                                    {"feature_extraction", "feature-extraction"},
                                    {"Fill_Mask", "fill-mask"},
                                    {"qa", "question-answering"},
                                    {"mlm", "fill-mask"}})
    EXPECT_EQ(Check(tasks, typed),
              "expected fill-mask, text-classification, question-answering or feature-extraction, got \"" +
                  std::string(typed) + "\" (did you mean \"" + ours + "\"?)");
  EXPECT_THAT(Check(tasks, "ner"), EndsWith("got \"ner\"")) << "no model does it here";
  EXPECT_THAT(Check(IntegerIn(1, 62), "62"), IsEmpty());
  EXPECT_EQ(Check(IntegerIn(1, 62), "63"), "expected 1 to 62, got 63");
  EXPECT_EQ(Check(IntegerIn(0, INT64_MAX), "-1"), "expected at least 0, got -1");
  EXPECT_THAT(Check(NumberIn({.low = 0, .high = 1}), "1"), IsEmpty());
  EXPECT_EQ(Check(NumberIn({.low = 0, .high = 1}), "1.01"), "expected 0 to 1, got 1.01");
  EXPECT_EQ(Check(NumberIn({.low = 0, .high = 1}), "nan"), "expected 0 to 1, got nan");
  EXPECT_EQ(Check(NumberIn({.low = 2}), "1"), "expected at least 2, got 1");
  EXPECT_THAT(Check(NumberIn({.low = 0, .high = 1, .high_open = true}), "0"), IsEmpty());
  EXPECT_EQ(Check(NumberIn({.low = 0, .high = 1, .high_open = true}), "1"), "expected at least 0 and below 1, got 1");
}

// A kind of its own, as one line makes one option.
struct Private {
  int rings = 3;
  bool open = false;
};

TEST(OptionFlags, OneLineIsAFlagWithHelpDefaultAndCheck) {
  OptionTable<Private> table{{Boolean("open", &Private::open, "whether it is")}, nullptr, {}, "Private"};
  table.options.push_back(Integer("rings", &Private::rings, 1, 9, "around the middle"));
  const auto parse = [&](std::vector<std::string> words) {
    CLI::App app;
    app.formatter(std::make_shared<HelpFormatter>());
    Json given = Json::object();
    for (const auto& option : table.options)
      AddOptionFlag(app, "my_", table, option, [&](Json value) { given[option.name] = std::move(value); });
    EXPECT_THAT(app.help(), HasSubstr("--my_rings N"));
    EXPECT_THAT(app.help(), HasSubstr("around the middle (1 to 9; default 3)"));
    app.parse(std::move(words));
    Private read;
    ReadOptions(table, given, "private", read);
    return read;
  };
  EXPECT_EQ(parse({}).rings, 3);
  EXPECT_EQ(parse({"7", "--my_rings"}).rings, 7);
  EXPECT_TRUE(parse({"--my_open"}).open);
  try {
    parse({"10", "--my_rings"});
    ADD_FAILURE() << "10 is beyond the range";
  } catch (const CLI::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--my_rings: expected 1 to 9, got 10"));
  }
}

class AttentionFlagsTest : public ::testing::Test {
 protected:
  AttentionFlagsTest() { AddAttentionFlags(app_, flags_); }

  // Parses the flags, these alone, and lays them over `specs`.
  std::vector<AttentionSpec> Over(std::vector<AttentionSpec> specs, std::vector<std::string> words) {
    flags_ = {};
    std::reverse(words.begin(), words.end());
    app_.parse(std::move(words));
    flags_.Apply(specs);
    return specs;
  }
  // The error as the command line prints it.
  std::string Wrong(std::vector<AttentionSpec> specs, std::vector<std::string> words) {
    try {
      Over(specs, words);
    } catch (const Error& error) {
      return error.Spelled("--");
    } catch (const CLI::Error& error) {
      return error.what();
    }
    return "(nothing thrown)";
  }

  AttentionChanges flags_;
  CLI::App app_;
};

TEST_F(AttentionFlagsTest, WithoutFlagsNothingChanges) {
  AttentionSpec spec;
  spec.kind = SimHashAttention{};
  As<SimHashAttention>(spec).bands = 5;
  spec.seed = 99;
  EXPECT_EQ(Over({spec, AttentionSpec{}}, {}), (std::vector<AttentionSpec>{spec, AttentionSpec{}}));
}

TEST_F(AttentionFlagsTest, TypeThenKeys) {
  AttentionSpec want;
  want.kind = SimHashAttention{};
  As<SimHashAttention>(want).bands = 3;
  As<SimHashAttention>(want).hashes = 2;
  As<SimHashAttention>(want).table_size = 128;
  As<SimHashAttention>(want).fill = Fill::kNone;
  As<SimHashAttention>(want).pairs = Pairs::kReference;
  want.resample = Resample::kNever;
  As<SimHashAttention>(want).center_keys = true;
  want.min_length = 17;
  EXPECT_EQ(Over({AttentionSpec{}}, {"--attention", "simhash", "--lsh_bands", "3", "--lsh_hashes", "2",
                                     "--lsh_table_size", "128", "--lsh_fill", "none", "--lsh_pairs", "reference",
                                     "--lsh_resample", "never", "--lsh_center_keys", "--lsh_min_length", "17"}),
            std::vector<AttentionSpec>{want});
}

TEST_F(AttentionFlagsTest, HeadsThatDifferAreChangedEachAndRefuseWhatTheirKindHasNot) {
  AttentionSpec clustered;
  clustered.kind = ClusteredAttention{};
  const AttentionSpec layer = OfHeads({clustered, AttentionSpec{}}, "layer");
  const std::vector<AttentionSpec> changed = Over({layer}, {"--lsh_window", "5"});
  EXPECT_EQ(OfHead(changed[0], 0).window, 5);
  EXPECT_TRUE(Is<DenseAttention>(OfHead(changed[0], 1)));
  for (const char* flag : {"--lsh_rounds", "--lsh_bands"})
    EXPECT_THAT(Wrong({layer}, {flag, "2"}),
                AllOf(HasSubstr(flag), HasSubstr("clustered"), Not(HasSubstr("JSON value"))));
}

TEST_F(AttentionFlagsTest, KeysChangeTheConfigsOwnAndKeepItsSeed) {
  AttentionSpec spec;
  spec.kind = SimHashAttention{};
  As<SimHashAttention>(spec).hashes = 4;
  As<SimHashAttention>(spec).center_keys = true;
  spec.seed = 99;
  AttentionSpec want = spec;
  As<SimHashAttention>(want).bands = 8;
  As<SimHashAttention>(want).center_keys = false;
  // Layers may differ: the keys of a hash reach the hashed layers.
  EXPECT_EQ(Over({AttentionSpec{}, spec}, {"--lsh_bands=8", "--lsh_center_keys=false"}),
            (std::vector<AttentionSpec>{AttentionSpec{}, want}));
}

TEST_F(AttentionFlagsTest, TheTypeThatAModelHasKeepsItsOptionsAndSeed) {
  AttentionSpec spec;
  spec.kind = SimHashAttention{};
  As<SimHashAttention>(spec).hashes = 4;
  spec.seed = 99;
  spec.min_length = kAutoLength;
  spec.tuned = TunedLengths{100, 200, "here"};
  EXPECT_EQ(Over({spec}, {"--attention", "simhash"}), std::vector<AttentionSpec>{spec});
  // Each layer its own; one of another type gets the type's defaults.
  AttentionSpec other = spec, fresh;
  other.seed = 100;
  fresh.kind = SimHashAttention{};
  EXPECT_EQ(Over({spec, AttentionSpec{}, other}, {"--attention", "simhash"}),
            (std::vector<AttentionSpec>{spec, fresh, other}));
  AttentionSpec changed = spec;
  As<SimHashAttention>(changed).hashes = 2;
  changed.min_length = 30;
  changed.tuned.reset();
  EXPECT_EQ(Over({spec}, {"--attention", "simhash", "--lsh_hashes", "2", "--lsh_min_length", "30"}),
            std::vector<AttentionSpec>{changed});
}

TEST_F(AttentionFlagsTest, AJsonObjectIsAllOptionsButTheSeedOfTheConfigStays) {
  AttentionSpec spec, want;
  spec.kind = want.kind = SimHashAttention{};
  As<SimHashAttention>(spec).hashes = 4;
  spec.seed = want.seed = 99;
  As<SimHashAttention>(want).bands = 6;
  EXPECT_EQ(Over({spec}, {"--attention", R"({"type": "simhash", "bands": 6})"}), std::vector<AttentionSpec>{want});
  want.seed = 0;
  EXPECT_EQ(Over({spec}, {"--attention", R"({"type": "simhash", "bands": 6, "seed": 0})"}),
            std::vector<AttentionSpec>{want});
}

TEST_F(AttentionFlagsTest, AJsonObjectReplacesEveryLayer) {
  AttentionSpec want;
  want.kind = SimHashAttention{};
  As<SimHashAttention>(want).bands = 6;
  want.seed = 5;
  EXPECT_EQ(Over({AttentionSpec{}, AttentionSpec{}}, {"--attention", R"({"type": "simhash", "bands": 6, "seed": 5})"}),
            std::vector<AttentionSpec>{want});
}

// A model's local layers are part of what it is: another attention is for the others.
TEST_F(AttentionFlagsTest, LocalLayersAreLeftAlone) {
  const AttentionSpec local{.kind = LocalAttention{}, .window = 5}, dense;
  AttentionSpec clustered = ParseAttentionSpec("clustered", "test");
  using Specs = std::vector<AttentionSpec>;
  EXPECT_EQ(Over({dense, local, dense, local}, {"--attention", "clustered"}),
            (Specs{clustered, local, clustered, local}));
  EXPECT_EQ(Over({local, dense}, {"--attention", R"({"type": "clustered"})"}), (Specs{local, clustered}));
  clustered.window = 9;
  EXPECT_EQ(Over({dense, local}, {"--attention", "clustered", "--lsh_window", "9"}), (Specs{clustered, local}));
  EXPECT_EQ(Over({clustered, local}, {"--attention", "dense"}), (Specs{dense, local}));
  EXPECT_EQ(Over({dense, local}, {"--attention", "local", "--lsh_window", "9"}),
            (Specs{{.kind = LocalAttention{}, .window = 9}, local}));
  EXPECT_EQ(Wrong({local, dense}, {"--lsh_window", "9"}), "--lsh_window: has no meaning for dense attention");
  // Where there are no others it is for all.
  EXPECT_EQ(Over({local}, {"--lsh_window", "9"}), (Specs{{.kind = LocalAttention{}, .window = 9}}));
  EXPECT_EQ(Over({local, local}, {"--attention", "dense"}), (Specs{dense}));
  EXPECT_EQ(Over({}, {"--attention", "local"}).front().window, 64);
}

// What is opened begins anew where the number of levels changes; otherwise it stays.
TEST_F(AttentionFlagsTest, LevelsOfClusters) {
  const auto clustered = [&](const std::vector<AttentionSpec>& over, const std::vector<std::string>& flags) {
    return As<ClusteredAttention>(Over(over, flags).front());
  };
  AttentionSpec two = ParseAttentionSpec({{"type", "clustered"}, {"cluster", {128, 16}}, {"open", {3, 2}}}, "test");
  using Numbers = std::vector<int>;
  EXPECT_EQ(clustered({two}, {"--lsh_cluster", "64,32"}).open, (Numbers{3, 2}));
  EXPECT_EQ(clustered({two}, {"--lsh_cluster", "16"}).open, (Numbers{4}));
  EXPECT_EQ(clustered({two}, {"--lsh_cluster", "16", "--lsh_open", "2"}).open, (Numbers{2}));
  EXPECT_EQ(clustered({two}, {"--lsh_open", "5,1"}).open, (Numbers{5, 1}));
  // Levels and bundles go together in no order, but one for the other does.
  AttentionSpec bundled = ParseAttentionSpec({{"type", "clustered"}, {"bundle", 64}}, "test");
  EXPECT_EQ(clustered({bundled}, {"--lsh_bundle", "1", "--lsh_cluster", "64,16", "--lsh_open", "3,2"}).open,
            (Numbers{3, 2}));
  EXPECT_EQ(clustered({two}, {"--lsh_bundle", "64", "--lsh_cluster", "64"}).bundle, 64);
  const ClusteredAttention automatic =
      clustered({}, {"--attention", "clustered", "--lsh_open", "3", "--lsh_cluster", "auto"});
  EXPECT_TRUE(automatic.cluster.empty());
  EXPECT_EQ(automatic.open, (Numbers{3}));
  EXPECT_THAT(Wrong({two}, {"--lsh_open", "4"}), HasSubstr("--lsh_open: \"open\": expected 2 numbers"));
  EXPECT_THAT(Wrong({two}, {"--lsh_cluster", "100,16"}), HasSubstr("got 100 before 16"));
  EXPECT_THAT(Wrong({two}, {"--lsh_cluster", "8,"}), HasSubstr("--lsh_cluster: expected 1 to 65536"));
}

TEST_F(AttentionFlagsTest, RefusesWhatCannotBe) {
  EXPECT_EQ(Wrong({AttentionSpec{}}, {"--lsh_bands", "3"}), "--lsh_bands: has no meaning for dense attention");
  EXPECT_THAT(Wrong({}, {"--lsh_bands", "0"}), HasSubstr("--lsh_bands: expected 1 to 62, got 0"));
  EXPECT_THAT(Wrong({}, {"--lsh_bands", "63"}), HasSubstr("--lsh_bands: expected 1 to 62, got 63"));
  EXPECT_THAT(Wrong({}, {"--lsh_table_size", "0"}), HasSubstr("--lsh_table_size: expected 1 to"));
  EXPECT_THAT(Wrong({}, {"--lsh_fill", "zreo"}), HasSubstr("--lsh_fill: expected zero, mean or none"));
  EXPECT_THAT(Wrong({}, {"--attention", "simhsh"}), HasSubstr("did you mean \"simhash\"?"));
  EXPECT_THAT(Wrong({}, {"--attention", "linear"}),
              HasSubstr("--attention: expected dense, simhash, reformer, clustered or local"));
  EXPECT_THAT(Wrong({}, {"--attention", R"({"type": "simhash", "bnads": 3})"}), HasSubstr("did you mean \"bands\"?"));
  EXPECT_THAT(Wrong({}, {"--attention", R"({"type": "simhash")"}), HasSubstr("--attention"));
}

AttentionSpec Tuned() {
  AttentionSpec spec;
  spec.kind = SimHashAttention{};
  spec.min_length = 30;
  spec.tuned = TunedLengths{200, 350, ""};
  return spec;
}

TEST_F(AttentionFlagsTest, AutoIsWhatTuneWroteIntoTheConfig) {
  const std::vector<AttentionSpec> specs = Over({Tuned()}, {"--lsh_min_length", "auto"});
  EXPECT_EQ(MinLength(specs[0]), 350);
}

TEST_F(AttentionFlagsTest, AutoNeedsAMeasurement) {
  AttentionSpec spec = Tuned();
  spec.tuned.reset();
  EXPECT_THAT(Wrong({spec}, {"--lsh_min_length", "auto"}), HasSubstr("run \"lshformer tune"));
}

TEST_F(AttentionFlagsTest, AutoNeedsAMeasurementOfANewTypeToo) {
  EXPECT_THAT(Wrong({Tuned()}, {"--attention", "reformer", "--lsh_min_length", "auto"}),
              HasSubstr("nothing was measured"));
  EXPECT_THAT(Wrong({Tuned()}, {"--attention", R"({"type": "simhash"})", "--lsh_min_length", "auto"}),
              HasSubstr("nothing was measured"));
  EXPECT_EQ(MinLength(Over({Tuned()}, {"--attention", "simhash", "--lsh_min_length", "auto"})[0]), 350);
}

TEST_F(AttentionFlagsTest, LengthsHoldForWhatWasMeasuredOnly) {
  AttentionSpec spec = Tuned();
  spec.min_length = kAutoLength;
  EXPECT_THAT(Wrong({spec}, {"--lsh_bands", "5"}), HasSubstr("--lsh_bands: the model's \"min_length\" is \"auto\""));
}

TEST_F(AttentionFlagsTest, AnotherKeyDropsTheLengthsAndANumberReplacesThem) {
  AttentionSpec spec = Tuned();
  spec.min_length = kAutoLength;
  const AttentionSpec changed = Over({spec}, {"--lsh_bands", "5", "--lsh_min_length", "0100"})[0];
  EXPECT_EQ(changed.min_length, 100);
  EXPECT_FALSE(changed.tuned.has_value());
}

TEST_F(AttentionFlagsTest, WhatIsNoLengthIsRefused) {
  EXPECT_THAT(Wrong({Tuned()}, {"--lsh_min_length", "otto"}), HasSubstr("--lsh_min_length: expected 0 to"));
  EXPECT_THAT(Wrong({Tuned()}, {"--lsh_min_length", "-1"}), HasSubstr("--lsh_min_length: expected 0 to"));
}

TEST_F(AttentionFlagsTest, KeysBelongToTheirTypes) {
  EXPECT_EQ(Wrong({AttentionSpec{}}, {"--lsh_chunk", "64"}), "--lsh_chunk: has no meaning for dense attention");
}

TEST_F(AttentionFlagsTest, SortedPairsBeginWithTheirOwnDefaults) {
  AttentionSpec spec;
  spec.kind = SimHashAttention{};
  As<SimHashAttention>(spec).bands = 8;
  As<SimHashAttention>(spec).fill = Fill::kMean;
  AttentionSpec want = spec;
  As<SimHashAttention>(want).pairs = Pairs::kSorted;
  As<SimHashAttention>(want).bands = 0;
  As<SimHashAttention>(want).look_ahead = 1;
  EXPECT_EQ(Over({spec}, {"--lsh_pairs", "sorted"}), std::vector<AttentionSpec>{want});
  As<SimHashAttention>(want).chunk = 32;
  EXPECT_EQ(Over({want}, {"--lsh_pairs", "sorted"}), std::vector<AttentionSpec>{want});  // they were
}

TEST_F(AttentionFlagsTest, SortedPairsWithKeysAndBack) {
  AttentionSpec want;
  want.kind = SimHashAttention{};
  As<SimHashAttention>(want).pairs = Pairs::kSorted;
  As<SimHashAttention>(want).bands = 9;
  As<SimHashAttention>(want).chunk = 32;
  As<SimHashAttention>(want).look_back = 2;
  As<SimHashAttention>(want).look_ahead = 0;
  EXPECT_EQ(Over({}, {"--attention", "simhash", "--lsh_look_ahead", "0", "--lsh_look_back", "2", "--lsh_chunk", "32",
                      "--lsh_bands", "9", "--lsh_pairs", "sorted"}),
            std::vector<AttentionSpec>{want});
}

TEST_F(AttentionFlagsTest, FullPairsBeginWithTheirOwnDefaultsAgain) {
  AttentionSpec sorted;
  sorted.kind = SimHashAttention{};
  As<SimHashAttention>(sorted).pairs = Pairs::kSorted;
  As<SimHashAttention>(sorted).bands = 9;
  As<SimHashAttention>(sorted).chunk = 32;
  AttentionSpec want;
  want.kind = SimHashAttention{};
  EXPECT_EQ(Over({sorted}, {"--lsh_pairs", "full"}), std::vector<AttentionSpec>{want});
}

TEST_F(AttentionFlagsTest, BandsMayFollowTheLength) {
  AttentionSpec want;
  want.kind = SimHashAttention{};
  As<SimHashAttention>(want).bands = 0;
  EXPECT_EQ(Over({}, {"--attention", "simhash", "--lsh_bands", "auto"}), std::vector<AttentionSpec>{want});
  EXPECT_THAT(Wrong({}, {"--lsh_bands", "many"}), HasSubstr("--lsh_bands: expected 1 to 62 or \"auto\", got \"many\""));
  const std::vector<std::string> simhash{"--attention", "simhash"};
  const auto wrong = [&](std::vector<std::string> words) {
    words.insert(words.begin(), simhash.begin(), simhash.end());
    return Wrong({}, words);
  };
  EXPECT_THAT(wrong({"--lsh_bands", "auto", "--lsh_table_size", "64"}), HasSubstr("it is 2^bands with"));
  EXPECT_THAT(wrong({"--lsh_bands", "31", "--lsh_pairs", "sorted"}), HasSubstr("expected 1 to 30, got 31"));
}

TEST_F(AttentionFlagsTest, WindowAndGlobalTokensAreOfEveryHash) {
  AttentionSpec want;
  want.kind = ReformerAttention{};
  want.window = 4;
  want.global_first = want.global_last = true;
  EXPECT_EQ(Over({}, {"--attention", "reformer", "--lsh_window", "4", "--lsh_global", "cls,sep"}),
            std::vector<AttentionSpec>{want});
}

TEST_F(AttentionFlagsTest, RefusesWindowsThatCannotBe) {
  EXPECT_EQ(Wrong({AttentionSpec{}}, {"--lsh_window", "4"}), "--lsh_window: has no meaning for dense attention");
  EXPECT_THAT(Wrong({}, {"--lsh_global", "first"}),
              HasSubstr("--lsh_global: expected \"none\", \"cls\", \"sep\" or \"cls,sep\", got \"first\""));
}

TEST_F(AttentionFlagsTest, ChunksOfSimHashAreThoseOfSortedPairs) {
  EXPECT_THAT(Wrong({}, {"--attention", "simhash", "--lsh_chunk", "32"}),
              HasSubstr("only \"pairs\" \"sorted\" has chunks"));
}

TEST_F(AttentionFlagsTest, RefusesReformersThatCannotWork) {
  EXPECT_THAT(Wrong({}, {"--lsh_chunk", "0"}), HasSubstr("--lsh_chunk: expected 1 to"));
  EXPECT_THAT(Wrong({}, {"--lsh_rounds", "0"}), HasSubstr("--lsh_rounds: expected 1 to"));
  EXPECT_THAT(Wrong({}, {"--lsh_buckets", "7"}), HasSubstr("--lsh_buckets: expected an even number"));
  EXPECT_THAT(Wrong({}, {"--lsh_buckets", "4,"}), HasSubstr("--lsh_buckets: expected \"auto\", an even number"));
  EXPECT_THAT(Wrong({}, {"--lsh_buckets", "4,x"}), HasSubstr("--lsh_buckets: expected \"auto\", an even number"));
  EXPECT_THAT(Wrong({}, {"--lsh_buckets", "2,2,2"}), HasSubstr("--lsh_buckets: expected one or two factors"));
  EXPECT_THAT(Wrong({}, {"--lsh_scale", "d"}), HasSubstr("--lsh_scale: expected none or sqrt_d"));
  EXPECT_THAT(Wrong({}, {"--attention", "reformer", "--lsh_bands", "4"}), HasSubstr("no meaning for reformer"));
}

TEST_F(AttentionFlagsTest, WindowsOfOneBucketHaveNothingToWrap) {
  EXPECT_FALSE(As<ReformerAttention>(Over({}, {"--attention=reformer", "--lsh_cross_bucket=false"})[0]).cross_bucket);
  EXPECT_FALSE(
      As<ReformerAttention>(Over({}, {"--attention=reformer", "--lsh_cross_bucket=false", "--lsh_wrap=false"})[0])
          .wrap);
  EXPECT_EQ(Wrong({}, {"--attention=reformer", "--lsh_wrap", "--lsh_cross_bucket=false"}),
            "--lsh_wrap: has no meaning beside --lsh_cross_bucket false, where views end with their round");
}

TEST_F(AttentionFlagsTest, EveryKeyOfReformer) {
  AttentionSpec want;
  want.kind = ReformerAttention{};
  As<ReformerAttention>(want).rounds = 2;
  As<ReformerAttention>(want).buckets = {4, 6};
  As<ReformerAttention>(want).chunk = 32;
  As<ReformerAttention>(want).look_back = 2;
  As<ReformerAttention>(want).look_ahead = 1;
  As<ReformerAttention>(want).scale = ScoreScale::kSqrtD;
  As<ReformerAttention>(want).cross_bucket = false;
  As<ReformerAttention>(want).wrap = false;
  As<ReformerAttention>(want).causal = true;
  As<ReformerAttention>(want).count_pairs_once = true;
  want.resample = Resample::kNever;
  want.min_length = 40;
  EXPECT_EQ(Over({AttentionSpec{}}, {"--attention",
                                     "reformer",
                                     "--lsh_rounds",
                                     "2",
                                     "--lsh_buckets",
                                     "4,6",
                                     "--lsh_chunk",
                                     "32",
                                     "--lsh_look_back",
                                     "2",
                                     "--lsh_look_ahead",
                                     "1",
                                     "--lsh_scale",
                                     "sqrt_d",
                                     "--lsh_cross_bucket=false",
                                     "--lsh_wrap=false",
                                     "--lsh_causal",
                                     "--lsh_count_pairs_once",
                                     "--lsh_resample",
                                     "never",
                                     "--lsh_min_length",
                                     "40"}),
            std::vector<AttentionSpec>{want});
}

TEST_F(AttentionFlagsTest, BucketsBackToAuto) {
  AttentionSpec spec;
  spec.kind = ReformerAttention{};
  As<ReformerAttention>(spec).buckets = {8, 0};
  AttentionSpec want = spec;
  As<ReformerAttention>(want).buckets = {0, 0};
  EXPECT_EQ(Over({spec}, {"--lsh_buckets", "auto"}), std::vector<AttentionSpec>{want});
}

// What a run writes of its attention flags is a file of flags that gives them back: one number or several, words or
// switches.
TEST(LshFlags, SettingsAreAFileOfTheSameFlags) {
  const std::map<std::string, std::vector<std::string>> lists{
      {"open", {"1", "4", "4,3"}},       {"cluster", {"auto", "16", "128,32,8"}},
      {"buckets", {"auto", "8", "4,6"}}, {"global", {"none", "cls", "cls,sep"}},
      {"min_length", {"0", "64"}},       {"bands", {"auto", "3"}}};
  const testing::TempFolder folder;
  for (const LshKey& key : LshKeys()) {
    const auto& option = *key.option;
    std::vector<std::string> texts = option.type == OptionType::kName      ? option.names
                                     : option.type == OptionType::kBoolean ? std::vector<std::string>{"true", "false"}
                                                                           : std::vector<std::string>{"1"};
    if (const auto found = lists.find(option.name); found != lists.end()) texts = found->second;
    for (const std::string& text : texts) {
      SCOPED_TRACE(option.name + " " + text);
      const auto given = [&](std::vector<std::string> words) {
        CLI::App app;
        CLI::App* run = app.add_subcommand("run", "");
        AttentionChanges changes;
        AddLshFlags(*run, changes);
        words.insert(words.begin(), "run");
        std::vector<std::string> ordered = OrderArguments(app, words);
        std::reverse(ordered.begin(), ordered.end());
        app.parse(std::move(ordered));
        return changes.keys;
      };
      const auto keys = given({"--lsh_" + option.name + "=" + text});
      ASSERT_EQ(keys.size(), 1u);
      Json settings;
      for (const auto& [name, value] : keys) settings["lsh_" + name] = value;
      EXPECT_EQ(given({folder.Write("training_args.json", FlagsFromSettings(settings).dump())}), keys);
    }
  }
  // Files stay a flag that is given several times.
  EXPECT_EQ(FlagsFromSettings({{"train_file", {"a", "b"}}}), (Json{{"train_file", {"a", "b"}}}));
}

}  // namespace
}  // namespace lshformer::cli
