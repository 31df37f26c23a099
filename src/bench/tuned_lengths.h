// What tune decides from timings: which attention objects have a length to find, the lengths, and where they go. Timing
// itself is the caller's, so that tests can say what was measured.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "attention/spec.h"
#include "bench/crossing.h"
#include "models/config.h"

namespace lshformer {

// The lengths of one spec; layers that differ in what does not matter for time share them.
struct Tuned {
  std::string name;
  AttentionSpec spec;
  std::vector<std::pair<std::string, Crossing>> directions;
};

const char* DirectionName(bool backward);  // "forward", "forward_backward"

// The sparse specs of the layers, each kind once, under names of their own. Error where all are dense; `path` is the
// config's.
std::vector<Tuned> SpecsToTune(const ModelConfig& config, const std::string& path);

// Fills in the crossings of "forward", "forward_backward" or "both". max_length 0: the position table, at most 16384
// tokens. Errors: max_length beyond the table; a spec that hashes none of the lengths; timings too noisy to tell.
using MeasureForms = std::function<Comparison(const Tuned& tuned, bool backward, int length)>;
void FindCrossings(const ModelConfig& config, const std::string& path, const std::string& direction, int max_length,
                   const MeasureForms& measure, std::vector<Tuned>& all);

// The specs with the lengths that were found, and "auto" to use them.
void SetLengths(const std::vector<Tuned>& all, const std::string& machine, std::vector<AttentionSpec>& specs);

}  // namespace lshformer
