// Matrices of float32 for other programs, written row by row: NumPy's .npy and safetensors. In bounded memory, but for
// the places of rows, where those are written too.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/growing_file.h"

namespace lshformer {

enum class MatrixFormat { kNpy, kSafetensors };

inline constexpr const char* kMatrixTensor = "embeddings";                     // its name in a safetensors file
inline constexpr const char *kSpansTensor = "spans", *kLinesTensor = "lines";  // of places

// Of a row that is a part of a line's text: the line, from 1, and code points in the text.
struct RowPlace {
  int32_t line = 0, start = 0, end = 0;
};

bool IsMatrixName(std::string_view path);  // ends in .npy or .safetensors, in any case
// What stands before the numbers, of the same size for every number of rows: .npy 1.0 (magic, version, length, a
// dictionary of Python's filled up with blanks), or eight bytes of length and a JSON object, filled up likewise.
std::string MatrixHeader(MatrixFormat format, int64_t rows, int64_t columns, bool places = false);
// Where the places of a .npy file's rows are: "chunks.spans.npy" of "chunks.npy".
std::string SpansName(const std::string& path);

// [rows, columns], C order, little-endian. The number of rows is known in the end, when the header is written again.
// With places safetensors have two tensors more, int32: spans [rows, 2], the starts and ends, and lines [rows]; beside
// a .npy file stands a second one, int32 [rows, 3]: line, start, end.
class MatrixFile {
 public:
  // Grows at `path`; `output` is what it is to become, whose ending says the format.
  MatrixFile(const std::string& path, const std::string& output, int64_t columns, bool places = false);
  void Write(std::span<const float> row);  // of `columns` numbers
  void Write(std::span<const float> row, const RowPlace& place);
  void MoveTo(const std::string& target);  // as GrowingFile's; the file of places before it
  int64_t rows() const { return rows_; }

 private:
  MatrixFormat format_;
  int64_t columns_, rows_ = 0;
  bool has_places_;
  std::vector<RowPlace> places_;
  GrowingFile file_;
};

}  // namespace lshformer
