// Losses of embeddings against Sentence-Transformers, and the gradient cache against the whole batch.
#include "train/similarity_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/json.h"
#include "train/tiny_run.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TinyConfig;

torch::Tensor TensorOf(const Json& rows) {
  std::vector<double> numbers;
  for (const Json& row : rows)
    for (const Json& number : row) numbers.push_back(number.get<double>());
  return torch::tensor(numbers, torch::kFloat64).view({std::ssize(rows), -1});
}

// [columns][groups][numbers] as texts, group by group.
torch::Tensor TextsOf(const Json& columns) {
  std::vector<torch::Tensor> parts;
  for (const Json& column : columns) parts.push_back(TensorOf(column));
  return torch::stack(parts, 1).flatten(0, 1);
}

// All texts differ.
VectorGroups GroupsOf(torch::Tensor vectors, int64_t texts_a_group) {
  VectorGroups groups{std::move(vectors), {0}, {}, {}};
  const auto texts = static_cast<int32_t>(groups.vectors.size(0));
  for (int32_t end = 0; end < texts;) groups.begins.push_back(end += static_cast<int32_t>(texts_a_group));
  groups.same_as.resize(static_cast<size_t>(texts));
  std::iota(groups.same_as.begin(), groups.same_as.end(), 0);
  return groups;
}

TEST(SimilarityLoss, ValuesAndGradientsAreSentenceTransformers) {
  const Json golden = ReadJsonObject(LSHFORMER_SOURCE_DIR "/tests/golden/similarity.json");
  ASSERT_GE(golden["cases"].size(), 10U);
  for (const Json& each : golden["cases"]) {
    SCOPED_TRACE(each["loss"].get<std::string>());
    const Json given = each.value("options", Json::object());
    SimilarityLossOptions options;
    options.type = ParseSimilarityLoss(each["loss"].get<std::string>());
    options.scale = given.value("scale", 20.0);
    options.margin = given.value("margin", 5.0);
    options.dims = given.value("dims", std::vector<int64_t>());
    VectorGroups groups = GroupsOf(TextsOf(each["vectors"]).requires_grad_(true), each["columns"].get<int64_t>());
    groups.scores = each.value("scores", std::vector<float>());
    const torch::Tensor loss = LossOfGroups(options, groups);
    EXPECT_NEAR(loss.item<double>(), each["value"].get<double>(), 1e-9);
    loss.backward();
    EXPECT_LT((groups.vectors.grad() - TextsOf(each["gradients"])).abs().max().item<double>(), 1e-9);
  }
}

// Two pairs, each twice in the batch. To an anchor the copy of its positive is no negative, the other pair's two are:
// log(1 + 2 e^(s c(a_i, p_j) − s c(a_i, p_i))), and so the other way round.
TEST(SimilarityLoss, CopiesOfAPositiveAreNoNegatives) {
  const torch::Tensor two =
      torch::tensor({{1.0, 0.2, 0.0}, {0.8, 0.5, 0.1}, {0.1, 1.0, 0.3}, {0.4, 0.9, -0.2}}, torch::kFloat64);
  const torch::Tensor unit = two / two.norm(2, 1, true);
  const auto c = [&](int64_t anchor, int64_t positive) {
    return unit[2 * anchor].dot(unit[2 * positive + 1]).item<double>();
  };
  constexpr double kScale = 3;
  double forward = 0, backward = 0;
  for (const int64_t i : {0, 1}) {
    forward += std::log1p(2 * std::exp(kScale * (c(i, 1 - i) - c(i, i)))) / 2;
    backward += std::log1p(2 * std::exp(kScale * (c(1 - i, i) - c(i, i)))) / 2;
  }
  VectorGroups twice = GroupsOf(torch::cat({two, two}), 2);
  twice.same_as = {0, 1, 2, 3, 0, 1, 2, 3};
  SimilarityLossOptions options;
  options.scale = kScale;
  EXPECT_NEAR(LossOfGroups(options, twice).item<double>(), forward, 1e-12);
  options.type = SimilarityLossType::kMnrlSymmetric;
  EXPECT_NEAR(LossOfGroups(options, twice).item<double>(), (forward + backward) / 2, 1e-12);
  // A hard negative that is the positive's text is none either.
  options.type = SimilarityLossType::kMnrl;
  VectorGroups hard = GroupsOf(torch::cat({two.slice(0, 0, 2), two.slice(0, 1, 2)}), 3);
  EXPECT_NEAR(LossOfGroups(options, hard).item<double>(), std::log(2.0), 1e-12);
  hard.same_as = {0, 1, 1};
  EXPECT_NEAR(LossOfGroups(options, hard).item<double>(), 0, 1e-12);
}

