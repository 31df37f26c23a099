// ALBERT: its sizes, which layers share what, and what sharing means for gradients. Numbers against HF: golden_test.cc.
#include "models/albert/albert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>

#include "models/albert/config.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;

ModelConfig Sized(int64_t layers, int64_t hidden, int64_t heads) {
  ModelConfig config = DefaultModelConfig("albert", "test");
  config.num_hidden_layers = layers, config.hidden_size = hidden, config.num_attention_heads = heads;
  config.intermediate_size = 4 * hidden;
  return config;
}

ModelConfig Small() {
  ModelConfig config = Sized(4, 16, 2);
  config.vocab_size = 60, config.embedding_size = 8, config.intermediate_size = 20;
  config.max_position_embeddings = 40, config.num_labels = 3, config.initializer_range = 0.4;
  return config;
}

int64_t Total(const ModelConfig& config, Task task) {
  int64_t total = 0;
  for (const auto& [block, count] : ParametersByBlock(config, task)) total += count;
  return total;
}

ModelConfig Shared(ModelConfig config, const char* sharing) {
  config.own<AlbertConfig>().parameter_sharing = sharing;
  return config;
}

ModelConfig Grouped(ModelConfig config, int64_t groups) {
  config.own<AlbertConfig>().num_hidden_groups = groups;
  return config;
}

struct Size {
  const char* name;
  int64_t layers, hidden, heads;
  int64_t all, attention, ffn, none, groups2, groups3, groups4, groups6, pretraining, masked_lm;
};

// The published sizes, by the shapes of their tensors; the paper rounds them (12M, 18M, 60M), but gives xxlarge 235M.
TEST(AlbertParameters, PublishedSizes) {
  const Size sizes[] = {{"base", 12, 768, 12, 11683584, 63647232, 37686528, 89650176, 18771456, 25859328, 32947200,
                         47122944, 11813810, 11221680},
                        {"large", 24, 1024, 16, 17683968, 210786816, 114294272, 307397120, 30280192, 42876416, 55472640,
                         80665088, 17847474, 16795824},
                        {"xlarge", 24, 2048, 16, 58724864, 830806528, 444883456, 1216965120, 109083136, 159441408,
                         209799680, 310516224, 59021490, 54821040},
                        {"xxlarge", 12, 4096, 64, 222595584, 1699305984, 961063424, 2437773824, 423975424, 625355264,
                         826735104, 1229494784, 223158450, 206368944}};
  for (const Size& size : sizes) {
    SCOPED_TRACE(size.name);
    const ModelConfig config = Sized(size.layers, size.hidden, size.heads);
    EXPECT_EQ(Total(config, Task::kEncoder), size.all);
    EXPECT_EQ(Total(Shared(config, "all"), Task::kEncoder), size.all);
    EXPECT_EQ(Total(Shared(config, "attention"), Task::kEncoder), size.attention);
    EXPECT_EQ(Total(Shared(config, "ffn"), Task::kEncoder), size.ffn);
    EXPECT_EQ(Total(Shared(config, "none"), Task::kEncoder), size.none);
    EXPECT_EQ(Total(Grouped(config, 2), Task::kEncoder), size.groups2);
    EXPECT_EQ(Total(Grouped(config, 3), Task::kEncoder), size.groups3);
    EXPECT_EQ(Total(Grouped(config, 4), Task::kEncoder), size.groups4);
    EXPECT_EQ(Total(Grouped(config, 6), Task::kEncoder), size.groups6);
    EXPECT_EQ(Total(Grouped(config, size.layers), Task::kEncoder), size.none);
    EXPECT_EQ(Total(config, Task::kPretraining), size.pretraining);
    EXPECT_EQ(Total(config, Task::kMaskedLm), size.masked_lm);
  }
}

