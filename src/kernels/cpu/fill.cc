// The share of keys that a query does not see (fill zero and mean), in O(tokens · head_dim): totals minus what was
// seen. Totals are summed in double, so that taking a bucket off the whole loses nothing that float could hold.
#include <cmath>
#include <vector>

#include "kernels/cpu/executor.h"

namespace lshformer {
namespace {

using Sums = std::vector<double>;

Sums SumRows(HeadTensor<const float> rows, const UnitWork& work, const int32_t* order, int32_t begin, int32_t end,
             const float* weight) {
  Sums sums(work.head_dim());
  for (int32_t i = begin; i < end; ++i) {
    const int32_t position = order ? order[i] : i;
    const float* row = rows.at(work.token(position), work.head());
    const double factor = weight ? static_cast<double>(weight[position]) : 1.0;
    for (int k = 0; k < work.head_dim(); ++k) sums[k] += factor * row[k];
  }
  return sums;
}

const Pass& FirstPass(const UnitWork& work) { return work.plan->passes[work.unit->pass_begin]; }

bool HasRuns(const Pass& pass) { return pass.run_end > pass.run_begin; }

}  // namespace

void PrepareFill(UnitWork& work) {
  if (work.unit->fill == Fill::kNone) return;
  const int32_t length = work.unit->length;
  const int head_dim = work.head_dim();
  const bool one_pass = work.unit->pass_end - work.unit->pass_begin == 1;
  const Pass& pass = FirstPass(work);
  work.subtract_fill = !(one_pass && HasRuns(pass));
  if (work.unit->fill == Fill::kMean) {
    const Sums sums = SumRows(work.call->key, work, nullptr, 0, length, nullptr);
    float* mean = work.memory->Get<float>(Slot::kMeanKey, head_dim);
    for (int k = 0; k < head_dim; ++k) mean[k] = static_cast<float>(sums[k] / length);
    work.mean_key = mean;
  }
  float* score = work.memory->Get<float>(Slot::kFillScore, length);
  for (int32_t i = 0; i < length; ++i) {
    score[i] = work.seen()[i] < length ? 0.0f : kNothing;
    if (!work.mean_key || work.seen()[i] == length) continue;
    const float* query = work.call->query.at(work.token(i), work.head());
    double dot = 0;
    for (int k = 0; k < head_dim; ++k) dot += static_cast<double>(query[k]) * work.mean_key[k];
    score[i] = static_cast<float>(dot * work.call->scale * kLog2E);
  }
  work.fill_score = score;
  const Sums total = SumRows(work.call->value, work, nullptr, 0, length, nullptr);
  const int64_t runs = work.subtract_fill ? 1 : pass.run_end - pass.run_begin;
  float* unseen = work.memory->Get<float>(Slot::kUnseenValues, runs * work.UnseenStride());
  for (int64_t r = 0; r < runs; ++r) {
    Sums sums(head_dim);
    if (!work.subtract_fill) {
      const BucketRun& run = work.plan->runs[pass.run_begin + r];
      sums = SumRows(work.call->value, work, work.plan->Order(pass.column_order), run.column_begin, run.column_end,
                     nullptr);
    }
    for (int k = 0; k < head_dim; ++k) unseen[r * work.UnseenStride() + k] = static_cast<float>(total[k] - sums[k]);
  }
  work.unseen_values = unseen;
}

void PrepareFillBackward(BackwardUnitWork& work) {
  const UnitWork& forward = work.forward;
  if (forward.unit->fill == Fill::kNone) return;
  const int32_t length = forward.unit->length;
  float* weight = forward.memory->Get<float>(Slot::kFillWeight, length);
  for (int32_t i = 0; i < length; ++i) {
    const float lse = forward.call->lse[forward.token(i) * forward.call->shape.heads + forward.head()];
    weight[i] = forward.seen()[i] < length ? std::exp2(forward.fill_score[i] - lse * kLog2E) : 0.0f;
  }
  work.fill_weight = weight;
  if (forward.unit->fill == Fill::kMean) {
    work.score_gradient_sum = forward.memory->Get<float>(Slot::kScoreGradientSum, length);
    std::fill_n(work.score_gradient_sum, length, 0.0f);
  }
}

void FinishFillBackward(const BackwardUnitWork& work) {
  const UnitWork& forward = work.forward;
  if (forward.unit->fill == Fill::kNone) return;
  const int32_t length = forward.unit->length;
  const int head_dim = forward.head_dim(), head = forward.head();
  const Pass& pass = FirstPass(forward);
  // dV_j += Σ w_i dO_i over the queries that do not see j.
  const Sums total = SumRows(work.call->grad_out, forward, nullptr, 0, length, work.fill_weight);
  const auto add = [&](int64_t position, const Sums& seen) {
    float* to = work.call->grad_value.at(forward.token(position), head);
    for (int k = 0; k < head_dim; ++k) to[k] += static_cast<float>(total[k] - seen[k]);
  };
  const Sums none(head_dim);
  if (forward.subtract_fill) {
    for (int64_t j = 0; j < length; ++j) add(j, none);
  } else {
    const int32_t* rows = forward.plan->Order(pass.row_order);
    const int32_t* columns = forward.plan->Order(pass.column_order);
    int32_t column = 0;
    for (int64_t r = pass.run_begin; r < pass.run_end; ++r) {
      const BucketRun& run = forward.plan->runs[r];
      for (; column < run.column_begin; ++column) add(columns[column], none);  // buckets without a query
      const Sums seen = SumRows(work.call->grad_out, forward, rows, run.row_begin, run.row_end, work.fill_weight);
      for (; column < run.column_end; ++column) add(columns[column], seen);
    }
    for (; column < length; ++column) add(columns[column], none);
  }
  if (forward.unit->fill != Fill::kMean) return;
  // The gradients of a row's scores add up to 0, so the unseen pairs' is minus the seen pairs' sum.
  Sums mean_gradient(head_dim);
  for (int64_t i = 0; i < length; ++i) {
    if (forward.seen()[i] == length) continue;
    const double gradient = -static_cast<double>(work.score_gradient_sum[i]) * forward.call->scale;
    const float* query = forward.call->query.at(forward.token(i), head);
    float* to = work.call->grad_query.at(forward.token(i), head);
    for (int k = 0; k < head_dim; ++k) {
      to[k] += static_cast<float>(gradient * forward.mean_key[k]);
      mean_gradient[k] += gradient * query[k];
    }
  }
  for (int64_t j = 0; j < length; ++j) {
    float* to = work.call->grad_key.at(forward.token(j), head);
    for (int k = 0; k < head_dim; ++k) to[k] += static_cast<float>(mean_gradient[k] / length);
  }
}

}  // namespace lshformer
