#include "attention/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "attention/spec_options.h"
#include "base/error.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;

AttentionSpec Parse(const std::string& text) {
  return ParseAttentionSpec(ParseJson(text, "f"), "config.json: \"attention\"");
}
std::string SpecError(const std::string& text) {
  const std::string message = ErrorOf([&] { Parse(text); });
  const std::string where = "config.json: \"attention\": ";
  return message.starts_with(where) ? message.substr(where.size()) : message;
}

TEST(ParseAttentionSpec, Defaults) {
  AttentionSpec simhash;
  simhash.kind = SimHashAttention{};
  EXPECT_EQ(Parse(R"("dense")"), AttentionSpec{});
  EXPECT_EQ(Parse(R"({"type":"dense"})"), AttentionSpec{});
  EXPECT_EQ(Parse(R"("simhash")"), simhash);
  EXPECT_EQ(Parse(R"({"type":"simhash"})"), simhash);
  // As docs/attention.md promises.
  EXPECT_EQ(ToJson(simhash).dump(),
            R"({"type":"simhash","bands":2,"hashes":1,"table_size":64,"fill":"zero","pairs":"full",)"
            R"("window":0,"global":"none","resample":"call","center_keys":false,"min_length":0,"seed":0})");
  EXPECT_EQ(ToJson(AttentionSpec{}).dump(), R"({"type":"dense","seed":0})");
  AttentionSpec reformer;
  reformer.kind = ReformerAttention{};
  EXPECT_EQ(Parse(R"("reformer")"), reformer);
  EXPECT_EQ(ToJson(reformer).dump(),
            R"({"type":"reformer","rounds":4,"buckets":"auto","chunk":64,"look_back":1,"look_ahead":0,)"
            R"("scale":"none","cross_bucket":true,"wrap":true,"causal":false,"count_pairs_once":false,)"
            R"("window":0,"global":"none","resample":"call","min_length":0,"seed":0})");
  const AttentionSpec clustered = Parse(R"("clustered")");
  EXPECT_EQ(
      ToJson(clustered).dump(),
      R"({"type":"clustered","cluster":"auto","open":4,"threshold":"none","groups":4,"bundle":1,"directions":"random","window":2,"global":"cls,sep","min_length":0,"seed":0})");
  EXPECT_EQ(ShortestSparse(clustered), 81);
}

TEST(ParseAttentionSpec, EveryKeyGoesThereAndBack) {
  const std::string text =
      R"({"type":"simhash","bands":62,"hashes":4,"table_size":256,"fill":"mean","pairs":"reference",)"
      R"("window":0,"global":"none","resample":"never","center_keys":true,"min_length":384,"seed":18446744073709551615})";
  const AttentionSpec spec = Parse(text);
  EXPECT_EQ(As<SimHashAttention>(spec).bands, 62);
  EXPECT_EQ(As<SimHashAttention>(spec).hashes, 4);
  EXPECT_EQ(As<SimHashAttention>(spec).table_size, 256);
  EXPECT_EQ(As<SimHashAttention>(spec).fill, Fill::kMean);
  EXPECT_EQ(As<SimHashAttention>(spec).pairs, Pairs::kReference);
  EXPECT_EQ(spec.resample, Resample::kNever);
  EXPECT_TRUE(As<SimHashAttention>(spec).center_keys);
  EXPECT_EQ(spec.min_length, 384);
  EXPECT_EQ(spec.seed, UINT64_MAX);
  EXPECT_EQ(ToJson(spec).dump(), text);
  EXPECT_EQ(As<SimHashAttention>(Parse(R"({"type":"simhash","fill":"none"})")).fill, Fill::kNone);
  EXPECT_EQ(Parse(R"({"type":"dense","seed":7})").seed, 7u);
}

