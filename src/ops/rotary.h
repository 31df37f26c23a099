// Rotary positions of queries and keys, with gradients (kernels/rotary.h).
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kernels/rotary.h"
#include "ops/attention.h"
#include "ops/torch.h"

namespace lshformer {

// cos and sin of the angles of positions 0 … `positions` − 1, [positions, head_dim / 2] each.
struct RotaryAngles {
  int64_t positions = 0;
  std::vector<float> cos, sin;
};

// The angles of one rotation, kept from call to call and shared by the layers that turn alike. From any thread.
class RotaryTable {
 public:
  RotaryTable(const Rotary& rotary, int head_dim) : rotary_(rotary), head_dim_(head_dim) {}
  // At least those of a sequence of `length` tokens.
  std::shared_ptr<const RotaryAngles> Get(int64_t length) const;
  const Rotary& rotary() const { return rotary_; }
  int head_dim() const { return head_dim_; }

 private:
  std::shared_ptr<const RotaryAngles> Fill(int64_t frequencies_of, const RotaryAngles* before, int64_t positions) const;
  const Rotary rotary_;
  const int head_dim_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const RotaryAngles> angles_;  // of all sequences that have no frequencies of their own
  mutable std::unordered_map<int64_t, std::shared_ptr<const RotaryAngles>> grown_;  // of others, by length
};

// Which rows of [T, slices · heads · head_dim] turn, by how much: all heads of the first `turned` slices (query, and
// key where there is one), each token by its place in its sequence.
struct RotaryOptions {
  std::shared_ptr<const RotaryTable> table;
  std::shared_ptr<const PackedSequences> sequences;
  int heads = 1;
  int turned = 2;
};

// qkv with its first slices turned, float32, contiguous. Without gradients it is qkv itself, turned where it lies, or,
// with the type kBFloat16, another tensor, as attention on AMX tiles would round it.
torch::Tensor Rotated(torch::Tensor qkv, RotaryOptions options, torch::ScalarType type = torch::kFloat32);
// The same through torch alone, any floating type: the oracle.
torch::Tensor RotatedReference(const torch::Tensor& qkv, const RotaryOptions& options);

}  // namespace lshformer
