#include "tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "specs.h"

namespace lshformer::extension {
namespace {

constexpr int64_t kRowsAtATime = 64;

uint16_t ToBFloat16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (x != x) return static_cast<uint16_t>(bits >> 16 | 0x40);  // stays NaN
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace

const char* Name(ScalarType type) {
  switch (type) {
    case ScalarType::Float:
      return "float32";
    case ScalarType::Double:
      return "float64";
    case ScalarType::BFloat16:
      return "bfloat16";
    case ScalarType::Half:
      return "float16";
    case ScalarType::Int:
      return "int32";
    case ScalarType::Long:
      return "int64";
    case ScalarType::Bool:
      return "bool";
    default:
      return "of another type";
  }
}

std::string ShapeText(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  return fmt::format("[{}]", fmt::join(sizes.begin(), sizes.end(), ", "));
}

void CheckOnCpu(const Tensor& tensor, const char* name) {
  if (tensor.is_cpu()) return;
  Fail("{}: tensor \"{}\" is on {}, expected one on the CPU: there are no kernels for other devices", kWhere, name,
       tensor.is_cuda() ? "a CUDA device" : "another device");
}

void CheckDims(const Tensor& tensor, const char* name, int64_t dims, const char* expected) {
  if (tensor.dim() != dims)
    Fail("{}: tensor \"{}\" has shape {}, expected {}", kWhere, name, ShapeText(tensor), expected);
}

void CheckType(const Tensor& tensor, const char* name, ScalarType type) {
  if (tensor.scalar_type() != type)
    Fail("{}: tensor \"{}\" is {}, expected {}", kWhere, name, Name(tensor.scalar_type()), Name(type));
}

std::span<const int32_t> Offsets(const Tensor& cu_seqlens) {
  constexpr const char* kName = "cu_seqlens";
  CheckOnCpu(cu_seqlens, kName);
  CheckDims(cu_seqlens, kName, 1, "[sequences + 1]");
  CheckType(cu_seqlens, kName, ScalarType::Int);
  if (!cu_seqlens.is_contiguous()) Fail("{}: tensor \"{}\" is not contiguous", kWhere, kName);
  return {static_cast<const int32_t*>(cu_seqlens.const_data_ptr()), static_cast<size_t>(cu_seqlens.size(0))};
}

void CheckRows(const Tensor& tensor, const char* name, const Tensor& like) {
  CheckOnCpu(tensor, name);
  CheckDims(tensor, name, 3, "[tokens, heads, head_dim]");
  CheckType(tensor, name, like.scalar_type());
  if (!std::equal(tensor.sizes().begin(), tensor.sizes().end(), like.sizes().begin()))
    Fail("{}: tensor \"{}\" has shape {}, expected {} as \"query\"", kWhere, name, ShapeText(tensor), ShapeText(like));
  if (tensor.size(2) > 1 && tensor.stride(2) != 1)
    Fail("{}: tensor \"{}\" has strides [{}, {}, {}], expected a head's numbers side by side (the last 1)", kWhere,
         name, tensor.stride(0), tensor.stride(1), tensor.stride(2));
}

// By torch's own function of C: torch::stable::empty looks the operator up by its name, some microseconds each time.
Tensor Empty(const std::vector<int64_t>& shape, ScalarType type) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(shape[i], 1);
  const auto dtype = torch::stable::detail::to<int32_t>(torch::stable::detail::from(type));
  AtenTensorHandle made = nullptr;
  if (aoti_torch_empty_strided(static_cast<int64_t>(shape.size()), shape.data(), strides.data(), dtype,
                               aoti_torch_device_type_cpu(), 0, &made) != 0)
    Fail("{}: a tensor of shape [{}] cannot be made", kWhere, fmt::join(shape, ", "));
  return Tensor(made);
}

Tensor Widened(const Tensor& tensor) {
  const int64_t tokens = tensor.size(0), heads = tensor.size(1), head_dim = tensor.size(2);
  Tensor wide = Empty({tokens, heads, head_dim}, ScalarType::Float);
  const HeadTensor<const BFloat16> from = Rows<const BFloat16>(tensor);
  const HeadTensor<float> to = Rows<float>(wide);
  ParallelFor(tokens, kRowsAtATime, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int h = 0; h < heads; ++h) {
        const BFloat16* x = from.at(t, h);
        float* y = to.at(t, h);
        for (int64_t i = 0; i < head_dim; ++i) y[i] = std::bit_cast<float>(uint32_t{x[i].bits} << 16);
      }
    }
  });
  return wide;
}

Tensor Narrowed(const Tensor& wide) {
  const int64_t tokens = wide.size(0), row = wide.size(1) * wide.size(2);
  Tensor narrow = Empty({tokens, wide.size(1), wide.size(2)}, ScalarType::BFloat16);
  const float* from = Rows<const float>(wide).data;
  uint16_t* to = Rows<uint16_t>(narrow).data;
  ParallelFor(tokens, kRowsAtATime, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * row; i < end * row; ++i) to[i] = ToBFloat16(from[i]);
  });
  return narrow;
}

std::vector<double> Doubles(const Tensor& tensor) {
  const int64_t head_dim = tensor.size(2);
  const HeadTensor<const double> from = Rows<const double>(tensor);
  std::vector<double> values;
  values.reserve(static_cast<size_t>(tensor.numel()));
  for (int64_t t = 0; t < tensor.size(0); ++t) {
    for (int h = 0; h < tensor.size(1); ++h) values.insert(values.end(), from.at(t, h), from.at(t, h) + head_dim);
  }
  return values;
}

Tensor FromDoubles(const std::vector<double>& values, const std::vector<int64_t>& shape) {
  Tensor tensor = Empty(shape, ScalarType::Double);
  if (!values.empty()) std::memcpy(tensor.mutable_data_ptr(), values.data(), values.size() * sizeof(double));
  return tensor;
}

}  // namespace lshformer::extension