TEST(ParseAttentionSpec, SortedPairsHaveChunksAndBandsByTheLength) {
  const AttentionSpec plain = Parse(R"({"type":"simhash","pairs":"sorted"})");
  EXPECT_EQ(
      ToJson(plain).dump(),
      R"({"type":"simhash","bands":"auto","hashes":1,"fill":"zero","pairs":"sorted","chunk":64,"look_back":1,)"
      R"("look_ahead":1,"window":0,"global":"none","resample":"call","center_keys":false,"min_length":0,"seed":0})");
  EXPECT_EQ(Parse(ToJson(plain).dump()), plain);
  const std::string text =
      R"({"type":"simhash","bands":9,"hashes":2,"fill":"none","pairs":"sorted","chunk":32,"look_back":0,)"
      R"("look_ahead":3,"window":5,"global":"cls,sep","resample":"call","center_keys":false,"min_length":0,"seed":0})";
  const AttentionSpec spec = Parse(text);
  EXPECT_EQ(As<SimHashAttention>(spec).bands, 9);
  EXPECT_EQ(As<SimHashAttention>(spec).chunk, 32);
  EXPECT_EQ(As<SimHashAttention>(spec).look_back, 0);
  EXPECT_EQ(As<SimHashAttention>(spec).look_ahead, 3);
  EXPECT_EQ(spec.window, 5);
  EXPECT_TRUE(spec.global_first && spec.global_last);
  EXPECT_EQ(ToJson(spec).dump(), text);
  const AttentionSpec growing = Parse(R"({"type":"simhash","bands":"auto"})");
  EXPECT_EQ(As<SimHashAttention>(growing).bands, 0);
  EXPECT_EQ(Parse(ToJson(growing).dump()), growing);
  EXPECT_FALSE(ToJson(growing).contains("table_size"));
}

TEST(ParseAttentionSpec, EveryKeyOfReformerGoesThereAndBack) {
  const std::string text =
      R"({"type":"reformer","rounds":2,"buckets":[4,6],"chunk":32,"look_back":2,"look_ahead":1,)"
      R"("scale":"sqrt_d","cross_bucket":false,"wrap":false,"causal":true,"count_pairs_once":true,)"
      R"("window":7,"global":"sep","resample":"never","min_length":100,"seed":9})";
  const AttentionSpec spec = Parse(text);
  EXPECT_EQ(As<ReformerAttention>(spec).rounds, 2);
  EXPECT_EQ(As<ReformerAttention>(spec).buckets, (std::array<int, 2>{4, 6}));
  EXPECT_EQ(As<ReformerAttention>(spec).chunk, 32);
  EXPECT_EQ(As<ReformerAttention>(spec).look_back, 2);
  EXPECT_EQ(As<ReformerAttention>(spec).look_ahead, 1);
  EXPECT_EQ(As<ReformerAttention>(spec).scale, ScoreScale::kSqrtD);
  EXPECT_FALSE(As<ReformerAttention>(spec).cross_bucket);
  EXPECT_FALSE(As<ReformerAttention>(spec).wrap);
  EXPECT_TRUE(As<ReformerAttention>(spec).causal);
  EXPECT_TRUE(As<ReformerAttention>(spec).count_pairs_once);
  EXPECT_EQ(spec.resample, Resample::kNever);
  EXPECT_EQ(spec.min_length, 100);
  EXPECT_EQ(spec.seed, 9u);
  EXPECT_EQ(ToJson(spec).dump(), text);
  EXPECT_EQ(Parse(R"({"type":"reformer","buckets":[8]})"), Parse(R"({"type":"reformer","buckets":8})"));
  EXPECT_EQ(ToJson(Parse(R"({"type":"reformer","buckets":8})"))["buckets"], 8);
}

