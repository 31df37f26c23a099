// Specs as Python hands them over, in JSON, and what is drawn for them: made once, kept for the calls to come.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "attention/spec.h"
#include "kernels/hashing.h"
#include "kernels/packed_heads.h"

namespace lshformer::extension {

using SpecPtr = std::shared_ptr<const AttentionSpec>;
using ProjectionsPtr = std::shared_ptr<const Projections>;

inline constexpr const char* kWhere = "attention";  // what errors begin with

// Of one layer, as in config.json; Error where it does not parse. Any thread.
SpecPtr SpecOf(const std::string& json);

// DrawProjections of (spec, layer, step), enough for the shape; null where none are needed. `json`: the spec's text.
// Any thread.
ProjectionsPtr Drawn(const AttentionSpec& spec, const std::string& json, const AttentionShape& shape, uint32_t layer,
                     uint64_t step);

}  // namespace lshformer::extension
