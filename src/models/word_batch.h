// What the models of words do with a batch before their layers.
#pragma once
#include <string_view>

#include "models/model.h"
#include "nn/word_config.h"
#include "nn/word_streams.h"

namespace lshformer {

inline constexpr std::string_view kWordStreams[] = {"tokens", "question", "words", "characters"};

// Error naming stream, sequence and place where a batch does not fit the config or its streams do not fit each other:
// empty or too long sequences, ids out of range, a question that is missing.
void CheckWordBatch(const PackedBatch& batch, const ModelConfig& config, const WordConfig& words);

}  // namespace lshformer
