#include "io/matrix_file.h"

#include <fmt/format.h>

#include <bit>

#include "base/error.h"
#include "base/files.h"
#include "base/lower_case.h"

namespace lshformer {
namespace {

static_assert(sizeof(RowPlace) == 3 * sizeof(int32_t), "places are written as a matrix of three columns");
static_assert(std::endian::native == std::endian::little, "both formats are written as the numbers lie in memory");

// Room for the longest numbers; of both formats a multiple of 64, so that a mapped matrix is aligned.
constexpr size_t kHeaderBytes = 192, kLongHeaderBytes = 512;  // with places

std::string FilledUp(std::string text, size_t size) {
  text.resize(size, ' ');
  return text;
}

// As data files' endings, in capitals too.
bool EndsWith(std::string_view path, std::string_view ending) { return LowerCase(std::string(path)).ends_with(ending); }

std::string NpyHeader(const char* type, int64_t rows, int64_t columns) {
  constexpr size_t kBegin = 10;  // magic, version, length
  const std::string shape =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}, {}), }}", type, rows, columns);
  const uint16_t size = kHeaderBytes - kBegin;
  std::string header("\x93NUMPY\x01\x00", 8);
  header.append(reinterpret_cast<const char*>(&size), sizeof(size));
  return header + FilledUp(shape, size - 1) + "\n";
}

// A member of a safetensors header.
std::string Tensor(const char* name, const char* type, const std::string& shape, int64_t begin, int64_t end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name, type, shape, begin, end);
}

template <class Item>
std::string_view BytesOf(const std::vector<Item>& items) {
  return {reinterpret_cast<const char*>(items.data()), items.size() * sizeof(Item)};
}

}  // namespace

bool IsMatrixName(std::string_view path) { return EndsWith(path, ".npy") || EndsWith(path, ".safetensors"); }

std::string MatrixHeader(MatrixFormat format, int64_t rows, int64_t columns, bool places) {
  if (format == MatrixFormat::kNpy) return NpyHeader("<f4", rows, columns);
  const int64_t numbers = rows * columns * int64_t{4}, spans = numbers + rows * 8, lines = spans + rows * 4;
  std::string object = Tensor(kMatrixTensor, "F32", fmt::format("{},{}", rows, columns), 0, numbers);
  if (places)
    object += "," + Tensor(kSpansTensor, "I32", fmt::format("{},2", rows), numbers, spans) + "," +
              Tensor(kLinesTensor, "I32", fmt::format("{}", rows), spans, lines);
  const uint64_t size = (places ? kLongHeaderBytes : kHeaderBytes) - sizeof(uint64_t);
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + FilledUp("{" + object + "}", size);
}

std::string SpansName(const std::string& path) { return path.substr(0, path.rfind('.')) + ".spans.npy"; }

MatrixFile::MatrixFile(const std::string& path, const std::string& output, int64_t columns, bool places)
    : format_(EndsWith(output, ".npy") ? MatrixFormat::kNpy : MatrixFormat::kSafetensors),
      columns_(columns),
      has_places_(places),
      file_(path, OutputName(output), /*bytes=*/0) {
  file_.Write(MatrixHeader(format_, 0, columns_, has_places_));
}

void MatrixFile::Write(std::span<const float> row) {
  if (row.size() != static_cast<size_t>(columns_)) Fail("a row of {} numbers, expected {}", row.size(), columns_);
  file_.Write({reinterpret_cast<const char*>(row.data()), row.size_bytes()});
  ++rows_;
}

void MatrixFile::Write(std::span<const float> row, const RowPlace& place) {
  Write(row);
  places_.push_back(place);
}

void MatrixFile::MoveTo(const std::string& target) {
  if (format_ == MatrixFormat::kNpy) {
    if (has_places_) WriteFileAtomically(SpansName(target), NpyHeader("<i4", rows_, 3) + std::string(BytesOf(places_)));
  } else {
    std::vector<int32_t> spans, lines;
    for (const RowPlace& place : places_) {
      spans.insert(spans.end(), {place.start, place.end});
      lines.push_back(place.line);
    }
    file_.Write(BytesOf(spans));
    file_.Write(BytesOf(lines));
  }
  file_.WriteBeginning(MatrixHeader(format_, rows_, columns_, has_places_));
  file_.MoveTo(target);
}

}  // namespace lshformer
