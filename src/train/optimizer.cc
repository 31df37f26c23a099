#include "train/optimizer.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <new>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/orthogonalize.h"
#include "kernels/updates.h"
#include "train/gradient.h"

namespace lshformer {
namespace {

constexpr int64_t kBlock = kOptimizerBlock;

struct Block {
  size_t tensor;
  int64_t begin, end;
};

std::vector<Block> CutIntoBlocks(const NamedTensors& tensors, ElementRange own = {}) {
  std::vector<Block> blocks;
  int64_t before = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t elements = tensors[i].second.numel();
    for (int64_t begin = 0; begin < elements; begin += kBlock)
      if (before + begin >= own.begin && before + begin < own.end)
        blocks.push_back({i, begin, std::min(elements, begin + kBlock)});
    before += elements;
  }
  return blocks;
}

bool IsAll(ElementRange own) { return own.begin == 0 && own.end == INT64_MAX; }

// Zeros that take no memory before they are written: pages of the system's own.
torch::Tensor ZerosOnDemand(const torch::Tensor& like) {
  const auto bytes = static_cast<size_t>(std::max<int64_t>(1, static_cast<int64_t>(like.nbytes())));
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return torch::from_blob(
      memory, like.sizes(), [bytes](void* begin) { munmap(begin, bytes); }, torch::kFloat32);
}

torch::Tensor StateLike(const torch::Tensor& parameter, ElementRange own) {
  return IsAll(own) ? torch::zeros_like(parameter, torch::requires_grad(false)) : ZerosOnDemand(parameter);
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

// What all of them keep: two running means for each element.
class TwoMeansOptimizer : public Optimizer {
 public:
  TwoMeansOptimizer(const TrainingOptions& options, NamedTensors parameters, const std::vector<ParameterRole>& roles,
                    const char* first_name, const char* second_name, ElementRange own)
      : options_(options), parameters_(std::move(parameters)), first_name_(first_name), second_name_(second_name) {
    for (const auto& [name, parameter] : parameters_) {
      RequirePlainFloats(name, parameter);
      firsts_.push_back(StateLike(parameter, own));
      seconds_.push_back(StateLike(parameter, own));
    }
    for (const ParameterRole& role : roles) decays_.push_back(role.decays);
    blocks_ = CutIntoBlocks(parameters_, own);
  }

  void Step(double learning_rate, double gradient_scale) final {
    ++steps_;
    const std::vector<Gradient> gradients = GradientsOf(parameters_);
    Update(learning_rate, gradient_scale, gradients);
    // Whoever keeps something made from a weight (a packed copy) sees by its version that it changed.
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (gradients[i].defined()) parameters_[i].second.unsafeGetTensorImpl()->bump_version();
    }
  }

  NamedTensors State() const final {
    NamedTensors state;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      state.emplace_back(fmt::format("{}.{}", first_name_, parameters_[i].first), firsts_[i]);
      state.emplace_back(fmt::format("{}.{}", second_name_, parameters_[i].first), seconds_[i]);
    }
    return state;
  }

  int64_t steps() const final { return steps_; }
  void set_steps(int64_t steps) final { steps_ = steps; }

 protected:
  virtual void Update(double learning_rate, double gradient_scale, const std::vector<Gradient>& gradients) = 0;

  // A block's part of its tensor, and of its gradient and running means.
  struct Part {
    size_t block;
    bool decays;
    const Gradient& gradient;
    int64_t begin, end;                 // elements of the tensor
    float *parameter, *first, *second;  // at the tensor's first element
  };
  // Calls visit(Part) for every block with a gradient, on all threads.
  template <class Visit>
  void ForEachBlock(const std::vector<Gradient>& gradients, const Visit& visit) {
    ParallelFor(static_cast<int64_t>(blocks_.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto& [tensor, first, last] = blocks_[i];
        if (!gradients[tensor].defined()) continue;
        visit(Part{static_cast<size_t>(i), decays_[tensor], gradients[tensor], first, last,
                   parameters_[tensor].second.data_ptr<float>(), firsts_[tensor].data_ptr<float>(),
                   seconds_[tensor].data_ptr<float>()});
      }
    });
  }

  // Calls visit(gradient, parameter, first, second, count) for the pieces of a part; gradient: nullptr stands for
  // zeros.
  template <class Visit>
  static void ForEachPiece(const Part& part, const Visit& visit) {
    part.gradient.ForEachPiece(part.begin, part.end, [&](int64_t place, const float* gradient, int64_t count) {
      visit(gradient, part.parameter + place, part.first + place, part.second + place, count);
    });
  }

  const TrainingOptions& options() const { return options_; }
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  TrainingOptions options_;
  NamedTensors parameters_;
  const char *first_name_, *second_name_;
  std::vector<torch::Tensor> firsts_, seconds_;  // of the shapes of the parameters
  std::vector<bool> decays_;
  std::vector<Block> blocks_;
  int64_t steps_ = 0;
};

