#include "io/matrix_file.h"

#include <fmt/format.h>

#include <bit>

#include "base/error.h"
#include "base/files.h"
#include "base/lower_case.h"

namespace lshformer {
namespace {

static_assert(std::endian::native == std::endian::little, "both formats are written as the numbers lie in memory");

// Room for the longest numbers; of both formats a multiple of 64, so that a mapped matrix is aligned.
constexpr size_t kHeaderBytes = 192;

std::string FilledUp(std::string text, size_t size) {
  text.resize(size, ' ');
  return text;
}

// As data files' endings, in capitals too.
bool EndsWith(std::string_view path, std::string_view ending) { return LowerCase(std::string(path)).ends_with(ending); }

}  // namespace

bool IsMatrixName(std::string_view path) { return EndsWith(path, ".npy") || EndsWith(path, ".safetensors"); }

std::string MatrixHeader(MatrixFormat format, int64_t rows, int64_t columns) {
  if (format == MatrixFormat::kNpy) {
    constexpr size_t kBegin = 10;  // magic, version, length
    const std::string shape =
        fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
    const uint16_t size = kHeaderBytes - kBegin;
    std::string header("\x93NUMPY\x01\x00", 8);
    header.append(reinterpret_cast<const char*>(&size), sizeof(size));
    return header + FilledUp(shape, size - 1) + "\n";
  }
  const std::string object =
      fmt::format(R"({{"{}":{{"dtype":"F32","shape":[{},{}],"data_offsets":[0,{}]}}}})", kMatrixTensor, rows, columns,
                  rows * columns * static_cast<int64_t>(sizeof(float)));
  const uint64_t size = kHeaderBytes - sizeof(uint64_t);
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + FilledUp(object, size);
}

MatrixFile::MatrixFile(const std::string& path, const std::string& output, int64_t columns)
    : format_(EndsWith(output, ".npy") ? MatrixFormat::kNpy : MatrixFormat::kSafetensors),
      columns_(columns),
      file_(path, OutputName(output), /*bytes=*/0) {
  file_.Write(MatrixHeader(format_, 0, columns_));
}

void MatrixFile::Write(std::span<const float> row) {
  if (row.size() != static_cast<size_t>(columns_)) Fail("a row of {} numbers, expected {}", row.size(), columns_);
  file_.Write({reinterpret_cast<const char*>(row.data()), row.size_bytes()});
  ++rows_;
}

void MatrixFile::MoveTo(const std::string& target) {
  file_.WriteBeginning(MatrixHeader(format_, rows_, columns_));
  file_.MoveTo(target);
}

}  // namespace lshformer
