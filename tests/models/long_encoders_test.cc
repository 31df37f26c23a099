// The families for long text beyond their numbers (golden_test): keys of their configs, what a saved model is, and that
// a text's result is its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/parallel.h"
#include "base/philox.h"
#include "data/masking.h"
#include "io/safetensors.h"
#include "kernels/matmul.h"
#include "models/family.h"
#include "models/model.h"
#include "models/weights.h"
#include "ops/threads.h"
#include "util/amx_model.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;

ModelConfig Parse(const std::string& text) { return ParseModelConfig(ParseJson(text, "config.json"), "config.json"); }
std::string ParseError(const std::string& text) {
  return ErrorOf([&] { Parse(text); });
}

std::vector<std::string> Kinds(const ModelConfig& config) {
  std::vector<std::string> kinds;
  for (const AttentionSpec& spec : config.attention) kinds.push_back(ShortName(spec));
  return kinds;
}

const std::string kModern =
    R"({"model_type":"modernbert","hidden_size":32,"num_hidden_layers":4,"num_attention_heads":2,"vocab_size":50,)"
    R"("pad_token_id":0,"local_attention":6,)";

TEST(ModernBertConfig, LayersAreLocalByTheirTypes) {
  EXPECT_THAT(Kinds(Parse(kModern + R"("global_attn_every_n_layers":3})")),
              ElementsAre("exact", "local, window 3", "local, window 3", "exact"));
  const ModelConfig config = Parse(kModern + R"("layer_types":["sliding_attention","full_attention",)"
                                             R"("full_attention","sliding_attention"]})");
  EXPECT_THAT(Kinds(config), ElementsAre("local, window 3", "exact", "exact", "local, window 3"));
  EXPECT_EQ(config.layer_rotary(0)->theta, 10000);
  EXPECT_EQ(config.layer_rotary(1)->theta, 160000);
  EXPECT_EQ(ParseError(kModern + R"("layer_types":["full_attention"]})"),
            "config.json: \"layer_types\": expected 4 (num_hidden_layers), got 1");
  EXPECT_EQ(ParseError(kModern + R"("layer_types":["full_attention","full_attention","full_attention",)"
                                 R"("full_attention","sliding_attention"]})"),
            "config.json: \"layer_types\": expected 4 (num_hidden_layers), got 5");
  EXPECT_EQ(ParseError(kModern + R"("layer_types":["full_attention","chunked","",""]})"),
            "config.json: \"layer_types\"[1]: expected \"full_attention\" or \"sliding_attention\", got \"chunked\"");
}

// New weights: normal, cut at two deviations, which depend on the kind of map (transformers'
// ModernBertPreTrainedModel).
TEST(ModernBertConfig, NewWeightsAreCutAndNarrowerWhereMapsAddToTheStates) {
  ModelConfig config = Parse(kModern + R"("intermediate_size":64,"initializer_range":0.5,"num_labels":40})");
  constexpr double kCutAtTwo = 0.8796;  // the deviation of what is left of a normal number, in deviations
  const double out = 0.5 / std::sqrt(2.0 * 4), final_out = 1 / std::sqrt(32.0);
  const std::map<std::string, double> deviations{{"model.embeddings.tok_embeddings.weight", 0.5},
                                                 {"model.layers.1.attn.Wqkv.weight", 0.5},
                                                 {"model.layers.1.attn.Wo.weight", out},
                                                 {"model.layers.1.mlp.Wi.weight", 0.5},
                                                 {"model.layers.1.mlp.Wo.weight", out},
                                                 {"head.dense.weight", out},
                                                 {"classifier.weight", final_out}};
  size_t found = 0;
  for (const ParameterSpec& spec : FamilyOf(config).parameters(config, Task::kSequenceClassification)) {
    const auto expected = deviations.find(spec.name);
    if (expected == deviations.end()) continue;
    ++found;
    const torch::Tensor drawn = DrawParameter(spec, config, 3).detach().to(torch::kFloat64);
    const double deviation = expected->second, spread = drawn.std(/*unbiased=*/false).item<double>();
    EXPECT_LE(drawn.abs().max().item<double>(), 2 * deviation) << spec.name;
    EXPECT_GT(drawn.abs().max().item<double>(), 1.7 * deviation) << spec.name;
    EXPECT_NEAR(spread, kCutAtTwo * deviation, 0.08 * deviation) << spec.name;
    EXPECT_NEAR(drawn.mean().item<double>(), 0, 0.1 * deviation) << spec.name;
  }
  EXPECT_EQ(found, deviations.size());
  ApplyOverrides(config, "initializer_cutoff_factor=0.5", "test");
  for (const ParameterSpec& spec : FamilyOf(config).parameters(config, Task::kEncoder))
    if (spec.name == "model.layers.0.mlp.Wi.weight") {
      EXPECT_LE(DrawParameter(spec, config, 3).abs().max().item<double>(), 0.25);
    }
}

