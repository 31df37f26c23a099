#include "io/weight_files.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr size_t kMostShards = 10'000;

std::string In(const std::string& folder, const std::string& name) { return (fs::path(folder) / name).string(); }

[[noreturn]] void FailNoWeights(const std::string& folder) {
  if (const std::string other = UnreadableWeights(folder); !other.empty())
    Fail("{}: has {} but no {}; save the model with safetensors first", Shown(folder, 120), other, kSingle);
  Fail("{}: no such file", Shown(In(folder, kSingle), 160));
}

}  // namespace

bool HasWeights(const std::string& folder) { return fs::exists(In(folder, kSingle)) || fs::exists(In(folder, kIndex)); }

std::string UnreadableWeights(const std::string& folder) {
  for (const char* other : {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack"}) {
    if (fs::exists(In(folder, other))) return other;
  }
  return "";
}

std::map<std::string, std::string> ParseWeightIndex(const Json& index, std::string_view where) {
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    Fail("{}: expected an object \"weight_map\"", where);
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    const std::string entry = fmt::format("{}: \"weight_map\": \"{}\"", where, Shown(tensor, 100));
    if (!file.is_string()) Fail("{}: expected the name of a file, got {}", entry, ShownValue(file));
    const std::string name = file.get<std::string>();
    const bool plain = name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
    constexpr size_t kLongestName = 255;  // of a file, in bytes
    if (name.empty() || name == "." || name == ".." || !plain || name.size() > kLongestName)
      Fail("{}: expected the name of a file in this folder, got \"{}\"", entry, Shown(name, 100));
    shards.emplace(tensor, name);
  }
  if (shards.empty()) Fail("{}: \"weight_map\" is empty", where);
  return shards;
}

WeightFiles::WeightFiles(const std::string& folder) : path_(In(folder, kSingle)) {
  if (!fs::exists(path_)) {
    path_ = In(folder, kIndex);
    if (!fs::exists(path_)) FailNoWeights(folder);
    OpenShards(folder);
    return;
  }
  files_.push_back(std::make_unique<SafetensorsFile>(path_));
  for (const auto& [name, view] : files_[0]->tensors()) holder_.emplace(name, files_[0].get());
}

void WeightFiles::OpenShards(const std::string& folder) {
  constexpr size_t kMostBytes = size_t{64} << 20;
  const auto shard_of = ParseWeightIndex(ReadJsonFile(path_, {.bytes = kMostBytes}), Shown(path_, 160));
  std::map<std::string, const SafetensorsFile*> opened;
  for (const auto& [tensor, shard] : shard_of) {
    if (opened.contains(shard)) continue;
    if (opened.size() == kMostShards) Fail("{}: names more than {} files", Shown(path_, 160), kMostShards);
    const std::string file = In(folder, shard);
    if (!fs::exists(file)) Fail("{}: names the shard \"{}\", which is missing", Shown(path_, 160), Shown(shard, 100));
    files_.push_back(std::make_unique<SafetensorsFile>(file));
    opened.emplace(shard, files_.back().get());
    for (const auto& [name, view] : files_.back()->tensors()) {
      const auto [other, fresh] = holder_.emplace(name, files_.back().get());
      if (!fresh)
        Fail("{}: tensor \"{}\" is in {} too", Shown(file, 120), Shown(name, 100), Shown(other->second->path(), 120));
      const auto listed = shard_of.find(name);
      if (listed != shard_of.end() && listed->second != shard)
        Fail("{}: lists tensor \"{}\" in \"{}\", but \"{}\" has it", Shown(path_, 120), Shown(name, 80),
             Shown(listed->second, 60), Shown(shard, 60));
    }
  }
  for (const auto& [tensor, shard] : shard_of) {
    if (!holder_.contains(tensor))
      Fail("{}: tensor \"{}\" is not in the shard \"{}\"", Shown(path_, 160), Shown(tensor, 100), Shown(shard, 100));
  }
  for (const auto& [tensor, file] : holder_) {
    if (!shard_of.contains(tensor))
      Fail("{}: does not list tensor \"{}\", which {} has", Shown(path_, 120), Shown(tensor, 80),
           Shown(file->path(), 120));
  }
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : holder_) names.push_back(name);
  return names;
}

std::vector<std::string> WeightFiles::NamesInOrder() const {
  std::vector<const SafetensorsFile*> files;
  for (const auto& file : files_) files.push_back(file.get());
  std::sort(files.begin(), files.end(), [](auto* a, auto* b) { return a->path() < b->path(); });
  std::vector<std::string> names;
  for (const SafetensorsFile* file : files) {
    const auto first = static_cast<int64_t>(names.size());
    for (const auto& [name, view] : file->tensors()) names.push_back(name);
    std::stable_sort(names.begin() + first, names.end(), [&](const std::string& a, const std::string& b) {
      return file->Find(a)->bytes.data() < file->Find(b)->bytes.data();
    });
  }
  return names;
}

const TensorView* WeightFiles::Find(std::string_view name) const {
  const auto found = holder_.find(name);
  return found == holder_.end() ? nullptr : found->second->Find(name);
}

const std::string& WeightFiles::FileOf(const std::string& name) const {
  const auto found = holder_.find(name);
  return found == holder_.end() ? path_ : found->second->path();
}

}  // namespace lshformer
