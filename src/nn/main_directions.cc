#include "nn/main_directions.h"

#include <algorithm>

#include "base/parallel.h"

namespace lshformer {
namespace {

// body(head, …) for items 0 … count − 1, each on one thread. The piece more, which is empty, makes it a parallel region
// for a single item too: in one LAPACK and BLAS use no threads of their own, whose number would show in the last bits.
void ForEach(int64_t count, const std::function<void(int64_t item)>& body) {
  ParallelFor(count + 1, /*grain=*/1, [&](int64_t begin, int64_t end) {
    const torch::NoGradGuard no_grad;
    for (int64_t item = begin; item < std::min(end, count); ++item) body(item);
  });
}

// Adds xᵀx, x the rows [n, head_dim] less their mean.
void AddProducts(const torch::Tensor& rows, torch::Tensor sum) {
  const torch::Tensor wide = rows.to(torch::kFloat64), centred = (wide - wide.mean(0, /*keepdim=*/true)).contiguous();
  sum += torch::matmul(centred.t(), centred);
}

torch::Tensor SquareRoot(const torch::Tensor& symmetric) {
  const auto [values, vectors] = torch::linalg_eigh(symmetric);
  return torch::matmul(vectors * values.clamp_min(0).sqrt().unsqueeze(0), vectors.t());
}

// [head_dim, depth] of a head from the products of those to sort and of those that they meet.
torch::Tensor Main(const torch::Tensor& sorted, const torch::Tensor& met, int64_t depth) {
  const torch::Tensor root = SquareRoot(met);
  const torch::Tensor vectors = std::get<1>(torch::linalg_eigh(torch::matmul(torch::matmul(root, sorted), root)));
  torch::Tensor directions = torch::matmul(root, vectors.flip({1}).slice(1, 0, depth));  // largest first
  directions = directions / directions.norm(2, 0, /*keepdim=*/true).clamp_min(1e-30);
  const torch::Tensor largest = directions.gather(0, directions.abs().argmax(0, /*keepdim=*/true));
  return torch::where(largest < 0, -directions, directions).to(torch::kFloat32);
}

}  // namespace

void MainDirections::Add(const AttentionSite& site, const Counts& counts) {
  const int heads = site.options.heads;
  const int64_t head_dim = site.qkv.size(1) / (3 * heads);
  if (visits_.size() <= site.visit) visits_.resize(site.visit + 1);
  Products& visit = visits_[site.visit];
  if (visit.sequences.empty()) {
    const torch::Tensor zeros = torch::zeros({heads, head_dim, head_dim}, torch::kFloat64);
    visit = {zeros, zeros.clone(), std::vector<int64_t>(static_cast<size_t>(heads))};
  }
  const torch::Tensor rows = site.qkv.detach().view({site.qkv.size(0), 3, heads, head_dim});
  const std::vector<int32_t>& borders = site.options.cu_seqlens();
  ForEach(heads, [&](int64_t head) {
    for (size_t b = 0; b + 1 < borders.size(); ++b) {
      const int length = borders[b + 1] - borders[b];
      if (length == 0 || !counts(static_cast<int>(head), length)) continue;
      const torch::Tensor own = rows.slice(0, borders[b], borders[b + 1]).select(2, head);  // [n, 3, head_dim]
      AddProducts(own.select(1, 0), visit.query[head]);
      AddProducts(own.select(1, 1), visit.key[head]);
      ++visit.sequences[static_cast<size_t>(head)];
    }
  });
  sequences_ = std::max(sequences_, *std::max_element(visit.sequences.begin(), visit.sequences.end()));
}

LayerDirections MainDirections::Directions(const LayerDirections& before) const {
  LayerDirections directions(visits_.size());
  for (size_t i = 0; i < visits_.size(); ++i) {
    const Products& visit = visits_[i];
    if (visit.sequences.empty()) {  // not visited, as yet
      if (i < before.size()) directions[i] = before[i];
      continue;
    }
    const int64_t heads = visit.query.size(0), head_dim = visit.query.size(1);
    StoredDirections& found = directions[i];
    const auto begin = [&](torch::Tensor StoredDirections::*part, int64_t depth) {
      const bool known = i < before.size() && (before[i].*part).defined();
      found.*part = known ? (before[i].*part).detach().clone()
                          : torch::zeros({heads, head_dim, std::min(depth, head_dim)}, torch::kFloat32);
    };
    begin(&StoredDirections::key, kStoredKeyDirections);
    begin(&StoredDirections::query, kStoredQueryDirections);
    ForEach(heads, [&](int64_t head) {
      const torch::Tensor query = visit.query[head], key = visit.key[head];
      if (visit.sequences[static_cast<size_t>(head)] == 0 || !torch::isfinite(query + key).all().item<bool>()) return;
      found.key[head].copy_(Main(key, query, found.key.size(2)));
      found.query[head].copy_(Main(query, key, found.query.size(2)));
    });
  }
  return directions;
}

}  // namespace lshformer
