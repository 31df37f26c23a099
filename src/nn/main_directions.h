// Directions of clustered attention as a model's own queries and keys give them.
//
// Per visit of a forward and head, with Σq and Σk the covariances of queries and of keys, each less its sequence's
// mean:
//
//   keys:     Σq^½ e, with e the eigenvectors of Σq^½ Σk Σq^½, those of the largest eigenvalues first
//   queries:  the same with Σq and Σk exchanged
//
// each of length 1, its largest part positive: along these keys and queries differ most in scores.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "nn/forward_context.h"

namespace lshformer {

// By visit of a forward.
using LayerDirections = std::vector<StoredDirections>;

// Sums the products of queries and of keys of any number of forwards. What it finds is a function of those queries and
// keys and the order of the forwards alone, bit for bit, whatever the number of threads. Sums are float64.
// Work memory: 2 · heads · head_dim² · 8 bytes a visit, and while it adds, 3 · length · head_dim · 8 bytes a thread.
class MainDirections {
 public:
  // Whether a head's queries and keys of a sequence of so many tokens count.
  using Counts = std::function<bool(int head, int length)>;
  static bool All(int, int) { return true; }
  // Those of one attention, whose keys are its own (three parts).
  void Add(const AttentionSite& site, const Counts& counts = All);
  // The most sequences that counted in any head.
  int64_t sequences() const { return sequences_; }
  // Key directions [heads, head_dim, kStoredKeyDirections at most], query directions likewise, float32, for every visit
  // up to the last. Of a head where nothing counted, or whose sums are not finite, those in `before`, else zeros.
  LayerDirections Directions(const LayerDirections& before = {}) const;

 private:
  struct Products {
    torch::Tensor query, key;        // [heads, head_dim, head_dim], float64
    std::vector<int64_t> sequences;  // [heads]: that counted
  };
  std::vector<Products> visits_;
  int64_t sequences_ = 0;
};

}  // namespace lshformer
