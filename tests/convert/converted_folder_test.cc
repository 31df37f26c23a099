// Folders of a converted model: room for longer texts in every family, and modules of Sentence-Transformers.
#include "convert/converted_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "io/weight_files.h"
#include "models/model.h"
#include "nn/sentence/modules.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;

constexpr int64_t kTokens = 20, kMore = 50;

ModelConfig SmallConfig(const char* type) {
  ModelConfig config = DefaultModelConfig(type, "test");
  const Family& family = FamilyOf(config);
  const bool rows = std::string(type).ends_with("roberta");  // two rows are no positions
  ApplyOverrides(
      config,
      fmt::format(
          "vocab_size=60,{}=16,{}=3,{}=2,{}=24,max_position_embeddings={},pad_token_id={},initializer_range=0.5",
          family.encoder_keys.hidden_size, family.encoder_keys.num_hidden_layers,
          family.encoder_keys.num_attention_heads, family.encoder_keys.intermediate_size,
          rows ? kTokens + config.pad_token_id + 1 : kTokens, rows ? config.pad_token_id : 0),
      "test");
  return config;
}

PackedBatch TextOf(int64_t tokens) {
  PackedBatch batch;
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < tokens; ++i) ids.push_back(static_cast<int32_t>(5 + i * 7 % 55));
  AppendSequence(batch, ids, {}, 0);
  return batch;
}

torch::Tensor States(const std::string& folder, int64_t tokens) {
  const torch::NoGradGuard no_gradients;
  return LoadModel(folder, Task::kEncoder, 0, /*require_head=*/false)->Forward(TextOf(tokens), {}).last_hidden_state;
}

class MorePositions : public ::testing::TestWithParam<const char*> {};

// Texts that the model could read keep every bit; longer ones can be read, and position by position they are read as
// the table's rows come again.
TEST_P(MorePositions, ShortTextsKeepTheirStates) {
  const TempFolder folder;
  SaveModel(*CreateModel(SmallConfig(GetParam()), Task::kEncoder, 3), folder / "model");
  fs::create_directories(folder / "longer");
  WriteChangedModel(folder / "model", {.attention = nullptr, .tensors = {}, .positions = kMore}, folder / "longer");
  EXPECT_EQ(ReadModelConfig(folder / "longer/config.json").max_position_embeddings, kMore);
  for (const int64_t tokens : {int64_t{1}, kTokens})
    EXPECT_TRUE(States(folder / "model", tokens).equal(States(folder / "longer", tokens)));
  EXPECT_EQ(States(folder / "longer", kMore).size(0), kMore);
  EXPECT_TRUE(torch::isfinite(States(folder / "longer", kMore)).all().item<bool>());
}

TEST(InterpolatedPositions, LieOnTheLinesBetweenRows) {
  const TempFolder folder;
  SaveModel(*CreateModel(SmallConfig("roberta"), Task::kEncoder, 3), folder / "model");
  fs::create_directories(folder / "longer");
  WriteChangedModel(
      folder / "model",
      {.attention = nullptr, .tensors = {}, .positions = kMore, .extension = PositionExtension::kInterpolate},
      folder / "longer");
  const auto table = [&](const char* name) {
    const WeightFiles files(folder / name);
    for (const std::string& tensor : files.NamesInOrder())
      if (tensor.ends_with("position_embeddings.weight")) {
        const TensorView view = *files.Find(tensor);
        torch::Tensor rows = torch::empty({view.shape[0], view.shape[1]});
        ConvertTo(view, std::span<float>(rows.data_ptr<float>(), static_cast<size_t>(rows.numel())), tensor);
        return rows;
      }
    return torch::Tensor();
  };
  constexpr int64_t kKept = 2;  // of RoBERTa's table, which are no positions
  const torch::Tensor before = table("model"), after = table("longer");
  const int64_t own = before.size(0) - kKept;
  ASSERT_EQ(after.size(0), kKept + kMore);
  for (int64_t row = 0; row <= kKept; ++row) EXPECT_TRUE(after[row].equal(before[row])) << row;
  EXPECT_TRUE(after[-1].equal(before[-1]));
  for (const int64_t i : {int64_t{1}, kMore / 2, kMore - 2}) {
    const double place = static_cast<double>(i * (own - 1)) / static_cast<double>(kMore - 1);
    const auto low = static_cast<int64_t>(place);
    const torch::Tensor expected =
        before[kKept + low] + (place - static_cast<double>(low)) * (before[kKept + low + 1] - before[kKept + low]);
    EXPECT_TRUE(torch::allclose(after[kKept + i], expected, 1e-5, 1e-6)) << i;
  }
}

TEST(InterpolatedPositions, AreNotOfRotaryModels) {
  const TempFolder folder;
  SaveModel(*CreateModel(SmallConfig("nomic_bert"), Task::kEncoder, 3), folder / "model");
  fs::create_directories(folder / "longer");
  EXPECT_THAT(
      [&] {
        WriteChangedModel(
            folder / "model",
            {.attention = nullptr, .tensors = {}, .positions = kMore, .extension = PositionExtension::kInterpolate},
            folder / "longer");
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("position_extension")));
}

