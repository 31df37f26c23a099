#include "bench/tuned_lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using ::lshformer::testing::ErrorOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig Config(const char* attention, int positions = 512) {
  return ParseModelConfig(
      ParseJson(R"({"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 3, "attention": )" +
                    std::string(attention) + ", \"max_position_embeddings\": " + std::to_string(positions) + "}",
                "test"),
      "test");
}

// Hashing pays from these lengths on, beyond doubt.
MeasureForms PaysFrom(int forward, int both) {
  return [=](const Tuned&, bool backward, int length) {
    const double ratio = length >= (backward ? both : forward) ? 0.5 : 1.5;
    return Comparison{1, ratio, ratio, ratio * 0.99, ratio * 1.01, 9};
  };
}

// The attention that tune would write.
std::vector<AttentionSpec> Tune(ModelConfig config, const std::string& direction, const MeasureForms& measure,
                                int max_length = 0) {
  std::vector<Tuned> all = SpecsToTune(config, "config.json");
  FindCrossings(config, "config.json", direction, max_length, measure, all);
  SetLengths(all, "here", config.attention);
  return config.attention;
}

TEST(Tuning, TheLengthsThatTimingsGiveAreSet) {
  const AttentionSpec spec = Tune(Config("\"simhash\""), "both", PaysFrom(100, 300))[0];
  EXPECT_EQ(spec.min_length, kAutoLength);
  ASSERT_TRUE(spec.tuned.has_value());
  EXPECT_GE(spec.tuned->forward, 100);
  EXPECT_LE(spec.tuned->forward, 108);
  EXPECT_GE(spec.tuned->forward_backward, 300);
  EXPECT_LE(spec.tuned->forward_backward, 320);
  EXPECT_EQ(spec.tuned->machine, "here");
  const int shortest = std::max(*spec.tuned->forward, *spec.tuned->forward_backward);
  EXPECT_TRUE(IsSparseAt(spec, shortest));
  EXPECT_FALSE(IsSparseAt(spec, shortest - 1));
}

TEST(Tuning, WhereHashingNeverPaysEverySequenceIsExact) {
  const AttentionSpec spec = Tune(Config("\"simhash\""), "both", PaysFrom(16, 100'000))[0];
  EXPECT_EQ(spec.tuned->forward, 16);
  EXPECT_EQ(spec.tuned->forward_backward, kNeverSparse);
  EXPECT_FALSE(IsSparseAt(spec, 512));
  // A longer table may have a crossing; --max_length bounds the search.
  EXPECT_EQ(Tune(Config("\"simhash\"", 2048), "forward", PaysFrom(1024, 1))[0].tuned->forward, 1024);
  EXPECT_EQ(Tune(Config("\"simhash\"", 2048), "forward", PaysFrom(1024, 1), 900)[0].tuned->forward, kNeverSparse);
}

TEST(Tuning, OneDirectionLeavesTheOtherAlone) {
  std::vector<bool> asked;
  const auto measure = [&](const Tuned& tuned, bool backward, int length) {
    asked.push_back(backward);
    return PaysFrom(50, 50)(tuned, backward, length);
  };
  EXPECT_FALSE(Tune(Config("\"simhash\""), "forward", measure)[0].tuned->forward_backward.has_value());
  EXPECT_EQ(std::count(asked.begin(), asked.end(), true), 0);
  asked.clear();
  EXPECT_FALSE(Tune(Config("\"simhash\""), "forward_backward", measure)[0].tuned->forward.has_value());
  EXPECT_EQ(std::count(asked.begin(), asked.end(), false), 0);
}

TEST(Tuning, LayersOfOneKindShareALengthAndOthersHaveTheirOwn) {
  const ModelConfig config = Config(R"([{"type": "simhash", "seed": 1}, "dense", {"type": "simhash", "bands": 4}])");
  std::vector<Tuned> all = SpecsToTune(config, "config.json");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_NE(all[0].name, all[1].name);
  const auto measure = [&](const Tuned& tuned, bool backward, int length) {
    return PaysFrom(As<SimHashAttention>(tuned.spec).bands == 4 ? 64 : 256, 0)(tuned, backward, length);
  };
  const std::vector<AttentionSpec> specs = Tune(config, "forward", measure);
  EXPECT_EQ(specs[0].tuned->forward, 256);
  EXPECT_EQ(specs[0].seed, 1u);
  EXPECT_TRUE(Is<DenseAttention>(specs[1]));
  EXPECT_FALSE(specs[1].tuned.has_value());
  EXPECT_EQ(specs[2].tuned->forward, 64);
}

TEST(Tuning, NoiseIsAnErrorAndDenseHasNothingToFind) {
  const MeasureForms noise = [](const Tuned&, bool, int) { return Comparison{1, 1, 0.9, 0.4, 1.9, 9}; };
  EXPECT_THAT(ErrorOf([&] { Tune(Config("\"simhash\""), "both", noise); }),
              HasSubstr("simhash, forward, 512 tokens: too noisy to tell (sparse / exact 0.400 to 1.90)"));
  EXPECT_THAT(ErrorOf([&] { Tune(Config("\"dense\""), "both", noise); }), HasSubstr("its attention is dense"));
  const ModelConfig bidaf = ParseModelConfig(Json{{"model_type", "bidaf"}}, "c");
  EXPECT_THAT(ErrorOf([&] { SpecsToTune(bidaf, "c"); }), HasSubstr("\"bidaf\" has no self-attention to tune"));
  EXPECT_THAT(ErrorOf([&] { Tune(Config("\"simhash\""), "both", noise, 513); }),
              HasSubstr("max_length: 513 exceeds max_position_embeddings 512"));
}

}  // namespace
}  // namespace lshformer
