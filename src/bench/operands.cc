#include "bench/operands.h"

#include <algorithm>

#include "base/philox.h"
#include "kernels/operator.h"
#include "ops/attention.h"

namespace lshformer {

AttentionOperands::AttentionOperands(int64_t length, int64_t batch, int heads, int head_dim, uint64_t seed)
    : heads_(heads), head_dim_(head_dim), seed_(seed) {
  for (int64_t b = 0; b <= batch; ++b) cu_seqlens_.push_back(static_cast<int32_t>(b * length));
  for (int i = 0; i < 3; ++i) Draw(i);
  lse_.resize(static_cast<size_t>(shape().tokens() * heads_));
}

PlannedAttention AttentionOperands::Plan(const AttentionSpec& spec, const Projections& projections) const {
  return BuildPlan(spec, shape(), Input(0), Input(1), projections);
}

void AttentionOperands::Run(const AttentionSpec& spec, const Projections& projections, bool backward, float dropout,
                            Operands operands) {
  OperatorCall call;
  call.spec = &spec;
  call.tokens = shape().tokens();
  call.shape = shape();
  call.query = Input(0);
  if (!SharesKeys(spec)) call.key = Input(1);
  call.value = Input(2);
  call.out = Output(0);
  call.lse = lse_.data();
  call.operands = MultipliedAs(operands);
  call.projections = &projections;
  call.count = false;
  if (dropout > 0) call.dropout = {dropout, StreamKey(seed_, 0, 0, 0, Purpose::kAttentionDropout), {}};
  const PlannedAttention planned = RunOperator(call).planned;
  if (!backward) return;
  if (!inputs_[3].memory) Draw(3);
  RunOperatorBackward(
      {call, planned, Input(3), Output(1), SharesKeys(spec) ? HeadTensor<float>{} : Output(2), Output(3)});
}

HeadTensor<float> AttentionOperands::Output(int i) {
  if (!outputs_[i].memory) outputs_[i] = AllocateBlock(Elements() * sizeof(float));
  return {FloatsOf(outputs_[i]), TokenStride(), head_dim_};
}

void AttentionOperands::Draw(int i) {
  PhiloxStream stream(StreamKey(seed_, static_cast<uint32_t>(i), 0, 0, Purpose::kBenchmark));
  inputs_[i] = AllocateBlock(Elements() * sizeof(float));
  std::generate_n(FloatsOf(inputs_[i]), Elements(), [&] { return static_cast<float>(stream.Normal()); });
}

Operands MultipliedAs(Operands operands) {
  return operands == Operands::kFloat32 ? OperandsOf(Precision::kFloat32) : operands;
}

double LeastBytesMoved(const AttentionSpec& spec, const AttentionShape& shape, bool backward) {
  const double vectors = static_cast<double>(shape.tokens()) * shape.heads;
  const bool shared_keys = SharesKeys(spec);
  const double forward = (shared_keys ? 3.0 : 4.0) * shape.head_dim + 1;
  const double more = (shared_keys ? 4.0 + 2.0 : 5.0 + 3.0) * shape.head_dim + 1;
  return sizeof(float) * vectors * (forward + (backward ? more : 0));
}

void AddRoofline(const Json& machine, double moved_bytes, Json& row) {
  const auto share = [](double value, const Json& limit) {
    return limit.is_number() ? Json(value / limit.get<double>()) : Json();
  };
  row["gemm_share"] = share(row.at("gflops").get<double>(), machine.at("gemm_gflops"));
  row["moved_bytes"] = moved_bytes;
  row["memory_share"] = share(moved_bytes / row.at("median_ms").get<double>() / 1e6, machine.at("memory_gbps"));
}

}  // namespace lshformer
