// A decoder of words that a file holds beside the tensors that it is tied to: their copy, or weights of its own.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "io/safetensors.h"
#include "models/model.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using testing::TempFolder;

class TiedDecoderTest : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string golden_ = std::string(LSHFORMER_SOURCE_DIR) + "/tests/golden/models/" + GetParam();
  const ModelConfig config_ = ReadModelConfig(golden_ + "/config.json");
  const Task task_ = TaskFromArchitectures(config_, golden_);

  // The model with the tensor under its other name too, `changed` in its last bit of all.
  void Write(const TempFolder& folder, const WeightAlias& alias, bool changed) const {
    std::filesystem::copy_file(golden_ + "/config.json", folder / "config.json",
                               std::filesystem::copy_options::overwrite_existing);
    const SafetensorsFile file(golden_ + "/model.safetensors");
    std::vector<NamedTensor> tensors;
    for (const auto& [name, view] : file.tensors()) tensors.push_back({name, view});
    TensorView copy = *file.Find(alias.tensor);
    std::vector<std::byte> bytes(copy.bytes.begin(), copy.bytes.end());
    bytes[bytes.size() - copy.bytes.size() / static_cast<size_t>(copy.elements())] ^= std::byte{changed};
    copy.bytes = bytes;
    tensors.push_back({std::string(alias.alias), copy});
    WriteSafetensors(folder / "model.safetensors", tensors);
  }
};

TEST_P(TiedDecoderTest, OneOfItsOwnIsRefusedWhereItIsNeeded) {
  const std::span<const WeightAlias> aliases = FamilyOf(config_).weight_names.aliases;
  ASSERT_FALSE(aliases.empty());
  for (const WeightAlias& alias : aliases) {
    SCOPED_TRACE(alias.alias);
    const TempFolder folder;
    Write(folder, alias, /*changed=*/false);
    const ModelPtr read = LoadModel(folder.path(), task_, 0, /*require_head=*/true);
    const ModelPtr own = LoadModel(golden_, task_, 0, /*require_head=*/true);
    const auto ours = own->NamedParameters(), theirs = read->NamedParameters();
    for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(ours[i].second.equal(theirs[i].second)) << ours[i].first;
    Write(folder, alias, /*changed=*/true);
    const std::string error = fmt::format(
        "{}: tensor \"{}\" differs from \"{}\", to which it is tied: models whose decoder has weights of its own are "
        "not read",
        folder / "model.safetensors", alias.alias, alias.tensor);
    if (alias.alias.ends_with("bias")) {  // told of, and ignored
      EXPECT_TRUE(LoadModel(folder.path(), task_, 0, /*require_head=*/true)
                      ->NamedParameters()
                      .front()
                      .second.equal(ours.front().second));
      continue;
    }
    for (const bool require_head : {false, true})
      EXPECT_EQ(ErrorOf([&] { LoadModel(folder.path(), task_, 0, require_head); }), error);
    LoadModel(folder.path(), Task::kEncoder, 0, /*require_head=*/false);
    LoadModel(folder.path(), Task::kSequenceClassification, 0, /*require_head=*/false);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TiedDecoderTest,
                         ::testing::Values("masked_lm", "pretraining", "albert_masked_lm", "albert_pretraining",
                                           "nomic_bert_masked_lm", "modernbert_masked_lm", "roberta_masked_lm",
                                           "xlm_roberta_masked_lm", "distilbert_masked_lm"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace lshformer
