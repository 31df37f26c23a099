// What there is to be compared with code that is known to be unsound: layers without the residual around attention,
// padding that attention sees; and parameters that are drawn again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/model.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;
using torch::Tensor;

ModelConfig Small(const std::string& model_type = "bert") {
  ModelConfig config = DefaultModelConfig(model_type, "test");
  config.vocab_size = 60, config.hidden_size = 16, config.num_hidden_layers = 2, config.num_attention_heads = 2;
  config.intermediate_size = 20, config.max_position_embeddings = 40, config.initializer_range = 0.4;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0, config.pad_token_id = 3;
  if (model_type == "albert") config.embedding_size = 8;
  return config;
}

// `size`: ids after the text are pad_token_id.
PackedBatch Texts(const std::vector<int>& lengths, int size = 0) {
  PackedBatch batch;
  for (size_t s = 0; s < lengths.size(); ++s) {
    std::vector<int32_t> ids, types;
    for (int i = 0; i < std::max(lengths[s], size); ++i) {
      ids.push_back(i < lengths[s] ? static_cast<int32_t>(4 + (s * 17 + static_cast<size_t>(i) * 7) % 56) : 3);
      types.push_back(i < lengths[s] ? i * 2 / lengths[s] : 0);
    }
    AppendSequence(batch, ids, types, 100 + s);
  }
  return batch;
}

Tensor Rows(const Tensor& filled, const std::vector<int>& lengths, int size) {
  std::vector<Tensor> rows;
  int64_t begin = 0;
  for (const int length : lengths) {
    rows.push_back(filled.narrow(0, begin, length));
    begin += std::max(length, size);
  }
  return torch::cat(rows);
}

TEST(AttendedPadding, IsThatOfSequencesFilledUpByHand) {
  const std::vector<int> lengths{5, 12, 1, 17};
  AttentionSpec reformer;
  reformer.kind = ReformerAttention{.rounds = 2, .chunk = 4};
  for (const char* type : {"bert", "albert"})
    for (const AttentionSpec& attention : {AttentionSpec{}, reformer}) {
      ModelConfig config = Small(type), padding = config;
      config.attention = padding.attention = {attention};
      padding.attended_padding = 12;
      const PackedBatch texts = Texts(lengths), by_hand = Texts(lengths, 12);
      const ForwardOptions all{.all_logits = true, .hidden_states = true, .attentions = true};
      for (const Task task : {Task::kMaskedLm, Task::kQuestionAnswering, Task::kSequenceClassification}) {
        const ModelOutput got = CreateModel(padding, task, 7)->Forward(texts, all);
        const ModelOutput want = CreateModel(config, task, 7)->Forward(by_hand, all);
        const ModelOutput without = CreateModel(config, task, 7)->Forward(texts, all);
        EXPECT_TRUE(got.last_hidden_state.equal(Rows(want.last_hidden_state, lengths, 12)));
        EXPECT_FALSE(got.last_hidden_state.equal(without.last_hidden_state));
        ASSERT_EQ(got.hidden_states.size(), 3U);
        EXPECT_TRUE(got.hidden_states[1].equal(Rows(want.hidden_states[1], lengths, 12)));
        EXPECT_TRUE(got.attentions[1][0].equal(want.attentions[1][0].narrow(1, 0, 5).narrow(2, 0, 5)));
        EXPECT_TRUE(got.attentions[1][3].equal(want.attentions[1][3]));
        if (task == Task::kMaskedLm)
          EXPECT_TRUE(got.logits.equal(Rows(want.logits, lengths, 12)));
        else if (task == Task::kSequenceClassification)
          EXPECT_TRUE(got.logits.equal(want.logits));
        else
          EXPECT_TRUE(got.end_logits.equal(Rows(want.end_logits, lengths, 12)));
      }
    }
}

TEST(AttendedPadding, IsNotLabelled) {
  const std::vector<int> lengths{5, 3};
  ModelConfig config = Small(), padding = config;
  padding.attended_padding = 8;
  PackedBatch texts = Texts(lengths), by_hand = Texts(lengths, 8);
  texts.labels.tokens = {-100, 7, -100, 9, -100, 8, -100, -100};
  by_hand.labels.tokens = {-100, 7, -100, 9, -100, -100, -100, -100, 8, -100, -100, -100, -100, -100, -100, -100};
  const ModelOutput got = CreateModel(padding, Task::kMaskedLm, 7)->Forward(texts, {});
  EXPECT_TRUE(got.loss.equal(CreateModel(config, Task::kMaskedLm, 7)->Forward(by_hand, {}).loss));
  EXPECT_TRUE(got.terms[0].equal(got.loss));
  // An answer that a window does not have stands at its end, where the padding begins.
  texts.labels = by_hand.labels = {};
  texts.labels.start_positions = {2, 3}, texts.labels.end_positions = {4, 3};
  by_hand.labels.start_positions = {2, 8}, by_hand.labels.end_positions = {4, 8};
  EXPECT_TRUE(CreateModel(padding, Task::kQuestionAnswering, 7)
                  ->Forward(texts, {})
                  .loss.equal(CreateModel(config, Task::kQuestionAnswering, 7)->Forward(by_hand, {}).loss));
}

