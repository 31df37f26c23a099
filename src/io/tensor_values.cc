// Reading the elements of a TensorView, which may lie unaligned in a mapped file.
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "io/safetensors.h"

namespace lshformer {
namespace {

template <class T>
constexpr DType kDTypeOf = DType::kF32;
template <>
constexpr DType kDTypeOf<double> = DType::kF64;
template <>
constexpr DType kDTypeOf<int32_t> = DType::kI32;
template <>
constexpr DType kDTypeOf<int64_t> = DType::kI64;

void CheckElements(const TensorView& view, size_t wanted, std::string_view where) {
  if (static_cast<uint64_t>(view.elements()) != wanted)
    Fail("{} has {} elements, expected {}", where, view.elements(), wanted);
}

template <class T>
T Load(const TensorView& view, size_t index) {
  T value;
  std::memcpy(&value, view.bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

float FromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

float FromF16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16, exponent = (bits >> 10) & 31, fraction = bits & 0x3FFu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | fraction << 13);
  if (exponent == 0) return std::copysign(std::ldexp(static_cast<float>(fraction), -24), bits & 0x8000u ? -1.0f : 1.0f);
  return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

}  // namespace

template <class T>
void CopyTo(const TensorView& view, std::span<T> target, std::string_view where) {
  if (view.dtype != kDTypeOf<T>) Fail("{} has dtype {}, expected {}", where, Name(view.dtype), Name(kDTypeOf<T>));
  CheckElements(view, target.size(), where);
  if (!target.empty()) std::memcpy(target.data(), view.bytes.data(), view.bytes.size());
}
template void CopyTo(const TensorView&, std::span<float>, std::string_view);
template void CopyTo(const TensorView&, std::span<double>, std::string_view);
template void CopyTo(const TensorView&, std::span<int32_t>, std::string_view);
template void CopyTo(const TensorView&, std::span<int64_t>, std::string_view);

void ConvertTo(const TensorView& view, std::span<float> target, std::string_view where) {
  CheckElements(view, target.size(), where);
  switch (view.dtype) {
    case DType::kF32:
      return CopyTo(view, target, where);
    case DType::kF64:
      for (size_t i = 0; i < target.size(); ++i) target[i] = static_cast<float>(Load<double>(view, i));
      return;
    case DType::kF16:
      for (size_t i = 0; i < target.size(); ++i) target[i] = FromF16(Load<uint16_t>(view, i));
      return;
    case DType::kBF16:
      for (size_t i = 0; i < target.size(); ++i) target[i] = FromBf16(Load<uint16_t>(view, i));
      return;
    default:
      Fail("{} has dtype {}, expected F32, F64, F16 or BF16", where, Name(view.dtype));
  }
}

}  // namespace lshformer