TEST(ParseAttentionSpec, RefusesReformersThatCannotWork) {
  const auto error = [](const std::string& member) { return SpecError(R"({"type":"reformer",)" + member + "}"); };
  EXPECT_EQ(error(R"("rounds":0)"), R"("rounds": expected 1 to 1024, got 0)");
  EXPECT_EQ(error(R"("chunk":0)"), R"("chunk": expected 1 to 1048576, got 0)");
  EXPECT_EQ(error(R"("look_back":-1)"), R"("look_back": expected 0 to 1048576, got -1)");
  EXPECT_EQ(error(R"("look_ahead":1.5)"), R"("look_ahead": expected 0 to 1048576, got 1.5)");
  EXPECT_EQ(error(R"("buckets":7)"),
            R"("buckets": expected an even number (a bucket is a rotated direction or its opposite), got 7)");
  EXPECT_EQ(error(R"("buckets":[4,5])"),
            R"("buckets": expected an even number (a bucket is a rotated direction or its opposite), got 5)");
  const std::string expected = R"("buckets": expected "auto", an even number from 2 to 4096 or two of them, got )";
  EXPECT_EQ(error(R"("buckets":0)"), expected + "0");
  EXPECT_EQ(error(R"("buckets":[2,5000])"), expected + "5000");
  EXPECT_EQ(error(R"("buckets":18446744073709551615)"), expected + "18446744073709551615");
  EXPECT_EQ(error(R"("buckets":"many")"), expected + "\"many\"");
  EXPECT_EQ(error(R"("buckets":[2,2,2])"), R"("buckets": expected one or two factors, got a list of 3 values)");
  EXPECT_EQ(error(R"("scale":"d")"), R"("scale": expected "none" or "sqrt_d", got "d")");
  EXPECT_EQ(error(R"("causal":1)"), R"("causal": expected true or false, got 1)");
  EXPECT_EQ(error(R"("bands":2)"), R"("bands" has no meaning for type "reformer")");
  EXPECT_EQ(error(R"("chunks":2)"), R"(unknown key "chunks" (did you mean "chunk"?))");
  EXPECT_EQ(SpecError(R"({"type":"simhash","chunk":2})"),
            R"("chunk" has no meaning here: only "pairs" "sorted" has chunks)");
}

TEST(ParseAttentionSpec, RefusesOtherTypes) {
  EXPECT_EQ(SpecError(R"("linear")"),
            R"("type": expected "dense", "simhash", "reformer", "clustered" or "local", got "linear")");
  EXPECT_EQ(SpecError(R"({"type":"Dense"})"),
            R"("type": expected "dense", "simhash", "reformer", "clustered" or "local", got "Dense")");
  EXPECT_EQ(SpecError(R"({"type":1})"), R"("type": expected a string, got 1)");
  EXPECT_EQ(SpecError(R"({"bands":2})"), R"("type" is missing)");
  EXPECT_EQ(SpecError("5"), "expected a type name or an object, got 5");
  EXPECT_EQ(SpecError("[]"), "expected a type name or an object, got a list of 0 values");
}

TEST(ParseAttentionSpec, RefusesUnknownKeysWithASuggestion) {
  EXPECT_EQ(SpecError(R"({"type":"simhash","band":2})"), R"(unknown key "band" (did you mean "bands"?))");
  EXPECT_EQ(SpecError(R"({"type":"simhash","tablesize":2})"),
            R"(unknown key "tablesize" (did you mean "table_size"?))");
  EXPECT_EQ(SpecError(R"({"type":"simhash","temperature":2})"), R"(unknown key "temperature")");
  EXPECT_EQ(SpecError(R"({"type":"dense","bands":2})"), R"("bands" has no meaning for type "dense")");
  EXPECT_EQ(SpecError(R"({"type":"dense","min_length":2})"), R"("min_length" has no meaning for type "dense")");
}

