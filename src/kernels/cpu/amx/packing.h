// Factors in bfloat16 and bytes as AMX tiles take them: 16 × 16 words of 32 bits, of which each holds numbers that
// lie down a column.
#pragma once
#include <cstddef>
#include <cstdint>

namespace lshformer {

// Of 16 columns that lie one after another, `stride` words apart, with 16 words of each: to[k][n] ← from[n][k].
void PackAmxTileOfColumns(const uint32_t* from, ptrdiff_t stride, uint32_t* to);
// Of 32 rows in bfloat16, `stride` numbers apart, with 16 numbers of each: to[k][n] ← (from[2k][n], from[2k + 1][n]).
void PackAmxTileOfRows(const uint16_t* from, ptrdiff_t stride, uint32_t* to);

// to[c][r] ← from[r][c], 16-bit numbers, both contiguous. Shares the work among threads.
void TransposeHalves(const uint16_t* from, int64_t rows, int64_t columns, uint16_t* to);

}  // namespace lshformer
