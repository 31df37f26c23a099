// The total gradient of an update whose parts several processes computed.
//
// Each process has the sums of its own parts (nodes of gradient_tree.h). The dense gradients, one behind another, are
// cut into a slice for each process; a slice of every node goes to the process whose it is (all-to-all), which adds up
// the rest of the tree there; the slices of the total go to all (all-gather). With one node a process, where the
// processes are a power of two, each sends 2 · (p − 1) / p of the parameters' bytes, as a ring does. Gradients by rows
// go to all as the rows that they are.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dist/communicator.h"
#include "train/gradient_tree.h"
#include "train/optimizer.h"
#include "train/slices.h"

namespace lshformer {

class GradientExchange {
 public:
  // `parameters`: the same on all processes. Both must outlive it. `own_slice`: of the dense gradients each process
  // gets its own slice alone, as it looks after those elements alone (slices.h); the others are not to be read.
  GradientExchange(Communicator& communicator, const NamedTensors& parameters, int parts, bool own_slice = false);

  // A call of all processes: the nodes of this one's parts → the total, [parameters], the same on all. `losses`,
  // [parts], of which this process knows those of its own parts, are all known then.
  std::vector<torch::Tensor> Total(std::vector<GradientNode> nodes, std::vector<double>& losses);

 private:
  enum class Kind : char { kNone = '0', kDense = 'd', kRows = 'r' };
  using Kinds = std::vector<Kind>;  // [nodes of all processes, parameters]

  Kinds TellKinds(const std::vector<GradientNode>& nodes, std::vector<double>& losses);
  std::vector<size_t> Dense(const Kinds& kinds) const;
  void AddSlice(const std::vector<GradientNode>& nodes, const Kinds& kinds, const Slices& slices,
                std::vector<torch::Tensor>& total);
  void GatherRows(const std::vector<GradientNode>& nodes, const Kinds& kinds, size_t parameter,
                  std::vector<torch::Tensor>& total);
  bool AnyOf(const Kinds& kinds, size_t parameter, Kind kind) const;

  Communicator& communicator_;
  const NamedTensors& parameters_;
  int parts_;
  bool own_slice_;
  std::vector<std::pair<int, int>> nodes_;  // (first, count), of all processes in their order
  std::vector<size_t> node_bounds_;         // [processes + 1] into nodes_
  std::vector<float> send_, receive_;
};

}  // namespace lshformer
