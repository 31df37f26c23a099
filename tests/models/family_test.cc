#include "models/family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/model.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

TEST(FindFamily, SaysWhichThereAre) {
  EXPECT_STREQ(FindFamily("bert", "config.json").model_type, "bert");
  EXPECT_EQ(ErrorOf([] { FindFamily("xlnet", "config.json"); }),
            "config.json: \"model_type\": expected \"albert\" or \"bert\" or \"bidaf\" or \"distilbert\" or "
            "\"modernbert\" or "
            "\"nomic_bert\" or \"qanet\" or \"roberta\" or \"xlm-roberta\", got \"xlnet\"");
  EXPECT_EQ(ErrorOf([] { FindFamily("bret", "config.json"); }),
            "config.json: \"model_type\": expected \"albert\" or \"bert\" or \"bidaf\" or \"distilbert\" or "
            "\"modernbert\" or "
            "\"nomic_bert\" or \"qanet\" or \"roberta\" or \"xlm-roberta\", got \"bret\" (did you mean \"bert\"?)");
}

TEST(Families, HaveWhatTheTableNeeds) {
  for (const Family* family : Families()) {
    SCOPED_TRACE(family->model_type);
    const ModelConfig config = DefaultModelConfig(family->model_type, "test");
    EXPECT_EQ(config.model_type, family->model_type);
    ASSERT_FALSE(family->heads.empty());
    ASSERT_FALSE(family->streams.empty());
    for (const Head& head : family->heads) {
      bool first = false;
      for (const ParameterSpec& spec : family->parameters(config, head.task)) {
        first |= spec.name == family->first_parameter;
        EXPECT_EQ(spec.name, CanonicalWeightName(family->weight_names, spec.name));
        EXPECT_EQ(spec.name, CanonicalWeightName(family->weight_names,
                                                 FileWeightName(family->weight_names, spec.name, head.architecture)));
        EXPECT_GE(spec.role.uses, 1);
      }
      EXPECT_TRUE(first);
      ModelConfig named = config;
      named.architectures = {head.architecture};
      EXPECT_EQ(FindTask(named), head.task);
    }
  }
}

TEST(FindFamily, AnotherFamilysNameOfAHeadIsThatHead) {
  ModelConfig config;
  config.model_type = "albert", config.architectures = {"BertForMaskedLM"};
  EXPECT_EQ(FindTask(config), Task::kMaskedLm);
  config.model_type = "bidaf";
  EXPECT_EQ(FindTask(config), std::nullopt) << "a head that the family lacks";
}

// HF's rule: everything but biases and LayerNorm decays. FLOPs are counted of what is multiplied with, not looked up.
TEST(ParameterRoles, OfBertAreWhatItsNamesSay) {
  ModelConfig config;
  config.num_hidden_layers = 2;
  for (const bool reversible : {false, true}) {
    config.reversible = reversible;
    for (const Head& head : FamilyOf(config).heads) {
      for (const ParameterSpec& spec : FamilyOf(config).parameters(config, head.task)) {
        const bool spared =
            spec.name.find("bias") != std::string::npos || spec.name.find("LayerNorm") != std::string::npos;
        EXPECT_EQ(spec.role.decays, !spared) << spec.name;
        EXPECT_EQ(spec.role.embedding, spec.name.find("_embeddings.") != std::string::npos) << spec.name;
        EXPECT_EQ(spec.role.uses, 1) << spec.name;
        EXPECT_EQ(spec.role.layer_map, !spared && spec.name.find("encoder.layer.") != std::string::npos) << spec.name;
      }
    }
  }
}

// Matrices of attention and of a feed-forward, in every family: no table, no head, no LSTM, no convolution along words.
TEST(ParameterRoles, MapsOfLayersAreMatricesBetweenHiddenStates) {
  const auto maps = [](const char* type, Task task) {
    std::vector<std::string> names;
    const ModelConfig config = DefaultModelConfig(type, "test");
    for (const ParameterSpec& spec : FamilyOf(config).parameters(config, task)) {
      if (!spec.role.layer_map) continue;
      EXPECT_EQ(spec.shape.size(), 2u) << spec.name;
      names.push_back(spec.name);
    }
    return names;
  };
  const std::string layer = "albert.encoder.albert_layer_groups.0.albert_layers.0.";
  EXPECT_THAT(maps("albert", Task::kPretraining),
              UnorderedElementsAre(layer + "attention.query.weight", layer + "attention.key.weight",
                                   layer + "attention.value.weight", layer + "attention.dense.weight",
                                   layer + "ffn.weight", layer + "ffn_output.weight"));
  EXPECT_THAT(maps("bidaf", Task::kQuestionAnswering), IsEmpty());
  const std::vector<std::string> of_qanet = maps("qanet", Task::kQuestionAnswering);
  EXPECT_THAT(of_qanet, Contains("model_encoder.0.attention.query.weight"));
  EXPECT_THAT(of_qanet, Contains("model_encoder.0.feed_forward.inner.weight"));
  EXPECT_THAT(of_qanet, Contains("model_encoder.0.convolutions.0.pointwise.weight"));
  EXPECT_THAT(of_qanet, Each(Not(HasSubstr("depthwise"))));
}

