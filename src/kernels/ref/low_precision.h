// The oracle of kernels/low_precision.h: rounding to bfloat16 by its definition, and the formulas of 8-bit numbers in
// double.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lshformer::ref {

// The nearest number with 8 significant bits, of two equally near ones the even one; infinite from 2¹²⁸ − 2¹¹⁹ on,
// multiples of 2⁻¹³³ below 2⁻¹²⁶.
double RoundToBFloat16(double x);

// Of one row: x ≈ scale · (q − zero).
struct QuantizedRow {
  double scale = 1;
  int32_t zero = 0;
  std::vector<double> numbers;  // q before it is rounded to a whole number, within [0, 255]
};
QuantizedRow QuantizeRow(std::span<const double> x);

// y = scale · weight_scale · (sum − zero · weight_sum) + bias
double Dequantize(double scale, int32_t zero, double weight_scale, int32_t weight_sum, double bias, int32_t sum);

}  // namespace lshformer::ref