TEST(SimilarityLoss, SaysWhatGroupsLack) {
  SimilarityLossOptions options;
  options.type = SimilarityLossType::kCosine;
  EXPECT_THAT(ErrorOf([&] { LossOfGroups(options, GroupsOf(torch::randn({4, 3}), 2)); }), HasSubstr("needs a score"));
  options.type = SimilarityLossType::kTriplet;
  EXPECT_THAT(ErrorOf([&] { LossOfGroups(options, GroupsOf(torch::randn({4, 3}), 2)); }), HasSubstr("negative"));
  EXPECT_THAT(ErrorOf([&] { LossOfGroups(options, GroupsOf(torch::randn({4, 3}), 1)); }), HasSubstr("two texts"));
  EXPECT_THAT(ErrorOf([] { ParseSimilarityLoss("mse"); }), HasSubstr("expected cosine"));
}

ModelPtr TinyEncoder(double dropout, uint64_t seed = 7) {
  ModelConfig config = TinyConfig(dropout);
  config.architectures = {"BertModel"};
  return CreateModel(config, Task::kEncoder, seed);
}

// Groups of two to four texts of 3 to 20 tokens.
PackedBatch TinyGroups(int groups) {
  PackedBatch batch;
  batch.labels.cu_choices = {0};
  PhiloxStream stream(StreamKey(5, 0, 0, 0, Purpose::kSynthetic));
  for (int group = 0; group < groups; ++group) {
    for (int text = 0; text < 2 + group % 3; ++text) {
      std::vector<int32_t> ids(3 + stream.Below(18));
      for (int32_t& id : ids) id = static_cast<int32_t>(5 + stream.Below(45));
      AppendSequence(batch, ids, {}, static_cast<uint64_t>(batch.sequences()));
    }
    batch.labels.cu_choices.push_back(batch.sequences());
  }
  return batch;
}

struct Gradients {
  double loss;
  std::vector<torch::Tensor> values;
};

Gradients GradientsOf(Model& model, const PackedBatch& batch, const SimilarityLossOptions& options,
                      const WantedVectors& teacher = {}) {
  ForwardOptions forward;
  forward.train = true;
  forward.step = 3;
  for (const auto& [name, parameter] : model.NamedParameters()) parameter.mutable_grad().reset();
  const TrainingLoss loss = SimilarityLoss(options, teacher);
  EXPECT_EQ(loss.items(model, {&batch, 1}), (std::vector<TermItems>{{batch.examples()}}));
  const torch::Tensor term = loss.terms(model, batch, forward).at(0);
  term.backward();
  Gradients gradients{term.item<double>(), {}};
  for (const auto& [name, parameter] : model.NamedParameters())
    gradients.values.push_back(parameter.grad().defined() ? parameter.grad().to_dense().clone() : torch::Tensor());
  return gradients;
}

// With dropout: a text's is the same in whatever piece it stands.
TEST(SimilarityLoss, TheGradientCacheHasTheGradientOfTheWholeBatch) {
  const ModelPtr model = TinyEncoder(/*dropout=*/0.1);
  const PackedBatch batch = TinyGroups(9);
  SimilarityLossOptions options;
  const Gradients whole = GradientsOf(*model, batch, options);
  for (const int64_t chunk : {1, 4, 7, 1000}) {
    options.chunk = chunk;
    const Gradients pieces = GradientsOf(*model, batch, options);
    EXPECT_NEAR(pieces.loss, whole.loss, 1e-5) << "chunk " << chunk;
    ASSERT_EQ(pieces.values.size(), whole.values.size());
    for (size_t i = 0; i < whole.values.size(); ++i) {
      ASSERT_EQ(pieces.values[i].defined(), whole.values[i].defined());
      if (!whole.values[i].defined()) continue;
      const double size = whole.values[i].abs().max().item<double>();
      EXPECT_LE((pieces.values[i] - whole.values[i]).abs().max().item<double>(), 1e-4 * size + 1e-7)
          << "chunk " << chunk << ", parameter " << i;
    }
  }
}

