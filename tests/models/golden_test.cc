// Against what HF computes in float64 (tools/make_model_golden.py, tools/make_long_encoder_golden.py): values within
// 1e-4 of a tensor's largest, gradients within 1e-3. What is seen is below 1e-5.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/matmul.h"
#include "kernels/matmul_precision.h"
#include "models/golden_tensors.h"
#include "models/model.h"

namespace lshformer {
namespace {

std::string Folder(const std::string& name) {
  return std::string(LSHFORMER_SOURCE_DIR) + "/tests/golden/models/" + name;
}

PackedBatch ReadBatch(const std::string& path, Task task, const ModelConfig& config) {
  const bool regression = config.num_labels == 1;
  PackedBatch batch;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const Json object = ParseJson(line, path);
    if (task == Task::kMultipleChoice) {
      std::vector<int32_t>& borders = batch.labels.cu_choices;
      if (borders.empty()) borders.push_back(0);
      for (size_t option = 0; option < object.at("input_ids").size(); ++option)
        AppendSequence(batch, object.at("input_ids")[option].get<std::vector<int32_t>>(),
                       object.at("token_type_ids")[option].get<std::vector<int32_t>>(), batch.sequences());
      borders.push_back(batch.sequences());
      batch.labels.classes.push_back(object.at("labels").get<int32_t>());
      continue;
    }
    const auto ids = object.at("input_ids").get<std::vector<int32_t>>();
    AppendSequence(batch, ids, object.at("token_type_ids").get<std::vector<int32_t>>(), batch.sequences());
    if (task == Task::kEncoder) continue;
    if (task == Task::kQuestionAnswering) {
      batch.labels.start_positions.push_back(object.at("start_positions").get<int32_t>());
      batch.labels.end_positions.push_back(object.at("end_positions").get<int32_t>());
      continue;
    }
    const Json& labels = object.at("labels");
    if (task == Task::kMaskedLm || task == Task::kPretraining) {
      for (const Json& label : labels) batch.labels.tokens.push_back(label.get<int32_t>());
      if (task == Task::kPretraining)
        batch.labels.classes.push_back(object.at(FamilyOf(config).sentence_pairs.label).get<int32_t>());
    } else if (config.multi_label()) {
      for (const Json& flag : labels) batch.labels.flags.push_back(flag.get<float>());
    } else if (regression) {
      batch.labels.values.push_back(labels.get<float>());
    } else {
      batch.labels.classes.push_back(labels.get<int32_t>());
    }
  }
  return batch;
}

class GoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  void TearDown() override {
    SetMatmulPrecision(MatmulPrecision::kHighest);
    UseAmxModel(false);
  }
  testing::GoldenTensors expected_{Folder(GetParam()) + "/expected.safetensors"};
};

TEST_P(GoldenTest, AgreesWithHf) {
  const std::string folder = Folder(GetParam());
  const ModelConfig config = ReadModelConfig(folder + "/config.json");
  const Task task = TaskFromArchitectures(config, folder);
  const ModelPtr model = LoadModel(folder, task, 0, true);
  const PackedBatch batch = ReadBatch(folder + "/batch.jsonl", task, config);
  ForwardOptions options;
  options.all_logits = options.hidden_states = options.attentions = true;
  const ModelOutput output = model->Forward(batch, options);
  expected_.Expect("last_hidden_state", output.last_hidden_state, 1e-4);
  const bool spans = task == Task::kQuestionAnswering;
  EXPECT_EQ(expected_.Has("pooler_output"), output.pooler_output.defined());
  if (expected_.Has("pooler_output")) expected_.Expect("pooler_output", output.pooler_output, 1e-4);
  for (size_t level = 0; level < output.hidden_states.size(); ++level)
    expected_.Expect(fmt::format("hidden_states.{}", level), output.hidden_states[level], 1e-4);
  EXPECT_FALSE(expected_.Has(fmt::format("hidden_states.{}", output.hidden_states.size())));
  const bool has_maps = expected_.Has("attentions.0.0");
  for (size_t layer = 0; has_maps && layer < output.attentions.size(); ++layer)
    for (size_t s = 0; s < output.attentions[layer].size(); ++s)
      expected_.Expect(fmt::format("attentions.{}.{}", layer, s), output.attentions[layer][s], 1e-4);
  if (task != Task::kEncoder) {
    if (spans) {
      expected_.Expect("start_logits", output.start_logits, 1e-4);
      expected_.Expect("end_logits", output.end_logits, 1e-4);
    } else {
      expected_.Expect("logits", output.logits, 1e-4);
    }
    if (task == Task::kPretraining)
      expected_.Expect(FamilyOf(config).sentence_pairs.logits, output.sentence_pair_logits, 1e-4);
    expected_.Expect("loss", output.loss, 1e-4);
    output.loss.backward();
    const double floor =
        1e-5 * expected_.LargestGradient();  // some gradients, such as key biases', are 0 in exact arithmetic
    for (const auto& [name, parameter] : model->NamedParameters())
      expected_.Expect("gradients." + name,
                       parameter.grad().is_sparse() ? parameter.grad().to_dense() : parameter.grad(), 1e-3, floor);
  }
  EXPECT_EQ(expected_.compared() + 1, expected_.size()) << "every tensor of the file but cu_seqlens";
}

// The mean of a sequence's hidden states.
torch::Tensor Embedding(const torch::Tensor& hidden, const PackedBatch& batch, int sequence) {
  return hidden.slice(0, batch.tokens.cu_seqlens[sequence], batch.tokens.cu_seqlens[sequence + 1]).mean(0);
}

