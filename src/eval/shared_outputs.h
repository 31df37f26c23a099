// What forwards gave, told to all processes that share an evaluation.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dist/communicator.h"
#include "kernels/counts.h"
#include "models/model.h"

namespace lshformer {

struct CountedOutput {
  ModelOutput output;
  AttentionCounts counts;
};

// The output's tensors, those of each layer excepted, and beams, bit for bit.
std::string Packed(const CountedOutput& forward);
CountedOutput Unpacked(std::string_view text);

// Over all processes, of the heads that each looked at.
AttentionCounts Summed(Communicator& processes, const AttentionCounts& own);

// Each process has the output of one forward, but for the last ones, which may have none: those of all, in their order.
std::vector<CountedOutput> Shared(Communicator& processes, const CountedOutput* own);

}  // namespace lshformer
