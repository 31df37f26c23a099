#include "eval/cosines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "util/errors.h"

namespace lshformer {
namespace {

using torch::Tensor;

TEST(CompareStates, MeanAndWorstOfTheRows) {
  const Tensor a = torch::tensor({{1., 0.}, {0., 2.}, {3., 3.}}, torch::kFloat64);
  const Tensor b = torch::tensor({{5., 0.}, {1., 0.}, {0., 1.}}, torch::kFloat64);
  const Cosines cosines = Compare(a, b);
  EXPECT_NEAR(cosines.mean, (1 + 0 + std::sqrt(0.5)) / 3, 1e-15);
  EXPECT_NEAR(cosines.worst, 0, 1e-15);
  const Cosines same = Compare(a, a);
  EXPECT_LE(same.mean, 1);
  EXPECT_NEAR(same.worst, 1, 1e-15);
}

// The standard error of the mean; of one text there is none.
TEST(CompareStates, SpreadOverTheTexts) {
  const Tensor a = torch::tensor({{1., 0.}, {1., 0.}, {1., 0.}, {1., 0.}}, torch::kFloat64);
  const Tensor b = torch::tensor({{1., 0.}, {0., 1.}, {1., 0.}, {0., 1.}}, torch::kFloat64);
  EXPECT_NEAR(Compare(a, b).spread, std::sqrt(4 * 0.25 / 3) / 2, 1e-15);
  EXPECT_EQ(Compare(a, a).spread, 0);
  EXPECT_TRUE(std::isnan(Compare(a.slice(0, 0, 1), b.slice(0, 0, 1)).spread));
}

// A model that breaks must not look like one that keeps everything.
TEST(CompareStates, NotANumberStays) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor a = torch::tensor({{1., 0.}, {0., 2.}}, torch::kFloat64);
  const Cosines cosines = Compare(a, torch::tensor({{1., 0.}, {nan, 2.}}, torch::kFloat64));
  EXPECT_TRUE(std::isnan(cosines.mean));
  EXPECT_TRUE(std::isnan(cosines.worst));
}

// Of a text whose states are all zero.
TEST(CompareStates, ZeroIsLikeNothing) {
  const Tensor a = torch::tensor({{0., 0.}, {1., 0.}}, torch::kFloat64);
  EXPECT_EQ(Compare(a, a).worst, 0);
  EXPECT_EQ(Compare(a, a).mean, 0.5);
}

TEST(Cosine, OfTwoVectors) {
  const Tensor a = torch::tensor({3., 0.}, torch::kFloat64), b = torch::tensor({2., 2.}, torch::kFloat64);
  EXPECT_NEAR(Cosine(a, b), std::sqrt(0.5), 1e-15);
  EXPECT_NEAR(Cosine(a, -a), -1, 1e-15);
  EXPECT_TRUE(std::isnan(Cosine(a, torch::zeros({2}, torch::kFloat64))));
}

// Texts of these lengths, whose states' means are the rows of `means`.
struct RunOnTexts {
  PackedBatch batch;
  ModelOutput output;

  explicit RunOnTexts(const std::vector<std::vector<float>>& means) {
    std::vector<Tensor> states;
    for (size_t text = 0; text < means.size(); ++text) {
      AppendSequence(batch, {1, 2}, {}, text);
      const Tensor mean = torch::tensor(means[text]), beside = torch::full_like(mean, 0.25F);
      states.insert(states.end(), {mean - beside, mean + beside});
    }
    output.last_hidden_state = torch::stack(states);  // [2 · texts, H]
  }
};

TEST(StateCosines, ComparesTextByTextInOrder) {
  const RunOnTexts one({{1, 0}, {0, 2}}), two({{3, 3}}), other_one({{5, 0}, {1, 0}}), other_two({{0, 1}});
  StateCosines cosines;
  cosines.Keep(one.batch, one.output), cosines.Keep(two.batch, two.output);
  cosines.Compare(other_one.batch, other_one.output), cosines.Compare(other_two.batch, other_two.output);
  EXPECT_NEAR(cosines.mean(), (1 + 0 + std::sqrt(0.5)) / 3, 1e-7);
  EXPECT_NEAR(cosines.worst(), 0, 1e-15);
}

TEST(StateCosines, OfZerosAndOfWhatIsNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const RunOnTexts kept({{0, 0}, {0, 0}, {1, 0}}), now({{0, 0}, {1, 0}, {nan, 0}});
  StateCosines cosines;
  cosines.Keep(kept.batch, kept.output);
  EXPECT_EQ(testing::ErrorOf([&] { cosines.Compare(now.batch, now.output); }),
            "sequence 2: the model's output is not finite");
  EXPECT_EQ(cosines.mean(), 0.5) << "both 0: alike; one of them: not";
}

}  // namespace
}  // namespace lshformer
