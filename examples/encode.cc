// Prints the embedding of a text:   encode MODEL_FOLDER "some text"
#include <lshformer/infer/pipeline.h>

#include <cstdio>
#include <exception>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: encode MODEL_FOLDER TEXT\n"), 2;
  try {
    lshformer::PredictOptions options;
    options.task = lshformer::PredictTask::kFeatureExtraction;
    options.pooling = lshformer::Pooling::kMean;
    options.normalize = true;
    // Any BERT folder in the Hugging Face layout. SimHash attention instead of what its config says:
    const auto adjust = [](lshformer::ModelConfig& config) {
      config.attention = {lshformer::ParseAttentionSpec("simhash", "attention")};
    };
    const auto pipeline = lshformer::Pipeline::Load(argv[1], argv[1], options, adjust);

    std::vector<lshformer::Request> requests{pipeline.PrepareText(argv[2], "")};
    pipeline.Run(requests);
    if (!requests[0].error.empty()) return std::fprintf(stderr, "encode: %s\n", requests[0].error.c_str()), 1;
    for (float x : requests[0].embedding) std::printf("%.6f\n", x);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "encode: %s\n", error.what()), 1;
  }
}
