#include "eval/model_cost.h"

#include <gtest/gtest.h>

#include "kernels/cost.h"
#include "models/model.h"
#include "ops/tensor_memory.h"

namespace lshformer {
namespace {

ModelConfig Bert(int64_t layers, int64_t hidden, int64_t heads, int64_t inner) {
  ModelConfig config;
  config.num_hidden_layers = layers;
  config.hidden_size = hidden;
  config.num_attention_heads = heads;
  config.intermediate_size = inner;
  return config;
}

int64_t Total(const ModelConfig& config, Task head, bool without_pooler = false) {
  int64_t total = 0;
  for (const auto& [block, count] : ParametersByBlock(config, head))
    total += without_pooler && block == "pooler" ? 0 : count;
  return total;
}

struct SizeCase {
  int64_t layers, hidden, heads, inner, with_pooler, encoder, masked_lm;
};
class Sizes : public ::testing::TestWithParam<SizeCase> {};

TEST_P(Sizes, OfPublishedModels) {
  const SizeCase& size = GetParam();
  const ModelConfig config = Bert(size.layers, size.hidden, size.heads, size.inner);
  EXPECT_EQ(Total(config, Task::kEncoder), size.with_pooler);
  EXPECT_EQ(Total(config, Task::kEncoder, true), size.encoder);
  EXPECT_EQ(Total(config, Task::kMaskedLm), size.masked_lm);
}

INSTANTIATE_TEST_SUITE_P(Bert, Sizes,
                         ::testing::Values(SizeCase{2, 128, 2, 512, 4385920, 4369408, 4416698},
                                           SizeCase{4, 256, 4, 1024, 11170560, 11104768, 11201594},
                                           SizeCase{4, 512, 8, 2048, 28763648, 28500992, 28795194},
                                           SizeCase{8, 512, 8, 2048, 41373184, 41110528, 41404730},
                                           SizeCase{12, 768, 12, 3072, 109482240, 108891648, 109514298},
                                           SizeCase{24, 1024, 16, 4096, 335141888, 334092288, 335174458}));

TEST(Parameters, OfThePapersModel) {
  ModelConfig config = Bert(2, 128, 2, 512);
  config.vocab_size = 32000;
  EXPECT_EQ(Total(config, Task::kMaskedLm), 4607360);
  EXPECT_EQ(Total(config, Task::kSequenceClassification), 4575362);
  EXPECT_EQ(Total(config, Task::kEncoder), 4575104);
  EXPECT_EQ(Total(config, Task::kEncoder, true), 4558592);
  const auto blocks = ParametersByBlock(config, Task::kSequenceClassification);
  ASSERT_EQ(blocks.size(), 5u);
  EXPECT_EQ(blocks[0], std::pair(std::string("embeddings"), int64_t{4162048}));
  EXPECT_EQ(blocks[1], std::pair(std::string("encoder.layer.0"), int64_t{198272}));
  EXPECT_EQ(blocks[3], std::pair(std::string("pooler"), int64_t{16512}));
}

// Matrix products cost two operations per weight and token.
TEST(ModelCost, LinearLayersFollowTheWeights) {
  const ModelConfig config = Bert(12, 768, 12, 3072);
  const double weights = 12 * (4.0 * 768 * 768 + 2.0 * 768 * 3072);
  EXPECT_DOUBLE_EQ(CostOfForward(config, 512).linear_flops, 2 * 512 * weights);
  EXPECT_DOUBLE_EQ(CostOfForward(config, 512, 77).head_flops, 77 * 2.0 * 768 * (768 + 30522));
  EXPECT_DOUBLE_EQ(CostOfForward(config, 512).attention_flops, 12 * CostOfAttention({}, 12, 64, 512).full_flops());
}

// Nothing that the count calls memory grows with the square of the length.
TEST(ModelCost, MemoryIsLinearInLength) {
  ModelConfig config = Bert(2, 128, 2, 512);
  for (const AttentionSpec& spec : {AttentionSpec{}, AttentionSpec{.kind = SimHashAttention{}}}) {
    config.attention = {spec};
    const ModelCost one = CostOfForward(config, 8192), two = CostOfForward(config, 16384);
    EXPECT_LE(two.activation_bytes + two.attention_work_bytes,
              2.001 * (one.activation_bytes + one.attention_work_bytes));
    EXPECT_GT(two.attention_flops, 3.5 * one.attention_flops);
  }
}

// A gated feed-forward has both halves and their product where another has the inner rows alone.
TEST(ModelCost, AGateCountsInActivations) {
  ModelConfig plain = Bert(2, 128, 2, 512), gated = plain;
  gated.shape.gated = true;
  EXPECT_DOUBLE_EQ(CostOfForward(gated, 300).activation_bytes - CostOfForward(plain, 300).activation_bytes,
                   sizeof(float) * 300.0 * 2 * 512);
  EXPECT_DOUBLE_EQ(CostOfForward(gated, 300).linear_flops - CostOfForward(plain, 300).linear_flops,
                   2 * 2 * 300.0 * 128 * 512);
}

// What a masked-LM step of one sequence has in tensors at once, gradients of weights left out: asked for one gradient
// alone, of the embeddings, the backward keeps no other.
double MeasuredTrainingBytes(const ModelConfig& config, int length) {
  const ModelPtr model = CreateModel(config, Task::kMaskedLm, 3);
  PackedBatch batch;
  AppendSequence(batch, std::vector<int32_t>(length, 7), {}, 0);
  batch.labels.tokens.assign(length, -100);
  batch.labels.tokens[0] = 7;
  const torch::Tensor first = model->NamedParameters()[3].second;
  EXPECT_EQ(model->NamedParameters()[3].first, "bert.embeddings.LayerNorm.weight");
  ForwardOptions options;
  options.train = true;
  const TensorMemory memory;
  model->Forward(batch, options).loss.backward({}, c10::nullopt, false, std::vector<torch::Tensor>{first});
  return static_cast<double>(memory.peak());
}

TEST(ModelCost, TrainingMemoryIsWhatTensorsTake) {
  constexpr int kLength = 1024;
  for (const bool reversible : {false, true})
    for (const int64_t chunk : {0, 256})
      for (const int64_t layers : {2, 8}) {
        ModelConfig config = Bert(layers, 64, 4, 256);
        config.vocab_size = 50, config.max_position_embeddings = kLength, config.reversible = reversible;
        config.chunk_size_feed_forward = chunk;
        if (layers == 8) config.attention[0].kind = ReformerAttention{};
        const double said = CostOfForward(config, kLength).training_bytes;
        EXPECT_NEAR(said / MeasuredTrainingBytes(config, kLength), 1, 0.1)
            << (reversible ? "reversible, " : "ordinary, ") << layers << " layers, pieces of " << chunk;
      }
}

}  // namespace
}  // namespace lshformer
