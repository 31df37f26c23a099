// What the configs of families that read words and characters share (nn/word_config.h). Needs no libtorch.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

#include "models/config.h"
#include "models/family.h"
#include "nn/word_config.h"

namespace lshformer {

// Rows of the members of ModelConfig that such families have: "embedding_size", "max_position_embeddings",
// "hidden_dropout_prob".
std::vector<Option<ModelConfig>> CommonWordOptions();

// These and the rows of WordConfig. Own: the family's own part, which derives from WordConfig.
template <class Own>
std::vector<Option<ModelConfig>> WordModelOptions() {
  struct Part {
    WordConfig& operator()(ModelConfig& config) const { return config.own<Own>(); }
    const WordConfig& operator()(const ModelConfig& config) const { return config.own<Own>(); }
  };
  std::vector<Option<ModelConfig>> options = CommonWordOptions();
  for (Option<WordConfig>& option : WordOptions()) options.push_back(OfPart<ModelConfig>(std::move(option), Part()));
  return options;
}

// Of the members that all models have: vectors of 300 numbers, contexts of up to 100,000 words …
void SetWordModelDefaults(ModelConfig& config);

// Family::take_words of a family whose own part is Own.
template <class Own>
void TakeWords(ModelConfig& config, const WordTables& tables) {
  config.vocab_size = tables.words;
  if (tables.vector_width > 0) config.embedding_size = tables.vector_width;
  config.own<Own>().character_vocab_size = tables.characters;
  config.own<Own>().fixed_word_embeddings = tables.fixed;
}

// What must hold between several keys. Throws `WHERE: …`.
void CheckWordConfig(const ModelConfig& config, std::string_view where);
// Numbers in the tables and the character CNN, for CheckParameterCount.
double WordParameterCount(const ModelConfig& config, const WordConfig& words);

}  // namespace lshformer
