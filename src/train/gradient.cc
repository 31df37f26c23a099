#include "train/gradient.h"

#include <functional>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/gather.h"
#include "kernels/updates.h"

namespace lshformer {

Gradient::Gradient(const torch::Tensor& gradient) {
  if (!gradient.defined()) return;
  if (gradient.layout() == torch::kStrided) {
    values_ = gradient.contiguous();
  } else if (gradient.layout() == torch::kSparse && gradient.sparse_dim() == 1) {
    rows_ = gradient._indices().view({-1}).contiguous();
    values_ = gradient._values().contiguous();
    columns_ = gradient.numel() / std::max<int64_t>(1, gradient.size(0));
    AddUpRows();
  } else {
    Fail("a gradient of {}: expected a dense one, or one that is sparse by rows", c10::str(gradient.sizes()));
  }
  if (values_.scalar_type() != torch::kFloat32)
    Fail("a gradient of {}: expected float32, got {}", c10::str(gradient.sizes()), c10::str(values_.scalar_type()));
}

// Rows come ascending from one batch, and mostly from several too; libtorch promises nothing for a sum of batches.
void Gradient::AddUpRows() {
  const std::span<const int64_t> ids(rows_.data_ptr<int64_t>(), static_cast<size_t>(rows_.numel()));
  if (std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end()) return;
  std::vector<int64_t> unique(ids.begin(), ids.end());
  std::sort(unique.begin(), unique.end());
  unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
  std::vector<int32_t> places;
  for (const int64_t id : ids)
    places.push_back(static_cast<int32_t>(std::lower_bound(unique.begin(), unique.end(), id) - unique.begin()));
  torch::Tensor sums = torch::zeros_like(values_);  // as many rows or more than needed
  AddRowsAt(values_.data_ptr<float>(), columns_, places, sums.data_ptr<float>());
  rows_ = torch::tensor(unique, torch::kInt64);
  values_ = sums;
}

double Gradient::SumOfSquares(int64_t begin, int64_t end) const {
  if (!rows_.defined()) return lshformer::SumOfSquares(values_.data_ptr<float>() + begin, end - begin);
  // The block without its long stretches of zeros.
  std::vector<float> dense;
  bool any = false;
  ForEachPiece(begin, end, [&](int64_t, const float* values, int64_t count) {
    any = any || values != nullptr;
    if (values != nullptr) {
      dense.insert(dense.end(), values, values + count);
    } else {
      const int64_t zeros = count < kSquaresPeriod ? count : kSquaresPeriod + count % kSquaresPeriod;
      dense.resize(dense.size() + static_cast<size_t>(zeros));
    }
  });
  return any ? lshformer::SumOfSquares(dense.data(), static_cast<int64_t>(dense.size())) : 0;
}

const float* Gradient::InOnePiece(int64_t begin, int64_t end, std::vector<float>& room) const {
  const float* piece = nullptr;
  ForEachPiece(begin, end, [&](int64_t place, const float* values, int64_t count) {
    if (count == end - begin) {
      piece = values;
      return;
    }
    room.resize(static_cast<size_t>(end - begin));
    piece = room.data();
    if (values != nullptr) {
      std::copy_n(values, count, room.data() + (place - begin));
    } else {
      std::fill_n(room.data() + (place - begin), count, 0.0f);
    }
  });
  return piece;
}

torch::Tensor RowGradient(const torch::Tensor& rows, const torch::Tensor& values, torch::IntArrayRef sizes) {
  return torch::_sparse_coo_tensor_unsafe(rows.view({1, -1}), values, sizes);
}

torch::Tensor WithRowsOnce(const torch::Tensor& gradient) {
  const Gradient once(gradient);
  return RowGradient(once.rows(), once.row_values().contiguous(), gradient.sizes());
}

torch::Tensor AddRowGradients(const torch::Tensor& a, const torch::Tensor& b) {
  const auto both = [](const torch::Tensor& first, const torch::Tensor& second, int64_t dimension) {
    return torch::cat({first, second}, dimension);
  };
  return WithRowsOnce(RowGradient(both(a._indices(), b._indices(), 1), both(a._values(), b._values(), 0), a.sizes()));
}

}  // namespace lshformer
