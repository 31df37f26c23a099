// BiDAF, Bidirectional Attention Flow (Seo, Kembhavi, Farhadi and Hajishirzi 2017), and the variant of Stanford's
// CS224N. Per sequence, with T words of context and J of question, d = hidden_size:
//
//   X, Y = word embeddings of both (nn/word_embeddings.h)                                    [T, e], [J, e]
//   H, U = BiLSTM(X), BiLSTM(Y), the same weights                                           [T, 2d], [J, 2d]
//   G = context-query attention of H and U (ops/context_query_attention.h)                   [T, 8d]
//   M = BiLSTM(BiLSTM(G))                                                                    [T, 2d]
//   start = w_1·[G; M],   end = w_2·[G; BiLSTM(M)]                                           [T] each
//
// or, with the end pointer of the authors' code, end = w_2·[G; BiLSTM([G; M; m̃; M∘m̃])], m̃ = Σ_t softmax(start)_t M_t.
// In training dropout is applied to word and character vectors, to what each LSTM reads and to G, M and the last
// BiLSTM's rows before w_1 and w_2.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "models/model.h"
#include "nn/bi_lstm.h"
#include "nn/word_embeddings.h"
#include "ops/context_query_attention.h"

namespace lshformer {

// Every parameter in file order. A pure function of the config: nothing is allocated.
std::vector<ParameterSpec> BidafParameters(const ModelConfig& config, Task task);

class BidafModel final : public Model {
 public:
  BidafModel(ModelConfig config, Task task, const ParameterMap& parameters);
  std::vector<std::pair<std::string, torch::Tensor>> NamedParameters() const override { return named_; }

 private:
  ModelOutput Run(const PackedBatch& batch, const ForwardOptions& options) override;
  // G of the contexts: [T, 8d].
  torch::Tensor Attend(const PackedBatch& batch, const ForwardContext& context,
                       std::vector<torch::Tensor>* hidden_states) const;
  // M from G: [T, 2d].
  torch::Tensor ModelContext(const torch::Tensor& attended, const ForwardContext& context) const;
  // Start and end from G and M: [T, 2].
  torch::Tensor Point(const torch::Tensor& attended, const torch::Tensor& modelled,
                      const ForwardContext& context) const;

  std::vector<std::pair<std::string, torch::Tensor>> named_;
  WordEmbeddings embeddings_;
  BiLstmLayer encoder_;
  QueryToContext query_to_context_;
  ContextQueryWeights attention_;
  std::vector<BiLstmLayer> modelling_;
  BiLstmLayer end_encoder_;
  bool attended_start_;
  Linear attended_outputs_, start_output_, end_output_;  // w_1, w_2 of G side by side; of M and of the last BiLSTM
};

}  // namespace lshformer
