// Any bytes as model.safetensors.index.json: no name that it gives leads out of the model's folder.
#include <cstdint>
#include <string_view>

#include "fuzz/parses.h"
#include "io/weight_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::map<std::string, std::string> shards;
  if (!testing::Parses([&] { shards = ParseWeightIndex(ParseJson(text, "index.json"), "index.json"); })) return 0;
  testing::Check(!shards.empty(), "an index names a tensor");
  for (const auto& [tensor, file] : shards) {
    testing::Check(!file.empty() && file != "." && file != ".." && file.find('/') == file.npos, "a name is a file's");
  }
  return 0;
}
