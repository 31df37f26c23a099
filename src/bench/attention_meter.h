// What the attention of a model's forwards computes and holds, counted beside them.
#pragma once
#include <cstdint>

#include "base/json.h"
#include "models/model.h"

namespace lshformer {

// Plans every attention of the forwards that it looks at once more, for their counts: not for runs that are timed.
class AttentionMeter {
 public:
  explicit AttentionMeter(bool backward) : backward_(backward) {}
  AttentionMeter(const AttentionMeter&) = delete;
  AttentionMeter& operator=(const AttentionMeter&) = delete;

  // To be asked before each forward; those after Stop are left alone.
  void LookAt(ForwardOptions& forward) const {
    if (!stopped_) forward.attention_hook = &look_;
  }
  void Stop() { stopped_ = true; }

  // Of a model without self-attention both are null.
  Json pairs_fraction() const;  // computed of all, over all layers and forwards
  Json work_bytes() const;      // plan and work memory of the largest call of the operator (kernels/execution.h)

 private:
  void Count(const AttentionSite& site);
  const bool backward_;
  bool stopped_ = false;
  AttentionCounts counts_;
  int64_t work_bytes_ = 0;
  const AttentionHook look_ = [this](const AttentionSite& site) {
    Count(site);
    return torch::Tensor();  // what it computes stays its own
  };
};

}  // namespace lshformer