TEST(ParseAttentionSpec, RefusesValuesOutOfRange) {
  const auto error = [](const std::string& member) { return SpecError(R"({"type":"simhash",)" + member + "}"); };
  EXPECT_EQ(error(R"("bands":0)"), R"("bands": expected 1 to 62, got 0)");
  EXPECT_EQ(error(R"("bands":63)"), R"("bands": expected 1 to 62, got 63)");
  EXPECT_EQ(error(R"("bands":"many")"), R"("bands": expected 1 to 62 or "auto", got "many")");
  EXPECT_EQ(error(R"("bands":2.5)"), R"("bands": expected 1 to 62 or "auto", got 2.5)");
  EXPECT_EQ(error(R"("bands":31,"pairs":"sorted")"), R"("bands": expected 1 to 30, got 31)");
  EXPECT_EQ(error(R"("bands":"auto","table_size":64)"),
            R"("table_size" has no meaning here: it is 2^bands with "bands" "auto")");
  EXPECT_EQ(error(R"("pairs":"sorted","table_size":64)"),
            R"("table_size" has no meaning here: it is 2^bands with "pairs" "sorted")");
  EXPECT_EQ(error(R"("pairs":"sorted","chunk":0)"), R"("chunk": expected 1 to 1048576, got 0)");
  EXPECT_EQ(error(R"("pairs":"sorted","look_ahead":-1)"), R"("look_ahead": expected 0 to 1048576, got -1)");
  EXPECT_EQ(error(R"("window":-1)"), R"("window": expected 0 to 2147483647, got -1)");
  EXPECT_EQ(error(R"("global":"mask")"), R"("global": expected "none", "cls", "sep" or "cls,sep", got "mask")");
  EXPECT_EQ(error(R"("global":"cls","pairs":"reference")"),
            R"("global": "pairs" "reference" takes its pairs from the hash alone, as the authors' code does)");
  EXPECT_EQ(SpecError(R"({"type":"dense","window":2})"), R"("window" has no meaning for type "dense")");
  EXPECT_EQ(error(R"("look_back":1)"), R"("look_back" has no meaning here: only "pairs" "sorted" has chunks)");
  EXPECT_EQ(error(R"("pairs":"reference","bands":"auto")"),
            R"("bands": "auto" is not what the authors' "pairs" "reference" does, expected a number)");
  EXPECT_EQ(error(R"("hashes":0)"), R"("hashes": expected 1 to 1024, got 0)");
  EXPECT_EQ(error(R"("hashes":-1)"), R"("hashes": expected 1 to 1024, got -1)");
  EXPECT_EQ(error(R"("table_size":0)"), R"("table_size": expected 1 to 16777216, got 0)");
  EXPECT_EQ(error(R"("table_size":1000000000000)"), R"("table_size": expected 1 to 16777216, got 1000000000000)");
  EXPECT_EQ(error(R"("min_length":-1)"), R"("min_length": expected 0 to 2147483647, got -1)");
  EXPECT_EQ(error(R"("fill":"max")"), R"("fill": expected "zero", "mean" or "none", got "max")");
  EXPECT_EQ(error(R"("fill":null)"), R"("fill": expected a string, got null)");
  EXPECT_EQ(error(R"("pairs":"half")"), R"("pairs": expected "full", "reference" or "sorted", got "half")");
  EXPECT_EQ(error(R"("resample":true)"), R"("resample": expected a string, got true)");
  EXPECT_EQ(error(R"("center_keys":1)"), R"("center_keys": expected true or false, got 1)");
  EXPECT_EQ(error(R"("seed":-1)"), R"("seed": expected 0 to 18446744073709551615, got -1)");
  EXPECT_EQ(error(R"("seed":1.5)"), R"("seed": expected 0 to 18446744073709551615, got 1.5)");
}

TEST(IsSparseAt, FromMinLengthOn) {
  AttentionSpec spec;
  spec.min_length = 4;
  EXPECT_FALSE(IsSparseAt(spec, 100));  // dense
  spec.kind = SimHashAttention{};
  EXPECT_FALSE(IsSparseAt(spec, 3));
  EXPECT_TRUE(IsSparseAt(spec, 4));
  spec.min_length = 0;
  EXPECT_TRUE(IsSparseAt(spec, 0));
  spec.kind = ReformerAttention{};
  EXPECT_FALSE(IsSparseAt(spec, 64));  // one chunk
  EXPECT_TRUE(IsSparseAt(spec, 65));
  spec.min_length = 100;
  EXPECT_FALSE(IsSparseAt(spec, 99));
  EXPECT_TRUE(IsSparseAt(spec, 100));
}

