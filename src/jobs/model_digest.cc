#include "jobs/model_digest.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/digest.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

// Weights, config and tokenizer, whatever their kind: all of such endings but what training leaves beside them.
bool MayDecide(const std::string& name) {
  constexpr std::array<std::string_view, 4> kEndings{".json", ".txt", ".model", ".safetensors"};
  constexpr std::array<std::string_view, 5> kLogs{"results", "trainer_state", "training_args", "predictions",
                                                  "null_odds"};
  return std::any_of(kEndings.begin(), kEndings.end(), [&](auto ending) { return name.ends_with(ending); }) &&
         std::none_of(kLogs.begin(), kLogs.end(), [&](auto log) { return name.find(log) != name.npos; });
}

}  // namespace

// In the order of their names; with those in a module's folder of Sentence-Transformers, "1_Pooling".
std::string DigestOfModel(const std::string& folder, const std::string& output) {
  std::vector<std::string> files;
  const auto add = [&](const fs::path& from) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(from, error))
      if (entry.is_regular_file(error) && MayDecide(entry.path().filename().string()) &&
          !fs::equivalent(entry.path(), output, error))
        files.push_back(entry.path().string());
  };
  add(folder);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory(error) && std::isdigit(static_cast<unsigned char>(entry.path().filename().string()[0])) != 0)
      add(entry.path());
  std::sort(files.begin(), files.end());
  return DigestOfFiles(files);
}

}  // namespace lshformer