// The groups [begin, end) of a batch.
PackedBatch Part(const PackedBatch& batch, int begin, int end) {
  PackedBatch part;
  part.labels.cu_choices = {0};
  for (int group = begin; group < end; ++group) {
    for (int32_t text = batch.labels.cu_choices[group]; text < batch.labels.cu_choices[group + 1]; ++text)
      AppendSequence(part,
                     {batch.tokens.ids.begin() + batch.tokens.cu_seqlens[text],
                      batch.tokens.ids.begin() + batch.tokens.cu_seqlens[text + 1]},
                     {}, batch.sequence_ids[text]);
    part.labels.cu_choices.push_back(part.sequences());
  }
  return part;
}

// Negatives come from all parts of an update: it has the loss and the gradient of one batch.
TEST(SimilarityLoss, AnUpdateInPartsIsOneBatch) {
  const ModelPtr model = TinyEncoder(/*dropout=*/0);
  const PackedBatch batch = TinyGroups(9);
  for (const SimilarityLossType type : {SimilarityLossType::kMnrlSymmetric, SimilarityLossType::kTriplet}) {
    SimilarityLossOptions options;
    options.type = type;
    options.chunk = 3;
    const Gradients whole = GradientsOf(*model, batch, options);
    const std::vector<PackedBatch> update{Part(batch, 0, 2), Part(batch, 2, 3), Part(batch, 3, 9)};
    const TrainingLoss loss = SimilarityLoss(options, {}, /*whole_update=*/true);
    const std::vector<TermItems> items = loss.items(*model, update);
    EXPECT_EQ(items, (std::vector<TermItems>{{2}, {1}, {6}}));
    for (const auto& [name, parameter] : model->NamedParameters()) parameter.mutable_grad().reset();
    double value = 0;
    for (size_t i = 0; i < update.size(); ++i) {
      ForwardOptions forward;
      forward.train = true;
      forward.step = 3;
      forward.micro_step = static_cast<int64_t>(i);
      const torch::Tensor term = loss.terms(*model, update[i], forward).at(0) * (static_cast<double>(items[i][0]) / 9);
      value += term.item<double>();
      term.backward();
    }
    EXPECT_NEAR(value, whole.loss, 1e-5);
    size_t i = 0;
    for (const auto& [name, parameter] : model->NamedParameters()) {
      const torch::Tensor& wanted = whole.values[i++];
      ASSERT_EQ(parameter.grad().defined(), wanted.defined()) << name;
      if (!wanted.defined()) continue;
      const double size = wanted.abs().max().item<double>();
      EXPECT_LE((parameter.grad().to_dense() - wanted).abs().max().item<double>(), 1e-4 * size + 1e-7) << name;
    }
  }
}

TEST(SimilarityLoss, ATeachersVectorsAreLearned) {
  const ModelPtr model = TinyEncoder(0, 7), teacher = TinyEncoder(0, 8);
  const PackedBatch batch = TinyGroups(4);
  SimilarityLossOptions options;
  const torch::Tensor own = VectorsOf(*model, batch, {}, options).detach(),
                      wanted = VectorsOf(*teacher, batch, {}, options).detach();
  const auto teach = [](const torch::Tensor& vectors) { return [vectors](const PackedBatch&) { return vectors; }; };
  EXPECT_NEAR(GradientsOf(*model, batch, options, teach(wanted)).loss, (own - wanted).square().mean().item<double>(),
              1e-9);
  EXPECT_NEAR(GradientsOf(*model, batch, options, teach(own)).loss, 0, 1e-12);
  options.unit_teacher = true;  // lengths do not count
  const auto unit = [](const torch::Tensor& vectors) { return vectors / vectors.norm(2, 1, true); };
  EXPECT_NEAR(GradientsOf(*model, batch, options, teach(unit(own))).loss, 0, 1e-12);
  EXPECT_NEAR(GradientsOf(*model, batch, options, teach(unit(wanted))).loss,
              (unit(own) - unit(wanted)).square().mean().item<double>(), 1e-9);
}

}  // namespace
}  // namespace lshformer