// "attention" is for the other layers; a list may hold the local ones too, as they are.
TEST(ModernBertConfig, AttentionIsThatOfTheOtherLayers) {
  const ModelConfig one = Parse(kModern + R"("attention":{"type":"clustered","cluster":4}})");
  EXPECT_THAT(Kinds(one), ElementsAre("4 × 4", "local, window 3", "local, window 3", "4 × 4"));
  const Json written = ToJson(one);
  EXPECT_EQ(written["attention"]["type"], "clustered") << "local layers are not written out";
  EXPECT_EQ(Parse(written.dump()).attention, one.attention);
  const ModelConfig some =
      Parse(kModern + R"("attention":["dense",{"type":"local","window":3},{"type":"local","window":3},"clustered"]})");
  EXPECT_EQ(Parse(ToJson(some).dump()).attention, some.attention);
  EXPECT_EQ(ParseError(kModern + R"("attention":["dense",{"type":"local","window":4},"local","dense"]})"),
            "config.json: \"attention\"[1]: the window of this layer is 3, got 4");
  ModelConfig changed = Parse(kModern + R"("attention":"dense"})");
  ApplyOverrides(changed, "local_attention=10,num_hidden_layers=2", "test");
  EXPECT_THAT(Kinds(changed), ElementsAre("exact", "local, window 5"));
}

TEST(ModernBertConfig, RotaryPositionsInOldKeysAndNew) {
  const ModelConfig flat = Parse(kModern + R"("global_rope_theta":500.0,"local_rope_theta":20.0})");
  const ModelConfig nested = Parse(kModern + R"("rope_parameters":{"full_attention":{"rope_theta":500.0},)"
                                             R"("sliding_attention":{"rope_type":"default","rope_theta":20.0}}})");
  for (const ModelConfig* config : {&flat, &nested}) {
    EXPECT_EQ(*config->layer_rotary(0), Rotary{.theta = 500});
    EXPECT_EQ(*config->layer_rotary(1), Rotary{.theta = 20});
    EXPECT_EQ(ToJson(*config)["global_rope_theta"], 500) << "as transformers 4 and 5 both read it";
    EXPECT_FALSE(ToJson(*config).contains("rope_parameters"));
  }
  const ModelConfig linear = Parse(kModern + R"("rope_scaling":{"type":"linear","factor":4}})");
  EXPECT_EQ(*linear.layer_rotary(1), (Rotary{10000, RotaryScaling::kLinear, 4}));
  EXPECT_EQ(ToJson(linear)["rope_parameters"]["full_attention"]["factor"], 4);
  EXPECT_EQ(*Parse(ToJson(linear).dump()).layer_rotary(0), *linear.layer_rotary(0));
  EXPECT_EQ(ParseError(kModern + R"("rope_parameters":{"full_attention":{"rope_type":"yarn","factor":2}}})"),
            "config.json: \"rope_parameters\": \"full_attention\": \"rope_type\": expected \"default\", \"linear\" or "
            "\"dynamic\", got \"yarn\"");
  EXPECT_EQ(ParseError(kModern + R"("rope_parameters":{"full_attention":{"rope_type":"linear"}}})"),
            "config.json: \"rope_parameters\": \"full_attention\": \"factor\" is missing");
  EXPECT_EQ(ParseError(kModern + R"("global_rope_theta":-3})"),
            "config.json: \"global_rope_theta\": expected a number above 0 and at most 1e12, got -3");
  EXPECT_EQ(ParseError(R"({"model_type":"modernbert","local_attention":0})"),
            "config.json: \"local_attention\": expected 2 to 16777216, got 0");
}

const std::string kNomic =
    R"({"model_type":"nomic_bert","hidden_size":32,"num_hidden_layers":2,"num_attention_heads":2,"vocab_size":50,)"
    R"("max_position_embeddings":100,)";

