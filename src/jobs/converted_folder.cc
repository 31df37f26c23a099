#include "jobs/converted_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "base/leftovers.h"
#include "io/weight_files.h"
#include "models/config.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPositionTable = "position_embeddings.weight";
constexpr int64_t kMostPositions = int64_t{1} << 24;

bool EndsWithOneOf(const std::string& name, std::initializer_list<const char*> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](const char* end) { return name.ends_with(end); });
}

// A model's own small files: tokenizer, settings, a card.
bool BelongsToModel(const std::string& name) {
  static const std::set<std::string> kOfRuns{"config.json",      "trainer_state.json",  "training_args.json",
                                             "scheduler.json",   "convert_report.json", "nbest_predictions.json",
                                             "predictions.json", "null_odds.json"};
  if (kOfRuns.contains(name) || EndsWithOneOf(name, {"_results.json", ".index.json", ".html", ".log"})) return false;
  return EndsWithOneOf(name, {".json", ".txt", ".model", ".md", ".vocab"}) && !name.starts_with(".");
}

// The folder at the end of a chain of links; it need not exist.
fs::path BehindLinks(fs::path path) {
  constexpr int kMostLinks = 40;  // Linux's own limit
  std::error_code error;
  for (int i = 0; i < kMostLinks && fs::is_symlink(fs::symlink_status(path, error)); ++i)
    path = path.parent_path() / fs::read_symlink(path, error);
  path = path.lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

// "1_Pooling", "2_Normalize": parts of a sentence encoder.
bool IsModuleFolder(const std::string& name) {
  return !name.empty() && name[0] >= '0' && name[0] <= '9' && name.find('_') != std::string::npos;
}

void CopyOtherFiles(const std::string& source, const std::string& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(source)) {
    const std::string name = entry.path().filename().string();
    const fs::path to = fs::path(folder) / name;
    if (entry.is_directory() && IsModuleFolder(name)) fs::copy(entry.path(), to, fs::copy_options::recursive);
    if (entry.is_regular_file() && BelongsToModel(name)) fs::copy_file(entry.path(), to);
  }
}

// Rows 0, 1, …, again and again.
std::vector<std::byte> Repeated(const TensorView& view, int64_t rows) {
  const size_t row = view.bytes.size() / static_cast<size_t>(std::max<int64_t>(1, view.shape[0]));
  std::vector<std::byte> bytes(row * static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i)
    std::memcpy(bytes.data() + static_cast<size_t>(i) * row,
                view.bytes.data() + static_cast<size_t>(i % view.shape[0]) * row, row);
  return bytes;
}

void WriteWeights(const std::string& source, const FolderChanges& changes, const std::string& path) {
  const WeightFiles files(source);
  std::map<std::string, torch::Tensor> replaced(changes.tensors.begin(), changes.tensors.end());
  for (auto& [name, tensor] : replaced) tensor = tensor.detach().to(torch::kFloat32).contiguous();
  std::vector<NamedTensor> tensors;
  std::vector<std::byte> table;
  bool extended = false;
  for (const std::string& name : files.names()) {
    if (replaced.contains(name)) continue;
    TensorView view = *files.Find(name);
    if (changes.positions > 0 && name.ends_with("position_ids")) continue;  // a buffer of old files
    if (changes.positions > 0 && name.ends_with(kPositionTable)) {
      table = Repeated(view, changes.positions);
      view = {view.dtype, {changes.positions, view.shape[1]}, table};
      extended = true;
    }
    tensors.push_back({name, view});
  }
  if (changes.positions > 0 && !extended)
    FailOption("extend_positions", "{} has no table of positions", Shown(source, 120));
  for (const auto& [name, tensor] : replaced)
    tensors.push_back(
        {name,
         {DType::kF32, tensor.sizes().vec(), {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}}});
  WriteSafetensors(path, tensors, {{"format", "pt"}});
}

void WriteConfig(const std::string& source, const FolderChanges& changes, const std::string& folder) {
  Json config = ReadModelConfigJson(source + "/config.json");
  if (!changes.attention.is_null()) config["attention"] = changes.attention;
  if (changes.positions > 0) config["max_position_embeddings"] = changes.positions;
  WriteFileAtomically(folder + "/config.json", config.dump(2) + "\n");
  // Where the tokenizer says how long a text may be, that is the new length.
  const std::string tokenizer = folder + "/tokenizer_config.json";
  if (changes.positions == 0 || !fs::exists(tokenizer)) return;
  Json settings = ReadJsonFile(tokenizer);
  if (!settings.is_object() || !settings.contains("model_max_length")) return;
  settings["model_max_length"] = changes.positions;
  WriteFileAtomically(tokenizer, settings.dump(2) + "\n");
}

}  // namespace

StagedFolder::StagedFolder(const std::string& path) {
  const fs::path whole = fs::absolute(path);
  path_ = BehindLinks(whole.has_filename() ? whole : whole.parent_path()).string();
  staged_ = StagedName(path_);
  if (fs::path(path_).filename().string().size() > NAME_MAX)
    FailOption("output_dir", "{}: {}", Shown(path, 160), std::strerror(ENAMETOOLONG));
  if (!IsEmptyFolder(path_)) FailOption("output_dir", "{} has files already; name a new folder", Shown(path, 160));
  std::error_code error;
  for (fs::path parent = fs::path(path_).parent_path(); !fs::exists(parent, error); parent = parent.parent_path())
    made_.push_back(parent.string());
  if (const pid_t holder = RemoveStagedLeftovers(path_); holder > 0)
    FailOption("output_dir", "{} is in use by process {}", Shown(path, 160), holder);
  fs::create_directories(staged_, error);
  if (error) FailOption("output_dir", "{}: cannot be made: {}", Shown(path, 160), error.message());
  lock_ = ::open(staged_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0) ::flock(lock_, LOCK_EX | LOCK_NB);  // where there are no locks, the process's number has to do
}

StagedFolder::~StagedFolder() {
  std::error_code error;
  if (lock_ >= 0) ::close(lock_);
  if (staged_.empty()) return;
  fs::remove_all(staged_, error);
  for (const std::string& parent : made_) fs::remove(parent, error);  // only where it is empty
}

void StagedFolder::Commit() {
  const auto check = [&](const std::error_code& error) {
    if (error) FailOption("output_dir", "{}: {}", Shown(path_, 160), error.message());
  };
  std::error_code error;
  if (fs::is_directory(path_, error)) {
    if (!IsEmptyFolder(path_)) FailOption("output_dir", "{} has got files meanwhile", Shown(path_, 160));
    // The config comes last: until then it is no model's folder.
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(staged_)) files.push_back(entry.path());
    std::stable_partition(files.begin(), files.end(),
                          [](const fs::path& file) { return file.filename() != "config.json"; });
    for (const fs::path& file : files) {
      fs::rename(file, fs::path(path_) / file.filename(), error);
      check(error);
    }
    fs::remove(staged_, error);
  } else {
    fs::rename(staged_, path_, error);
    check(error);
  }
  staged_.clear();
}

void WriteChangedModel(const std::string& source, const FolderChanges& changes, const std::string& folder) {
  try {
    CopyOtherFiles(source, folder);
  } catch (const fs::filesystem_error& error) {
    Fail("{}: {}", Shown(folder, 160), error.code().message());
  }
  WriteWeights(source, changes, folder + "/model.safetensors");
  WriteConfig(source, changes, folder);
}

}  // namespace lshformer