TEST(IsSparseAt, NotWhereEveryWindowOfSortedPairsHoldsTheWholeSequence) {
  AttentionSpec spec;
  spec.kind = SimHashAttention{};
  As<SimHashAttention>(spec).pairs = Pairs::kSorted;
  As<SimHashAttention>(spec).chunk = 10;
  As<SimHashAttention>(spec).look_ahead = 2;
  EXPECT_FALSE(IsSparseAt(spec, 20));  // both chunks are one back or one ahead
  EXPECT_TRUE(IsSparseAt(spec, 21));
  As<SimHashAttention>(spec).look_back = 0;
  EXPECT_FALSE(IsSparseAt(spec, 10));
  EXPECT_TRUE(IsSparseAt(spec, 11));
  As<SimHashAttention>(spec).look_back = As<SimHashAttention>(spec).look_ahead = 1 << 20;
  EXPECT_FALSE(IsSparseAt(spec, 10'000'000));
}

TEST(BandsOf, GrowWithTheLengthUnlessGiven) {
  AttentionSpec spec;
  spec.kind = SimHashAttention{};
  EXPECT_EQ(BandsOf(As<SimHashAttention>(spec), 1'000'000), 2);
  EXPECT_EQ(TableSizeOf(As<SimHashAttention>(spec), 1'000'000), 64);
  As<SimHashAttention>(spec).bands = 0;
  EXPECT_EQ(BandsOf(As<SimHashAttention>(spec), 0), 1);
  EXPECT_EQ(BandsOf(As<SimHashAttention>(spec), 256), 1);  // two buckets of 128
  EXPECT_EQ(BandsOf(As<SimHashAttention>(spec), 257), 2);
  EXPECT_EQ(BandsOf(As<SimHashAttention>(spec), 4096), 5);
  EXPECT_EQ(BandsOf(As<SimHashAttention>(spec), 16384), 7);
  EXPECT_EQ(BandsOf(As<SimHashAttention>(spec), INT32_MAX), 24);
  EXPECT_EQ(TableSizeOf(As<SimHashAttention>(spec), 4096), 32);
  As<SimHashAttention>(spec).pairs = Pairs::kSorted;
  EXPECT_EQ(BandsOf(As<SimHashAttention>(spec), 4096), 7);  // 128 buckets of half a chunk
  As<SimHashAttention>(spec).chunk = 1;
  EXPECT_EQ(BandsOf(As<SimHashAttention>(spec), 4096), 13);
  EXPECT_EQ(BandsOf(As<SimHashAttention>(spec), INT32_MAX), 30);
  As<SimHashAttention>(spec).bands = 4;
  EXPECT_EQ(BandsOf(As<SimHashAttention>(spec), 4096), 4);
  EXPECT_EQ(TableSizeOf(As<SimHashAttention>(spec), 4096), 16);
}

TEST(MinLength, AutoIsTheLargestLengthTuned) {
  const auto lengths = [](const std::string& tuned) {
    const AttentionSpec spec = Parse(R"({"type":"simhash","min_length":"auto","tuned_lengths":{)" + tuned + "}}");
    EXPECT_EQ(MinLength(spec), ShortestSparse(spec));
    return MinLength(spec);
  };
  EXPECT_EQ(lengths(R"("forward":200,"forward_backward":350)"), 350);
  EXPECT_EQ(lengths(R"("forward":400,"forward_backward":350)"), 400);
  EXPECT_EQ(lengths(R"("forward":400)"), 400);
  EXPECT_EQ(lengths(R"("forward_backward":30)"), 30);
  EXPECT_EQ(lengths(R"("forward":200,"forward_backward":"never")"), kNeverSparse);
}

