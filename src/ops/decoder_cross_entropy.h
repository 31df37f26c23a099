// The masked-LM loss without keeping logits: decoder and softmax cross-entropy in one op.
//
//   loss = 1/n Σ_i (logsumexp(z_i) − z_i[label_i]),   z_i = W · hidden_i + bias (kernels/decoder_cross_entropy.h)
//
// hidden: [n, H]; W: [V, H] (the tied word embeddings); bias: [V]; labels in [0, V), one per row. n = 0: loss 0.
// Where gradients are wanted they are formed at once and kept until the backward asks for them. kBFloat16: hidden, W
// and the gradient of z are rounded to bfloat16. kInt8: Error.
#pragma once
#include <vector>

#include "kernels/precision.h"
#include "ops/torch.h"

namespace lshformer {

torch::Tensor DecoderCrossEntropy(const torch::Tensor& hidden, const torch::Tensor& weight, const torch::Tensor& bias,
                                  const std::vector<int32_t>& labels, Precision precision = Precision::kFloat32);
torch::Tensor DecoderCrossEntropyReference(const torch::Tensor& hidden, const torch::Tensor& weight,
                                           const torch::Tensor& bias, const std::vector<int32_t>& labels);

// Mean over rows with label ≥ 0 of given logits [n, V]; no gradient. n = 0: 0.
double CrossEntropyLoss(const torch::Tensor& logits, const std::vector<int32_t>& labels);

}  // namespace lshformer