// Those of two moments of the gradient.
class MomentOptimizer : public TwoMeansOptimizer {
 public:
  MomentOptimizer(const TrainingOptions& options, NamedTensors parameters, const std::vector<ParameterRole>& roles,
                  ElementRange own = {})
      : TwoMeansOptimizer(options, std::move(parameters), roles, "exp_avg", "exp_avg_sq", own) {}

 protected:
  // Without bias correction and decay.
  AdamWUpdate PlainUpdate(double learning_rate, double gradient_scale) const {
    AdamWUpdate update;
    update.beta1 = static_cast<float>(options().adam_beta1);
    update.beta2 = static_cast<float>(options().adam_beta2);
    update.one_minus_beta1 = static_cast<float>(1 - options().adam_beta1);
    update.one_minus_beta2 = static_cast<float>(1 - options().adam_beta2);
    update.gradient_scale = static_cast<float>(gradient_scale);
    update.keep = 1;
    update.step_size = static_cast<float>(learning_rate);
    update.root_scale = 1;
    update.epsilon = static_cast<float>(options().adam_epsilon);
    return update;
  }
  static void Apply(const AdamWUpdate& update, const Part& part) {
    ForEachPiece(part, [&](const float* gradient, float* parameter, float* average, float* square, int64_t count) {
      UpdateAdamW(update, gradient, parameter, average, square, count);
    });
  }
  // With bias correction, without decay.
  AdamWUpdate CorrectedUpdate(double learning_rate, double gradient_scale) const {
    AdamWUpdate update = PlainUpdate(learning_rate, gradient_scale);
    const double t = static_cast<double>(steps());
    update.step_size = static_cast<float>(learning_rate / (1 - std::pow(options().adam_beta1, t)));
    update.root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(options().adam_beta2, t)));
    return update;
  }
};

class AdamW : public MomentOptimizer {
 public:
  using MomentOptimizer::MomentOptimizer;

 protected:
  void Update(double learning_rate, double gradient_scale, const std::vector<Gradient>& gradients) override {
    const bool corrected = options().optim != OptimizerType::kAdamWBert;
    const AdamWUpdate update =
        corrected ? CorrectedUpdate(learning_rate, gradient_scale) : PlainUpdate(learning_rate, gradient_scale);
    AdamWUpdate decaying = update;
    decaying.keep = static_cast<float>(1 - learning_rate * options().weight_decay);
    ForEachBlock(gradients, [&](const Part& part) { Apply(part.decays ? decaying : update, part); });
  }
};

class Adam : public MomentOptimizer {
 public:
  using MomentOptimizer::MomentOptimizer;

 protected:
  void Update(double learning_rate, double gradient_scale, const std::vector<Gradient>& gradients) override {
    const AdamWUpdate update = CorrectedUpdate(learning_rate, gradient_scale);
    const auto decay = static_cast<float>(options().weight_decay);
    ForEachBlock(gradients, [&](const Part& part) {
      if (!part.decays) return Apply(update, part);
      ForEachPiece(part, [&](const float* gradient, float* parameter, float* average, float* square, int64_t count) {
        UpdateAdam(update, decay, gradient, parameter, average, square, count);
      });
    });
  }
};

class Adadelta : public TwoMeansOptimizer {
 public:
  Adadelta(const TrainingOptions& options, NamedTensors parameters, const std::vector<ParameterRole>& roles,
           ElementRange own)
      : TwoMeansOptimizer(options, std::move(parameters), roles, "square_avg", "acc_delta", own) {}

 protected:
  void Update(double learning_rate, double gradient_scale, const std::vector<Gradient>& gradients) override {
    const AdadeltaUpdate update{.rho = static_cast<float>(options().adadelta_rho),
                                .one_minus_rho = static_cast<float>(1 - options().adadelta_rho),
                                .gradient_scale = static_cast<float>(gradient_scale),
                                .decay = 0,
                                .learning_rate = static_cast<float>(learning_rate),
                                .epsilon = static_cast<float>(options().adadelta_epsilon)};
    AdadeltaUpdate decaying = update;
    decaying.decay = static_cast<float>(options().weight_decay);
    ForEachBlock(gradients, [&](const Part& part) {
      ForEachPiece(part, [&](const float* gradient, float* parameter, float* square, float* delta, int64_t count) {
        UpdateAdadelta(part.decays ? decaying : update, gradient, parameter, square, delta, count);
      });
    });
  }
};

