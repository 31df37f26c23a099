// The sequences of a call of attention, for tests that make one by hand.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "ops/attention.h"

namespace lshformer::testing {

inline std::shared_ptr<const PackedSequences> Sequences(std::vector<int32_t> cu_seqlens,
                                                        std::vector<uint64_t> ids = {}) {
  return std::make_shared<const PackedSequences>(PackedSequences{std::move(cu_seqlens), std::move(ids)});
}

}  // namespace lshformer::testing
