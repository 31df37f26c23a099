// Matrices of float32 for other programs, written row by row in bounded memory: NumPy's .npy and safetensors.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/growing_file.h"

namespace lshformer {

enum class MatrixFormat { kNpy, kSafetensors };

inline constexpr const char* kMatrixTensor = "embeddings";  // its name in a safetensors file

bool IsMatrixName(std::string_view path);  // ends in .npy or .safetensors, in any case
// What stands before the numbers, of the same size for every number of rows: .npy 1.0 (magic, version, length, a
// dictionary of Python's filled up with blanks), or eight bytes of length and a JSON object, filled up likewise.
std::string MatrixHeader(MatrixFormat format, int64_t rows, int64_t columns);

// [rows, columns], C order, little-endian. The number of rows is known in the end, when the header is written again.
class MatrixFile {
 public:
  // Grows at `path`; `output` is what it is to become, whose ending says the format.
  MatrixFile(const std::string& path, const std::string& output, int64_t columns);
  void Write(std::span<const float> row);  // of `columns` numbers
  void MoveTo(const std::string& target);  // as GrowingFile's
  int64_t rows() const { return rows_; }

 private:
  MatrixFormat format_;
  int64_t columns_, rows_ = 0;
  GrowingFile file_;
};

}  // namespace lshformer
