// What the models of words do with a batch before and after their layers.
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

// Fills start_logits, end_logits and, where the batch has labels, loss and terms. logits: [T, 2].
void FinishAnswers(const PackedBatch& batch, const torch::Tensor& logits, ModelOutput& output);

}  // namespace lshformer