// The paper's embedding sizes, of base; ALBERT's own code has no map where E = H.
TEST(AlbertParameters, EmbeddingSizes) {
  const std::pair<int64_t, std::array<int64_t, 2>> sizes[] = {{64, {87648000, 9681408}},
                                                              {128, {89650176, 11683584}},
                                                              {256, {93654528, 15687936}},
                                                              {768, {109081344, 31114752}}};
  for (const auto& [width, counts] : sizes) {
    ModelConfig config = Sized(12, 768, 12);
    config.embedding_size = width;
    config.own<AlbertConfig>().embedding_hidden_mapping = width != 768;
    EXPECT_EQ(Total(Shared(config, "none"), Task::kEncoder), counts[0]) << width;
    EXPECT_EQ(Total(Shared(config, "all"), Task::kEncoder), counts[1]) << width;
    if (width != 768) continue;
    EXPECT_EQ(Total(Shared(config, "attention"), Task::kEncoder), 83078400);
    EXPECT_EQ(Total(Shared(config, "ffn"), Task::kEncoder), 57117696);
  }
}

// ⌊i·G / L⌋, also where floats misround: with 22 groups in 22 layers every layer has its own.
TEST(AlbertGroups, AreIntegers) {
  for (int64_t layers = 1; layers <= 40; ++layers) {
    for (int64_t groups = 1; groups <= layers; ++groups) {
      const ModelConfig config = Grouped(Sized(layers, 64, 1), groups);
      std::map<int64_t, int64_t> sizes;
      int64_t before = 0;
      for (int64_t layer = 0; layer < layers; ++layer) {
        const auto [attention, feed_forward] = GroupsOf(config, layer);
        EXPECT_EQ(attention, feed_forward);
        EXPECT_TRUE(attention == before || attention == before + 1);
        before = attention;
        ++sizes[attention];
      }
      ASSERT_EQ(static_cast<int64_t>(sizes.size()), groups) << layers;
      for (const auto& [group, size] : sizes) EXPECT_TRUE(size == layers / groups || size == layers / groups + 1);
    }
  }
}

TEST(AlbertGroups, UsesAreCounted) {
  const auto uses = [](const ModelConfig& config, const std::string& name) {
    for (const ParameterSpec& spec : EncoderParameters<AlbertForm>(config, Task::kMaskedLm))
      if (spec.name == "albert.encoder.albert_layer_groups." + name) return spec.role.uses;
    return 0;
  };
  ModelConfig config = Small();
  EXPECT_EQ(uses(config, "0.albert_layers.0.ffn.weight"), 4);
  EXPECT_EQ(uses(Grouped(config, 3), "0.albert_layers.0.ffn.weight"), 2);
  EXPECT_EQ(uses(Grouped(config, 3), "2.albert_layers.0.ffn.weight"), 1);
  EXPECT_EQ(uses(Shared(config, "attention"), "0.albert_layers.0.attention.query.weight"), 4);
  EXPECT_EQ(uses(Shared(config, "attention"), "1.albert_layers.0.attention.query.weight"), 0);
  EXPECT_EQ(uses(Shared(config, "attention"), "3.albert_layers.0.full_layer_layer_norm.bias"), 1);
  EXPECT_EQ(uses(Shared(config, "ffn"), "3.albert_layers.0.attention.LayerNorm.bias"), 1);
  EXPECT_EQ(uses(Shared(config, "ffn"), "0.albert_layers.0.ffn_output.weight"), 4);
  config.inner_group_num = 2;
  EXPECT_EQ(uses(config, "0.albert_layers.1.ffn.weight"), 4);
}

PackedBatch Batch(const ModelConfig& config) {
  PackedBatch batch;
  for (const int length : {7, 1, 12}) {
    std::vector<int32_t> ids, types;
    for (int i = 0; i < length; ++i) {
      ids.push_back(static_cast<int32_t>((7 * i + 3 * length) % config.vocab_size));
      types.push_back(i > 3 ? 1 : 0);
    }
    AppendSequence(batch, ids, types, static_cast<uint64_t>(batch.sequences()));
    batch.labels.tokens.insert(batch.labels.tokens.end(), ids.begin(), ids.end());
  }
  return batch;
}

