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

// First element whose exponent bits are all set: infinities and NaNs.
template <class Bits>
int64_t FirstWithFullExponent(const TensorView& view, Bits exponent) {
  const auto count = static_cast<size_t>(view.elements());
  for (size_t i = 0; i < count; ++i)
    if ((Load<Bits>(view, i) & exponent) == exponent) return static_cast<int64_t>(i);
  return -1;
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

int64_t FirstNotFinite(const TensorView& view) {
  switch (view.dtype) {
    case DType::kF32:
      return FirstWithFullExponent<uint32_t>(view, 0x7F800000u);
    case DType::kF64:
      return FirstWithFullExponent<uint64_t>(view, 0x7FF0000000000000u);
    case DType::kF16:
      return FirstWithFullExponent<uint16_t>(view, 0x7C00u);
    case DType::kBF16:
      return FirstWithFullExponent<uint16_t>(view, 0x7F80u);
    default:
      return -1;
  }
}

}  // namespace lshformer