TEST(MinLength, AutoPicksForEachSequence) {
  AttentionSpec spec =
      Parse(R"({"type":"simhash","min_length":"auto","tuned_lengths":{"forward":200,"forward_backward":350}})");
  EXPECT_FALSE(IsSparseAt(spec, 349));
  EXPECT_TRUE(IsSparseAt(spec, 350));
  spec.kind = ReformerAttention{};
  As<ReformerAttention>(spec).chunk = 400;
  EXPECT_EQ(ShortestSparse(spec), 401);
  EXPECT_FALSE(IsSparseAt(spec, 400));
  EXPECT_TRUE(IsSparseAt(spec, 401));
  spec.tuned->forward = kNeverSparse;
  EXPECT_FALSE(IsSparseAt(spec, INT32_MAX));
  spec.tuned.reset();  // asked for, but not there: exact
  EXPECT_FALSE(IsSparseAt(spec, 1'000'000));
}

TEST(MinLength, ANumberWinsOverWhatWasTuned) {
  const AttentionSpec spec =
      Parse(R"({"type":"simhash","min_length":50,"tuned_lengths":{"forward":200,"machine":"a CPU"}})");
  EXPECT_EQ(MinLength(spec), 50);
  EXPECT_EQ(spec.tuned->machine, "a CPU");
}

TEST(ParseAttentionSpec, TunedLengthsGoThereAndBack) {
  const std::string text =
      R"({"type":"simhash","bands":2,"hashes":1,"table_size":64,"fill":"zero","pairs":"full",)"
      R"("window":0,"global":"none","resample":"call","center_keys":false,"min_length":"auto",)"
      R"("tuned_lengths":{"forward":128,"forward_backward":"never","machine":"a CPU, avx2, 2 threads"},"seed":0})";
  EXPECT_EQ(ToJson(Parse(text)).dump(), text);
}

TEST(ParseAttentionSpec, RefusesAutoWithoutAMeasurement) {
  const auto error = [](const std::string& member) { return SpecError(R"({"type":"simhash",)" + member + "}"); };
  EXPECT_EQ(error(R"("min_length":"auto")"),
            "\"min_length\" is \"auto\", but nothing was measured for this attention; run \"lshformer tune "
            "model_name_or_path DIR\", or give a number");
  EXPECT_EQ(error(R"("min_length":"often")"), R"("min_length": expected 0 to 2147483647, got "often")");
  EXPECT_EQ(error(R"("tuned_lengths":7)"), R"("tuned_lengths": expected an object, got 7)");
  EXPECT_EQ(error(R"("tuned_lengths":{})"),
            R"("tuned_lengths": expected "forward" or "forward_backward", got neither)");
  EXPECT_EQ(error(R"("tuned_lengths":{"forwards":7})"),
            R"("tuned_lengths": unknown key "forwards" (did you mean "forward"?))");
  EXPECT_EQ(error(R"("tuned_lengths":{"forward":-1})"),
            R"("tuned_lengths": "forward": expected 0 to 2147483647, got -1)");
  EXPECT_EQ(error(R"("tuned_lengths":{"forward":"sometimes"})"),
            R"("tuned_lengths": "forward": expected 0 to 2147483647, got "sometimes")");
  EXPECT_EQ(SpecError(R"({"type":"dense","tuned_lengths":{"forward":1}})"),
            R"("tuned_lengths" has no meaning for type "dense")");
}

TEST(SameWork, WhatTakesTheSameTime) {
  AttentionSpec spec;
  spec.kind = SimHashAttention{};
  AttentionSpec other = spec;
  other.seed = 7;
  other.resample = Resample::kNever;
  other.min_length = 100;
  other.tuned = TunedLengths{5, 6, "here"};
  EXPECT_TRUE(SameWork(spec, other));
  As<SimHashAttention>(other).bands = 3;
  EXPECT_FALSE(SameWork(spec, other));
}

