// Folders as Sentence-Transformers writes them: each module is its formula, and what is not known is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "io/safetensors.h"
#include "nn/sentence/modules.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;

constexpr int64_t kHidden = 2;
const std::vector<float> kStates{1, 8, -3, 2, 5, -4, 0, 1};  // four tokens

// The layout of release 6; the names of classes are its own or the older releases'.
struct SentenceFolder : TempFolder {
  std::string modules = R"({"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"})";
  int count = 1;

  std::string Add(const std::string& kind, const std::string& config, const std::string& prefix = "models.") {
    const std::string path = std::to_string(count++) + "_" + kind;
    modules += R"(, {"path": ")" + path + R"(", "type": "sentence_transformers.)" + prefix + kind + R"("})";
    std::filesystem::create_directories(*this / path);
    if (!config.empty()) Write(path + "/config.json", config);
    Write("modules.json", "[" + modules + "]");
    return path;
  }
  std::string AddPooling(const std::string& keys) {
    return Add("Pooling", R"({"word_embedding_dimension": 2, )" + keys + "}");
  }
  void Weights(const std::string& module, const std::vector<std::pair<std::string, std::vector<float>>>& values,
               const std::vector<std::vector<int64_t>>& shapes) {
    std::vector<NamedTensor> tensors;
    for (size_t i = 0; i < values.size(); ++i)
      tensors.push_back(
          {values[i].first, {DType::kF32, shapes[i], std::as_bytes(std::span<const float>(values[i].second))}});
    WriteSafetensors(*this / (module + "/model.safetensors"), tensors);
  }
  std::vector<float> Vector(int64_t prompt_tokens = 0, const VectorChanges& changes = {}) const {
    const auto modules = SentenceModules::Read(path());
    const std::vector<float> vector = modules->Vector(kStates, kHidden, prompt_tokens, changes);
    EXPECT_EQ(std::ssize(vector), modules->Width(kHidden, changes));
    return vector;
  }
  std::string Error() const {
    return ErrorOf([&] { SentenceModules::Read(path())->Width(kHidden); });
  }
};

void ExpectNear(const std::vector<float>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i;
}

TEST(SentenceModules, AFolderWithoutThemHasNone) {
  const TempFolder folder;
  EXPECT_EQ(SentenceModules::Read(folder.path()), nullptr);
  EXPECT_EQ(SentenceModules::EncoderFolder(folder.path()), folder.path());
}

TEST(SentenceModules, PoolingInBothLayouts) {
  struct Mode {
    const char *older, *name;
    std::vector<double> all, without_two;  // of the four tokens; of those behind a prompt of two
  };
  const Mode modes[] = {
      {"pooling_mode_cls_token", "cls", {1, 8}, {5, -4}},
      {"pooling_mode_max_tokens", "max", {5, 8}, {5, 1}},
      {"pooling_mode_mean_tokens", "mean", {0.75, 1.75}, {2.5, -1.5}},
      {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", {1.5, 3.5}, {5 / std::sqrt(2), -3 / std::sqrt(2)}},
      {"pooling_mode_weightedmean_tokens", "weightedmean", {1.0, 0.4}, {15.0 / 7, -8.0 / 7}},
      {"pooling_mode_lasttoken", "lasttoken", {0, 1}, {0, 1}}};
  std::string every;
  std::vector<double> joined;
  for (const Mode& mode : modes) {
    SCOPED_TRACE(mode.name);
    SentenceFolder older, newer, unprompted;
    older.AddPooling("\"pooling_mode_mean_tokens\": false, \"" + std::string(mode.older) + "\": true");
    newer.Add("Pooling", R"({"embedding_dimension": 2, "pooling_mode": ")" + std::string(mode.name) + "\"}",
              "sentence_transformer.modules.pooling.");
    unprompted.AddPooling("\"include_prompt\": false, \"pooling_mode_mean_tokens\": false, \"" +
                          std::string(mode.older) + "\": true");
    if (std::string(mode.name) == "mean") {  // a key may not stand twice
      older.Write("1_Pooling/config.json", R"({"word_embedding_dimension": 2, "pooling_mode_mean_tokens": true})");
      unprompted.Write("1_Pooling/config.json", R"({"word_embedding_dimension": 2, "include_prompt": false})");
    }
    ExpectNear(older.Vector(2), mode.all);
    ExpectNear(newer.Vector(2), mode.all);
    ExpectNear(unprompted.Vector(2), mode.without_two);
    ExpectNear(unprompted.Vector(0), mode.all);
    every += ", \"" + std::string(mode.older) + "\": true";
    joined.insert(joined.end(), mode.all.begin(), mode.all.end());
  }
  SentenceFolder all;
  all.AddPooling(every.substr(2));
  ExpectNear(all.Vector(), joined);  // in the library's order
}

