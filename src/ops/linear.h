// y = x · Wᵀ + b over packed rows.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "kernels/functions.h"
#include "kernels/precision.h"
#include "ops/token_split.h"
#include "ops/torch.h"

namespace lshformer {

class PackedLinear;

// One linear map, or several of the same input side by side (query, key and value: one product instead of three).
// x: [rows, in]; weights: [out_i, in]; biases: [out_i]; y: [rows, Σ out_i]. float32, contiguous.
//
// A row of y depends on that row of x alone, bit for bit (kernels/matmul.h). Without gradients the weights are used in
// the layout of oneDNN, panels or AMX tiles (kernels/packed_linear.h), packed on the first call and again whenever
// a weight's version counter or storage, the precision or the tiles in force changed or a call with gradients came
// between. Whoever writes weights through raw pointers
// outside of training steps must bump the version counter. Copies of a map share the packed weights. Safe to call from
// several threads.
//
// Rows may go from map to map, and through attention, in bfloat16: y rounded for whoever would round it, or on AMX
// tiles x as it would be rounded (RowType), so that no bit of a result behind them changes.
//
// With gradients and kBFloat16 the three products, forward and backward, take factors rounded to bfloat16, the weights
// afresh in each call, in AMX tiles where some are active; sums, results and gradients are float32, and so are the
// weights that an optimizer keeps. Those of kFloat32 are what kernels/matmul_precision.h says. kInt8 has no gradients:
// Error. `split`: the gradients of weights and biases are summed over its blocks, x being the rows that this process
// has.
class Linear {
 public:
  Linear(std::vector<torch::Tensor> weights, std::vector<torch::Tensor> biases);
  // type: of y; kBFloat16 without gradients and of x in float32.
  torch::Tensor operator()(const torch::Tensor& x, Precision precision = Precision::kFloat32,
                           torch::ScalarType type = torch::kFloat32, const TokenSplitPtr& split = nullptr) const;
  // f(y); without gradients f is applied to rows that the product has just written.
  torch::Tensor Then(UnaryFunction function, const torch::Tensor& x, Precision precision = Precision::kFloat32,
                     const TokenSplitPtr& split = nullptr) const;
  // second(f(y)); without gradients by pieces (RunBoth), so that the wide rows between the two products are
  // never all in memory.
  torch::Tensor Then(UnaryFunction function, const Linear& second, const torch::Tensor& x,
                     Precision precision = Precision::kFloat32, const TokenSplitPtr& split = nullptr) const;
  // second(f(a) · b), [a b] = y, likewise; without gradients the wide rows are never all in memory.
  torch::Tensor ThenGated(UnaryFunction function, const Linear& second, const torch::Tensor& x,
                          Precision precision = Precision::kFloat32, const TokenSplitPtr& split = nullptr) const;
  // The weights as inference uses them now, one object for all copies of a map; null: not packed since they changed or
  // had gradients.
  std::shared_ptr<const PackedLinear> packed() const;

 private:
  struct Packed;
  int64_t out() const;  // Σ out_i
  std::shared_ptr<const Packed> FindPacked(Precision precision) const;
  torch::Tensor WithGradients(const torch::Tensor& x, Precision precision, const TokenSplitPtr& split) const;
  torch::Tensor Infer(const torch::Tensor& x, Precision precision, std::optional<UnaryFunction> function,
                      torch::ScalarType type = torch::kFloat32) const;
  // Without gradients: `run` both maps, RunBoth or its like, whose second takes `inner` numbers a row.
  template <class Run>
  torch::Tensor InferBoth(const Linear& second, int64_t inner, const torch::Tensor& x, Precision precision,
                          const Run& run) const;
  std::vector<torch::Tensor> weights_, biases_;
  struct Cache;
  std::shared_ptr<Cache> cache_;
};

// What rows between two maps may be: kBFloat16 where both round them, without gradients, in AMX tiles; else
// kFloat32.
torch::ScalarType RowType(Precision precision);

// The same through torch alone: the oracle.
torch::Tensor LinearReference(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias);

}  // namespace lshformer
