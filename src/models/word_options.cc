#include "models/word_options.h"

#include "nn/character_window.h"

namespace lshformer {
namespace {

using M = ModelConfig;

constexpr int64_t kMostWidth = int64_t{1} << 16, kMostContext = int64_t{1} << 24;
constexpr double M::*kHiddenDropout = &M::hidden_dropout_prob;  // a member of the base, as one of the whole

}  // namespace

std::vector<Option<ModelConfig>> CommonWordOptions() {
  return {Number("hidden_dropout_prob", kHiddenDropout, {.low = 0, .high = 1, .high_open = true},
                 "of what layers above the word vectors read or add"),
          Integer("embedding_size", &M::embedding_size, 1, kMostWidth, "width of the word vectors"),
          Integer("max_position_embeddings", &M::max_position_embeddings, 1, kMostContext,
                  "words of the longest context or question; there is no table of positions")};
}

void SetWordModelDefaults(ModelConfig& config) {
  config.vocab_size = 50000;
  config.embedding_size = 300;
  config.max_position_embeddings = 100000;
  config.initializer_range = 0.1;  // of word and character vectors; the rest is drawn as torch's layers draw it
}

void CheckWordConfig(const ModelConfig& config, std::string_view where) {
  if (config.pad_token_id != 0)
    Fail("{}: \"pad_token_id\": expected 0, whose word and character have no vector, got {}", where,
         config.pad_token_id);
  if (config.vocab_size < 2) Fail("{}: \"vocab_size\": expected at least 2, got {}", where, config.vocab_size);
}

double WordParameterCount(const ModelConfig& config, const WordConfig& words) {
  const auto width = static_cast<double>(words.character_embedding_size);
  const auto window = static_cast<double>(kCharacterWindow);
  return static_cast<double>(config.vocab_size) * static_cast<double>(config.embedding_size) +
         static_cast<double>(words.character_vocab_size) * width +
         static_cast<double>(words.character_filters) * (window * width + 1);
}

}  // namespace lshformer
