// The element-wise work of optimizers on plain arrays, vectorised for every instruction set (Highway's dynamic
// dispatch). Lanes do not meet: element i of a result depends on element i of the inputs alone (sums excepted).
#pragma once
#include <cstdint>

namespace lshformer {

// AdamW with bias correction and decoupled decay (Loshchilov and Hutter, "Decoupled weight decay regularization",
// 2019):
//   g = gradient_scale · gradient
//   exp_avg    = β₁ exp_avg    + (1 − β₁) g
//   exp_avg_sq = β₂ exp_avg_sq + (1 − β₂) g²
//   parameter  = keep · parameter − step_size · exp_avg / (√exp_avg_sq · root_scale + epsilon)
struct AdamWUpdate {
  float beta1, beta2;
  float one_minus_beta1, one_minus_beta2;  // rounded from double: 1 − 0.999f has only 14 good bits
  float gradient_scale;
  float keep;        // 1 − learning_rate · weight_decay
  float step_size;   // learning_rate / (1 − β₁ᵗ)
  float root_scale;  // 1 / √(1 − β₂ᵗ)
  float epsilon;
};
// gradient: nullptr stands for zeros, to the same bits.
void UpdateAdamW(const AdamWUpdate& update, const float* gradient, float* parameter, float* exp_avg, float* exp_avg_sq,
                 int64_t count);

// Adam with the weights' L2 norm in the loss, as torch.optim.Adam has it: the same but for
//   g = gradient_scale · gradient + decay · parameter          and keep, which is 1
void UpdateAdam(const AdamWUpdate& update, float decay, const float* gradient, float* parameter, float* exp_avg,
                float* exp_avg_sq, int64_t count);

// Adadelta (Zeiler, "ADADELTA: an adaptive learning rate method", 2012) as torch.optim.Adadelta has it:
//   g          = gradient_scale · gradient + decay · parameter
//   square_avg = ρ square_avg + (1 − ρ) g²
//   Δ          = √(acc_delta + epsilon) / √(square_avg + epsilon) · g
//   acc_delta  = ρ acc_delta + (1 − ρ) Δ²
//   parameter  = parameter − learning_rate · Δ
struct AdadeltaUpdate {
  float rho, one_minus_rho;  // rounded from double, as AdamWUpdate's
  float gradient_scale;
  float decay;
  float learning_rate;
  float epsilon;
};
// gradient: nullptr stands for zeros, to the same bits.
void UpdateAdadelta(const AdadeltaUpdate& update, const float* gradient, float* parameter, float* square_avg,
                    float* acc_delta, int64_t count);

// LAMB (You et al., "Large batch optimization for deep learning", 2020) as ALBERT's lamb_optimizer.py has it, without
// bias correction, in two passes over a parameter: the length of the step hangs on norms of all of it.
//   g = gradient_scale · gradient
//   exp_avg    = β₁ exp_avg    + (1 − β₁) g
//   exp_avg_sq = β₂ exp_avg_sq + (1 − β₂) g²
//   u          = exp_avg / (√exp_avg_sq + epsilon) + decay · parameter
//   parameter  = parameter − step_size · u
struct LambUpdate {
  float beta1, beta2;
  float one_minus_beta1, one_minus_beta2;  // as AdamWUpdate's
  float gradient_scale;
  float decay;
  float epsilon;
};
struct LambSquares {
  double parameter = 0, update = 0;  // Σ parameter², Σ u², in double, lanes added up at the end
};
// The moments, and the sums for `parameter` as it is. gradient: nullptr stands for zeros, to the same bits.
LambSquares UpdateLambMoments(const LambUpdate& update, const float* gradient, const float* parameter, float* exp_avg,
                              float* exp_avg_sq, int64_t count);
// The step along u, which is computed again: to keep it would take as much memory traffic and an array more.
void StepLamb(const LambUpdate& update, float step_size, const float* exp_avg, const float* exp_avg_sq,
              float* parameter, int64_t count);

// Muon (Keller Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024), of a matrix, in two
// passes with kernels/orthogonalize.h between them. The momentum, and Nesterov's look ahead:
//   g               = gradient_scale · gradient
//   momentum_buffer = µ momentum_buffer + (1 − µ) g
//   direction       = µ momentum_buffer + (1 − µ) g
struct MuonUpdate {
  float momentum, one_minus_momentum;  // rounded from double, as AdamWUpdate's
  float gradient_scale;
};
// gradient: nullptr stands for zeros, to the same bits.
void UpdateMuonMomentum(const MuonUpdate& update, const float* gradient, float* momentum_buffer, float* direction,
                        int64_t count);
// parameter = keep · parameter − step_size · direction
void StepAlong(float keep, float step_size, const float* direction, float* parameter, int64_t count);

// average += share · (weight − average)
void UpdateAverage(float share, const float* weight, float* average, int64_t count);

// Σ x², in double: finite exactly when every x is finite. Lanes are added up at the end, so where an element stands
// matters to the last bits, but only modulo kSquaresPeriod; the elements behind the last whole period are added one by
// one. So a zero adds nothing wherever it stands, and a whole period of them may be left out if another period or more
// of zeros is left beside it.
inline constexpr int64_t kSquaresPeriod = 64;
double SumOfSquares(const float* values, int64_t count);

}  // namespace lshformer