TEST(SentenceModules, DenseLayerNormAndNormalize) {
  SentenceFolder folder;
  folder.AddPooling("\"pooling_mode_cls_token\": true, \"pooling_mode_mean_tokens\": false");
  const std::string dense = folder.Add("Dense", R"({"in_features": 2, "out_features": 3, "bias": true,
      "activation_function": "torch.nn.modules.activation.Tanh"})");
  folder.Weights(dense, {{"linear.weight", {0.1F, 0.2F, -0.3F, 0.1F, 0, 0.05F}}, {"linear.bias", {0.5F, 0, -1}}},
                 {{3, 2}, {3}});
  const std::vector<double> tanhs{std::tanh(0.1 + 1.6 + 0.5), std::tanh(-0.3 + 0.8), std::tanh(0.4 - 1)};
  ExpectNear(folder.Vector(), tanhs);

  const std::string norm = folder.Add("LayerNorm", R"({"dimension": 3})");
  folder.Weights(norm, {{"norm.weight", {1, 2, 3}}, {"norm.bias", {0, 0.5F, 0}}}, {{3}, {3}});
  const double mean = (tanhs[0] + tanhs[1] + tanhs[2]) / 3;
  double variance = 0;
  for (const double x : tanhs) variance += (x - mean) * (x - mean) / 3;
  std::vector<double> normed;
  for (int i = 0; i < 3; ++i)
    normed.push_back((tanhs[static_cast<size_t>(i)] - mean) / std::sqrt(variance + 1e-5) * (i + 1) +
                     (i == 1 ? 0.5 : 0));
  ExpectNear(folder.Vector(), normed);

  folder.Add("Dropout", R"({"dropout": 0.5})");
  folder.Add("Normalize", "");
  std::filesystem::remove_all(folder / "4_Normalize");  // it has no files, and git keeps no empty folder
  double length = 0;
  for (const double x : normed) length += x * x;
  std::vector<double> unit = normed;
  for (double& x : unit) x /= std::sqrt(length);
  ExpectNear(folder.Vector(), unit);
  ExpectNear(folder.Vector(0, {.normalize = false}), normed);
  EXPECT_TRUE(SentenceModules::Read(folder.path())->Normalizes());

  folder.Write("config_sentence_transformers.json", R"({"truncate_dim": 2})");
  ExpectNear(folder.Vector(), {unit[0], unit[1]});
}

TEST(SentenceModules, ADenseMayAddItsInput) {
  SentenceFolder folder;
  folder.AddPooling("\"pooling_mode_cls_token\": true, \"pooling_mode_mean_tokens\": false");
  const std::string wide = folder.Add("Dense", R"({"in_features": 2, "out_features": 1, "use_residual": true,
      "activation_function": "torch.nn.modules.activation.ReLU"})");
  folder.Weights(wide, {{"linear.weight", {1, -1}}, {"linear.bias", {0}}, {"residual.weight", {2, 0.5F}}},
                 {{1, 2}, {1}, {1, 2}});
  const std::string same = folder.Add("Dense", R"({"in_features": 1, "out_features": 1, "use_residual": true,
      "bias": false, "activation_function": "torch.nn.modules.linear.Identity"})");
  folder.Weights(same, {{"linear.weight", {3}}}, {{1, 1}});
  ExpectNear(folder.Vector(), {24});  // relu(1 − 8) + 2 + 4 = 6, and 3 · 6 + 6
}

TEST(SentenceModules, FlagsGoOverThePooling) {
  SentenceFolder folder;
  folder.AddPooling("\"pooling_mode_mean_tokens\": true");
  ExpectNear(folder.Vector(0, {.pooling = Pooling::kLastToken}), {0, 1});
  ExpectNear(folder.Vector(0, {.pooling = Pooling::kCls, .normalize = true}), {1 / std::sqrt(65), 8 / std::sqrt(65)});
  EXPECT_TRUE(SentenceModules::Read(folder.path())->TakesFirstToken({.pooling = Pooling::kCls}));
  EXPECT_FALSE(SentenceModules::Read(folder.path())->TakesFirstToken());
}