INSTANTIATE_TEST_SUITE_P(Families, MorePositions,
                         ::testing::Values("bert", "albert", "roberta", "xlm-roberta", "distilbert", "nomic_bert",
                                           "modernbert"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// RoBERTa's positions begin behind the padding's row: that and those before it stand once.
TEST(MorePositionsOfRoberta, RowsBeforeTheFirstPositionStandOnce) {
  const TempFolder folder;
  SaveModel(*CreateModel(SmallConfig("roberta"), Task::kEncoder, 3), folder / "model");
  fs::create_directories(folder / "longer");
  WriteChangedModel(folder / "model", {.attention = nullptr, .tensors = {}, .positions = kMore}, folder / "longer");
  const auto table = [&](const char* name) {
    for (const auto& [tensor, values] : LoadModel(folder / name, Task::kEncoder, 0, false)->NamedParameters())
      if (tensor.ends_with("position_embeddings.weight")) return values;
    return torch::Tensor();
  };
  const torch::Tensor before = table("model"), after = table("longer");
  ASSERT_EQ(before.size(0), kTokens + 2);
  ASSERT_EQ(after.size(0), kMore + 2);
  for (int64_t row = 0; row < after.size(0); ++row)
    EXPECT_TRUE(after[row].equal(before[row < 2 ? row : 2 + (row - 2) % kTokens])) << row;
  EXPECT_EQ(ReadModelConfigJson(folder / "longer/config.json")["max_position_embeddings"], kMore + 2);
}

TEST(MorePositionsOfRotary, GrowOrAreRefused) {
  const TempFolder folder;
  ModelConfig config = SmallConfig("nomic_bert");
  SaveModel(*CreateModel(config, Task::kEncoder, 3), folder / "model");
  fs::create_directories(folder / "longer");
  WriteChangedModel(folder / "model", {.attention = nullptr, .tensors = {}, .positions = kMore}, folder / "longer");
  const Json rope = ReadModelConfigJson(folder / "longer/config.json")["rope_parameters"];
  EXPECT_EQ(rope["rope_type"], "dynamic");
  EXPECT_NEAR(rope["factor"].get<double>(), 2.5, 1e-12);
  Json linear = ReadModelConfigJson(folder / "model/config.json");
  linear["rope_parameters"] = {{"rope_type", "linear"}, {"rope_theta", 1000}, {"factor", 2}};
  EXPECT_THAT(ErrorOf([&] { WithPositions(linear, kMore, "config.json"); }),
              HasSubstr("config.json: \"rope_type\" \"linear\""));
}

constexpr const char* kPooling = R"({"word_embedding_dimension": 16, "pooling_mode_mean_tokens": true})";

TEST(ConvertedSentenceFolder, ModulesComeAlongAndTheLengthGrows) {
  const TempFolder folder;
  SaveModel(*CreateModel(SmallConfig("bert"), Task::kEncoder, 3), folder / "model");
  folder.Write("model/modules.json", R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
      {"path": "pool", "type": "sentence_transformers.models.Pooling"}])");
  folder.Write("model/pool/config.json", kPooling);
  folder.Write("model/sentence_bert_config.json", R"({"max_seq_length": 12, "do_lower_case": false})");
  folder.Write("model/config_sentence_transformers.json", R"({"prompts": {"q": "x "}})");
  fs::create_directories(folder / "out");
  WriteChangedModel(folder / "model", {.attention = nullptr, .tensors = {}, .positions = kMore}, folder / "out");
  EXPECT_EQ(folder.Read("out/pool/config.json"), kPooling);
  EXPECT_EQ(folder.Read("out/modules.json"), folder.Read("model/modules.json"));
  EXPECT_EQ(ReadJsonFile(folder / "out/sentence_bert_config.json")["max_seq_length"], kMore);
  EXPECT_EQ(SentenceModules::Read(folder / "out")->PromptNames(), std::vector<std::string>{"q"});
}

TEST(ConvertedSentenceFolder, AnEncoderInAFolderOfItsOwnGoesUp) {
  const TempFolder folder;
  SaveModel(*CreateModel(SmallConfig("bert"), Task::kEncoder, 3), folder / "model/0_Transformer");
  folder.Write("model/0_Transformer/vocab.txt", "a\n");
  folder.Write("model/modules.json", R"([{"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
      {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
  folder.Write("model/1_Pooling/config.json", kPooling);
  folder.Write("model/README.md", "of the model");
  fs::create_directories(folder / "out");
  WriteChangedModel(folder / "model", {}, folder / "out");
  EXPECT_EQ(SentenceModules::Read(folder / "out")->encoder_folder(), folder / "out");
  EXPECT_EQ(folder.Read("out/1_Pooling/config.json"), kPooling);
  EXPECT_EQ(folder.Read("out/vocab.txt"), "a\n");
  EXPECT_EQ(folder.Read("out/README.md"), "of the model");
  EXPECT_FALSE(fs::exists(folder / "out/0_Transformer"));
  EXPECT_TRUE(States(folder / "model/0_Transformer", 9).equal(States(folder / "out", 9)));
}

}  // namespace
}  // namespace lshformer