TEST(NomicBertConfig, DynamicPositionsReachFurther) {
  EXPECT_EQ(Parse(kNomic + R"("rope_theta":300})").layer_rotary(1)->theta, 300);
  const ModelConfig config =
      Parse(kNomic + R"("rope_parameters":{"rope_type":"dynamic","rope_theta":300,"factor":2.5}})");
  EXPECT_EQ(config.max_position_embeddings, 250);
  EXPECT_EQ(config.layer_rotary(0)->original, 100);
  EXPECT_EQ(ToJson(config)["max_position_embeddings"], 100);
  EXPECT_EQ(Parse(ToJson(config).dump()).max_position_embeddings, 250);
  EXPECT_EQ(ParseError(kNomic + R"("head_dim":8})"),
            "config.json: \"head_dim\": expected 16 (hidden_size / num_attention_heads), got 8");
  EXPECT_EQ(ParseError(R"({"model_type":"nomic_bert","hidden_size":30,"num_attention_heads":6})"),
            "config.json: \"hidden_size\" 30 with 6 heads gives heads of 5: rotary positions turn pairs of numbers");
}

const std::string kFirstCode =
    R"({"model_type":"nomic_bert","n_embd":32,"n_layer":2,"n_head":2,"n_inner":70,"n_positions":900,)"
    R"("activation_function":"swiglu","vocab_size":50,"qkv_proj_bias":false,"mlp_fc1_bias":false,)"
    R"("mlp_fc2_bias":false,"rotary_emb_fraction":1.0,"rotary_emb_base":10000,)"
    R"("auto_map":{"AutoModel":"nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"},)";

TEST(NomicBertConfig, OfTheFirstCode) {
  const ModelConfig config = Parse(kFirstCode + R"("max_trained_positions":300,"rotary_scaling_factor":2})");
  EXPECT_EQ(config.hidden_size, 32);
  EXPECT_EQ(config.intermediate_size, 256) << "the next multiple of 256";
  EXPECT_EQ(config.hidden_act, Activation::kSilu);
  EXPECT_EQ(config.max_position_embeddings, 900);
  EXPECT_EQ(*config.layer_rotary(0), (Rotary{10000, RotaryScaling::kDynamic, 2, 300}));
  EXPECT_EQ(Parse(ToJson(config).dump()).max_position_embeddings, 900);
  EXPECT_FALSE(ToJson(config).contains("auto_map")) << "what is saved is transformers' own form";
  EXPECT_EQ(ParseError(kFirstCode + R"("prenorm":true})"), "config.json: \"prenorm\": expected false, got true");
  EXPECT_EQ(ParseError(kFirstCode + R"("rotary_emb_interleaved":true})"),
            "config.json: \"rotary_emb_interleaved\": expected false, got true");
  EXPECT_THAT(ParseError(R"({"model_type":"nomic_bert","n_embd":32,"activation_function":"swiglu"})"),
              HasSubstr("\"qkv_proj_bias\": expected false, got nothing, which means true"));
}

TEST(RobertaConfig, PositionsBeginBehindThePaddingWord) {
  const auto parse = [](const std::string& more) {
    return Parse(R"({"model_type":"roberta","vocab_size":50,"hidden_size":12,"max_position_embeddings":40)" + more +
                 "}");
  };
  const ModelConfig config = parse("");
  EXPECT_EQ(config.max_position_embeddings, 38);
  EXPECT_EQ(ToJson(config)["max_position_embeddings"], 40);
  EXPECT_EQ(parse(R"(,"pad_token_id":3)").max_position_embeddings, 36);
  EXPECT_EQ(
      ErrorOf([&] { parse(R"(,"pad_token_id":39)"); }),
      "config.json: \"max_position_embeddings\": expected at least 41 (\"pad_token_id\" 39: positions begin behind "
      "it), got 40");
}