TEST(SentenceModules, PromptsAndSettings) {
  SentenceFolder folder;
  folder.AddPooling("\"pooling_mode_mean_tokens\": true");
  folder.Write("sentence_bert_config.json", R"({"max_seq_length": 7, "do_lower_case": true})");
  folder.Write("config_sentence_transformers.json", R"({"prompts": {"query": "find: ", "document": null},
      "default_prompt_name": "query", "similarity_fn_name": "manhattan", "__version__": {"transformers": "5"}})");
  const auto modules = SentenceModules::Read(folder.path());
  EXPECT_EQ(modules->Prompt({}), "find: ");
  EXPECT_EQ(modules->Prompt("document"), "");
  EXPECT_THAT(ErrorOf([&] { modules->Prompt("querry"); }),
              HasSubstr("prompt_name: expected one of document, query, got \"querry\" (did you mean \"query\"?)"));
  EXPECT_TRUE(modules->lower_cases());
  EXPECT_EQ(modules->similarity(), Similarity::kManhattan);
  EXPECT_EQ(SimilarityOf(Similarity::kManhattan, std::vector<float>{1, 2}, std::vector<float>{3, -1}), -5);
  EXPECT_EQ(SimilarityOf(Similarity::kDot, std::vector<float>{1, 2}, std::vector<float>{3, -1}), 1);
  EXPECT_EQ(SimilarityOf(Similarity::kEuclidean, std::vector<float>{0, 4}, std::vector<float>{3, 0}), -5);
  EXPECT_EQ(SimilarityOf(Similarity::kCosine, std::vector<float>{0, 4}, std::vector<float>{0, 1}), 1);
}

TEST(SentenceModules, TheEncoderMayHaveAFolderOfItsOwn) {
  SentenceFolder folder;
  folder.modules = R"({"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"})";
  std::filesystem::create_directories(folder / "0_Transformer");
  folder.AddPooling("\"pooling_mode_mean_tokens\": true");
  EXPECT_EQ(SentenceModules::EncoderFolder(folder.path()), folder / "0_Transformer");
  EXPECT_EQ(SentenceModules::Read(folder.path())->encoder_folder(), folder / "0_Transformer");
  EXPECT_EQ(SentenceModules::ModuleFolders(folder.path()), (std::vector<std::string>{"0_Transformer", "1_Pooling"}));
}

// Other models of the library have a modules.json too: they are read as any model's folder, and are asked for no
// vector.
TEST(SentenceModules, OfOtherModelsAreNoneForVectors) {
  SentenceFolder folder;
  EXPECT_FALSE(SentenceModules::MakeVectors(folder.path()));
  folder.Add("SpladePooling", "{}", "sparse_encoder.models.");
  for (const char* type : {"CrossEncoder", "SparseEncoder"}) {
    folder.Write("config_sentence_transformers.json", std::string(R"({"model_type": ")") + type + "\"}");
    EXPECT_FALSE(SentenceModules::MakeVectors(folder.path())) << type;
    EXPECT_NE(folder.Error(), "") << type;
  }
  EXPECT_EQ(SentenceModules::ModuleFolders(folder.path()), std::vector<std::string>{"1_SpladePooling"});
  for (const char* settings : {R"({"model_type": "SentenceTransformer"})", "{}"}) {
    folder.Write("config_sentence_transformers.json", settings);
    EXPECT_TRUE(SentenceModules::MakeVectors(folder.path())) << settings;
  }
  std::filesystem::remove(folder / "config_sentence_transformers.json");
  EXPECT_TRUE(SentenceModules::MakeVectors(folder.path()));
}

TEST(SentenceModules, WhatIsNotKnownIsRefusedByName) {
  const auto list = [](const std::string& modules) {
    SentenceFolder folder;
    folder.AddPooling("\"pooling_mode_mean_tokens\": true");
    folder.Write("modules.json", modules);
    return folder.Error();
  };
  const std::string encoder = R"({"path": "", "type": "sentence_transformers.models.Transformer"})",
                    pooling = R"({"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})";
  EXPECT_THAT(list("{}"), HasSubstr("modules.json: expected a list, got"));
  EXPECT_THAT(list("[]"), HasSubstr("the first module is no Transformer"));
  EXPECT_THAT(list("[" + encoder + "]"), HasSubstr("there is no Pooling"));
  EXPECT_THAT(list("[" + pooling + "]"), HasSubstr("the first module is no Transformer"));
  EXPECT_THAT(list("[" + encoder + ", " + encoder + "]"), HasSubstr("[1]: \"path\": the folder itself is another"));
  EXPECT_THAT(list("[" + encoder + ", " + pooling + ", " + pooling + "]"), HasSubstr("[2]: \"path\": 1_Pooling is"));
  for (const char* path : {"../x", "/tmp", "1_Pooling/../../x", "a\\\\..\\\\b"})
    EXPECT_THAT(
        list("[" + encoder + R"(, {"path": ")" + path + R"(", "type": "sentence_transformers.models.Pooling"}])"),
        HasSubstr("[1]: \"path\": expected one inside the folder, got"))
        << path;
  EXPECT_THAT(list("[" + encoder + R"(, {"path": "7_None", "type": "sentence_transformers.models.Pooling"}])"),
              HasSubstr("there is no folder 7_None for the Pooling"));
  for (const char* type : {"sentence_transformers.models.WordWeights", "custom_st.Transformer", "Pooling"})
    EXPECT_THAT(list("[" + encoder + R"(, {"path": "1_Pooling", "type": ")" + type + "\"}]"),
                HasSubstr(std::string("a module of the type ") + type + " is not known here"));
  EXPECT_THAT(list("[" + encoder + ", {\"path\": \"1_Pooling\"}]"), HasSubstr("\"type\" is missing"));
}

