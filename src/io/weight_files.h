// The weights of a model folder, in one file or in shards.
//
//   model.safetensors                  or, where that is absent,
//   model.safetensors.index.json       {"weight_map": {tensor: file}}, and the files it names, as HF writes large
//   models
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "io/safetensors.h"

namespace lshformer {

class WeightFiles {
 public:
  // Opens and validates all files. Error names the file: none of the two is there (other weight files are named, so
  // that the user learns why they do not serve), a shard is missing, its name leads out of the folder, a tensor is not
  // in the shard that the index names, is in two shards, or in a shard and not in the index.
  explicit WeightFiles(const std::string& folder);

  const std::string& path() const { return path_; }          // of the one file, or of the index
  std::vector<std::string> names() const;                    // sorted
  std::vector<std::string> NamesInOrder() const;             // file by file, as they lie in each
  const TensorView* Find(std::string_view name) const;       // nullptr if absent
  const std::string& FileOf(const std::string& name) const;  // path of the file that holds a tensor
  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }

 private:
  void OpenShards(const std::string& folder);

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const SafetensorsFile*, std::less<>> holder_;  // of each tensor
};

// Whether the folder has weights that WeightFiles reads, and the name of a file that holds some which it does not read
// (pytorch_model.bin, …), "" if there is none.
bool HasWeights(const std::string& folder);
std::string UnreadableWeights(const std::string& folder);

// {"weight_map": {tensor: file}} → tensor → file. A file is one of the folder itself: no name leads out of it.
std::map<std::string, std::string> ParseWeightIndex(const Json& index, std::string_view where);

}  // namespace lshformer
