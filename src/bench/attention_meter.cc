#include "bench/attention_meter.h"

#include <algorithm>
#include <memory>

#include "kernels/operator.h"

namespace lshformer {

void AttentionMeter::Count(const AttentionSite& site) {
  const AttentionOptions& options = site.options;
  const AttentionSpec& spec = *options.spec;
  const torch::Tensor qkv = site.qkv.detach();  // [T, slices · heads · head_dim], float32 where somebody looks
  const int64_t width = qkv.size(1) / SlicesOf(spec), head_dim = width / options.heads;
  const float* values = qkv.data_ptr<float>();
  OperatorCall call;
  call.spec = &spec;
  call.tokens = qkv.size(0);
  call.shape = {options.cu_seqlens(), options.heads, static_cast<int>(head_dim), options.first_head};
  call.query = {values, qkv.size(1), head_dim};
  if (!SharesKeys(spec)) call.key = {values + width, qkv.size(1), head_dim};
  call.operands = options.operands;
  call.layer = options.layer;
  call.step = options.planes_step;
  std::shared_ptr<const Projections> drawn;
  if (options.drawn != nullptr && AnySparse(spec, call.shape)) {
    drawn = options.drawn->Get(spec, call.shape, options.layer, options.planes_step, options.directions);
    call.projections = drawn.get();
  }
  const OperatorResult planned = PlanOperator(call);
  counts_ += planned.counts;
  const int64_t bytes =
      backward_ ? WorkBytes(planned.planned, options.operands) : ForwardWorkBytes(planned.planned, options.operands);
  work_bytes_ = std::max(work_bytes_, bytes);
}

Json AttentionMeter::pairs_fraction() const {
  if (counts_.pairs_total == 0) return {};
  return static_cast<double>(counts_.pairs_computed) / static_cast<double>(counts_.pairs_total);
}

Json AttentionMeter::work_bytes() const { return counts_.pairs_total == 0 ? Json() : Json(work_bytes_); }

}  // namespace lshformer
