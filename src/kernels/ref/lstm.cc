#include "kernels/ref/lstm.h"

#include <algorithm>
#include <cmath>

namespace lshformer::ref {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The rows of sequence b in the order of the loop.
std::vector<int64_t> Steps(const LstmInputs& in, size_t b) {
  std::vector<int64_t> rows;
  for (int64_t row = in.cu_seqlens[b]; row < in.cu_seqlens[b + 1]; ++row) rows.push_back(row);
  if (in.from_last_row) std::reverse(rows.begin(), rows.end());
  return rows;
}

}  // namespace

LstmResult RunLstm(const LstmInputs& in) {
  const int64_t d = in.units, numbers = std::ssize(in.sums) / 4;
  LstmResult r;
  for (std::vector<double>* of_units : {&r.hidden, &r.cells, &r.before})
    of_units->assign(static_cast<size_t>(numbers), 0.0);
  r.gates.assign(in.sums.size(), 0.0);
  for (size_t b = 0; b + 1 < in.cu_seqlens.size(); ++b) {
    std::vector<double> h(static_cast<size_t>(d)), c(h);
    for (const int64_t row : Steps(in, b)) {
      std::copy(h.begin(), h.end(), r.before.begin() + row * d);
      std::vector<double> gates(in.sums.begin() + row * 4 * d, in.sums.begin() + (row + 1) * 4 * d);
      for (int64_t g = 0; g < 4 * d; ++g) {
        for (int64_t k = 0; k < d; ++k) gates[g] += in.recurrent[g * d + k] * h[k];
        gates[g] = g / d == 2 ? std::tanh(gates[g]) : Sigmoid(gates[g]);
      }
      for (int64_t u = 0; u < d; ++u) {
        c[u] = gates[d + u] * c[u] + gates[u] * gates[2 * d + u];
        h[u] = gates[3 * d + u] * std::tanh(c[u]);
      }
      std::copy(h.begin(), h.end(), r.hidden.begin() + row * d);
      std::copy(c.begin(), c.end(), r.cells.begin() + row * d);
      std::copy(gates.begin(), gates.end(), r.gates.begin() + row * 4 * d);
    }
  }
  return r;
}

LstmGradients RunLstmGradient(const LstmInputs& in, std::span<const double> grad_hidden) {
  const LstmResult r = RunLstm(in);
  const int64_t d = in.units;
  LstmGradients grads{std::vector<double>(in.sums.size()), std::vector<double>(in.recurrent.size())};
  for (size_t b = 0; b + 1 < in.cu_seqlens.size(); ++b) {
    const std::vector<int64_t> steps = Steps(in, b);
    std::vector<double> by_h(static_cast<size_t>(d)), by_c(by_h);  // through the steps behind
    for (size_t t = steps.size(); t-- > 0;) {
      const int64_t row = steps[t];
      const double* gate = r.gates.data() + row * 4 * d;
      double* by_sum = grads.sums.data() + row * 4 * d;
      for (int64_t u = 0; u < d; ++u) {
        const double i = gate[u], f = gate[d + u], g = gate[2 * d + u], o = gate[3 * d + u];
        const double tanh_c = std::tanh(r.cells[row * d + u]), c_before = t == 0 ? 0 : r.cells[steps[t - 1] * d + u];
        const double dh = grad_hidden[row * d + u] + by_h[u], dc = by_c[u] + dh * o * (1 - tanh_c * tanh_c);
        by_sum[u] = dc * g * i * (1 - i);
        by_sum[d + u] = dc * c_before * f * (1 - f);
        by_sum[2 * d + u] = dc * i * (1 - g * g);
        by_sum[3 * d + u] = dh * tanh_c * o * (1 - o);
        by_c[u] = dc * f;
      }
      std::fill(by_h.begin(), by_h.end(), 0.0);
      for (int64_t s = 0; s < 4 * d; ++s) {
        for (int64_t k = 0; k < d; ++k) {
          by_h[k] += in.recurrent[s * d + k] * by_sum[s];
          grads.recurrent[s * d + k] += r.before[row * d + k] * by_sum[s];
        }
      }
    }
  }
  return grads;
}

}  // namespace lshformer::ref
