// What one forward carries from layer to layer beside the hidden states.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "base/stop_token.h"
#include "data/batch.h"
#include "kernels/precision.h"
#include "ops/attention.h"
#include "ops/row_ops.h"
#include "ops/token_split.h"

namespace lshformer {

// Places with their own dropout stream; part of reproducibility, never renumber.
enum class DropoutSite : uint32_t {
  kEmbeddings = 0,
  kAttentionOutput = 1,
  kFeedForwardOutput = 2,
  kHead = 3,
  kWords = 4,       // word vectors
  kCharacters = 5,  // of words
  kHighway = 6,
  kRecurrent = 7,          // what a recurrent layer reads
  kSublayerInput = 8,      // of a convolution block, behind its LayerNorm
  kSublayerOutput = 9,     // of a convolution block, what it adds
  kSublayer = 10,          // whether it adds anything: one number a forward
  kPass = 11,              // what a pass through layers that several passes share reads
  kFeedForwardInner = 12,  // what the feed-forward's second map reads
};

// What the attention of one layer is given.
struct AttentionSite {
  uint32_t visit;            // which of a forward's attentions it is
  int64_t layer;             // the layer of the config whose spec it has; one may be visited several times
  const torch::Tensor& qkv;  // [T, slices · H], rotary positions turned
  const AttentionOptions& options;
  const torch::Tensor& output_map;  // [H, H], what its result is multiplied with; undefined: nothing
};
// Looks at it, and may give another result in its place, [T, H]; undefined: it is computed.
using AttentionHook = std::function<torch::Tensor(const AttentionSite& site)>;

struct ForwardContext {
  // Over the rows of `stream`. sequence_ids: [sequences], or empty where nobody numbered the examples: their place in
  // the batch stands in. The context outlives both.
  ForwardContext(const TokenStream& stream, const std::vector<uint64_t>& sequence_ids);

  bool train = false;                         // dropout on
  uint64_t seed = 42;                         // dropout
  uint64_t step = 0;                          // optimizer step: planes
  uint64_t dropout_step = 0;                  // step and micro step: dropout
  bool recompute_layers = false;              // keep the input of a layer alone, compute the rest again in the backward
  Precision precision = Precision::kFloat32;  // of the encoder's products
  std::shared_ptr<const PackedSequences> sequences;
  std::shared_ptr<const RowIdentities> rows;  // of every row
  AttentionCounts* counts = nullptr;
  std::vector<std::vector<torch::Tensor>>* attentions = nullptr;  // [layer][sequence] → [heads, n, n]
  const AttentionHook* attention_hook = nullptr;
  TokenSplitPtr split;              // of the stream's tokens over several processes; null: this one has all
  const StopToken* stop = nullptr;  // asked before every attention

  // The same forward over another stream of the batch.
  ForwardContext Over(const TokenStream& stream, const std::vector<uint64_t>& sequence_ids) const;
  // The same where rows are those of this process alone, from its first token on; sequences stay whole.
  ForwardContext OfOwnTokens() const;
  // Of processes that share the tokens: whether each has the embeddings of its own alone, as without gradients. With
  // them it has all, whose gradients it needs.
  bool OwnEmbeddingsAlone() const;
  // The same for layers that are computed again in the backward (ops/recompute.h): it neither counts nor records.
  ForwardContext Replay() const;
  // Dropout of `which` rows at one place of one layer; none outside training.
  DropoutSpec DropoutAt(DropoutSite site, uint32_t layer, double probability,
                        std::shared_ptr<const RowIdentities> which) const;
  // The same of one row a sequence, which drops what its first token would.
  DropoutSpec DropoutPerSequence(DropoutSite site, uint32_t layer, double probability) const;
};

}  // namespace lshformer