TEST(AttendedPadding, BadInput) {
  ModelConfig config = Small();
  config.attended_padding = 41;
  EXPECT_THAT(ErrorOf([&] { CreateModel(config, Task::kEncoder, 7); }),
              HasSubstr("\"attended_padding\" 41 is more than \"max_position_embeddings\" 40"));
  ModelConfig conditional = Small("albert");
  EXPECT_THAT(
      ErrorOf([&] { ApplyOverrides(conditional, "question_answering_head=conditional,attended_padding=8", "test"); }),
      HasSubstr("\"conditional\""));
  config.attended_padding = 8;
  PackedBatch torn = Texts({5});
  torn.tokens.ids.pop_back();
  EXPECT_THAT(ErrorOf([&] { CreateModel(config, Task::kEncoder, 7)->Forward(torn, {}); }), HasSubstr("cu_seqlens"));
}

// a = W_o · P · V + b_o, y = LayerNorm(a + feed-forward(a)), in double precision from the recorded P.
TEST(AttentionResidual, LeftOut) {
  ModelConfig config = Small();
  ApplyOverrides(config, "attention_residual=false,num_hidden_layers=1,hidden_act=relu", "test");
  const ModelPtr model = CreateModel(config, Task::kEncoder, 7);
  std::map<std::string, Tensor> named;
  for (const auto& [name, parameter] : model->NamedParameters()) named[name] = parameter.detach().to(torch::kFloat64);
  const auto map = [&](const Tensor& x, const std::string& name) {
    const std::string prefix = "bert.encoder.layer.0." + name;
    return torch::matmul(x, named.at(prefix + ".weight").t()) + named.at(prefix + ".bias");
  };
  const ModelOutput got = model->Forward(Texts({9}), {.hidden_states = true, .attentions = true});
  const Tensor x = got.hidden_states[0].detach().to(torch::kFloat64);                    // [9, 16]
  const Tensor values = map(x, "attention.self.value").view({9, 2, 8}).transpose(0, 1);  // [2, 9, 8]
  const Tensor weights = got.attentions[0][0].to(torch::kFloat64);                       // [2, 9, 9]
  const Tensor mixed = torch::matmul(weights, values).transpose(0, 1).reshape({9, 16});  // [9, 16]
  const Tensor a = map(mixed, "attention.output.dense");
  const Tensor sum = a + map(torch::relu(map(a, "intermediate.dense")), "output.dense");
  const Tensor want = torch::layer_norm(sum, {16}, {}, {}, config.layer_norm_eps);
  EXPECT_LE((got.last_hidden_state.to(torch::kFloat64) - want).abs().max().item<double>(), 1e-5);
  // The LayerNorm that has no use gets no gradient; all else of the layer does.
  got.last_hidden_state.square().sum().backward();
  for (const auto& [name, parameter] : model->NamedParameters()) {
    if (name.find("encoder.layer") == name.npos) continue;
    EXPECT_EQ(parameter.grad().defined(), name.find("attention.output.LayerNorm") == name.npos) << name;
  }
  config.reversible = true;
  EXPECT_THAT(ErrorOf([&] { CreateModel(config, Task::kEncoder, 7); }), HasSubstr("\"attention_residual\""));
}

TEST(AttentionResidual, StandsInTheFileWhereItIsLeftOut) {
  ModelConfig config = Small("albert");
  EXPECT_FALSE(ToJson(config).contains("attention_residual"));
  EXPECT_FALSE(ToJson(config).contains("attended_padding"));
  ApplyOverrides(config, "attention_residual=false,attended_padding=16", "test");
  TempFolder folder;
  SaveModel(*CreateModel(config, Task::kEncoder, 7), folder / "model");
  const ModelConfig read = ReadModelConfig(folder / "model/config.json");
  EXPECT_FALSE(read.attention_residual);
  EXPECT_EQ(read.attended_padding, 16);
}

// As everywhere where the default is not written.
TEST(ComparisonKeys, NullIsAbsent) {
  const Json json{
      {"model_type", "albert"}, {"attention_residual", nullptr},      {"attended_padding", nullptr},
      {"reversible", nullptr},  {"chunk_size_feed_forward", nullptr}, {"embedding_hidden_mapping", nullptr}};
  const ModelConfig config = ParseModelConfig(json, "test");
  EXPECT_TRUE(config.attention_residual);
  EXPECT_EQ(config.attended_padding, 0);
  EXPECT_EQ(ToJson(config), ToJson(DefaultModelConfig("albert", "test")));
}

TEST(RedrawParameters, ThoseNamedAndNoOthers) {
  const ModelPtr model = CreateModel(Small(), Task::kMaskedLm, 7), seven = CreateModel(Small(), Task::kMaskedLm, 7),
                 eight = CreateModel(Small(), Task::kMaskedLm, 8);
  RedrawParameters(*model, {"layer.1.", "self.query"}, 8);
  const auto got = model->NamedParameters(), kept = seven->NamedParameters(), drawn = eight->NamedParameters();
  int again = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string& name = got[i].first;
    const bool named = name.find("layer.1.") != name.npos || name.find("self.query") != name.npos;
    EXPECT_TRUE(got[i].second.equal((named ? drawn : kept)[i].second)) << name;
    EXPECT_TRUE(got[i].second.requires_grad()) << name;
    again += named;
  }
  EXPECT_EQ(again, 16 + 2);
  EXPECT_THAT(ErrorOf([&] { RedrawParameters(*model, {"layer.2."}, 8); }), HasSubstr("no parameter has \"layer.2.\""));
  EXPECT_THAT(ErrorOf([&] { RedrawParameters(*model, {""}, 8); }), HasSubstr("no parameter has \"\""));
}

}  // namespace
}  // namespace lshformer