TEST(DistilBertConfig, HasItsOwnNames) {
  const ModelConfig config =
      Parse(R"({"model_type":"distilbert","dim":24,"n_layers":3,"n_heads":2,"hidden_dim":40,"activation":"relu",)"
            R"("dropout":0.3,"attention_dropout":0.2,"hidden_size":999})");
  EXPECT_EQ(config.hidden_size, 24);
  EXPECT_EQ(config.num_hidden_layers, 3);
  EXPECT_EQ(config.num_attention_heads, 2);
  EXPECT_EQ(config.intermediate_size, 40);
  EXPECT_EQ(config.hidden_act, Activation::kRelu);
  EXPECT_EQ(config.hidden_dropout_prob, 0.3);
  EXPECT_EQ(config.attention_probs_dropout_prob, 0.2);
  EXPECT_EQ(config.attention_output_dropout(), 0);
  EXPECT_EQ(ParseError(R"({"model_type":"distilbert","dim":25,"n_heads":2})"),
            "config.json: \"dim\" 25 is not a multiple of \"n_heads\" 2");
  EXPECT_EQ(ParseError(R"({"model_type":"distilbert","n_layers":0})"),
            "config.json: \"n_layers\": expected 1 to 1024, got 0");
}

// A small model of each family, with dropout everywhere.
ModelConfig Small(const std::string& family) {
  const std::string sizes =
      R"("vocab_size":60,"initializer_range":0.3,"pad_token_id":1,"max_position_embeddings":130,)";
  const std::string bert = sizes + R"("hidden_size":16,"num_hidden_layers":3,"num_attention_heads":2,)"
                                   R"("intermediate_size":24,)";
  if (family == "distilbert")
    return Parse(R"({"model_type":"distilbert",)" + sizes +
                 R"("dim":16,"n_layers":3,"n_heads":2,"hidden_dim":24,"dropout":0.2,"attention_dropout":0.2})");
  if (family == "modernbert")
    return Parse(R"({"model_type":"modernbert",)" + bert +
                 R"("local_attention":8,"mlp_dropout":0.2,"embedding_dropout":0.2,"attention_dropout":0.2,)"
                 R"("classifier_pooling":"mean","classifier_dropout":0.2})");
  return Parse(R"({"model_type":")" + family + R"(",)" + bert +
               R"("hidden_dropout_prob":0.2,"attention_probs_dropout_prob":0.2})");
}

PackedBatch Batch(Task task, const std::vector<int>& lengths = {7, 40, 1, 90}) {
  PackedBatch batch;
  for (const int length : lengths) {
    PhiloxStream stream(StreamKey(5, 0, 0, 0, Purpose::kSynthetic), static_cast<uint64_t>(length));
    std::vector<int32_t> ids(static_cast<size_t>(length));
    for (int32_t& id : ids) id = static_cast<int32_t>(stream.Below(60));
    AppendSequence(batch, ids, {}, static_cast<uint64_t>(length));
    if (task == Task::kMaskedLm)
      for (const int32_t id : ids) batch.labels.tokens.push_back(stream.Below(6) == 0 ? id : kIgnoredLabel);
    if (task == Task::kSequenceClassification) batch.labels.classes.push_back(length % 2);
    if (task == Task::kQuestionAnswering) {
      batch.labels.start_positions.push_back(length / 2);
      batch.labels.end_positions.push_back(length - 1);
    }
  }
  return batch;
}

std::vector<torch::Tensor> Gradients(Model& model, const PackedBatch& batch, const ForwardOptions& options) {
  for (const auto& [name, parameter] : model.NamedParameters()) parameter.mutable_grad().reset();
  const ModelOutput output = model.Forward(batch, options);
  output.loss.backward();
  std::vector<torch::Tensor> gradients{output.loss.detach()};
  for (const auto& [name, parameter] : model.NamedParameters()) {
    const torch::Tensor& gradient = parameter.grad();
    gradients.push_back(!gradient.defined() ? torch::Tensor() : gradient.is_sparse() ? gradient.to_dense() : gradient);
  }
  return gradients;
}

class LongEncoderTest : public ::testing::TestWithParam<const char*> {
 protected:
  void TearDown() override { SetAllThreads(HardwareThreads()); }
};

TEST_P(LongEncoderTest, ATextsResultIsItsOwn) {
  const torch::NoGradGuard no_grad;
  const ModelPtr model = CreateModel(Small(GetParam()), Task::kMaskedLm, 3);
  const PackedBatch batch = Batch(Task::kEncoder);
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16, Precision::kInt8}) {
    if (precision != Precision::kFloat32 && !SupportsProducts(precision)) continue;
    model->set_precision(precision);
    SetAllThreads(1);
    const torch::Tensor all = model->Forward(batch, {}).logits;
    for (const int threads : {2, 7, 48}) {
      SetAllThreads(threads);
      EXPECT_TRUE(model->Forward(batch, {}).logits.equal(all)) << Name(precision) << ", " << threads << " threads";
    }
    for (int b = 0; b < batch.sequences(); ++b) {
      const int32_t begin = batch.tokens.cu_seqlens[b], end = batch.tokens.cu_seqlens[b + 1];
      PackedBatch alone;
      AppendSequence(alone, {batch.tokens.ids.begin() + begin, batch.tokens.ids.begin() + end}, {}, 0);
      EXPECT_TRUE(model->Forward(alone, {}).logits.equal(all.slice(0, begin, end)))
          << Name(precision) << ", text " << b;
    }
  }
}

