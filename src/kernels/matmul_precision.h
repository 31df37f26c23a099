// What float32 products are made of where there are AMX tiles.
//
// A float32 is nearly the sum of two numbers in bfloat16, its parts. So a product of matrices is nearly three products
// of such parts, or one:
//
//   kHighest   none: fused multiply-add in float32
//   kHigh      three: results are off by some 2·10⁻⁵ of their standard deviation
//   kMedium    one, of factors rounded to bfloat16: 10⁻²
//
// The words are PyTorch's. Heeded by linear maps (kernels/packed_linear.h; kernels/linear.h in training), by the
// masked-LM loss, and by attention, forward and backward (OperandsOf, ops/attention.h). All other products, and all
// where there are no tiles or these would not be faster, are float32's multiply-add.
#pragma once
#include <cstdint>
#include <string>

#include "kernels/matrix.h"

namespace lshformer {

enum class MatmulPrecision { kHighest, kHigh, kMedium };

const char* Name(MatmulPrecision precision);                    // "highest", "high", "medium"
MatmulPrecision ParseMatmulPrecision(const std::string& name);  // UsageError

// Of the process, as the instruction set in force is; kHighest before it is set, and while no tiles are active. Not
// while another thread multiplies.
void SetMatmulPrecision(MatmulPrecision precision);
MatmulPrecision ActiveMatmulPrecision();

// Whether there are AMX tiles to multiply in at present, by their instructions or by the software model of them.
bool AmxTilesAreActive();

// Of how many products a product of rows of `inner` numbers with a weight of `columns` columns is made: 3, 1, or 0 for
// fused multiply-add. Of the weight's shape and the instruction set alone, so that a row's result depends on nothing
// but that row.
int ProductsOfFloat32(MatmulPrecision precision, int64_t inner, int64_t columns, bool tiles);

// The same of a product in training, where both factors are split in each call. Of the product's shape, but of the
// number of its rows only where these are no tokens (inner_is_tokens).
int ProductsInTraining(MatmulPrecision precision, const MatrixProduct& product, bool tiles);

int PartsOfProducts(int products);  // of each factor: 2, 1

}  // namespace lshformer
