#include "kernels/ref/context_query.h"

#include <algorithm>
#include <cmath>

namespace lshformer::ref {
namespace {

struct Table {
  Table(size_t rows, size_t columns) : rows(rows), columns(columns), numbers(rows * columns) {}
  double& operator()(size_t row, size_t column) { return numbers[row * columns + column]; }
  double operator()(size_t row, size_t column) const { return numbers[row * columns + column]; }
  size_t rows, columns;
  std::vector<double> numbers;
};

Table RowsOf(std::span<const double> x, std::span<const int32_t> borders, size_t b, int64_t columns) {
  Table rows(static_cast<size_t>(borders[b + 1] - borders[b]), static_cast<size_t>(columns));
  std::copy_n(x.begin() + borders[b] * columns, rows.numbers.size(), rows.numbers.begin());
  return rows;
}

Table Turned(const Table& x) {
  Table turned(x.columns, x.rows);
  for (size_t i = 0; i < x.rows; ++i)
    for (size_t j = 0; j < x.columns; ++j) turned(j, i) = x(i, j);
  return turned;
}

Table Product(const Table& a, const Table& b) {
  Table c(a.rows, b.columns);
  for (size_t i = 0; i < a.rows; ++i)
    for (size_t k = 0; k < a.columns; ++k)
      for (size_t j = 0; j < b.columns; ++j) c(i, j) += a(i, k) * b(k, j);
  return c;
}

void Add(const Table& x, Table& sum) {
  for (size_t i = 0; i < x.numbers.size(); ++i) sum.numbers[i] += x.numbers[i];
}

Table SoftmaxOfRows(const Table& scores) {
  Table p = scores;
  for (size_t i = 0; i < p.rows; ++i) {
    double largest = p(i, 0), sum = 0;
    for (size_t j = 1; j < p.columns; ++j) largest = std::max(largest, p(i, j));
    for (size_t j = 0; j < p.columns; ++j) sum += p(i, j) = std::exp(p(i, j) - largest);
    for (size_t j = 0; j < p.columns; ++j) p(i, j) /= sum;
  }
  return p;
}

// The gradient by the scores, given that by their softmax.
Table ThroughSoftmax(const Table& p, const Table& grad_p) {
  Table grad(p.rows, p.columns);
  for (size_t i = 0; i < p.rows; ++i) {
    double mean = 0;
    for (size_t j = 0; j < p.columns; ++j) mean += p(i, j) * grad_p(i, j);
    for (size_t j = 0; j < p.columns; ++j) grad(i, j) = p(i, j) * (grad_p(i, j) - mean);
  }
  return grad;
}

// One sequence.
struct Attended {
  Attended(const ContextQueryInputs& in, size_t b)
      : context(RowsOf(in.context, in.cu_context, b, in.columns)),
        query(RowsOf(in.query, in.cu_query, b, in.columns)),
        scores(context.rows, query.rows),
        over_query(0, 0),
        a(0, 0),
        over_context(0, 0),
        b(context.rows, context.columns) {
    for (size_t t = 0; t < context.rows; ++t)
      for (size_t j = 0; j < query.rows; ++j)
        for (size_t k = 0; k < context.columns; ++k)
          scores(t, j) += in.context_weight[k] * context(t, k) + in.query_weight[k] * query(j, k) +
                          in.product_weight[k] * context(t, k) * query(j, k);
    over_query = SoftmaxOfRows(scores);
    a = Product(over_query, query);
    if (in.kind == QueryToContext::kDoubleSoftmax) {
      over_context = Turned(SoftmaxOfRows(Turned(scores)));
      this->b = Product(over_query, Product(Turned(over_context), context));
      return;
    }
    Table largest(1, context.rows);
    for (size_t t = 0; t < context.rows; ++t) {
      size_t first = 0;
      for (size_t j = 1; j < query.rows; ++j)
        if (scores(t, j) > scores(t, first)) first = j;
      first_largest.push_back(first);
      largest(0, t) = scores(t, first);
    }
    over_context = SoftmaxOfRows(largest);
    const Table summary = Product(over_context, context);
    for (size_t t = 0; t < context.rows; ++t)
      for (size_t k = 0; k < context.columns; ++k) this->b(t, k) = summary(0, k);
  }
  Table context, query, scores, over_query, a;
  Table over_context;  // [n, m]; of the maximum [1, n]
  Table b;
  std::vector<size_t> first_largest;
};

// Through B: adds to the gradients by the context and by S̄; returns the rest of the gradient by the scores.
Table ThroughB(const ContextQueryInputs& in, const Attended& s, const Table& grad_b, Table& grad_context,
               Table& grad_over_query) {
  if (in.kind == QueryToContext::kDoubleSoftmax) {
    const Table summary = Product(Turned(s.over_context), s.context);  // [m, d]
    Add(Product(grad_b, Turned(summary)), grad_over_query);
    const Table grad_summary = Product(Turned(s.over_query), grad_b);
    Add(Product(s.over_context, grad_summary), grad_context);
    const Table grad_over_context = Product(s.context, Turned(grad_summary));
    return Turned(ThroughSoftmax(Turned(s.over_context), Turned(grad_over_context)));
  }
  Table grad_summary(1, s.context.columns), grad_scores(s.scores.rows, s.scores.columns);
  for (size_t t = 0; t < s.context.rows; ++t)
    for (size_t k = 0; k < s.context.columns; ++k) grad_summary(0, k) += grad_b(t, k);
  Add(Product(Turned(s.over_context), grad_summary), grad_context);
  const Table grad_largest = ThroughSoftmax(s.over_context, Product(grad_summary, Turned(s.context)));
  for (size_t t = 0; t < s.context.rows; ++t) grad_scores(t, s.first_largest[t]) = grad_largest(0, t);
  return grad_scores;
}

}  // namespace

std::vector<double> RunContextQuery(const ContextQueryInputs& in) {
  std::vector<double> out;
  for (size_t b = 0; b + 1 < in.cu_context.size(); ++b) {
    const Attended s(in, b);
    for (size_t t = 0; t < s.context.rows; ++t)
      for (int part = 0; part < 4; ++part)
        for (size_t k = 0; k < s.context.columns; ++k) {
          const double c = s.context(t, k);
          out.push_back(part == 0 ? c : part == 1 ? s.a(t, k) : part == 2 ? c * s.a(t, k) : c * s.b(t, k));
        }
  }
  return out;
}

ContextQueryGradients RunContextQueryGradient(const ContextQueryInputs& in, std::span<const double> grad_out) {
  const auto d = static_cast<size_t>(in.columns);
  ContextQueryGradients grads{{}, {}, std::vector<double>(d), std::vector<double>(d), std::vector<double>(d)};
  for (size_t b = 0; b + 1 < in.cu_context.size(); ++b) {
    const Attended s(in, b);
    const size_t n = s.context.rows, m = s.query.rows;
    Table grad_context(n, d), grad_a(n, d), grad_b(n, d);
    for (size_t t = 0; t < n; ++t)
      for (size_t k = 0; k < d; ++k) {
        const double* g = grad_out.data() + (in.cu_context[b] + t) * 4 * d + k;
        grad_context(t, k) = g[0] + g[2 * d] * s.a(t, k) + g[3 * d] * s.b(t, k);
        grad_a(t, k) = g[d] + g[2 * d] * s.context(t, k);
        grad_b(t, k) = g[3 * d] * s.context(t, k);
      }
    Table grad_over_query = Product(grad_a, Turned(s.query)), grad_query = Product(Turned(s.over_query), grad_a);
    Table grad_scores = ThroughB(in, s, grad_b, grad_context, grad_over_query);
    Add(ThroughSoftmax(s.over_query, grad_over_query), grad_scores);
    for (size_t t = 0; t < n; ++t)
      for (size_t j = 0; j < m; ++j)
        for (size_t k = 0; k < d; ++k) {
          const double g = grad_scores(t, j), c = s.context(t, k), q = s.query(j, k);
          grad_context(t, k) += g * (in.context_weight[k] + in.product_weight[k] * q);
          grad_query(j, k) += g * (in.query_weight[k] + in.product_weight[k] * c);
          grads.context_weight[k] += g * c;
          grads.query_weight[k] += g * q;
          grads.product_weight[k] += g * c * q;
        }
    grads.context.insert(grads.context.end(), grad_context.numbers.begin(), grad_context.numbers.end());
    grads.query.insert(grads.query.end(), grad_query.numbers.begin(), grad_query.numbers.end());
  }
  return grads;
}

}  // namespace lshformer::ref
