// Folders of small models with random weights and a tokenizer, for what answers look like and not what they say.
#pragma once
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "models/model.h"
#include "util/temp_folder.h"

namespace lshformer {

inline constexpr const char* kModelWords = "the of and to in a is that it was for on are as with his they at be this";

// A folder for each name and task. Without `labels` they are the model's own.
inline void SaveRandomModels(const testing::TempFolder& folder, const std::vector<std::pair<std::string, Task>>& heads,
                             const std::vector<std::string>& labels = {}) {
  ModelConfig config;
  config.hidden_size = 32;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 2;
  config.intermediate_size = 64;
  config.max_position_embeddings = 64;
  if (!labels.empty()) config.labels = labels;
  config.initializer_range = 0.3;  // answers that differ
  config.vocab_size = 0;
  std::string vocabulary;
  std::istringstream words(std::string("[PAD] [UNK] [CLS] [SEP] [MASK] ") + kModelWords);
  for (std::string word; words >> word; ++config.vocab_size) vocabulary += word + "\n";
  for (const auto& [name, task] : heads) {
    folder.Write(name + "/vocab.txt", vocabulary);
    SaveModel(*CreateModel(config, task, 1), folder / name);
  }
}

}  // namespace lshformer