TEST(BucketFactors, GrowWithTheLengthUnlessGiven) {
  AttentionSpec spec;
  spec.kind = ReformerAttention{};
  const auto factors = [&](int64_t length) { return BucketFactors(As<ReformerAttention>(spec), length); };
  EXPECT_EQ(factors(0), (std::array<int, 2>{2, 1}));
  EXPECT_EQ(factors(65), (std::array<int, 2>{2, 1}));
  EXPECT_EQ(factors(127), (std::array<int, 2>{2, 1}));
  EXPECT_EQ(factors(128), (std::array<int, 2>{4, 1}));
  EXPECT_EQ(factors(4096), (std::array<int, 2>{128, 1}));
  EXPECT_EQ(factors(8191), (std::array<int, 2>{128, 1}));
  EXPECT_EQ(factors(8192), (std::array<int, 2>{16, 16}));
  EXPECT_EQ(factors(16384), (std::array<int, 2>{16, 32}));
  EXPECT_EQ(factors(INT32_MAX), (std::array<int, 2>{4096, 4096}));
  EXPECT_EQ(RotationColumns(As<ReformerAttention>(spec), 4096), 64);
  EXPECT_EQ(RotationColumns(As<ReformerAttention>(spec), 16384), 24);
  As<ReformerAttention>(spec).buckets = {6, 0};
  EXPECT_EQ(factors(100000), (std::array<int, 2>{6, 1}));
  EXPECT_EQ(RotationColumns(As<ReformerAttention>(spec), 1), 3);
  As<ReformerAttention>(spec).buckets = {4, 6};
  EXPECT_EQ(factors(1), (std::array<int, 2>{4, 6}));
  EXPECT_EQ(RotationColumns(As<ReformerAttention>(spec), 1), 5);
}

TEST(CheckView, RefusesAWindowThatComesRoundToItself) {
  AttentionSpec spec;
  spec.kind = ReformerAttention{};
  As<ReformerAttention>(spec).rounds = 1;
  As<ReformerAttention>(spec).chunk = 10;
  As<ReformerAttention>(spec).look_back = 3;
  EXPECT_NO_THROW(CheckView(As<ReformerAttention>(spec), 31));  // four chunks
  EXPECT_EQ(
      ErrorOf([&] { CheckView(As<ReformerAttention>(spec), 30); }),
      "attention: \"look_back\" 3 reaches around all 3 chunks of a sequence of 30 tokens (1 rounds, chunk 10): pairs "
      "would count twice; expected at most 2, or \"count_pairs_once\", or \"wrap\": false, or a \"min_length\" above "
      "30");
  As<ReformerAttention>(spec).rounds = 2;
  EXPECT_NO_THROW(CheckView(As<ReformerAttention>(spec), 30));
  As<ReformerAttention>(spec).look_ahead = 6;
  EXPECT_THROW(CheckView(As<ReformerAttention>(spec), 30), Error);
  As<ReformerAttention>(spec).wrap = false;
  EXPECT_NO_THROW(CheckView(As<ReformerAttention>(spec), 30));
  As<ReformerAttention>(spec).wrap = true;
  As<ReformerAttention>(spec).count_pairs_once = true;
  EXPECT_NO_THROW(CheckView(As<ReformerAttention>(spec), 30));
}

TEST(ScaleOfScores, IsTheRootOfTheWidthButForReformer) {
  AttentionSpec spec;
  EXPECT_DOUBLE_EQ(ScaleOfScores(spec, 16), 0.25);
  spec.kind = ReformerAttention{};
  EXPECT_DOUBLE_EQ(ScaleOfScores(spec, 16), 1);
  As<ReformerAttention>(spec).scale = ScoreScale::kSqrtD;
  EXPECT_DOUBLE_EQ(ScaleOfScores(spec, 16), 0.25);
}

// The default of every key of every kind is read as it was written, and every flag's default passes its own check.
TEST(AttentionTables, DefaultsAreWhatTheirOwnChecksTake) {
  for (const AttentionSpec& kind : AttentionKinds()) {
    const AttentionTable& table = OptionsOf(kind);
    EXPECT_EQ(ParseAttentionSpec(ToJson(kind), "test"), kind);
    for (const AttentionOption& option : table.options) {
      if (option.help.empty()) continue;
      EXPECT_EQ(TextError(table, option, DefaultText(table, option)), "") << Name(kind) << " " << option.name;
      EXPECT_FALSE(table.group.empty());
    }
  }
}

}  // namespace
}  // namespace lshformer
