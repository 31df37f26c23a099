#include "kernels/context_query.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "kernels/cpu/aligned_floats.h"
#include "kernels/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sequences/context_query.cc"
#include <hwy/foreach_target.h>

// After foreach_target.h.
#include "kernels/cpu/rows/rows-inl.h"
#include "kernels/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lshformer {
namespace HWY_NAMESPACE {
namespace {

// A matrix of this thread whose rows are filled up to whole vectors.
struct Rows {
  Rows() = default;
  Rows(int rows_, int columns_)
      : rows(rows_),
        columns(columns_),
        stride(RoundUp(columns_, kLanes)),
        memory(AllocateFloats(std::max<int64_t>(1, int64_t{rows_} * stride))) {}
  float* at(int row) const { return memory.get() + int64_t{row} * stride; }
  ConstMatrix view() const { return {memory.get(), stride}; }
  Matrix target() const { return {memory.get(), stride}; }
  int rows = 0, columns = 0, stride = 0;
  AlignedFloats memory;
};

// A copy of packed rows, zeros behind each.
Rows Copy(const float* from, int rows, int columns) {
  Rows copy(rows, columns);
  for (int row = 0; row < rows; ++row) {
    std::copy_n(from + int64_t{row} * columns, columns, copy.at(row));
    std::fill(copy.at(row) + columns, copy.at(row) + copy.stride, 0.0f);
  }
  return copy;
}

Rows Transposed(const Rows& from) {
  Rows to(from.columns, from.rows);
  TransposeScaled(from.at(0), from.stride, from.rows, from.columns, to.stride, 1.0f, to.at(0));
  return to;
}

// a·b and aᵀ·b.
template <Store kStore = Store::kSet>
void Product(const Rows& a, const Rows& b, Rows& c) {
  Multiply<kStore, false>(a.view(), b.view(), c.target(), a.rows, b.stride, a.columns);
}
Rows Product(const Rows& a, const Rows& b) {
  Rows c(a.rows, b.columns);
  Product(a, b, c);
  return c;
}
Rows ProductOfTransposed(const Rows& a, const Rows& b) {
  Rows c(a.columns, b.columns);
  Multiply<Store::kSet, true>(a.view(), b.view(), c.target(), a.columns, b.stride, a.rows);
  return c;
}

// Softmax of each row; zeros behind each.
Rows SoftmaxOfRows(const Rows& scores) {
  Rows p(scores.rows, scores.columns);
  for (int row = 0; row < p.rows; ++row) {
    const float* from = scores.at(row);
    float* to = p.at(row);
    const Float shift = hn::Set(kTag, *std::max_element(from, from + p.columns));
    Float total = hn::Zero(kTag);
    for (int j = 0; j < p.columns; j += kLanes) {
      const Float e = hn::Exp(kTag, hn::Sub(hn::Load(kTag, from + j), shift));
      const Float counted = hn::IfThenElseZero(hn::FirstN(kTag, static_cast<size_t>(p.columns - j)), e);
      hn::Store(counted, kTag, to + j);
      total = hn::Add(total, counted);
    }
    const Float factor = hn::Set(kTag, 1.0f / Sum(total));
    for (int j = 0; j < p.columns; j += kLanes) hn::Store(hn::Mul(factor, hn::Load(kTag, to + j)), kTag, to + j);
  }
  return p;
}

// Softmax of each column. What is behind the rows is a softmax of equal scores.
Rows SoftmaxOfColumns(const Rows& scores) {
  Rows p(scores.rows, scores.columns);
  for (int j = 0; j < p.columns; j += kLanes) {
    Float shift = hn::Load(kTag, scores.at(0) + j), total = hn::Zero(kTag);
    for (int row = 1; row < p.rows; ++row) shift = hn::Max(shift, hn::Load(kTag, scores.at(row) + j));
    for (int row = 0; row < p.rows; ++row) {
      const Float e = hn::Exp(kTag, hn::Sub(hn::Load(kTag, scores.at(row) + j), shift));
      hn::Store(e, kTag, p.at(row) + j);
      total = hn::Add(total, e);
    }
    const Float factor = hn::Div(hn::Set(kTag, 1.0f), total);
    for (int row = 0; row < p.rows; ++row)
      hn::Store(hn::Mul(factor, hn::Load(kTag, p.at(row) + j)), kTag, p.at(row) + j);
  }
  return p;
}

// grad_scores (=, +=) the gradient through a softmax of rows, given its values and the gradient by them.
template <bool kAdd>
void AddSoftmaxOfRowsGradient(const Rows& p, const Rows& grad_p, Rows& grad_scores) {
  for (int row = 0; row < p.rows; ++row) {
    Float total = hn::Zero(kTag);
    for (int j = 0; j < p.columns; j += kLanes)
      total = hn::MulAdd(hn::Load(kTag, p.at(row) + j), hn::Load(kTag, grad_p.at(row) + j), total);
    const Float mean = hn::Set(kTag, Sum(total));
    for (int j = 0; j < p.columns; j += kLanes) {
      float* to = grad_scores.at(row) + j;
      const Float g = hn::Sub(hn::Load(kTag, grad_p.at(row) + j), mean);
      const Float before = kAdd ? hn::Load(kTag, to) : hn::Zero(kTag);
      hn::Store(hn::MulAdd(hn::Load(kTag, p.at(row) + j), g, before), kTag, to);
    }
  }
}

// The same of columns.
Rows SoftmaxOfColumnsGradient(const Rows& p, const Rows& grad_p) {
  Rows grad(p.rows, p.columns);
  for (int j = 0; j < p.columns; j += kLanes) {
    Float mean = hn::Zero(kTag);
    for (int row = 0; row < p.rows; ++row)
      mean = hn::MulAdd(hn::Load(kTag, p.at(row) + j), hn::Load(kTag, grad_p.at(row) + j), mean);
    for (int row = 0; row < p.rows; ++row) {
      const Float g = hn::Sub(hn::Load(kTag, grad_p.at(row) + j), mean);
      hn::Store(hn::Mul(hn::Load(kTag, p.at(row) + j), g), kTag, grad.at(row) + j);
    }
  }
  return grad;
}

// What forward and backward both compute of a sequence. n rows of context, m of the question.
struct Sequence {
  Rows context, query;             // [n, d], [m, d]
  Rows factors;                    // w_cq∘q_j + w_c [m, d]: S = C·factorsᵀ + 1·(w_q·q_j), and b drops out
  Rows over_query;                 // S̄ [n, m]
  Rows attended;                   // A [n, d]
  Rows over_context;               // kDoubleSoftmax: S̿ [n, m]; kMaximum: b [1, n]
  std::vector<int> first_largest;  // kMaximum: the j of max_j S_tj
  Rows summary;                    // kDoubleSoftmax: S̿ᵀ·C [m, d]; kMaximum: h̃ [1, d]
  Rows answering;                  // kDoubleSoftmax: B [n, d]; kMaximum: B's rows are `summary`
  const float* RowOfB(int row) const { return answering.rows > 0 ? answering.at(row) : summary.at(0); }
};

Rows Scores(const ContextQuery& call, const Sequence& sequence) {
  const Rows transposed = Transposed(sequence.factors);
  Rows scores(sequence.context.rows, sequence.query.rows);
  const Rows weight = Copy(call.query_weight, 1, sequence.query.columns);
  std::fill_n(scores.at(0), scores.stride, 0.0f);
  for (int j = 0; j < scores.columns; ++j) scores.at(0)[j] = Dot(sequence.query.at(j), weight.at(0), weight.stride);
  for (int row = 1; row < scores.rows; ++row) std::copy_n(scores.at(0), scores.stride, scores.at(row));
  Product<Store::kAdd>(sequence.context, transposed, scores);
  return scores;
}

void AttendByMaximum(const Rows& scores, Sequence& sequence) {
  Rows largest(1, scores.rows);
  for (int row = 0; row < scores.rows; ++row) {
    const float *from = scores.at(row), *found = std::max_element(from, from + scores.columns);
    sequence.first_largest.push_back(static_cast<int>(found - from));
    largest.at(0)[row] = *found;
  }
  std::fill(largest.at(0) + scores.rows, largest.at(0) + largest.stride, 0.0f);
  sequence.over_context = SoftmaxOfRows(largest);
  sequence.summary = Product(sequence.over_context, sequence.context);
}

Sequence Attend(const ContextQuery& call, int64_t b) {
  const size_t place = static_cast<size_t>(b);
  const int columns = static_cast<int>(call.columns);
  const auto rows = [&](std::span<const int32_t> borders, const float* from) {
    return Copy(from + borders[place] * call.columns, borders[place + 1] - borders[place], columns);
  };
  Sequence sequence;
  sequence.context = rows(call.cu_context, call.context);
  sequence.query = rows(call.cu_query, call.query);
  sequence.factors = Rows(sequence.query.rows, columns);
  for (int j = 0; j < sequence.query.rows; ++j) {
    for (int c = 0; c < columns; ++c)
      sequence.factors.at(j)[c] = call.product_weight[c] * sequence.query.at(j)[c] + call.context_weight[c];
    std::fill(sequence.factors.at(j) + columns, sequence.factors.at(j) + sequence.factors.stride, 0.0f);
  }
  const Rows scores = Scores(call, sequence);
  sequence.over_query = SoftmaxOfRows(scores);
  sequence.attended = Product(sequence.over_query, sequence.query);
  if (call.kind == QueryToContext::kMaximum) {
    AttendByMaximum(scores, sequence);
  } else {
    sequence.over_context = SoftmaxOfColumns(scores);
    sequence.summary = ProductOfTransposed(sequence.over_context, sequence.context);
    sequence.answering = Product(sequence.over_query, sequence.summary);
  }
  return sequence;
}

}  // namespace

void AttendSequence(const ContextQuery& call, int64_t b, float* out) {
  const Sequence sequence = Attend(call, b);
  const int64_t d = call.columns;
  float* to = out + call.cu_context[static_cast<size_t>(b)] * 4 * d;
  for (int row = 0; row < sequence.context.rows; ++row, to += 4 * d) {
    const float *c = sequence.context.at(row), *a = sequence.attended.at(row), *answer = sequence.RowOfB(row);
    for (int64_t k = 0; k < d; k += kLanes) {
      const size_t left = static_cast<size_t>(d - k);
      const Float own = hn::Load(kTag, c + k), attended = hn::Load(kTag, a + k);
      StorePart(own, to + k, left);
      StorePart(attended, to + d + k, left);
      StorePart(hn::Mul(own, attended), to + 2 * d + k, left);
      StorePart(hn::Mul(own, hn::Load(kTag, answer + k)), to + 3 * d + k, left);
    }
  }
}

namespace {

// The gradients by the context (as far as it stands in the result itself), by A and by B. out: [n, 4d].
struct ResultGradients {
  ResultGradients(const Sequence& sequence, const float* grad_out)
      : context(sequence.context.rows, sequence.context.columns),
        a(context.rows, context.columns),
        b(context.rows, context.columns) {
    const int64_t d = context.columns;
    for (int row = 0; row < context.rows; ++row, grad_out += 4 * d) {
      const float *attended = sequence.attended.at(row), *answer = sequence.RowOfB(row);
      for (int64_t k = 0; k < d; k += kLanes) {
        const size_t left = static_cast<size_t>(d - k);
        const Float own = hn::Load(kTag, sequence.context.at(row) + k), by_ca = LoadPart(grad_out + 2 * d + k, left),
                    by_cb = LoadPart(grad_out + 3 * d + k, left);
        const Float through_a = hn::MulAdd(by_ca, hn::Load(kTag, attended + k), LoadPart(grad_out + k, left));
        hn::Store(hn::MulAdd(by_cb, hn::Load(kTag, answer + k), through_a), kTag, context.at(row) + k);
        hn::Store(hn::MulAdd(by_ca, own, LoadPart(grad_out + d + k, left)), kTag, a.at(row) + k);
        hn::Store(hn::Mul(by_cb, own), kTag, b.at(row) + k);
      }
    }
  }
  Rows context, a, b;
};

// Through B = S̄·(S̿ᵀ·C): adds to the gradients by C and by S̄; returns that by S through S̿.
Rows ThroughDoubleSoftmax(const Sequence& sequence, ResultGradients& grads, Rows& grad_over_query) {
  Product<Store::kAdd>(grads.b, Transposed(sequence.summary), grad_over_query);
  const Rows grad_summary = ProductOfTransposed(sequence.over_query, grads.b);
  Product<Store::kAdd>(sequence.over_context, grad_summary, grads.context);
  const Rows grad_over_context = Product(sequence.context, Transposed(grad_summary));
  return SoftmaxOfColumnsGradient(sequence.over_context, grad_over_context);
}

// Through B = h̃ in every row: adds to the gradient by C; returns that by S through b.
Rows ThroughMaximum(const Sequence& sequence, ResultGradients& grads) {
  const int rows = sequence.context.rows;
  Rows grad_summary(1, sequence.context.columns), grad_b(1, rows), grad_largest(1, rows);
  std::fill_n(grad_summary.at(0), grad_summary.stride, 0.0f);
  std::fill_n(grad_b.at(0), grad_b.stride, 0.0f);
  for (int row = 0; row < rows; ++row) AddScaled(grads.b.at(row), 1.0f, grad_summary.stride, grad_summary.at(0));
  for (int row = 0; row < rows; ++row) {
    AddScaled(grad_summary.at(0), sequence.over_context.at(0)[row], grad_summary.stride, grads.context.at(row));
    grad_b.at(0)[row] = Dot(sequence.context.at(row), grad_summary.at(0), grad_summary.stride);
  }
  AddSoftmaxOfRowsGradient<false>(sequence.over_context, grad_b, grad_largest);
  Rows grad_scores(rows, sequence.query.rows);
  std::fill_n(grad_scores.at(0), int64_t{rows} * grad_scores.stride, 0.0f);
  for (int row = 0; row < rows; ++row)
    grad_scores.at(row)[sequence.first_largest[static_cast<size_t>(row)]] = grad_largest.at(0)[row];
  return grad_scores;
}

// Through S: the gradients by the question and by the weights, given that by S and that by the question so far.
void ThroughScores(const ContextQuery& call, const Sequence& sequence, const Rows& grad_scores, Rows& grad_query,
                   float* grad_weights) {
  const int64_t d = call.columns;
  const Rows grad_factors = ProductOfTransposed(grad_scores, sequence.context);  // [m, d]
  float *by_context = grad_weights, *by_query = by_context + d, *by_product = by_query + d;
  for (int j = 0; j < sequence.query.rows; ++j) {
    float total = 0;
    for (int row = 0; row < grad_scores.rows; ++row) total += grad_scores.at(row)[j];
    const float *q = sequence.query.at(j), *g = grad_factors.at(j);
    for (int64_t c = 0; c < d; ++c) {
      by_context[c] += g[c];
      by_query[c] += total * q[c];
      by_product[c] += g[c] * q[c];
      grad_query.at(j)[c] += call.product_weight[c] * g[c] + total * call.query_weight[c];
    }
  }
}

}  // namespace

// grad_weights: [3, d], of this sequence, zeros before.
void AttendSequenceBack(const ContextQueryGradient& call, int64_t b, float* grad_weights) {
  const Sequence sequence = Attend(call.forward, b);
  const int64_t d = call.forward.columns;
  const int64_t context_row = call.forward.cu_context[static_cast<size_t>(b)];
  const int64_t query_row = call.forward.cu_query[static_cast<size_t>(b)];
  ResultGradients grads(sequence, call.grad_out + context_row * 4 * d);
  Rows grad_over_query = Product(grads.a, Transposed(sequence.query));
  Rows grad_query = ProductOfTransposed(sequence.over_query, grads.a);
  Rows grad_scores = call.forward.kind == QueryToContext::kMaximum
                         ? ThroughMaximum(sequence, grads)
                         : ThroughDoubleSoftmax(sequence, grads, grad_over_query);
  AddSoftmaxOfRowsGradient<true>(sequence.over_query, grad_over_query, grad_scores);
  Product<Store::kAdd>(grad_scores, sequence.factors, grads.context);
  ThroughScores(call.forward, sequence, grad_scores, grad_query, grad_weights);
  for (int row = 0; row < grads.context.rows; ++row)
    std::copy_n(grads.context.at(row), d, call.grad_context + (context_row + row) * d);
  for (int row = 0; row < grad_query.rows; ++row)
    std::copy_n(grad_query.at(row), d, call.grad_query + (query_row + row) * d);
}

}  // namespace HWY_NAMESPACE
}  // namespace lshformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lshformer {
HWY_EXPORT(AttendSequence);
HWY_EXPORT(AttendSequenceBack);

void RunContextQuery(const ContextQuery& call, float* out) {
  ParallelFor(std::ssize(call.cu_context) - 1, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) HWY_DYNAMIC_DISPATCH(AttendSequence)(call, b, out);
  });
}

void RunContextQueryGradient(const ContextQueryGradient& call) {
  const int64_t sequences = std::ssize(call.forward.cu_context) - 1, columns = 3 * call.forward.columns;
  std::vector<float> partial(static_cast<size_t>(sequences * columns));
  ParallelFor(sequences, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      HWY_DYNAMIC_DISPATCH(AttendSequenceBack)(call, b, partial.data() + b * columns);
  });
  SumRows(partial.data(), columns, sequences, columns, call.grad_weights);
}

}  // namespace lshformer
#endif
