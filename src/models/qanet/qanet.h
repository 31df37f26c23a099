// QANet (Yu et al., "QANet: Combining Local Convolution with Global Self-Attention for Reading Comprehension", 2018)
// for questions with and without answers.
//
//   x = word embeddings of the context's and the question's words                                  [T, H], [U, H]
//   C, Q = embedding encoder of each, the same weights                                              one block
//   M_0 = W·[C; A; C∘A; C∘B], A and B of context-query attention                                    [T, H]
//   M_i = model encoder of M_{i−1}, i = 1, 2, 3, the same weights in all three passes               num_hidden_layers
//   blocks start = w_1·[M_1; M_2],   end = w_2·[M_1; M_3]                                                  [T]
//
// Place 0 of a context is the out-of-vocabulary word: a span there is no answer. Layers: nn/convolution_block.h. Hidden
// dropout also stands before the first and the third pass. As in the public implementations the embeddings are mapped
// to H before the highway layers, not behind them.
//
// Contexts and questions go through the embedding encoder side by side: one run of its block, with one hashing and one
// decision of stochastic depth. hidden_states are those of the contexts: the word embeddings, then what is behind each
// block (reversible: the mean of the streams). The first attention map is of the embedding encoder: B contexts, then B
// questions; then one a block and pass, of contexts.
#pragma once
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "models/model.h"
#include "nn/convolution_encoder.h"
#include "nn/word_embeddings.h"
#include "ops/context_query_attention.h"

namespace lshformer {

// Every parameter once. A pure function of the config: nothing is allocated.
std::vector<ParameterSpec> QanetParameters(const ModelConfig& config, Task task);

class QanetModel final : public Model {
 public:
  QanetModel(ModelConfig config, Task task, const ParameterMap& parameters);
  std::vector<std::pair<std::string, torch::Tensor>> NamedParameters() const override { return named_; }

 private:
  ModelOutput Run(const PackedBatch& batch, const ForwardOptions& options) override;
  struct Embedded {
    torch::Tensor context, question;  // [T, H], [U, H]
  };
  Embedded Embed(const WordStreams& streams, const ForwardContext& context,
                 std::vector<torch::Tensor>* hidden_states) const;
  // M_1, M_2 and M_3: [T, H] each.
  std::array<torch::Tensor, 3> Encode(const torch::Tensor& resized, const ForwardContext& context,
                                      std::vector<torch::Tensor>* hidden_states) const;
  std::vector<std::pair<std::string, torch::Tensor>> named_;
  WordEmbeddings words_;
  ConvolutionEncoder embedding_encoder_;
  ContextQueryWeights context_query_;
  Linear resizer_;
  std::vector<ConvolutionEncoder> passes_;
  Linear start_, end_;
};

}  // namespace lshformer