using Gradients = std::map<std::string, torch::Tensor>;

// The loss and its gradients of a model whose numbers are those of `numbers` where it has them.
Gradients GradientsOf(const ModelConfig& config, const std::function<std::string(std::string)>& source,
                      const Model& numbers, double* loss) {
  std::map<std::string, torch::Tensor> from;
  for (const auto& [name, parameter] : numbers.NamedParameters()) from[name] = parameter;
  const ModelPtr model = CreateModel(config, Task::kMaskedLm, 3);
  {
    const torch::NoGradGuard no_grad;
    for (const auto& [name, parameter] : model->NamedParameters()) {
      torch::Tensor values = parameter;
      values.copy_(from.at(source(name)));
    }
  }
  const ModelOutput output = model->Forward(Batch(config), {.train = true, .seed = 5, .step = 2});
  output.loss.backward();
  *loss = output.loss.item<double>();
  Gradients gradients;
  for (const auto& [name, parameter] : model->NamedParameters()) gradients[name] = parameter.grad().to_dense();
  return gradients;
}

// "…groups.2.albert_layers.0.ffn.weight" → "…groups.<group>.albert_layers.0.ffn.weight" where the part is shared.
std::string InFirstGroup(const std::string& name, const std::string& sharing) {
  const std::string groups = "albert_layer_groups.";
  const size_t place = name.find(groups);
  if (place == name.npos) return name;
  const bool attention = name.find(".attention.") != name.npos;
  const bool shared = sharing == "all" || (sharing == "attention" ? attention : !attention);
  const size_t begin = place + groups.size(), end = name.find('.', begin);
  return shared ? name.substr(0, begin) + "0" + name.substr(end) : name;
}

// A model whose layers share is the one whose layers do not and have the same numbers; the gradient of what is shared
// is the sum over its uses. Dropout, too, is each layer's own.
TEST(AlbertSharing, GradientsAreSumsOverUses) {
  for (const char* sharing : {"all", "attention", "ffn"}) {
    for (const bool reversible : {false, true}) {
      SCOPED_TRACE(std::string(sharing) + (reversible ? ", reversible" : ""));
      ModelConfig config = Small();
      config.reversible = reversible;
      config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.1;
      const ModelPtr numbers = CreateModel(Shared(config, sharing), Task::kMaskedLm, 9);
      double loss = 0, loss_apart = 0;
      const auto same = [](std::string name) { return name; };
      const Gradients together = GradientsOf(Shared(config, sharing), same, *numbers, &loss);
      const Gradients apart = GradientsOf(
          Shared(config, "none"), [&](const std::string& name) { return InFirstGroup(name, sharing); }, *numbers,
          &loss_apart);
      EXPECT_EQ(loss, loss_apart);
      EXPECT_LT(together.size(), apart.size());
      Gradients sums;
      for (const auto& [name, gradient] : apart) {
        torch::Tensor& sum = sums[InFirstGroup(name, sharing)];
        sum = sum.defined() ? sum + gradient : gradient.clone();
      }
      ASSERT_EQ(sums.size(), together.size());
      for (const auto& [name, gradient] : together)
        EXPECT_TRUE(torch::allclose(gradient, sums.at(name), 1e-4, 1e-6)) << name;
    }
  }
}

// Sharing everything, a model is as deep as its config says: the same weights, visited more often.
TEST(AlbertSharing, DepthIsNoMatterOfWeights) {
  const TempFolder folder;
  ModelConfig config = Shared(Small(), "all");
  SaveModel(*CreateModel(config, Task::kMaskedLm, 4), folder.path());
  const ModelPtr deeper = LoadModel(folder.path(), Task::kMaskedLm, 0, /*require_head=*/true,
                                    [](ModelConfig& read) { read.num_hidden_layers = 9; });
  ForwardOptions options;
  options.hidden_states = true;
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(deeper->Forward(Batch(config), options).hidden_states.size(), 10u);
}

