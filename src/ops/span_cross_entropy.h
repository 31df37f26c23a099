// The loss of extractive question answering over packed sequences: RunSpanCrossEntropy of kernels/cross_entropy.h.
// logits: [T, 2] (start, end); starts, ends: [B] tokens of their sequences. Positions outside of a sequence are treated
// as HF's BertForQuestionAnswering does.
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