class Lamb : public MomentOptimizer {
 public:
  using MomentOptimizer::MomentOptimizer;

 protected:
  void Update(double learning_rate, double gradient_scale, const std::vector<Gradient>& gradients) override {
    const AdamWUpdate plain = PlainUpdate(learning_rate, gradient_scale);
    const LambUpdate update{plain.beta1,           plain.beta2,          plain.one_minus_beta1,
                            plain.one_minus_beta2, plain.gradient_scale, static_cast<float>(options().weight_decay),
                            plain.epsilon};
    std::vector<LambSquares> squares(blocks().size());
    ForEachBlock(gradients, [&](const Part& part) {
      if (!part.decays) return Apply(plain, part);
      // A sum over lanes: unlike an update, it must not be cut where a sparse gradient's rows end.
      std::vector<float> room;
      squares[part.block] =
          UpdateLambMoments(update, part.gradient.InOnePiece(part.begin, part.end, room), part.parameter + part.begin,
                            part.first + part.begin, part.second + part.begin, part.end - part.begin);
    });
    const std::vector<float> step_sizes = StepSizes(learning_rate, squares, gradients.size());
    ForEachBlock(gradients, [&](const Part& part) {
      if (part.decays)
        StepLamb(update, step_sizes[blocks()[part.block].tensor], part.first + part.begin, part.second + part.begin,
                 part.parameter + part.begin, part.end - part.begin);
    });
  }

 private:
  // learning_rate · ‖w‖ / ‖u‖ of each parameter.
  std::vector<float> StepSizes(double learning_rate, const std::vector<LambSquares>& squares, size_t parameters) const {
    std::vector<LambSquares> sums(parameters);
    for (size_t i = 0; i < squares.size(); ++i) {
      sums[blocks()[i].tensor].parameter += squares[i].parameter;
      sums[blocks()[i].tensor].update += squares[i].update;
    }
    std::vector<float> sizes;
    for (const auto& [parameter, update] : sums) {
      const double ratio = parameter > 0 && update > 0 ? std::sqrt(parameter) / std::sqrt(update) : 1;
      sizes.push_back(static_cast<float>(learning_rate * ratio));
    }
    return sizes;
  }
};

