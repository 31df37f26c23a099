// all-MiniLM-L6-v2 against Hugging Face (tools/make_minilm_golden.py), where that model is on this machine.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "infer/pipeline.h"

namespace lshformer {
namespace {

TEST(MiniLm, EmbeddingsAreThoseOfHf) {
  const char* folder = std::getenv("LSHFORMER_MINILM_DIR");
  if (folder == nullptr || !std::filesystem::exists(std::string(folder) + "/model.safetensors"))
    GTEST_SKIP() << "no all-MiniLM-L6-v2 here (LSHFORMER_MINILM_DIR names its folder)";
  PredictOptions options;
  options.task = PredictTask::kFeatureExtraction;
  options.embedding = {Pooling::kMean, /*normalize=*/true};
  const Pipeline pipeline = Pipeline::Load(folder, "", options);
  const Json golden = ReadJsonFile(LSHFORMER_SOURCE_DIR "/tests/golden/minilm.json");
  std::vector<TextInput> texts;
  for (const Json& sentence : golden) texts.push_back({sentence["text"].get<std::string>()});
  const auto outcomes = pipeline.Embed(texts);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    SCOPED_TRACE(texts[i].text);
    ASSERT_EQ(outcomes[i].error, "");
    EXPECT_EQ(pipeline.PrepareEmbed(texts[i], {}).value.text.ids.size(), golden[i]["tokens"].get<size_t>());
    const auto expected = golden[i]["embedding"].get<std::vector<double>>();
    const std::vector<float>& embedding = outcomes[i].value.values;
    ASSERT_EQ(embedding.size(), expected.size());
    double largest = 0;
    for (size_t k = 0; k < expected.size(); ++k) largest = std::max(largest, std::abs(embedding[k] - expected[k]));
    EXPECT_LE(largest, 1e-5);
  }
}

}  // namespace
}  // namespace lshformer
