#include "ops/rotary.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "ops/saved_for_backward.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Lengths with frequencies of their own whose angles are kept.
constexpr size_t kMostGrown = 16;

// Calls visit(begin, end, angles) for runs of tokens that have the same angles; longest sequences first decide.
template <class Visit>
void ForEachRun(const RotaryOptions& options, const Visit& visit) {
  const std::vector<int32_t>& borders = options.sequences->cu_seqlens;
  const Rotary& rotary = options.table->rotary();
  for (size_t b = 0, last = 0; b + 1 < borders.size(); b = last) {
    int32_t longest = borders[b + 1] - borders[b];
    last = b + 1;
    if (!rotary.Grows(longest)) {
      for (; last + 1 < borders.size() && !rotary.Grows(borders[last + 1] - borders[last]); ++last)
        longest = std::max(longest, borders[last + 1] - borders[last]);
    }
    visit(borders[b], borders[last], options.table->Get(longest));
  }
}

// The place of every token in its sequence.
std::vector<int32_t> Places(const std::vector<int32_t>& borders) {
  std::vector<int32_t> places(static_cast<size_t>(borders.back()));
  for (size_t b = 0; b + 1 < borders.size(); ++b)
    std::iota(places.begin() + borders[b], places.begin() + borders[b + 1], 0);
  return places;
}

// rounded: [T, slices · heads · head_dim] in bfloat16, where all slices go; or undefined.
void Turn(torch::Tensor& qkv, const RotaryOptions& options, bool back, const torch::Tensor& rounded = {}) {
  const std::vector<int32_t> places = Places(options.sequences->cu_seqlens);
  const int head_dim = options.table->head_dim();
  ForEachRun(options, [&](int32_t begin, int32_t end, const std::shared_ptr<const RotaryAngles>& angles) {
    const int64_t stride = qkv.size(1);
    HeadTensor<BFloat16> to;
    if (rounded.defined())
      to = {reinterpret_cast<BFloat16*>(rounded.data_ptr<at::BFloat16>()) + begin * stride, stride, head_dim};
    // The heads of the slices lie one behind the other.
    Rotate({.tokens = end - begin,
            .heads = options.turned * options.heads,
            .head_dim = head_dim,
            .x = {qkv.data_ptr<float>() + begin * stride, stride, head_dim},
            .positions = std::span(places).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
            .cos = angles->cos.data(),
            .sin = angles->sin.data(),
            .back = back,
            .rounded = to,
            .plain = to.data ? static_cast<int>(stride / head_dim) - options.turned * options.heads : 0});
  });
}

struct RotatedOp : torch::autograd::Function<RotatedOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& qkv, RotaryOptions options) {
    torch::Tensor turned = qkv.clone();
    Turn(turned, options, /*back=*/false);
    Keep(context, std::move(options));
    return turned;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    torch::Tensor grad = grads[0].contiguous().clone();
    Turn(grad, GetKept<RotaryOptions>(context), /*back=*/true);
    return {grad, {}};
  }
};

void Check(const torch::Tensor& qkv, const RotaryOptions& options) {
  const int64_t width = int64_t{options.heads} * options.table->head_dim();
  if (qkv.dim() != 2 || qkv.size(1) % width != 0 || qkv.size(1) < options.turned * width)
    Fail("rotary positions: expected [tokens, slices · {} heads · {}], got {}", options.heads,
         options.table->head_dim(), c10::str(qkv.sizes()));
  if (qkv.size(0) != options.sequences->cu_seqlens.back())
    Fail("rotary positions: {} tokens, but cu_seqlens ends at {}", qkv.size(0), options.sequences->cu_seqlens.back());
}

}  // namespace

std::shared_ptr<const RotaryAngles> RotaryTable::Fill(int64_t frequencies_of, const RotaryAngles* before,
                                                      int64_t positions) const {
  const std::vector<float> frequencies = RotaryFrequencies(rotary_, head_dim_, frequencies_of);
  auto angles = std::make_shared<RotaryAngles>();
  const int64_t known = before == nullptr ? 0 : before->positions;
  const auto half = static_cast<int64_t>(frequencies.size());
  if (before != nullptr) *angles = *before;
  angles->positions = positions;
  angles->cos.resize(static_cast<size_t>(positions * half));
  angles->sin.resize(angles->cos.size());
  WriteRotaryAngles(frequencies, known, positions, angles->cos.data() + known * half,
                    angles->sin.data() + known * half);
  return angles;
}

std::shared_ptr<const RotaryAngles> RotaryTable::Get(int64_t length) const {
  const std::lock_guard lock(mutex_);
  if (rotary_.Grows(length)) {
    if (const auto found = grown_.find(length); found != grown_.end()) return found->second;
    if (grown_.size() >= kMostGrown) grown_.clear();
    return grown_[length] = Fill(length, nullptr, length);
  }
  if (!angles_ || angles_->positions < length) {
    // Twice what there was: lengths that grow one by one do not copy the table each time.
    const int64_t positions = angles_ ? std::max(length, 2 * angles_->positions) : length;
    angles_ = Fill(/*frequencies_of=*/1, angles_.get(), positions);
  }
  return angles_;
}

torch::Tensor Rotated(torch::Tensor qkv, RotaryOptions options, torch::ScalarType type) {
  Check(qkv, options);
  if (qkv.scalar_type() != torch::kFloat32 || !qkv.is_contiguous())
    Fail("rotary positions: expected contiguous float32, got {}", qkv.toString());
  if (torch::GradMode::is_enabled()) {
    if (type != torch::kFloat32) Fail("rotary positions: gradients are those of float32");
    return RotatedOp::apply(qkv, std::move(options));
  }
  if (type == torch::kFloat32) {
    Turn(qkv, options, /*back=*/false);
    return qkv;
  }
  torch::Tensor rounded = torch::empty(qkv.sizes(), torch::kBFloat16);
  Turn(qkv, options, /*back=*/false, rounded);
  return rounded;
}

torch::Tensor RotatedReference(const torch::Tensor& qkv, const RotaryOptions& options) {
  Check(qkv, options);
  const int64_t half = options.table->head_dim() / 2, heads = int64_t{options.turned} * options.heads;
  const std::vector<int32_t> places = Places(options.sequences->cu_seqlens);
  std::vector<torch::Tensor> cos, sin;
  ForEachRun(options, [&](int32_t begin, int32_t end, const std::shared_ptr<const RotaryAngles>& angles) {
    const auto rows = [&](const std::vector<float>& table) {
      const std::vector<int64_t> of(places.begin() + begin, places.begin() + end);
      return torch::tensor(table).view({angles->positions, half}).index_select(0, torch::tensor(of, torch::kInt64));
    };
    cos.push_back(rows(angles->cos));
    sin.push_back(rows(angles->sin));
  });
  const auto factors = [&](const std::vector<torch::Tensor>& runs) {  // [T, 1, half]
    return torch::cat(runs).to(qkv.scalar_type()).unsqueeze(1);
  };
  const torch::Tensor c = factors(cos), s = factors(sin);
  const torch::Tensor turned = qkv.slice(1, 0, heads * 2 * half).reshape({qkv.size(0), heads, 2 * half});
  const torch::Tensor first = turned.slice(2, 0, half), second = turned.slice(2, half);
  const torch::Tensor y = torch::cat({first * c - second * s, second * c + first * s}, 2);
  return torch::cat({y.reshape({qkv.size(0), heads * 2 * half}), qkv.slice(1, heads * 2 * half)}, 1);
}

}  // namespace lshformer
