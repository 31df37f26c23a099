// Models of words against what plain PyTorch, padded and masked, computes in float64 (tools/*_torch.py): values within
// 1e-4 of a tensor's largest, gradients within 1e-3.
#include <fmt/core.h>

#include "models/golden_tensors.h"
#include "models/model.h"
#include "models/word_batch.h"

namespace lshformer {
namespace {

class WordGoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string folder_ = std::string(LSHFORMER_SOURCE_DIR) + "/tests/golden/word_models/" + GetParam();
};

TEST_P(WordGoldenTest, AgreesWithTorch) {
  testing::GoldenTensors expected(folder_ + "/expected.safetensors");
  const ModelPtr model = LoadModel(folder_, Task::kQuestionAnswering, 0, true);
  ForwardOptions options;
  options.hidden_states = true;
  const ModelOutput output = model->Forward(testing::ReadWordBatch(folder_ + "/batch.json"), options);
  expected.Expect("last_hidden_state", output.last_hidden_state, 1e-4);
  for (size_t level = 0; level < output.hidden_states.size(); ++level)
    expected.Expect(fmt::format("hidden_states.{}", level), output.hidden_states[level], 1e-4);
  expected.Expect("start_logits", output.start_logits, 1e-4);
  expected.Expect("end_logits", output.end_logits, 1e-4);
  expected.Expect("loss", output.loss, 1e-4);
  output.loss.backward();
  const double floor = 1e-5 * expected.LargestGradient();  // some gradients, such as a bias's before a softmax, are 0
  const std::vector<ParameterRole> roles = Roles(*model);
  const auto parameters = model->NamedParameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& gradient = parameters[i].second.grad();
    EXPECT_EQ(gradient.defined(), roles[i].trained) << parameters[i].first;
    if (gradient.defined())
      expected.Expect("gradients." + parameters[i].first, gradient.is_sparse() ? gradient.to_dense() : gradient, 1e-3,
                      floor);
  }
  EXPECT_EQ(expected.compared(), expected.size()) << "every tensor of the file";
}

INSTANTIATE_TEST_SUITE_P(Models, WordGoldenTest,
                         ::testing::Values("bidaf", "bidaf_paper", "bidaf_cs224n", "qanet", "qanet_reversible"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace lshformer
