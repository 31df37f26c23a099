// The files of single modules of a Sentence-Transformers folder. Errors name the file, the key and what is expected.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "nn/sentence/modules.h"

namespace lshformer {

enum class ModuleKind { kTransformer, kPooling, kDense, kLayerNorm, kNormalize, kDropout };
struct ModuleEntry {
  ModuleKind kind = ModuleKind::kTransformer;
  std::string path;    // as modules.json has it
  std::string folder;  // where that leads
};

// modules.json. Error where the first is no Transformer, the second no Pooling, a class is not known here, a path is
// absolute, leads out of the folder, or is that of another module with files.
std::vector<ModuleEntry> ReadModuleEntries(const std::string& folder);

// The paths in modules.json but the folder's own, whatever the modules are. Error where one leads out of the folder.
std::vector<std::string> ReadModulePaths(const std::string& folder);

const char* ModeName(Pooling mode);  // as in a Pooling's config.json

std::string_view PoolingKey(Pooling mode);  // of a switch in the older form of that file

// config.json of the module, and its width: the encoder's.
std::pair<PoolingModule, int64_t> ReadPoolingModule(const std::string& folder);
DenseModule ReadDenseModule(const std::string& folder);
LayerNormModule ReadLayerNormModule(const std::string& folder);
// Error where one of the two is told to work on something else than the text's vector.
void CheckVectorModule(const std::string& folder);

// Error naming a key of `object` that is none of these and neither null nor {}.
void RefuseUnknownKeys(const Json& object, std::initializer_list<std::string_view> known, const std::string& where);

}  // namespace lshformer