// What low precision costs: the cosine of every embedding to that of float32, at least. A sequence alone has the bits
// that it has in the batch.
void ExpectNear(const torch::Tensor& want, const PackedBatch& batch, double least, Model& model) {
  const torch::Tensor got = model.Forward(batch, {}).last_hidden_state;
  EXPECT_FALSE(torch::equal(got, want));
  for (int sequence = 0; sequence < batch.sequences(); ++sequence) {
    EXPECT_GE(
        torch::cosine_similarity(Embedding(got, batch, sequence), Embedding(want, batch, sequence), 0).item<double>(),
        least)
        << "sequence " << sequence;
  }
  PackedBatch alone;
  const int32_t begin = batch.tokens.cu_seqlens[1], end = batch.tokens.cu_seqlens[2];
  AppendSequence(alone, {batch.tokens.ids.begin() + begin, batch.tokens.ids.begin() + end},
                 {batch.tokens.type_ids.begin() + begin, batch.tokens.type_ids.begin() + end}, 1);
  EXPECT_TRUE(torch::equal(model.Forward(alone, {}).last_hidden_state, got.slice(0, begin, end)));
}

// Rows between attention and the maps around it may be in bfloat16; a hook has them in float32, and changes no bit.
void ExpectSameByWayOfFloat32(const PackedBatch& batch, Model& model) {
  const AttentionHook hook = [](const AttentionSite& site) {
    EXPECT_EQ(site.qkv.scalar_type(), torch::kFloat32);
    return SelfAttention(site.qkv, std::make_shared<AttentionOptions>(site.options));
  };
  ForwardOptions options;
  options.attention_hook = &hook;
  EXPECT_TRUE(
      torch::equal(model.Forward(batch, options).last_hidden_state, model.Forward(batch, {}).last_hidden_state));
}

TEST_P(GoldenTest, LowPrecisionIsNear) {
  const std::string folder = Folder(GetParam());
  const ModelConfig config = ReadModelConfig(folder + "/config.json");
  const Task task = TaskFromArchitectures(config, folder);
  const PackedBatch batch = ReadBatch(folder + "/batch.jsonl", task, config);
  const ModelPtr model = LoadModel(folder, task, 0, true);
  const torch::NoGradGuard no_grad;
  const torch::Tensor want = model->Forward(batch, {}).last_hidden_state;
  for (const bool amx_model : {true, false}) {
    for (const auto& [precision, least] : {std::pair(Precision::kBFloat16, 0.999), {Precision::kInt8, 0.99}}) {
      SCOPED_TRACE(std::string(Name(precision)) + (amx_model ? ", in the model of AMX tiles" : ""));
      if (!amx_model && !SupportsProducts(precision)) GTEST_SKIP() << "this CPU has no instructions for it";
      UseAmxModel(amx_model);
      model->set_precision(precision);
      ExpectNear(want, batch, least, *model);
      ExpectSameByWayOfFloat32(batch, *model);
      UseAmxModel(false);
    }
  }
}

// Float32 where there are tiles, by products of bfloat16 and under `highest` by none. Against float64.
TEST_P(GoldenTest, Float32ByPartsIsNear) {
  const std::string folder = Folder(GetParam());
  const ModelConfig config = ReadModelConfig(folder + "/config.json");
  const Task task = TaskFromArchitectures(config, folder);
  const PackedBatch batch = ReadBatch(folder + "/batch.jsonl", task, config);
  const torch::NoGradGuard no_grad;
  const torch::Tensor plain = LoadModel(folder, task, 0, true)->Forward(batch, {}).last_hidden_state;
  UseAmxModel(true);
  for (const auto& [precision, tolerance] :
       {std::pair(MatmulPrecision::kHighest, 1e-4), {MatmulPrecision::kHigh, 2e-4}}) {
    SCOPED_TRACE(Name(precision));
    SetMatmulPrecision(precision);
    const torch::Tensor got = LoadModel(folder, task, 0, true)->Forward(batch, {}).last_hidden_state;
    expected_.Expect("last_hidden_state", got, tolerance);
    EXPECT_EQ(torch::equal(got, plain), precision == MatmulPrecision::kHighest);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GoldenTest,
    ::testing::Values("masked_lm", "masked_lm_gelu_new", "pretraining", "classification", "classification_gamma_beta",
                      "regression", "regression_deep", "question_answering", "encoder", "albert_masked_lm",
                      "albert_groups", "albert_pretraining", "albert_classification", "albert_question_answering",
                      "albert_encoder", "multiple_choice", "albert_multiple_choice", "multi_label",
                      "nomic_bert_masked_lm", "nomic_bert_classification", "nomic_bert_encoder", "nomic_bert_dynamic",
                      "nomic_bert_older", "modernbert_masked_lm", "modernbert_older", "modernbert_classification",
                      "modernbert_mean", "modernbert_multiple_choice", "modernbert_question_answering",
                      "modernbert_encoder", "roberta_masked_lm", "roberta_classification", "roberta_multiple_choice",
                      "roberta_question_answering", "roberta_encoder", "xlm_roberta_masked_lm",
                      "xlm_roberta_classification", "distilbert_masked_lm", "distilbert_classification",
                      "distilbert_multiple_choice", "distilbert_question_answering", "distilbert_encoder"),
    [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace lshformer