TEST(LossItems, CountsWhatEachTermIsAMeanOver) {
  Labels labels;
  EXPECT_THAT(LossItems(Task::kEncoder, labels), IsEmpty());
  labels.tokens = {-100, 3, -100, 4, 5};
  EXPECT_THAT(LossItems(Task::kMaskedLm, labels), ElementsAre(3));
  EXPECT_THAT(LossItems(Task::kPretraining, labels), ElementsAre(3, 0));
  labels.classes = {0, 1};
  EXPECT_THAT(LossItems(Task::kPretraining, labels), ElementsAre(3, 2));
  EXPECT_THAT(LossItems(Task::kSequenceClassification, labels), ElementsAre(2));
  labels.cu_choices = {0, 3, 5};
  EXPECT_THAT(LossItems(Task::kMultipleChoice, labels), ElementsAre(2)) << "examples, not options";
  labels = {};
  labels.values = {0.5f};
  EXPECT_THAT(LossItems(Task::kSequenceClassification, labels), ElementsAre(1));
  labels.start_positions = labels.end_positions = {1, 2, 3};
  EXPECT_THAT(LossItems(Task::kQuestionAnswering, labels), ElementsAre(3));
}

// A model has a term for each number that LossItems counts, and the loss is the sum of the terms.
TEST(LossTerms, AddUpToTheLoss) {
  ModelConfig config;
  config.vocab_size = 60, config.hidden_size = 16, config.num_hidden_layers = 1, config.num_attention_heads = 2;
  config.intermediate_size = 20, config.max_position_embeddings = 40;
  PackedBatch batch;
  AppendSequence(batch, {1, 2, 3}, {}, 0);
  AppendSequence(batch, {4, 5}, {}, 1);
  batch.labels.tokens = {-100, 2, -100, 4, 5};
  batch.labels.classes = {1, 0};
  batch.labels.start_positions = {0, 1}, batch.labels.end_positions = {2, 1};
  for (const Task task :
       {Task::kMaskedLm, Task::kPretraining, Task::kSequenceClassification, Task::kQuestionAnswering}) {
    const ModelOutput output = CreateModel(config, task, 3)->Forward(batch, {});
    const std::vector<int64_t> items = LossItems(task, batch.labels);
    ASSERT_EQ(output.terms.size(), items.size());
    double sum = 0;
    for (const torch::Tensor& term : output.terms) sum += term.item<double>();
    EXPECT_NEAR(output.loss.item<double>(), sum, 1e-6 * sum);
  }
  EXPECT_THAT(CreateModel(config, Task::kEncoder, 3)->Forward(batch, {}).terms, IsEmpty());
}

// The loss is the mean over examples, however many options each has; a score is its own sequence's.
TEST(MultipleChoice, IsASoftmaxOverEachExamplesOptions) {
  for (const char* family : {"bert", "albert"}) {
    ModelConfig config = DefaultModelConfig(family, "test");
    config.vocab_size = 60, config.hidden_size = 16, config.num_hidden_layers = 1, config.num_attention_heads = 2;
    config.intermediate_size = 20, config.max_position_embeddings = 40, config.initializer_range = 0.5;
    if (config.embedding_size > 0) config.embedding_size = 8;
    const ModelPtr model = CreateModel(config, Task::kMultipleChoice, 3);
    PackedBatch batch;
    for (int32_t b = 0; b < 5; ++b) AppendSequence(batch, {1 + b, 7, 9 + b}, {}, static_cast<uint64_t>(b));
    const torch::Tensor scores = model->Forward(batch, {}).logits;
    ASSERT_EQ(scores.sizes(), (std::vector<int64_t>{5}));
    batch.labels.cu_choices = {0, 3, 5};
    batch.labels.classes = {2, 0};
    const auto nll = [&](int64_t begin, int64_t end, int64_t label) {
      return (scores.slice(0, begin, end).logsumexp(0) - scores[begin + label]).item<double>();
    };
    const ModelOutput output = model->Forward(batch, {});
    EXPECT_NEAR(output.loss.item<double>(), (nll(0, 3, 2) + nll(3, 5, 0)) / 2, 1e-6);
    ASSERT_EQ(output.terms.size(), 1u);
    EXPECT_TRUE(torch::equal(output.terms[0], output.loss));
    batch.labels.classes = {2, 2};
    EXPECT_THAT(ErrorOf([&] { model->Forward(batch, {}); }),
                ::testing::HasSubstr("example 1: label 2 is out of range, it has 2 options"));
    batch.labels.cu_choices = {0, 3, 4};
    EXPECT_THAT(ErrorOf([&] { model->Forward(batch, {}); }), ::testing::HasSubstr("2 labels for 3 borders"));
  }
}

}  // namespace
}  // namespace lshformer
