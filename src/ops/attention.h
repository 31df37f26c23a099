// Self-attention over packed sequences with gradients, on the operator of kernels/operator.h.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/counts.h"
#include "kernels/execution.h"
#include "kernels/hashing.h"
#include "kernels/packed_heads.h"
#include "kernels/precision.h"
#include "ops/torch.h"

namespace lshformer {

// Directions of clustered attention that a model brings along, [heads, head_dim, depth] each; undefined: none. Those
// beyond their depth are drawn.
struct StoredDirections {
  torch::Tensor key, query;

  // Grows with every change of their numbers.
  int64_t version() const;
};
inline constexpr int64_t kStoredKeyDirections = 16;  // enough for 2¹⁶ clusters
inline constexpr int64_t kStoredQueryDirections = ClusteredAttention::kQueryDirections;

// What one layer's hashing drew last. It serves again while the step stays: in every call outside training and with
// Resample::kNever, and in training for the pieces of a step and for a backward that computes the layer again. Numbers
// drawn for a longer batch serve a shorter one; stored directions whose numbers changed are read anew. From any thread.
class DrawnProjections {
 public:
  // The spec, but for what does not concern hashing, heads, head_dim and layer are those of the first call.
  std::shared_ptr<const Projections> Get(const AttentionSpec& spec, const AttentionShape& shape, uint32_t layer,
                                         uint64_t step, const StoredDirections& stored = {});

 private:
  std::mutex mutex_;
  uint64_t step_ = 0;
  int64_t version_ = 0;                             // of the stored directions
  std::shared_ptr<const Projections> projections_;  // null: nothing yet
};

// How the rows of a stream fall into sequences, and which these are; one for all layers of a batch.
struct PackedSequences {
  std::vector<int32_t> cu_seqlens{0};  // [sequences + 1]
  std::vector<uint64_t> ids;           // [sequences]; of attention, where there is dropout
  int count() const { return static_cast<int>(ids.size()); }
};

struct AttentionOptions {
  std::shared_ptr<const AttentionSpec> spec = std::make_shared<const AttentionSpec>();  // shared by a layer's calls
  int heads = 1;
  int first_head = 0;  // of its layer's
  uint32_t layer = 0;  // planes, rotations and directions are drawn from (spec->seed, layer, head, planes_step)
  uint64_t planes_step = 0;
  double dropout = 0;        // probability, on the probabilities of seen pairs
  uint64_t dropout_key = 0;  // StreamKey(…, Purpose::kAttentionDropout)
  Operands operands = Operands::kFloat32;
  std::shared_ptr<const PackedSequences> sequences = std::make_shared<const PackedSequences>();
  AttentionCounts* counts = nullptr;        // added to
  std::shared_ptr<DrawnProjections> drawn;  // or null: drawn anew
  StoredDirections directions = {};         // where the spec asks for stored ones
  torch::ScalarType out_type = torch::kFloat32;

  const std::vector<int32_t>& cu_seqlens() const { return sequences->cu_seqlens; }
};

// The same of some of the heads: `first`, counted among those that `options` has, and `heads` from there on.
AttentionOptions OfHeads(const AttentionOptions& options, int first, int heads);

// bfloat16 stays itself; under int8 attention is bfloat16 where BFloat16Pays(), else float32; float32 on tiles is
// split under MatmulPrecision::kHigh and bfloat16 under kMedium.
Operands OperandsOf(Precision precision);
// What qkv may be in where all that reads it rounds it to these: kBFloat16 without gradients, else kFloat32.
torch::ScalarType OperandType(Operands operands);

// The parts of `qkv` side by side: query, key and value; query and value where the kind shares keys.
int SlicesOf(const AttentionSpec& spec);

// qkv: [T, parts · heads · head_dim], float32, on the CPU, contiguous. Returns [T, heads · head_dim] of
// options.out_type. That may be kBFloat16 without gradients, with bfloat16 operands in AMX tiles; qkv may be of
// OperandType where OnlyMultiplies (kernels/execution.h). Both rounded as maps and kernels round, which changes no
// other bit.
// Forward and gradient of a sequence do not depend on its batch-mates, bit for bit. head_dim 1 … 256. Without gradients
// heads of long texts are planned and computed a few at a time: a plan takes memory for each of its heads.
torch::Tensor SelfAttention(const torch::Tensor& qkv, std::shared_ptr<const AttentionOptions> options);

// The readable form, any floating type, n × n scores: the oracle, and the source of recorded attention maps. Per
// sequence the probabilities [heads, n, n] of every key (unseen pairs under a fill included), without dropout.
// Clustered: a centroid's probability is shared out to those of its keys that a query does not meet itself, by their
// weights; so without a window these make the output, and they have no gradient.
std::vector<torch::Tensor> AttentionProbabilities(const torch::Tensor& qkv, const AttentionOptions& options);
// Of a clustered spec, by head, the share of exact attention's probability on keys that queries meet themselves, not
// through a centroid; the mean over the sequences' queries. Takes as long as the readable form.
std::vector<double> MassMet(const torch::Tensor& qkv, const AttentionOptions& options);
torch::Tensor SelfAttentionReference(const torch::Tensor& qkv, const AttentionOptions& options);

}  // namespace lshformer
