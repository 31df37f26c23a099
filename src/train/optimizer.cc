#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/parallel.h"
#include "train/gradient.h"
#include "train/update_kernels.h"

namespace lshformer {
namespace {

// Big enough that handing out a block costs nothing beside its work, small enough to share one embedding table among
// many threads. Also the unit in which norms are added up, so part of what "bit for bit" means.
constexpr int64_t kBlock = 1 << 15;

struct Block {
  size_t tensor;
  int64_t begin, end;
};

std::vector<Block> CutIntoBlocks(const NamedTensors& tensors) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t elements = tensors[i].second.numel();
    for (int64_t begin = 0; begin < elements; begin += kBlock)
      blocks.push_back({i, begin, std::min(elements, begin + kBlock)});
  }
  return blocks;
}

void RequirePlainFloats(const std::string& name, const torch::Tensor& tensor) {
  if (tensor.scalar_type() != torch::kFloat32 || !tensor.is_contiguous())
    Fail("parameter \"{}\": expected a contiguous float32 tensor", name);
}

// Σ x² of each block; `elements` are the numbers of the tensors, in a sparse gradient fewer than its shape says.
std::vector<double> BlockSums(const std::vector<Block>& blocks, const std::vector<Gradient>& elements) {
  std::vector<double> sums(blocks.size());
  ParallelFor(static_cast<int64_t>(blocks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Block& block = blocks[i];
      if (elements[block.tensor].defined()) sums[i] = elements[block.tensor].SumOfSquares(block.begin, block.end);
    }
  });
  return sums;
}

// Of all tensors together.
double NormOf(const NamedTensors& tensors, const std::vector<Gradient>& elements) {
  double sum = 0;
  for (const double part : BlockSums(CutIntoBlocks(tensors), elements)) sum += part;
  return std::sqrt(sum);
}

// Of each.
std::vector<double> NormsOf(const NamedTensors& tensors, const std::vector<Gradient>& elements) {
  const std::vector<Block> blocks = CutIntoBlocks(tensors);
  const std::vector<double> sums = BlockSums(blocks, elements);
  std::vector<double> norms(tensors.size());
  for (size_t i = 0; i < blocks.size(); ++i) norms[blocks[i].tensor] += sums[i];
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

// The tensors' own numbers.
std::vector<Gradient> ElementsOf(const NamedTensors& tensors) {
  std::vector<Gradient> elements;
  elements.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) elements.emplace_back(tensor);
  return elements;
}

std::vector<Gradient> GradientsOf(const NamedTensors& parameters) {
  std::vector<Gradient> gradients;
  gradients.reserve(parameters.size());
  for (const auto& [name, parameter] : parameters) gradients.emplace_back(parameter.grad());
  return gradients;
}

class AdamW : public Optimizer {
 public:
  AdamW(const TrainingOptions& options, NamedTensors parameters, const std::vector<ParameterRole>& roles)
      : options_(options), parameters_(std::move(parameters)) {
    for (const auto& [name, parameter] : parameters_) {
      RequirePlainFloats(name, parameter);
      averages_.push_back(torch::zeros_like(parameter, torch::requires_grad(false)));
      squares_.push_back(torch::zeros_like(parameter, torch::requires_grad(false)));
    }
    for (const ParameterRole& role : roles) decays_.push_back(role.decays);
    blocks_ = CutIntoBlocks(parameters_);
  }

  void Step(double learning_rate, double gradient_scale) override {
    ++steps_;
    const double t = static_cast<double>(steps_);
    const bool corrects = options_.optim == OptimizerType::kAdamW;
    const double correction1 = corrects ? 1 - std::pow(options_.adam_beta1, t) : 1,
                 correction2 = corrects ? 1 - std::pow(options_.adam_beta2, t) : 1;
    AdamWUpdate update;
    update.beta1 = static_cast<float>(options_.adam_beta1);
    update.beta2 = static_cast<float>(options_.adam_beta2);
    update.one_minus_beta1 = static_cast<float>(1 - options_.adam_beta1);
    update.one_minus_beta2 = static_cast<float>(1 - options_.adam_beta2);
    update.gradient_scale = static_cast<float>(gradient_scale);
    update.keep = 1;
    update.step_size = static_cast<float>(learning_rate / correction1);
    update.root_scale = static_cast<float>(1 / std::sqrt(correction2));
    update.epsilon = static_cast<float>(options_.adam_epsilon);
    AdamWUpdate decaying = update;
    decaying.keep = static_cast<float>(1 - learning_rate * options_.weight_decay);

    const std::vector<Gradient> gradients = GradientsOf(parameters_);
    ParallelFor(static_cast<int64_t>(blocks_.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Block& block = blocks_[i];
        if (!gradients[block.tensor].defined()) continue;
        float* parameter = parameters_[block.tensor].second.data_ptr<float>();
        float* average = averages_[block.tensor].data_ptr<float>();
        float* square = squares_[block.tensor].data_ptr<float>();
        gradients[block.tensor].ForEachPiece(block.begin, block.end,
                                             [&](int64_t place, const float* gradient, int64_t count) {
                                               UpdateAdamW(decays_[block.tensor] ? decaying : update, gradient,
                                                           parameter + place, average + place, square + place, count);
                                             });
      }
    });
    // Whoever keeps something made from a weight (a packed copy) sees by its version that it changed.
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (gradients[i].defined()) parameters_[i].second.unsafeGetTensorImpl()->bump_version();
    }
  }

  NamedTensors State() const override {
    NamedTensors state;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      state.emplace_back("exp_avg." + parameters_[i].first, averages_[i]);
      state.emplace_back("exp_avg_sq." + parameters_[i].first, squares_[i]);
    }
    return state;
  }

  int64_t steps() const override { return steps_; }
  void set_steps(int64_t steps) override { steps_ = steps; }

 private:
  TrainingOptions options_;
  NamedTensors parameters_;
  std::vector<torch::Tensor> averages_, squares_;  // of the shapes of the parameters
  std::vector<bool> decays_;
  std::vector<Block> blocks_;
  int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> MakeOptimizer(const TrainingOptions& options, NamedTensors parameters,
                                         const std::vector<ParameterRole>& roles) {
  if (roles.size() != parameters.size()) Fail("{} parameters and the roles of {}", parameters.size(), roles.size());
  switch (options.optim) {
    case OptimizerType::kAdamW:
    case OptimizerType::kAdamWBert:
      return std::make_unique<AdamW>(options, std::move(parameters), roles);
  }
  Fail("unknown optimizer");
}

double GradientNorm(const NamedTensors& parameters) { return NormOf(parameters, GradientsOf(parameters)); }

ParameterNorms NormsByParameter(const NamedTensors& parameters) {
  return {NormsOf(parameters, ElementsOf(parameters)), NormsOf(parameters, GradientsOf(parameters))};
}

double ClipScale(double norm, double max_norm) { return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0; }

bool AllFinite(const NamedTensors& tensors) { return std::isfinite(NormOf(tensors, ElementsOf(tensors))); }

}  // namespace lshformer
