// "rope_parameters" of config.json, as transformers 5 has it, and what stands in its place in older files.
#pragma once
#include <string_view>
#include <vector>

#include "base/json.h"
#include "kernels/rotary.h"
#include "models/config.h"

namespace lshformer {

// {"rope_type": "default" | "linear" | "dynamic", "rope_theta": θ, "factor": f}, what it does not say as `into` has it.
// Error that names `where`: a kind that is not known here, a factor that is missing.
void ReadRotary(const Json& object, std::string_view where, Rotary& into);
Json WriteRotary(const Rotary& rotary);

// Tokens of the longest sequence of a model whose file says `positions`: where rotary positions grow, factor times as
// many. Sets Rotary::original.
int64_t LongestRotary(int64_t positions, Rotary& rotary);

// The factor of `dynamic` positions with which those of a file that says `trained` reach so far: sequences that are no
// longer than `trained` keep their numbers. Error that names `where` of `linear` ones, which turn otherwise everywhere.
void GrowRotary(int64_t trained, int64_t positions, std::string_view where, Rotary& rotary);

}  // namespace lshformer