// Layers that are computed again in the backward, and a last layer that computes what the head reads alone: with
// dropout, the same loss and gradients.
TEST_P(LongEncoderTest, ShortcutsOfTrainingChangeNothing) {
  SetAllThreads(1);
  for (const Task task : {Task::kMaskedLm, Task::kSequenceClassification}) {
    const ModelPtr model = CreateModel(Small(GetParam()), task, 3);
    const PackedBatch batch = Batch(task);
    const std::vector<torch::Tensor> plain = Gradients(*model, batch, {.train = true, .step = 4});
    const std::vector<torch::Tensor> again =
        Gradients(*model, batch, {.train = true, .step = 4, .gradient_checkpointing = true});
    const std::vector<torch::Tensor> some = Gradients(*model, batch, {.train = true, .step = 4, .head_only = true});
    ASSERT_TRUE(plain[0].item<double>() > 0);
    for (size_t i = 0; i < plain.size(); ++i) {
      ASSERT_EQ(again[i].defined(), plain[i].defined());
      if (!plain[i].defined()) continue;
      EXPECT_TRUE(again[i].equal(plain[i])) << "tensor " << i;
      const double bound = 2e-5 * std::max(1.0, plain[i].abs().max().item<double>());
      EXPECT_LE((some[i] - plain[i]).abs().max().item<double>(), bound) << "tensor " << i;
    }
  }
}

class LongEncoderInAmxTiles : public testing::InAmxModel, public ::testing::WithParamInterface<const char*> {};

// On AMX tiles queries, keys and values are rounded as they are written, behind the turning where there is one; inside
// attention where something looks at what attention receives: the same bits.
TEST_P(LongEncoderInAmxTiles, RoundsBehindTheTurning) {
  const ModelPtr model = CreateModel(Small(GetParam()), Task::kEncoder, 3);
  const PackedBatch batch = Batch(Task::kEncoder, {4, 33});
  model->set_precision(Precision::kBFloat16);
  const torch::NoGradGuard no_grad;
  const auto states = [&](const ForwardOptions& options) { return model->Forward(batch, options).last_hidden_state; };
  int looked = 0;
  const AttentionHook look = [&](const AttentionSite&) {
    ++looked;
    return torch::Tensor();  // it is computed
  };
  const torch::Tensor inside = states({.attention_hook = &look});
  EXPECT_GT(looked, 0);
  EXPECT_TRUE(states({}).equal(inside));
}

// Dropout is where Hugging Face has it: with all of it off, training is inference.
TEST_P(LongEncoderTest, DropsWhatItIsTold) {
  const auto loss = [](const ModelConfig& config, bool train) {
    return CreateModel(config, Task::kMaskedLm, 3)
        ->Forward(Batch(Task::kMaskedLm), {.train = train, .step = 2})
        .loss.item<float>();
  };
  ModelConfig config = Small(GetParam());
  EXPECT_NE(loss(config, true), loss(config, false));
  Json json = ToJson(config);
  for (auto& [key, value] : json.items())
    if (key.ends_with("dropout") || key.ends_with("dropout_prob")) value = 0.0;
  const ModelConfig without = ParseModelConfig(json, "config.json");
  EXPECT_FLOAT_EQ(loss(without, true), loss(without, false));
}

TEST_P(LongEncoderTest, SavedModelsAreReadAgain) {
  const torch::NoGradGuard no_grad;
  const TempFolder folder;
  for (const Head& head : FamilyOf(Small(GetParam())).heads) {
    SCOPED_TRACE(head.architecture);
    const ModelPtr model = CreateModel(Small(GetParam()), head.task, 3);
    SaveModel(*model, folder.path());
    EXPECT_EQ(FindTask(ReadModelConfig(folder / "config.json")), head.task);
    const ModelPtr read = LoadModel(folder.path(), head.task, 0, /*require_head=*/true);
    const PackedBatch batch = Batch(Task::kEncoder, {4, 33});
    EXPECT_TRUE(read->Forward(batch, {}).last_hidden_state.equal(model->Forward(batch, {}).last_hidden_state));
    const auto ours = model->NamedParameters(), theirs = read->NamedParameters();
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(ours[i].second.equal(theirs[i].second)) << ours[i].first;
  }
}

