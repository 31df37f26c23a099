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
  options.pooling = Pooling::kMean;
  options.normalize = true;
  const Pipeline pipeline = Pipeline::Load(folder, "", options);
  const Json golden = ReadJsonFile(LSHFORMER_SOURCE_DIR "/tests/golden/minilm.json");
  std::vector<Request> requests;
  for (const Json& sentence : golden) requests.push_back(pipeline.PrepareText(sentence["text"].get<std::string>(), ""));
  pipeline.Run(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(golden[i]["text"].get<std::string>());
    ASSERT_EQ(requests[i].error, "");
    EXPECT_EQ(requests[i].encoding.ids.size(), golden[i]["tokens"].get<size_t>());
    const auto expected = golden[i]["embedding"].get<std::vector<double>>();
    ASSERT_EQ(requests[i].embedding.size(), expected.size());
    double largest = 0;
    for (size_t k = 0; k < expected.size(); ++k)
      largest = std::max(largest, std::abs(requests[i].embedding[k] - expected[k]));
    EXPECT_LE(largest, 1e-5);
  }
}

}  // namespace
}  // namespace lshformer
