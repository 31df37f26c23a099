// The loss of extractive question answering over packed sequences.
//
//   loss = ½ (mean_b −log softmax(z_b[:, 0])[start_b]  +  mean_b −log softmax(z_b[:, 1])[end_b])
//
// z: logits [T, 2] (start, end), z_b the rows of sequence b: the softmax runs over the sequence's own tokens. starts,
// ends: [B] tokens of their sequences; a position at or past the sequence's end is ignored (left out of its mean,
// starts and ends apart), a negative one is 0, as HF's BertForQuestionAnswering clamps it. Nothing to average: 0. A
// sequence's terms do not depend on the others. Sums in double.
#pragma once
#include <cstdint>
#include <vector>

#include "ops/torch.h"

namespace lshformer {

torch::Tensor SpanCrossEntropy(const torch::Tensor& logits, const std::vector<int32_t>& cu_seqlens,
                               const std::vector<int32_t>& starts, const std::vector<int32_t>& ends);
torch::Tensor SpanCrossEntropyReference(const torch::Tensor& logits, const std::vector<int32_t>& cu_seqlens,
                                        const std::vector<int32_t>& starts, const std::vector<int32_t>& ends);

}  // namespace lshformer
