// Several processes that share the tokens of a forward: the bits are those of one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/parallel.h"
#include "base/philox.h"
#include "data/masking.h"
#include "kernels/matmul.h"
#include "models/model.h"
#include "ops/threads.h"
#include "util/errors.h"
#include "util/thread_exchange.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::InThreads;
using torch::Tensor;

struct Case {
  const char* name;
  const char* type;
  const char* changes;  // of the config, as --config_overrides has them
  const char* attention;
  bool gradient_checkpointing = false;
};

std::ostream& operator<<(std::ostream& stream, const Case& one) { return stream << one.name; }

ModelConfig Config(const Case& one) {
  ModelConfig config = DefaultModelConfig(one.type, "test");
  ApplyOverrides(config,
                 std::string("vocab_size=60,hidden_size=48,num_hidden_layers=2,num_attention_heads=6,"
                             "intermediate_size=40,max_position_embeddings=160,initializer_range=0.2") +
                     (*one.changes == 0 ? "" : ",") + one.changes,
                 "test");
  const std::vector<AttentionSpec> layers = ParseAttentionList(ParseJson(one.attention, "test"), "test");
  config.attention.assign(static_cast<size_t>(config.num_hidden_layers), layers.front());
  ValidateModelConfig(config, "test");
  return config;
}

// Sequences of which one lies in the tokens of several processes, and some in one block.
PackedBatch Batch(Task task) {
  PackedBatch batch;
  for (const int length : {3, 101, 1, 30}) {
    PhiloxStream stream(StreamKey(5, 0, 0, 0, Purpose::kSynthetic), static_cast<uint64_t>(length));
    std::vector<int32_t> ids(static_cast<size_t>(length));
    for (int32_t& id : ids) id = static_cast<int32_t>(1 + stream.Below(59));
    AppendSequence(batch, ids, {}, static_cast<uint64_t>(length));
    // The first tokens alone, so that the last process has none that a masked LM reads.
    if (task == Task::kMaskedLm)
      for (size_t i = 0; i < ids.size(); ++i)
        batch.labels.tokens.push_back(length > 30 && i < 60 && stream.Below(4) == 0 ? ids[i] : kIgnoredLabel);
    if (task == Task::kQuestionAnswering) {
      batch.labels.start_positions.push_back(length / 2);
      batch.labels.end_positions.push_back(length - 1);
    }
    if (task == Task::kSequenceClassification) batch.labels.classes.push_back(length % 2);
  }
  return batch;
}

struct Step {
  Tensor loss, states;            // of the update; of a forward without dropout and gradients
  std::vector<Tensor> gradients;  // dense
  AttentionCounts counts;         // of that forward
};

struct Setting {
  const Case& config;
  Task task;
  Precision precision = Precision::kFloat32;
  bool head_only = true;
};

Step StepOf(const Setting& setting, const std::function<void(Model&)>& share) {
  const ModelPtr model = CreateModel(Config(setting.config), setting.task, 3);
  if (share) share(*model);
  model->set_precision(setting.precision);
  const PackedBatch batch = Batch(setting.task);
  Step step;
  {
    const torch::NoGradGuard no_grad;
    step.states = model->Forward(batch, {.head_only = setting.head_only, .counts = &step.counts}).last_hidden_state;
  }
  const ForwardOptions training{.train = true,
                                .step = 5,
                                .gradient_checkpointing = setting.config.gradient_checkpointing,
                                .head_only = setting.head_only};
  step.loss = model->Forward(batch, training).loss;
  step.loss.backward();
  step.loss = step.loss.detach();
  for (const auto& [name, parameter] : model->NamedParameters()) {
    const Tensor& gradient = parameter.grad();
    step.gradients.push_back(!gradient.defined() ? Tensor() : gradient.is_sparse() ? gradient.to_dense() : gradient);
  }
  return step;
}

bool Same(const Tensor& a, const Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || torch::equal(a, b));
}

void ExpectSame(const Step& got, const Step& want) {
  EXPECT_TRUE(Same(got.loss, want.loss));
  EXPECT_TRUE(Same(got.states, want.states));
  ASSERT_EQ(got.gradients.size(), want.gradients.size());
  for (size_t i = 0; i < want.gradients.size(); ++i)
    EXPECT_TRUE(Same(got.gradients[i], want.gradients[i])) << "parameter " << i;
}

class SharedTokensTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { SetAllThreads(1); }
  void TearDown() override { SetAllThreads(HardwareThreads()); }

  // With one process, as if none were shared, and with several.
  static void ExpectAsAlone(const Setting& setting) {
    const Step plain = StepOf(setting, {}), alone = StepOf(setting, [](Model&model) { model.ShareTokens(nullptr); });
    EXPECT_TRUE(Same(alone.loss, plain.loss));
    EXPECT_TRUE(Same(alone.states, plain.states));
    for (size_t i = 0; i < plain.gradients.size(); ++i) {
      ASSERT_EQ(alone.gradients[i].defined(), plain.gradients[i].defined()) << "parameter " << i;
      if (!plain.gradients[i].defined()) continue;
      EXPECT_TRUE(torch::allclose(alone.gradients[i], plain.gradients[i], 1e-3, 1e-4)) << "parameter " << i;
    }
    for (const int processes : {2, 3, 6}) {
      SCOPED_TRACE(processes);
      std::vector<Step> steps(static_cast<size_t>(processes));
      InThreads(processes, [&](TokenExchange& others) {
        SetAllThreads(1);
        steps[static_cast<size_t>(others.rank())] = StepOf(setting, [&](Model& model) { model.ShareTokens(&others); });
      });
      AttentionCounts counts;
      for (const Step& step : steps) {
        ExpectSame(step, alone);
        counts += step.counts;
      }
      EXPECT_EQ(counts.pairs_total, alone.counts.pairs_total);
      EXPECT_EQ(counts.pairs_computed, alone.counts.pairs_computed);
      EXPECT_EQ(counts.selection_flops, alone.counts.selection_flops);
    }
  }
};

TEST_P(SharedTokensTest, GiveTheBitsOfOneProcess) {
  for (const Task task : {Task::kMaskedLm, Task::kSequenceClassification, Task::kQuestionAnswering})
    for (const bool head_only : {true, false}) {
      SCOPED_TRACE(fmt::format("task {}, head_only {}", static_cast<int>(task), head_only));
      ExpectAsAlone({GetParam(), task, Precision::kFloat32, head_only});
    }
}

TEST_P(SharedTokensTest, GiveTheBitsOfOneProcessInBFloat16) {
  if (!Supports(Operands::kBFloat16)) GTEST_SKIP() << "this CPU has no instructions for bfloat16";
  ExpectAsAlone({GetParam(), Task::kQuestionAnswering, Precision::kBFloat16});
}

constexpr const char* kExact = R"("dense")";
constexpr const char* kSimHash = R"({"type":"simhash","hashes":2,"window":2})";
constexpr const char* kClusteredHeads =
    R"([[{"type":"clustered","cluster":4,"open":2},"dense",{"type":"clustered","cluster":8,"open":1},"dense","dense",)"
    R"({"type":"clustered","cluster":4,"open":3}]])";

INSTANTIATE_TEST_SUITE_P(
    Models, SharedTokensTest,
    ::testing::Values(Case{"exact", "bert", "", kExact}, Case{"simhash", "bert", "", kSimHash},
                      Case{"reformer", "bert", "", R"({"type":"reformer","rounds":2,"chunk":8})"},
                      Case{"clustered", "bert", "", R"({"type":"clustered","cluster":4,"open":2})"},
                      Case{"heads", "bert", "", kClusteredHeads},
                      Case{"checkpointing", "bert", "", kSimHash, /*gradient_checkpointing=*/true},
                      Case{"reversible", "bert", "reversible=true", kSimHash},
                      Case{"shared_layers", "albert", "embedding_size=16,hidden_dropout_prob=0.1", kExact},
                      Case{"norms_before", "modernbert", "pad_token_id=0", kExact},
                      Case{"positions_behind_padding", "roberta", "", kExact}),
    [](const auto& info) { return info.param.name; });

const Case kPlain{"exact", "bert", "", kExact};

TEST(SharedTokens, HeadsThatDoNotDivideAreRefused) {
  testing::ThreadRoom room(4);
  testing::ThreadExchange others(room, 0);
  const ModelPtr model = CreateModel(Config(kPlain), Task::kMaskedLm, 3);
  EXPECT_THAT(ErrorOf([&] { model->ShareTokens(&others); }),
              HasSubstr("4 processes cannot share the model's 6 heads (num_attention_heads): expected a divisor of 6"));
}

TEST(SharedTokens, AModelWithoutSelfAttentionIsRefused) {
  ModelConfig config = DefaultModelConfig("bidaf", "test");
  ApplyOverrides(config, "vocab_size=20", "test");
  const ModelPtr model = CreateModel(config, Task::kQuestionAnswering, 3);
  EXPECT_THAT(ErrorOf([&] { model->ShareTokens(nullptr); }), HasSubstr("\"bidaf\" has no layers of self-attention"));
}

TEST(SharedTokens, PiecesOfTheFeedForwardHaveNoGradientsInBlocks) {
  const ModelPtr model =
      CreateModel(Config({"pieces", "bert", "chunk_size_feed_forward=8", kExact}), Task::kQuestionAnswering, 3);
  model->ShareTokens(nullptr);
  const PackedBatch batch = Batch(Task::kQuestionAnswering);
  EXPECT_THAT(ErrorOf([&] { model->Forward(batch, {.train = true}); }), HasSubstr("\"chunk_size_feed_forward\""));
  const torch::NoGradGuard no_grad;
  model->Forward(batch, {});
}

}  // namespace
}  // namespace lshformer
