// Where real data may lie.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

namespace lshformer::testing {

// The folder with real data sets, or "" where there is none.
inline std::string SharedFolder() {
  const char* set = std::getenv("LSHFORMER_SHARED_DIR");
  const std::string folder = set != nullptr ? set : LSHFORMER_SOURCE_DIR "/../shared";
  return std::filesystem::is_directory(folder + "/data") ? folder : "";
}

}  // namespace lshformer::testing
