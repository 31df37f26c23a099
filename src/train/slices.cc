#include "train/slices.h"

#include <numeric>

#include "ops/torch.h"

namespace lshformer {
namespace {

torch::Tensor Viewed(float* values, int64_t count) { return torch::from_blob(values, {count}, torch::kFloat32); }

// Elements before the slice of `rank`, among all: a bound of blocks.
int64_t Bound(const NamedTensors& parameters, int64_t rank, int64_t processes) {
  int64_t all = 0;
  for (const auto& [name, tensor] : parameters) all += tensor.numel();
  const int64_t wanted = all * rank / processes;
  int64_t before = 0;
  for (const auto& [name, tensor] : parameters) {
    if (before + tensor.numel() <= wanted) {
      before += tensor.numel();
      continue;
    }
    return before + (wanted - before) / kOptimizerBlock * kOptimizerBlock;
  }
  return before;
}

}  // namespace

std::vector<size_t> AllOf(const NamedTensors& parameters) {
  std::vector<size_t> all(parameters.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

Slices::Slices(const NamedTensors& parameters, const std::vector<size_t>& chosen, int processes) {
  int64_t place = 0;
  for (const size_t i : chosen) {
    laid_.push_back({i, place, parameters[i].second.numel()});
    place += parameters[i].second.numel();
  }
  bounds_.clear();
  for (int rank = 0; rank <= processes; ++rank) {
    // Of the elements before the bound those of the chosen parameters.
    const int64_t bound = Bound(parameters, rank, processes);
    int64_t before = 0, own = 0;
    size_t next = 0;
    for (size_t i = 0; i < parameters.size() && before < bound; ++i) {
      const int64_t elements = parameters[i].second.numel();
      if (next < chosen.size() && chosen[next] == i) {
        own += std::min(elements, bound - before);
        ++next;
      }
      before += elements;
    }
    bounds_.push_back(own);
  }
}

int64_t Slices::largest() const {
  int64_t most = 0;
  for (size_t rank = 0; rank + 1 < bounds_.size(); ++rank) most = std::max(most, size(static_cast<int>(rank)));
  return most;
}

void Slices::Copy(int rank, const std::vector<torch::Tensor>& tensors, float* values, bool out) const {
  const torch::NoGradGuard no_grad;
  ForEachPiece(rank, [&](size_t parameter, int64_t begin, int64_t end, int64_t place) {
    const torch::Tensor own = tensors[parameter].detach().view({-1}).slice(0, begin, end);
    if (out) {
      Viewed(values + place, end - begin).copy_(own);
    } else {
      torch::Tensor(own).copy_(Viewed(values + place, end - begin));
    }
  });
}

void Slices::Share(Communicator& processes, const std::vector<torch::Tensor>& tensors) const {
  const auto room = static_cast<size_t>(largest());
  std::vector<float> own(room), all(room * static_cast<size_t>(processes.size()));
  Copy(processes.rank(), tensors, own.data(), /*out=*/true);
  processes.AllGather(std::span<const float>(own), std::span<float>(all));
  for (int rank = 0; rank < processes.size(); ++rank)
    if (rank != processes.rank()) Copy(rank, tensors, all.data() + static_cast<size_t>(rank) * room, /*out=*/false);
}

void Slices::GatherAtFirst(Communicator& processes, const std::vector<torch::Tensor>& tensors) const {
  const auto count = static_cast<size_t>(processes.size());
  std::vector<int64_t> sent(count), received(count);
  sent[0] = processes.first() ? 0 : size(processes.rank());
  if (processes.first())
    for (int rank = 1; rank < processes.size(); ++rank) received[static_cast<size_t>(rank)] = size(rank);
  std::vector<float> own(static_cast<size_t>(sent[0]));
  std::vector<float> all(static_cast<size_t>(std::accumulate(received.begin(), received.end(), int64_t{0})));
  if (!processes.first()) Copy(processes.rank(), tensors, own.data(), /*out=*/true);
  processes.AllToAll(own, sent, all, received);
  float* next = all.data();
  for (int rank = 1; rank < processes.size() && processes.first(); next += size(rank++))
    Copy(rank, tensors, next, /*out=*/false);
}

}  // namespace lshformer
