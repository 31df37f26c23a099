// Which elements of all parameters each of several processes looks after: their parameters one behind another, cut at
// the blocks of optimizer.h into slices of about the same size.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "dist/communicator.h"
#include "train/optimizer.h"

namespace lshformer {

class Slices {
 public:
  Slices() = default;
  // `chosen`: the numbers of the parameters that are laid out, ascending. The bounds of a process are the same elements
  // whichever they are.
  Slices(const NamedTensors& parameters, const std::vector<size_t>& chosen, int processes);

  int64_t elements() const { return bounds_.back(); }
  int64_t size(int rank) const { return bounds_[static_cast<size_t>(rank) + 1] - bounds_[static_cast<size_t>(rank)]; }
  int64_t largest() const;
  // Where all parameters are laid out.
  ElementRange range(int rank) const {
    return {bounds_[static_cast<size_t>(rank)], bounds_[static_cast<size_t>(rank) + 1]};
  }

  // Calls visit(parameter, begin, end, place) for the pieces of a process's slice: the elements [begin, end) of the
  // parameter lie at `place` in it.
  template <class Visit>
  void ForEachPiece(int rank, const Visit& visit) const {
    const int64_t slice_begin = bounds_[static_cast<size_t>(rank)], slice_end = bounds_[static_cast<size_t>(rank) + 1];
    for (const Laid& laid : laid_) {
      const int64_t begin = std::max(laid.place, slice_begin), end = std::min(laid.place + laid.elements, slice_end);
      if (begin < end) visit(laid.parameter, begin - laid.place, end - laid.place, begin - slice_begin);
    }
  }

  // Each process's slice of these tensors, of the parameters' shapes, to all others.
  void Share(Communicator& processes, const std::vector<torch::Tensor>& tensors) const;
  // To rank 0 alone.
  void GatherAtFirst(Communicator& processes, const std::vector<torch::Tensor>& tensors) const;

 private:
  struct Laid {
    size_t parameter;
    int64_t place, elements;  // place: of its first element among all
  };
  // The slice of `rank` from the tensors into `values`, or from there into them.
  void Copy(int rank, const std::vector<torch::Tensor>& tensors, float* values, bool out) const;

  std::vector<Laid> laid_;
  std::vector<int64_t> bounds_{0};  // [processes + 1]
};

// All parameters' numbers.
std::vector<size_t> AllOf(const NamedTensors& parameters);

}  // namespace lshformer