TEST(SentenceModules, LinksInACircleAreAnError) {
  SentenceFolder folder;
  folder.AddPooling("\"pooling_mode_mean_tokens\": true");
  std::filesystem::remove_all(folder / "1_Pooling");
  std::filesystem::create_directory_symlink("1_Pooling", folder / "1_Pooling");
  EXPECT_THAT(folder.Error(), HasSubstr("1_Pooling: Too many levels of symbolic links"));
}

TEST(SentenceModules, KeysThatMayChangeAVectorAreRefusedByName) {
  const auto with = [](const std::string& file, const std::string& json) {
    SentenceFolder folder;
    folder.AddPooling("\"pooling_mode_mean_tokens\": true");
    const std::string dense = folder.Add("Dense", R"({"in_features": 2, "out_features": 1})");
    folder.Weights(dense, {{"linear.weight", {1, -1}}, {"linear.bias", {0}}}, {{1, 2}, {1}});
    folder.Write(file, json);
    return folder.Error();
  };
  const char *pooling = "1_Pooling/config.json", *dense = "2_Dense/config.json";
  EXPECT_THAT(with(pooling, R"({"word_embedding_dimension": 2, "pooling_mode": "median"})"),
              HasSubstr("\"pooling_mode\": expected one of cls, max,"));
  EXPECT_THAT(with(pooling, R"({"word_embedding_dimension": 3})"), HasSubstr("of 3 numbers, the encoder's have 2"));
  EXPECT_THAT(with(pooling, "{}"), HasSubstr("\"embedding_dimension\" is missing"));
  EXPECT_THAT(with(pooling, R"({"word_embedding_dimension": 2, "power": 3})"),
              HasSubstr("\"power\" is not known here"));
  EXPECT_THAT(with(dense, R"({"in_features": 2, "out_features": 1, "activation_function": "torch.nn.Softsign"})"),
              HasSubstr("torch.nn.Softsign is not known here"));
  EXPECT_THAT(with(dense, R"({"in_features": 2, "out_features": 1, "activation_function": "os.system"})"),
              HasSubstr("os.system is not known here"));
  EXPECT_THAT(with(dense, R"({"in_features": 2, "out_features": 1, "module_input_name": "token_embeddings"})"),
              HasSubstr("\"module_input_name\": expected \"sentence_embedding\""));
  EXPECT_THAT(with(dense, R"({"in_features": 3, "out_features": 1})"),
              HasSubstr("has the shape [1, 2], expected [1, 3]"));
  EXPECT_THAT(with(dense, R"({"in_features": 2, "out_features": 1, "bias": false})"),
              HasSubstr("\"linear.bias\" is not one that the module has"));
  EXPECT_THAT(with("sentence_bert_config.json", R"({"query_expansion": {"length": 32}})"),
              HasSubstr("\"query_expansion\" is not known here"));
  EXPECT_THAT(with("sentence_bert_config.json", R"({"transformer_task": "fill-mask"})"),
              HasSubstr("\"transformer_task\": expected \"feature-extraction\""));
  EXPECT_THAT(with("sentence_bert_config.json", R"({"tokenizer_args": {"add_prefix_space": true}})"),
              HasSubstr("\"tokenizer_args\": \"add_prefix_space\" is not known here"));
  EXPECT_THAT(with("config_sentence_transformers.json", R"({"model_type": "SparseEncoder"})"),
              HasSubstr("expected \"SentenceTransformer\", got \"SparseEncoder\""));
  EXPECT_THAT(with("config_sentence_transformers.json", R"({"default_prompt_name": "query"})"),
              HasSubstr("\"query\" is none of \"prompts\""));
  EXPECT_THAT(with("config_sentence_transformers.json", R"({"similarity_fn_name": "maxsim"})"),
              HasSubstr("expected cosine, dot, euclidean or manhattan"));
}

TEST(SentenceModules, WeightsThatAreNotThereOrCannotBeReadAreNamed) {
  SentenceFolder folder;
  folder.AddPooling("\"pooling_mode_mean_tokens\": true");
  folder.Add("Dense", R"({"in_features": 2, "out_features": 1})");
  folder.Write("2_Dense/pytorch_model.bin", "pickle");
  EXPECT_THAT(folder.Error(), HasSubstr("pytorch_model.bin"));
  folder.Write("2_Dense/model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n");
  EXPECT_THAT(folder.Error(), HasSubstr("Git LFS"));
}

}  // namespace
}  // namespace lshformer