// The maps of layers one after another, each on all threads; all else is AdamW's.
class Muon : public Optimizer {
 public:
  Muon(const TrainingOptions& options, const NamedTensors& parameters, const std::vector<ParameterRole>& roles)
      : weight_decay_(options.weight_decay) {
    NamedTensors others;
    std::vector<ParameterRole> roles_of_others;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto& [name, parameter] = parameters[i];
      is_map_.push_back(roles[i].layer_map);
      if (!roles[i].layer_map) {
        others.push_back(parameters[i]);
        roles_of_others.push_back(roles[i]);
        continue;
      }
      RequirePlainFloats(name, parameter);
      maps_.push_back(parameters[i]);
      decays_.push_back(roles[i].decays);
      buffers_.push_back(torch::zeros_like(parameter, torch::requires_grad(false)));
    }
    if (maps_.empty())
      FailOption("optim", "muon is for the maps of attention and feed-forward, of which there are none");
    others_ = std::make_unique<AdamW>(options, std::move(others), roles_of_others);
  }

  void Step(double learning_rate, double gradient_scale) override {
    others_->Step(learning_rate, gradient_scale);
    const std::vector<Gradient> gradients = GradientsOf(maps_);
    for (size_t i = 0; i < maps_.size(); ++i) {
      if (!gradients[i].defined()) continue;
      StepMap(i, gradients[i], learning_rate, gradient_scale);
      maps_[i].second.unsafeGetTensorImpl()->bump_version();  // as TwoMeansOptimizer
    }
  }

  NamedTensors State() const override {
    NamedTensors state;
    const NamedTensors of_others = others_->State();
    auto other = of_others.begin();
    size_t map = 0;
    for (const bool is_map : is_map_) {
      if (is_map) {
        state.emplace_back("momentum_buffer." + maps_[map].first, buffers_[map]);
        ++map;
      } else {
        state.insert(state.end(), other, other + 2);
        other += 2;
      }
    }
    return state;
  }

  int64_t steps() const override { return others_->steps(); }
  void set_steps(int64_t steps) override { others_->set_steps(steps); }

 private:
  static constexpr double kMomentum = 0.95;  // the method's
  static constexpr double kRootMeanSquare = 0.2;

  void StepMap(size_t map, const Gradient& gradient, double learning_rate, double gradient_scale) {
    const torch::Tensor& weight = maps_[map].second;
    const int64_t rows = weight.size(0), columns = weight.size(1), elements = weight.numel();
    const MuonUpdate update{.momentum = static_cast<float>(kMomentum),
                            .one_minus_momentum = static_cast<float>(1 - kMomentum),
                            .gradient_scale = static_cast<float>(gradient_scale)};
    direction_.resize(std::max(direction_.size(), static_cast<size_t>(elements)));
    float *direction = direction_.data(), *buffer = buffers_[map].data_ptr<float>();
    ParallelFor(elements, kBlock, [&](int64_t begin, int64_t end) {
      gradient.ForEachPiece(begin, end, [&](int64_t place, const float* values, int64_t count) {
        UpdateMuonMomentum(update, values, buffer + place, direction + place, count);
      });
    });
    Orthogonalize(rows, columns, direction);
    const double scale = kRootMeanSquare * std::sqrt(static_cast<double>(std::max(rows, columns)));
    const auto step_size = static_cast<float>(learning_rate * scale);
    const auto keep = static_cast<float>(decays_[map] ? 1 - learning_rate * weight_decay_ : 1);
    auto* parameter = weight.data_ptr<float>();
    ParallelFor(elements, kBlock, [&](int64_t begin, int64_t end) {
      StepAlong(keep, step_size, direction + begin, parameter + begin, end - begin);
    });
  }

  double weight_decay_;
  std::vector<bool> is_map_;            // of all parameters
  NamedTensors maps_;                   // of two dimensions
  std::vector<bool> decays_;            // of the maps
  std::vector<torch::Tensor> buffers_;  // of their shapes
  std::vector<float> direction_;        // as large as the largest map
  std::unique_ptr<AdamW> others_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeOptimizer(const TrainingOptions& options, NamedTensors parameters,
                                         const std::vector<ParameterRole>& roles, ElementRange own) {
  if (roles.size() != parameters.size()) Fail("{} parameters and the roles of {}", parameters.size(), roles.size());
  switch (options.optim) {
    case OptimizerType::kAdamW:
    case OptimizerType::kAdamWBert:
      return std::make_unique<AdamW>(options, std::move(parameters), roles, own);
    case OptimizerType::kLamb:
      return std::make_unique<Lamb>(options, std::move(parameters), roles);
    case OptimizerType::kAdam:
      return std::make_unique<Adam>(options, std::move(parameters), roles, own);
    case OptimizerType::kAdadelta:
      return std::make_unique<Adadelta>(options, std::move(parameters), roles, own);
    case OptimizerType::kMuon:
      return std::make_unique<Muon>(options, parameters, roles);
  }
  Fail("unknown optimizer");
}

void ForgetOthers(Optimizer& optimizer, const NamedTensors& parameters, ElementRange own) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto drop = [&](float* values, int64_t begin, int64_t end) {
    if (begin >= end) return;
    // Whole pages go; what shares a page with others is written.
    const auto first = reinterpret_cast<uintptr_t>(values + begin), last = reinterpret_cast<uintptr_t>(values + end);
    const uintptr_t whole = (first + page - 1) / page * page, behind = last / page * page;
    if (whole >= behind) return std::fill(values + begin, values + end, 0.0f);
    std::fill(values + begin, reinterpret_cast<float*>(whole), 0.0f);
    std::fill(reinterpret_cast<float*>(behind), values + end, 0.0f);
    madvise(reinterpret_cast<void*>(whole), behind - whole, MADV_DONTNEED);
  };
  const NamedTensors state = optimizer.State();
  const size_t each = state.size() / std::max<size_t>(1, parameters.size());
  int64_t before = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int64_t elements = parameters[i].second.numel();
    const int64_t begin = std::clamp<int64_t>(own.begin - before, 0, elements),
                  end = std::clamp<int64_t>(own.end - before, begin, elements);
    for (size_t k = 0; k < each; ++k) {
      auto* values = state[i * each + k].second.data_ptr<float>();
      drop(values, 0, begin);
      drop(values, end, elements);
    }
    before += elements;
  }
}

std::vector<double> GradientSquares(const NamedTensors& parameters, ElementRange own) {
  return BlockSums(CutIntoBlocks(parameters, own), GradientsOf(parameters));
}

double GradientNorm(const NamedTensors& parameters) { return NormOf(parameters, GradientsOf(parameters)); }

ParameterNorms NormsByParameter(const NamedTensors& parameters) {
  return {NormsOf(parameters, ElementsOf(parameters)), NormsOf(parameters, GradientsOf(parameters))};
}

double ClipScale(double norm, double max_norm) { return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0; }

bool AllFinite(const NamedTensors& tensors) { return std::isfinite(NormOf(tensors, ElementsOf(tensors))); }

}  // namespace lshformer
