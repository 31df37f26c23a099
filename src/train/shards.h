// How an update's batch is cut into parts, and who computes which.
//
// The sequences of an update, in their order, are cut into S parts (gradient_shards), part s being
// [n·s / S, n·(s + 1) / S) of n; a part may be empty. The gradient of each is computed alone, and all are added up in
// one binary tree (gradient_tree.h). So the result depends on S, and not on how many processes share the parts: process
// r of p takes the parts [S·r / p, S·(r + 1) / p).
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "data/sampler.h"
#include "train/options.h"

namespace lshformer {

inline constexpr int kShards = 16;  // where several processes may share a run and nothing is said

// The options as `processes` of them run: gradient_shards and total_batch_size filled in where they were not given.
TrainingOptions SharedBy(int processes, TrainingOptions options);

TrainSampler SamplerOf(const TrainingOptions& options, int64_t examples);

// A forward's sequences, and the part that they belong to.
struct Piece {
  int part = 0;
  std::vector<int64_t> examples;
};
// What the sampler gives for an update, as it is computed: the micro-batches themselves where there is one part without
// a total_batch_size, else the parts in pieces of at most per_device_train_batch_size.
std::vector<Piece> PiecesOf(std::vector<std::vector<int64_t>> batches, const TrainingOptions& options);

// The parts [first, second) of a process.
std::pair<int, int> PartsOf(int rank, int processes, int parts);

}  // namespace lshformer