// As in attentions, each inner layer of a visit counts.
TEST(AlbertSharing, EveryInnerLayerGivesItsStates) {
  ModelConfig config = Small();
  config.num_hidden_layers = 2, config.inner_group_num = 2;
  ForwardOptions options;
  options.hidden_states = options.attentions = true;
  const torch::NoGradGuard no_grad;
  for (const bool reversible : {false, true}) {
    config.reversible = reversible;
    const ModelOutput output = CreateModel(config, Task::kEncoder, 4)->Forward(Batch(config), options);
    ASSERT_EQ(output.hidden_states.size(), 5u);
    EXPECT_EQ(output.attentions.size(), 4u);
    for (size_t i = 1; i < 5; ++i) EXPECT_FALSE(output.hidden_states[i].equal(output.hidden_states[i - 1]));
    EXPECT_EQ(output.hidden_states[4].equal(output.last_hidden_state), !reversible);
  }
}

TEST(AlbertFiles, EverySharingIsReadBack) {
  for (const char* sharing : {"", "all", "attention", "ffn", "none"}) {
    for (const bool reversible : {false, true}) {
      SCOPED_TRACE(sharing);
      const TempFolder folder;
      ModelConfig config = Shared(Small(), sharing);
      config.inner_group_num = 2, config.reversible = reversible;
      const ModelPtr model = CreateModel(config, Task::kSequenceClassification, 4);
      SaveModel(*model, folder.path());
      const ModelPtr read = LoadModel(folder.path(), Task::kSequenceClassification, 0, /*require_head=*/true);
      EXPECT_EQ(ToJson(read->config()), ToJson(model->config()));
      const torch::NoGradGuard no_grad;
      EXPECT_TRUE(torch::equal(read->Forward(Batch(config), {}).logits, model->Forward(Batch(config), {}).logits));
    }
  }
}

// What HF would see: a model of as many groups as the file has parts of.
TEST(AlbertFiles, GroupsAreWrittenForHf) {
  EXPECT_EQ(ToJson(Small())["num_hidden_groups"], 1);
  EXPECT_FALSE(ToJson(Small()).contains("parameter_sharing"));
  EXPECT_EQ(ToJson(Shared(Small(), "all"))["num_hidden_groups"], 1);
  EXPECT_EQ(ToJson(Shared(Small(), "none"))["num_hidden_groups"], 4);
  EXPECT_EQ(ToJson(Shared(Small(), "attention"))["num_hidden_groups"], 4);
}

std::string ParseError(const std::string& overrides) {
  return ErrorOf([&] {
    ModelConfig config = Small();
    ApplyOverrides(config, overrides, "overrides");
  });
}

TEST(AlbertConfig, BadInput) {
  EXPECT_THAT(ParseError("embedding_size=0"), HasSubstr("\"embedding_size\": expected 1 to"));
  EXPECT_THAT(ParseError("num_hidden_groups=5"), HasSubstr("\"num_hidden_groups\" 5 is more than"));
  EXPECT_THAT(ParseError("num_hidden_groups=0"), HasSubstr("\"num_hidden_groups\": expected 1 to"));
  EXPECT_THAT(ParseError("parameter_sharing=all,num_hidden_groups=2"),
              HasSubstr("\"num_hidden_groups\": expected 1 with \"parameter_sharing\" \"all\" and 4 layers, got 2"));
  EXPECT_EQ(ParseError("parameter_sharing=none,num_hidden_groups=4"), "(nothing thrown)");
  EXPECT_THAT(ParseError("parameter_sharing=attn"), HasSubstr("\"parameter_sharing\""));
  EXPECT_THAT(ParseError("inner_group_num=0"), HasSubstr("\"inner_group_num\": expected 1 to"));
  EXPECT_THAT(ParseError("embedding_hidden_mapping=false"), HasSubstr("needs \"embedding_size\" 8 to be"));
  EXPECT_THAT(ParseError("num_hidden_layers=1024,inner_group_num=1024"), HasSubstr("is more than 4096"));
}

