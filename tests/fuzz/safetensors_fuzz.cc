// Any bytes as a safetensors file: what is accepted covers its data exactly, once, and every byte of it can be read.
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "fuzz/parses.h"
#include "io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  using testing::Check;
  // A copy of exactly this size, so that a read past the end is seen.
  const std::vector<uint8_t> file(data, data + size);
  std::map<std::string, TensorView> tensors;
  std::map<std::string, std::string> metadata;
  if (!testing::Parses([&] { ParseSafetensors(std::as_bytes(std::span(file)), "m.safetensors", tensors, metadata); }))
    return 0;
  uint64_t header_bytes = 0, total = 0;
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  std::vector<int> used(size);
  for (const auto& entry : tensors) {
    const TensorView& view = entry.second;
    Check(view.bytes.size() == static_cast<size_t>(view.elements()) * ItemSize(view.dtype), "bytes fit the shape");
    for (const std::byte& byte : view.bytes) {
      const auto at = static_cast<size_t>(&byte - reinterpret_cast<const std::byte*>(file.data()));
      Check(at >= 8 + header_bytes && at < size && ++used[at] == 1, "bytes belong to one tensor");
    }
    total += view.bytes.size();
    std::vector<float> values(static_cast<size_t>(view.elements()));
    testing::Parses([&] { ConvertTo(view, values, Shown(entry.first)); });
  }
  Check(total == size - 8 - header_bytes, "all data belongs to a tensor");
  return 0;
}
