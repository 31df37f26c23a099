// safetensors: 8 bytes little-endian header size, JSON header, one buffer (docs/formats.md).
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/signals.h"

namespace lshformer {

enum class DType { kBool, kU8, kI8, kI16, kU16, kF16, kBF16, kI32, kU32, kF32, kI64, kU64, kF64 };
const char* Name(DType dtype);  // "F32"
size_t ItemSize(DType dtype);

struct TensorView {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // aligned as the file has it; may not be aligned to the item size: see CopyTo
  int64_t elements() const;
};
std::string ShapeText(std::span<const int64_t> shape);  // "[128, 512]"

// The elements as they are, into memory that is aligned for T; Error if dtype or number differ (`where` names the
// tensor).
template <class T>
void CopyTo(const TensorView& view, std::span<T> target, std::string_view where);  // float, double, int32_t, int64_t
// The elements as float: F32, F64 (rounded to nearest), F16, BF16 (exact). Error for other dtypes.
void ConvertTo(const TensorView& view, std::span<float> target, std::string_view where);

// A file mapped into memory and fully validated on opening: header size and JSON, names, dtypes, shapes, byte ranges
// without holes or overlaps. Error names the file and the tensor. A file that somebody shortens while it is mapped ends
// the process (GuardedMapping): that is the price of not reading it twice. Files written by WriteSafetensors are
// replaced, never shortened: a mapping keeps the old file. A pipe cannot be mapped and is read into memory instead.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const TensorView* Find(std::string_view name) const;  // nullptr if absent
  // Error if missing or of another dtype.
  const TensorView& Get(std::string_view name, DType dtype) const;
  // Error of another shape too (−1 = any size; an empty shape is a scalar's).
  const TensorView& Get(std::string_view name, DType dtype, std::span<const int64_t> shape) const;

 private:
  std::string path_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
  void* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
  std::optional<GuardedMapping> guard_;
  std::string contents_;  // of what cannot be mapped
};

// The parser itself, for files already in memory (and the fuzzer). Views point into `file`.
void ParseSafetensors(std::span<const std::byte> file, std::string_view where,
                      std::map<std::string, TensorView>& tensors, std::map<std::string, std::string>& metadata);

struct NamedTensor {
  std::string name;
  TensorView view;
};
// Atomic. Tensors are written by descending item size, then in the given order, so that all are aligned.
void WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace lshformer