// A checkpoint of the other family under this one's name: the first tensor that does not fit.
TEST(AlbertFiles, OfAnotherFamily) {
  const auto load_as = [](const ModelConfig& config, const char* type) {
    const TempFolder folder;
    SaveModel(*CreateModel(config, Task::kMaskedLm, 4), folder.path());
    Json json = ToJson(config);
    json["model_type"] = type;
    json["architectures"] = Json::array();
    std::ofstream(folder.path() + "/config.json") << json.dump();
    return ErrorOf([&] { LoadModel(folder.path(), Task::kMaskedLm, 0, true); });
  };
  EXPECT_THAT(load_as(Small(), "bert"),
              HasSubstr("tensor \"bert.embeddings.word_embeddings.weight\" is missing, expected shape [60, 16]"));
  ModelConfig bert;
  bert.vocab_size = 60, bert.hidden_size = 16, bert.num_hidden_layers = 1, bert.num_attention_heads = 2;
  bert.intermediate_size = 20, bert.max_position_embeddings = 40;
  EXPECT_THAT(
      load_as(bert, "albert"),
      HasSubstr("tensor \"albert.embeddings.word_embeddings.weight\" is missing, expected shape [60, 128]: the file "
                "has no tensor of an ALBERT model"));
}

TEST(AlbertFiles, AMapThatIsNotThereIsExplained) {
  const TempFolder folder;
  ModelConfig config = Small();
  config.embedding_size = 16;
  config.own<AlbertConfig>().embedding_hidden_mapping = false;
  SaveModel(*CreateModel(config, Task::kMaskedLm, 4), folder.path());
  config.own<AlbertConfig>().embedding_hidden_mapping = true;
  std::ofstream(folder.path() + "/config.json") << ToJson(config).dump();
  EXPECT_THAT(ErrorOf([&] { LoadModel(folder.path(), Task::kMaskedLm, 0, true); }),
              HasSubstr("say \"embedding_hidden_mapping\": false"));
}

// A config that asks for less than the file has makes another model, and says so.
TEST(AlbertFiles, TensorsThatAreNotUsedAreTold) {
  const auto warnings_of = [](ModelConfig config, const std::function<void(ModelConfig&)>& change) {
    const TempFolder folder;
    SaveModel(*CreateModel(config, Task::kSequenceClassification, 4), folder.path());
    std::ostringstream log;
    const auto previous = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
    LoadModel(folder.path(), Task::kSequenceClassification, 0, /*require_head=*/true, change);
    spdlog::set_default_logger(previous);
    return log.str();
  };
  EXPECT_EQ(warnings_of(Small(), [](ModelConfig&) {}), "");
  ModelConfig inner = Small();
  inner.inner_group_num = 2;
  EXPECT_THAT(warnings_of(inner, [](ModelConfig& config) { config.inner_group_num = 1; }),
              HasSubstr("without 16 of its tensors, which are not used: "
                        "\"albert.encoder.albert_layer_groups.0.albert_layers.1."));
  ModelConfig square = Small();
  square.embedding_size = square.hidden_size;
  EXPECT_THAT(
      warnings_of(square, [](ModelConfig& config) { config.own<AlbertConfig>().embedding_hidden_mapping = false; }),
      HasSubstr("embedding_hidden_mapping_in"));
  EXPECT_THAT(warnings_of(Shared(Small(), "none"),
                          [](ModelConfig& config) { config.own<AlbertConfig>().parameter_sharing = "attention"; }),
              HasSubstr("which are not used"));
}

}  // namespace
}  // namespace lshformer
