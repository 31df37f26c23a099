// Any bytes as the JSON files of a Sentence-Transformers folder, parted by 0xFF: modules.json, the Pooling's
// config.json, sentence_bert_config.json, config_sentence_transformers.json. No module leads out of the folder, and
// what loads makes vectors of the width that it says.
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string_view>

#include "fuzz/parses.h"
#include "nn/sentence/modules.h"
#include "util/temp_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  constexpr const char* kFiles[] = {"modules.json", "1_Pooling/config.json", "sentence_bert_config.json",
                                    "config_sentence_transformers.json"};
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const testing::TempFolder folder;
  for (const char* file : kFiles) {
    const std::string_view own = rest.substr(0, rest.find('\xFF'));
    rest.remove_prefix(std::min(rest.size(), own.size() + 1));
    if (!own.empty()) folder.Write(file, own);
  }
  std::shared_ptr<const SentenceModules> modules;
  if (!testing::Parses([&] { modules = SentenceModules::Read(folder.path()); }) || !modules) return 0;
  for (const std::string& path : SentenceModules::ModuleFolders(folder.path()))
    testing::Check(path.find("..") == path.npos && !path.starts_with('/'), "a module is in the folder");
  constexpr int64_t kHidden = 2;
  int64_t width = 0;
  if (!testing::Parses([&] { width = modules->Width(kHidden); })) return 0;
  const std::vector<float> states{1, 2, -3, 4, 5, -6};
  testing::Check(std::ssize(modules->Vector(states, kHidden, /*prompt_tokens=*/1)) == width, "a vector has its width");
  return 0;
}
