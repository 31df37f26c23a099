// ForwardOptions::head_only: what a head gives when the last layer computes only the tokens that it looks at, against
// the same head on all of them.
#include <gtest/gtest.h>

#include "base/parallel.h"
#include "base/philox.h"
#include "data/masking.h"
#include "kernels/matmul.h"
#include "models/model.h"
#include "ops/tensor_memory.h"
#include "ops/threads.h"

namespace lshformer {
namespace {

using torch::Tensor;

struct Case {
  const char* name;
  std::string changes;  // of the config, as --config_overrides has them
  bool gradient_checkpointing = false;
};

std::ostream& operator<<(std::ostream& stream, const Case& one) { return stream << one.name; }

constexpr Task kTasks[] = {Task::kMaskedLm, Task::kPretraining, Task::kSequenceClassification, Task::kMultipleChoice,
                           Task::kQuestionAnswering};  // those with a loss

ModelConfig Config(const std::string& changes) {
  ModelConfig config = DefaultModelConfig(changes.starts_with("embedding_size") ? "albert" : "bert", "test");
  ApplyOverrides(config,
                 "vocab_size=60,hidden_size=32,num_hidden_layers=3,num_attention_heads=2,intermediate_size=48,"
                 "max_position_embeddings=120,initializer_range=0.2,hidden_dropout_prob=0.2,"
                 "attention_probs_dropout_prob=0.2",
                 "test");
  if (!changes.empty()) ApplyOverrides(config, changes, "test");
  return config;
}

PackedBatch Labelled(Task task) {
  PackedBatch batch;
  for (const int length : {7, 40, 1, 90}) {
    PhiloxStream stream(StreamKey(5, 0, 0, 0, Purpose::kSynthetic), static_cast<uint64_t>(length));
    std::vector<int32_t> ids(static_cast<size_t>(length));
    for (int32_t& id : ids) id = static_cast<int32_t>(1 + stream.Below(59));
    AppendSequence(batch, ids, {}, static_cast<uint64_t>(length));
    if (task == Task::kMaskedLm || task == Task::kPretraining)
      for (const int32_t id : ids) batch.labels.tokens.push_back(stream.Below(6) == 0 ? id : kIgnoredLabel);
    if (task == Task::kQuestionAnswering) {
      batch.labels.start_positions.push_back(length / 2);
      batch.labels.end_positions.push_back(length - 1);
    }
    if (task == Task::kPretraining || task == Task::kSequenceClassification) batch.labels.classes.push_back(length % 2);
  }
  if (task == Task::kMultipleChoice) {  // two examples of two options
    batch.labels.classes = {1, 0};
    batch.labels.cu_choices = {0, 2, 4};
  }
  return batch;
}

struct Step {
  ModelOutput output;
  std::vector<Tensor> gradients;  // dense; undefined where a parameter has none
};

Step Train(Model& model, const PackedBatch& batch, const ForwardOptions& options) {
  for (const auto& [name, parameter] : model.NamedParameters()) parameter.mutable_grad().reset();
  Step step{model.Forward(batch, options), {}};
  step.output.loss.backward();
  for (const auto& [name, parameter] : model.NamedParameters()) {
    const Tensor& gradient = parameter.grad();
    step.gradients.push_back(!gradient.defined() ? Tensor() : gradient.is_sparse() ? gradient.to_dense() : gradient);
  }
  return step;
}

void ExpectNear(const Tensor& got, const Tensor& want, const std::string& what) {
  ASSERT_EQ(got.defined(), want.defined()) << what;
  if (!want.defined()) return;
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  EXPECT_LE((got - want).abs().max().item<double>(), 1e-5 * std::max(1.0, want.abs().max().item<double>())) << what;
}

class HeadOnlyTest : public testing::TestWithParam<Case> {
 protected:
  void TearDown() override { SetAllThreads(HardwareThreads()); }
};

// Dropout is on: a token drops the same whether its neighbours are computed or not.
TEST_P(HeadOnlyTest, TrainsAsAllTokensDo) {
  SetAllThreads(1);
  for (const Task task : kTasks) {
    SCOPED_TRACE(static_cast<int>(task));
    const ModelPtr model = CreateModel(Config(GetParam().changes), task, 3);
    const PackedBatch batch = Labelled(task);
    ForwardOptions options{.train = true, .step = 5, .gradient_checkpointing = GetParam().gradient_checkpointing};
    const Step all = Train(*model, batch, options);
    options.head_only = true;
    const Step some = Train(*model, batch, options);
    EXPECT_EQ(some.output.last_hidden_state.size(0) == all.output.last_hidden_state.size(0),
              task == Task::kQuestionAnswering);
    ExpectNear(some.output.loss, all.output.loss, "loss");
    ASSERT_EQ(some.output.terms.size(), all.output.terms.size());
    for (size_t i = 0; i < all.output.terms.size(); ++i) ExpectNear(some.output.terms[i], all.output.terms[i], "term");
    const auto named = model->NamedParameters();
    for (size_t i = 0; i < named.size(); ++i) ExpectNear(some.gradients[i], all.gradients[i], named[i].first);
  }
}

// Without gradients rows are the same bits in any company.
TEST_P(HeadOnlyTest, AnswersWithTheSameBits) {
  const torch::NoGradGuard no_gradients;
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16, Precision::kInt8}) {
    if (precision != Precision::kFloat32 && !SupportsProducts(precision)) continue;
    for (const Task task : kTasks) {
      SCOPED_TRACE(fmt::format("{}, task {}", Name(precision), static_cast<int>(task)));
      const ModelPtr model = CreateModel(Config(GetParam().changes), task, 3);
      model->set_precision(precision);
      const PackedBatch batch = Labelled(task);
      ForwardOptions options;
      SetAllThreads(1);
      const ModelOutput all = model->Forward(batch, options);
      options.head_only = true;
      SetAllThreads(3);
      const ModelOutput some = model->Forward(batch, options);
      SetAllThreads(1);
      for (const auto& [got, want] : {std::pair(some.logits, all.logits), std::pair(some.loss, all.loss),
                                      std::pair(some.pooler_output, all.pooler_output),
                                      std::pair(some.sentence_pair_logits, all.sentence_pair_logits),
                                      std::pair(some.start_logits, all.start_logits)}) {
        ASSERT_EQ(got.defined(), want.defined());
        if (want.defined()) {
          EXPECT_TRUE(torch::equal(got, want));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , HeadOnlyTest,
    testing::Values(Case{"bert", ""}, Case{"checkpointing", "", true}, Case{"pieces", "chunk_size_feed_forward=5"},
                    Case{"one_layer", "num_hidden_layers=1"}, Case{"no_residual", "attention_residual=false"},
                    Case{"simhash", "attention=simhash"}, Case{"reformer", "attention=reformer"},
                    Case{"clustered", "attention=clustered"}, Case{"reversible", "reversible=true"},
                    Case{"padding", "attended_padding=100"}, Case{"albert", "embedding_size=16"},
                    Case{"albert_layers_in_a_group", "embedding_size=16,inner_group_num=2", true}),
    testing::PrintToStringParamName());

// What pools it sees: the first token of each sequence.
TEST_P(HeadOnlyTest, AnEncoderGivesTheFirstTokens) {
  const torch::NoGradGuard no_gradients;
  const ModelPtr model = CreateModel(Config(GetParam().changes), Task::kEncoder, 3);
  const PackedBatch batch = Labelled(Task::kEncoder);
  ForwardOptions options;
  const ModelOutput all = model->Forward(batch, options);
  options.head_only = true;
  const ModelOutput some = model->Forward(batch, options);
  ASSERT_EQ(some.last_hidden_state.size(0), batch.sequences());
  for (int b = 0; b < batch.sequences(); ++b)
    EXPECT_TRUE(torch::equal(some.last_hidden_state[b], all.last_hidden_state[batch.tokens.cu_seqlens[b]])) << b;
  EXPECT_TRUE(torch::equal(some.pooler_output, all.pooler_output));
}

TEST(HeadOnly, KeepsLessForTheBackward) {
  const ModelPtr model = CreateModel(Config("num_hidden_layers=2"), Task::kSequenceClassification, 3);
  const PackedBatch batch = Labelled(Task::kSequenceClassification);
  const auto peak = [&](bool head_only) {
    ForwardOptions options{.train = true};
    options.head_only = head_only;
    Train(*model, batch, options);  // gradients are there
    const TensorMemory memory;
    const ModelOutput output = model->Forward(batch, options);
    return memory.peak();
  };
  const auto all = static_cast<double>(peak(false)), some = static_cast<double>(peak(true));
  EXPECT_LT(some, 0.8 * all);
}

}  // namespace
}  // namespace lshformer
