// Words for a new model that reads them, of its own training data: the vocabulary, and vectors where a file has some.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/squad.h"
#include "data/word_vectors.h"
#include "models/model.h"
#include "text/tokenizer.h"

namespace lshformer {

struct WordSource {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::optional<WordVectors> vectors;  // of the tokenizer's words from the third on, in its order
};

// The words of the contexts and questions of these files: those that occur at least kFewestUses times; where
// `word_vectors` names a file, those that it has in the data's spelling, in lower case, Capitalised or in UPPER CASE,
// so that the tokenizer finds them. Error naming the file if that leaves no word.
inline constexpr int64_t kFewestUses = 2;
WordSource ReadWordSource(const std::vector<std::string>& train_files, SquadUse use, const std::string& word_vectors);

// The config of a model with these vectors, which training leaves as they are; then their copies into its table.
void TakeVectors(const WordSource& words, ModelConfig& config);
void CopyVectors(const WordVectors& vectors, Model& model);

}  // namespace lshformer
