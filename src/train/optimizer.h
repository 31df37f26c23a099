// Optimizers: one interface, updates fused over all parameters and all threads.
//
// Every update is a function of parameter, gradient and state alone, element by element, beside them at most of norms
// that are added up in blocks of fixed size (muon: of products that have one order of summation): so a result does not
// depend on the number of threads.
//
// adamw, adamw_bert: AdamWUpdate (kernels/updates.h), with bias correction and without.
// adam: UpdateAdam for what decays, AdamWUpdate with bias correction and without decay for the rest.
// adadelta: AdadeltaUpdate; its rate multiplies Δ, so that it is large (PyTorch 1, BiDAF 0.5).
// lamb: per parameter with decay, w ← w − learning_rate · r · u, u = m / (√v + ε) + weight_decay · w without bias
//   correction, r = ‖w‖ / ‖u‖, 1 where one of them is 0. A parameter that does not decay (biases, LayerNorm) takes
//   w ← w − learning_rate · m / (√v + ε). Source: ALBERT's lamb_optimizer.py.
// muon: of a layer's map W: [rows, columns] (ParameterRole::layer_map), with the momentum M, µ = 0.95:
//     M ← µ M + (1 − µ) g,   O = Orthogonalize(µ M + (1 − µ) g)        (kernels/orthogonalize.h)
//     W ← (1 − learning_rate · weight_decay) W − learning_rate · 0.2 · √max(rows, columns) · O
//   O's elements have a root mean square of about 1 / √max(rows, columns), so those of the update have 0.2, as AdamW's
//   usually have, and one learning rate serves both. All other parameters are adamw's. Sources: Keller Jordan et al.,
//   "Muon: an optimizer for hidden layers in neural networks", 2024; for scale and decay Liu et al. (Moonshot AI),
//   "Muon is scalable for LLM training", 2025.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/parameters.h"
#include "ops/torch.h"
#include "train/options.h"

namespace lshformer {

// float32, contiguous, under their HF names.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

// Elements of a parameter that are updated and added up together: big enough that handing out such a block costs
// nothing beside its work, small enough to share one embedding table among many threads. Also the unit in which norms
// are added up, so part of what "bit for bit" means.
inline constexpr int64_t kOptimizerBlock = 1 << 15;

// Of all elements of the parameters, one behind another, those [begin, end), bounds of blocks.
struct ElementRange {
  int64_t begin = 0, end = INT64_MAX;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // One update with gradients multiplied by `gradient_scale`. Parameters without a gradient stay as they are; one that
  // is sparse by rows (gradient.h) makes the update that the same numbers make as a dense one: other rows decay too.
  virtual void Step(double learning_rate, double gradient_scale) = 0;
  // The state, by name ("exp_avg.NAME" and "exp_avg_sq.NAME", of adadelta "square_avg.NAME" and "acc_delta.NAME", of
  // muon's maps "momentum_buffer.NAME" alone), in parameter order. The tensors are the state itself: whoever copies
  // into them restores it.
  virtual NamedTensors State() const = 0;
  virtual int64_t steps() const = 0;
  virtual void set_steps(int64_t steps) = 0;
};

// roles: of the parameters, in their order; Error if there are more or fewer, OptionError of muon where none is a
// layer's map. `own`: the elements that Step updates; the state of all others takes no memory until somebody writes it
// (not of lamb and muon, which look at whole parameters).
std::unique_ptr<Optimizer> MakeOptimizer(const TrainingOptions& options, NamedTensors parameters,
                                         const std::vector<ParameterRole>& roles, ElementRange own = {});

// Gives the memory of what is outside of `own` back; it is 0 from then on. Of a state that MakeOptimizer made for them.
void ForgetOthers(Optimizer& optimizer, const NamedTensors& parameters, ElementRange own);

// Norms are √Σ x², summed in double over blocks of fixed size: the same for any number of threads.

// Of all gradients together.
double GradientNorm(const NamedTensors& parameters);
// Σ x² of the gradients in each block of `own`, in their order; GradientNorm is the root of the sum of all, in order.
std::vector<double> GradientSquares(const NamedTensors& parameters, ElementRange own);

// Of each parameter and its gradient, [parameters]; 0 where there is no gradient. Each number is
// read once.
struct ParameterNorms {
  std::vector<double> weights, gradients;
};
ParameterNorms NormsByParameter(const NamedTensors& parameters);

// torch.nn.utils.clip_grad_norm_: min(1, max_norm / (norm + 1e-6)); 1 where max_norm is 0.
double ClipScale(double norm, double max_norm);

bool AllFinite(const NamedTensors& tensors);

}  // namespace lshformer
