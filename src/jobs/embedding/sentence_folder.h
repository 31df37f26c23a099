// A model's folder as Sentence-Transformers reads it.
#pragma once
#include <cstdint>
#include <string>

#include "base/json.h"
#include "nn/pooling.h"

namespace lshformer {

struct SentenceFolder {
  int64_t width = 0;           // of a vector: the encoder's
  int64_t max_seq_length = 0;  // tokens a text is cut to
  Pooling pooling = Pooling::kMean;
  Json prompts = Json::object();   // by name
  Json settings = Json::object();  // of config_sentence_transformers.json: what the model was trained from says
  bool include_prompt = true;      // in the pooling
};

// Beside model and tokenizer: modules.json (a Transformer, a Pooling, a Normalize), the pooling's config.json,
// sentence_bert_config.json and config_sentence_transformers.json.
void WriteSentenceFolder(const std::string& folder, const SentenceFolder& made);

}  // namespace lshformer