// A change of attention is one of the layers that see all keys, with rotary positions turned before it.
TEST_P(LongEncoderTest, RunsUnderOtherAttention) {
  const PackedBatch batch = Batch(Task::kMaskedLm);
  for (const char* name : {"clustered", "simhash", "reformer"}) {
    SCOPED_TRACE(name);
    ModelConfig config = Small(GetParam());
    Json json = ToJson(config);
    json["attention"] = name;
    const ModelPtr model = CreateModel(ParseModelConfig(json, "config.json"), Task::kMaskedLm, 3);
    const std::vector<torch::Tensor> gradients = Gradients(*model, batch, {.train = true, .step = 1});
    for (const torch::Tensor& gradient : gradients) {
      if (!gradient.defined()) continue;
      EXPECT_TRUE(torch::isfinite(gradient).all().item<bool>());
    }
  }
}

const auto kFamilies = ::testing::Values("roberta", "xlm-roberta", "distilbert", "nomic_bert", "modernbert");

std::string FamilyName(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Families, LongEncoderTest, kFamilies, FamilyName);
INSTANTIATE_TEST_SUITE_P(Families, LongEncoderInAmxTiles, kFamilies, FamilyName);

// A head of the first code may have no biases: they are 0.
TEST(NomicBertTest, HeadsWithoutBiases) {
  const torch::NoGradGuard no_grad;
  const std::string golden = std::string(LSHFORMER_SOURCE_DIR) + "/tests/golden/models/nomic_bert_older";
  const TempFolder folder;
  std::filesystem::copy_file(golden + "/config.json", folder / "config.json");
  const SafetensorsFile file(golden + "/model.safetensors");
  std::vector<NamedTensor> tensors;
  for (const auto& [name, view] : file.tensors())
    if (name != "cls.predictions.bias" && name != "cls.predictions.transform.dense.bias")
      tensors.push_back({name, view});
  ASSERT_EQ(tensors.size() + 2, file.tensors().size());
  WriteSafetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
  const ModelPtr model = LoadModel(folder.path(), Task::kMaskedLm, 0, /*require_head=*/true);
  for (const auto& [name, parameter] : model->NamedParameters()) {
    const bool zero = name == "cls.predictions.bias" || name == "cls.predictions.transform.dense.bias";
    EXPECT_EQ(parameter.abs().max().item<float>() == 0, zero) << name;
  }
}

// What was trained further goes back where it came from: also the three parts of the first code's Wqkv.
TEST(NomicBertTest, ParametersGoByTheNamesOfTheFirstCode) {
  const std::string golden = std::string(LSHFORMER_SOURCE_DIR) + "/tests/golden/models/nomic_bert_older";
  const ModelPtr model = LoadModel(golden, Task::kMaskedLm, 0, /*require_head=*/true);
  const SafetensorsFile file(golden + "/model.safetensors");
  const auto named = ParametersByNamesOf(golden, *model);
  EXPECT_EQ(named.size(), file.tensors().size());
  for (const auto& [name, tensor] : named) {
    const TensorView* view = file.Find(name);
    ASSERT_NE(view, nullptr) << name;
    ASSERT_EQ(tensor.sizes().vec(), view->shape) << name;
    EXPECT_EQ(std::memcmp(tensor.contiguous().data_ptr(), view->bytes.data(), view->bytes.size()), 0) << name;
  }
}

// What a text may be at most, and what is said of a longer one.
TEST(RobertaTest, TheLongestText) {
  const torch::NoGradGuard no_grad;
  const ModelPtr model = CreateModel(Small("roberta"), Task::kEncoder, 1);
  EXPECT_EQ(model->config().max_position_embeddings, 128);
  EXPECT_EQ(model->Forward(Batch(Task::kEncoder, {128}), {}).last_hidden_state.size(0), 128);
  EXPECT_EQ(ErrorOf([&] { model->Forward(Batch(Task::kEncoder, {129}), {}); }),
            "sequence 0 has 129 tokens, max_position_embeddings is 128");
}

}  // namespace
}  // namespace lshformer
