// Prints the embedding of a text:   encode MODEL_FOLDER "some text"
#include <lshformer/pipeline.h>

#include <cstdio>
#include <exception>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: encode MODEL_FOLDER TEXT\n"), 2;
  try {
    // Any BERT folder in the Hugging Face layout, with the attention that its config says.
    lshformer::PredictOptions options;
    options.task = lshformer::PredictTask::kFeatureExtraction;
    options.embedding = {.pooling = lshformer::Pooling::kMean, .normalize = true};
    const auto pipeline = lshformer::Pipeline::Load(argv[1], /*tokenizer_folder=*/"", options);

    const std::vector<lshformer::TextInput> texts{{argv[2]}};
    const auto outcomes = pipeline.Embed(texts);
    if (!outcomes[0].ok()) return std::fprintf(stderr, "encode: %s\n", outcomes[0].error.c_str()), 1;
    for (float x : outcomes[0].value.values) std::printf("%.9g\n", x);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "encode: %s\n", error.what()), 1;
  }
}
