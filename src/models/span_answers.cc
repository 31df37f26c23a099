#include "models/span_answers.h"

#include "ops/span_cross_entropy.h"

namespace lshformer {

void FinishAnswers(const PackedBatch& batch, const torch::Tensor& logits, ModelOutput& output) {
  output.start_logits = logits.select(1, 0);  // [T]
  output.end_logits = logits.select(1, 1);    // [T]
  const Labels& labels = batch.labels;
  if (labels.start_positions.empty() && labels.end_positions.empty()) return;
  output.loss = SpanCrossEntropy(logits, batch.tokens.cu_seqlens, labels.start_positions, labels.end_positions);
  output.terms = {output.loss};
}

}  // namespace lshformer
