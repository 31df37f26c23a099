#include "convert/converted_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
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
#include "models/family.h"
#include "nn/self_attention.h"
#include "nn/sentence/modules.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPositionTable = "position_embeddings.weight";

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

void CopyOtherFiles(const std::string& source, const std::string& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(source)) {
    const std::string name = entry.path().filename().string();
    const fs::path to = fs::path(folder) / name;
    if (!entry.is_regular_file() || !BelongsToModel(name) || fs::exists(to)) continue;
    fs::copy_file(entry.path(), to);
    fs::permissions(to, fs::perms::owner_write, fs::perm_options::add);  // some are written anew
  }
}

constexpr const char* kModules = "/modules.json";

// Of a Sentence-Transformers folder the modules behind the encoder, which moves to the folder itself.
void CopyModules(const std::string& source, const std::string& encoder, const std::string& folder) {
  if (encoder != source) CopyOtherFiles(source, folder);
  for (const std::string& path : SentenceModules::ModuleFolders(source)) {
    const fs::path from = fs::path(source) / path;
    if (!fs::is_directory(from) || fs::equivalent(from, encoder)) continue;
    fs::create_directories((fs::path(folder) / path).parent_path());
    fs::copy(from, fs::path(folder) / path, fs::copy_options::recursive);
  }
  if (encoder == source) return;
  Json modules = ReadJsonFile(source + kModules);
  modules.front()["path"] = "";
  WriteFileAtomically(folder + kModules, modules.dump(2) + "\n");
}

// The first `kept` rows, which are no positions, and those behind them again and again.
std::vector<std::byte> Repeated(const TensorView& view, int64_t kept, int64_t rows) {
  const size_t row = view.bytes.size() / static_cast<size_t>(std::max<int64_t>(1, view.shape[0]));
  std::vector<std::byte> bytes(row * static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t from = i < kept ? i : kept + (i - kept) % (view.shape[0] - kept);
    std::memcpy(bytes.data() + static_cast<size_t>(i) * row, view.bytes.data() + static_cast<size_t>(from) * row, row);
  }
  return bytes;
}

// The first `kept` rows, which are no positions, and the others drawn out over those behind them.
std::vector<std::byte> Interpolated(const TensorView& view, int64_t kept, int64_t rows) {
  const auto width = static_cast<size_t>(view.shape[1]);
  std::vector<float> from(static_cast<size_t>(view.shape[0]) * width), to(static_cast<size_t>(rows) * width);
  ConvertTo(view, std::span<float>(from), kPositionTable);
  std::copy_n(from.begin(), static_cast<size_t>(kept) * width, to.begin());
  const int64_t old_last = view.shape[0] - kept - 1, new_last = rows - kept - 1;
  for (int64_t i = 0; i <= new_last; ++i) {
    const double place = static_cast<double>(i * old_last) / static_cast<double>(new_last);
    const auto low = static_cast<int64_t>(place), high = std::min(low + 1, old_last);
    const double share = place - static_cast<double>(low);
    for (size_t k = 0; k < width; ++k) {
      const double before = from[static_cast<size_t>(kept + low) * width + k],
                   behind = from[static_cast<size_t>(kept + high) * width + k];
      to[static_cast<size_t>(kept + i) * width + k] = static_cast<float>(before + share * (behind - before));
    }
  }
  const auto bytes = std::as_bytes(std::span(to));
  return {bytes.begin(), bytes.end()};
}

void WriteWeights(const std::string& source, const FolderChanges& changes, const std::string& path) {
  const WeightFiles files(source);
  std::map<std::string, torch::Tensor> replaced(changes.tensors.begin(), changes.tensors.end());
  for (auto& [name, tensor] : replaced) tensor = tensor.detach().to(torch::kFloat32).contiguous();
  const auto view_of = [](const torch::Tensor& tensor) -> TensorView {
    return {DType::kF32, tensor.sizes().vec(), {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}};
  };
  std::vector<NamedTensor> tensors;
  const ModelConfig config = ReadModelConfig(source + "/config.json");
  std::vector<std::byte> table;
  bool extended = FamilyOf(config).extend_rotary != nullptr;
  if (extended && changes.positions > 0 && changes.extension == PositionExtension::kInterpolate)
    FailOption("position_extension", "is for tables of positions; those of a {} are rotary", config.model_type);
  for (const std::string& name : files.NamesInOrder()) {
    TensorView view = *files.Find(name);
    if (changes.positions > 0 && name.ends_with("position_ids")) continue;              // a buffer of old files
    if (!changes.attention.is_null() && name.starts_with(kDirectionsPrefix)) continue;  // another attention's
    if (const auto own = replaced.find(name); own != replaced.end()) {
      view = view_of(own->second);
    } else if (changes.positions > 0 && name.ends_with(kPositionTable)) {
      const int64_t kept = view.shape[0] - config.max_position_embeddings;
      if (kept < 0) Fail("{}: tensor \"{}\" has {} rows", Shown(source, 120), name, view.shape[0]);
      const bool tile = changes.extension == PositionExtension::kTile;
      table = (tile ? Repeated : Interpolated)(view, kept, kept + changes.positions);
      view = {tile ? view.dtype : DType::kF32, {kept + changes.positions, view.shape[1]}, table};
      extended = true;
    }
    tensors.push_back({name, view});
  }
  if (changes.positions > 0 && !extended)
    FailOption("extend_positions", "{} has no table of positions", Shown(source, 120));
  for (const auto& [name, tensor] : replaced)  // and those that are new
    if (files.Find(name) == nullptr || (!changes.attention.is_null() && name.starts_with(kDirectionsPrefix)))
      tensors.push_back({name, view_of(tensor)});
  WriteSafetensors(path, tensors, {{"format", "pt"}});
}

// Where a file says how long a text may be, that is the new length.
void SetLength(const std::string& path, const char* key, int64_t length) {
  if (!fs::exists(path)) return;
  Json settings = ReadJsonFile(path);
  if (!settings.is_object() || !HasValue(settings, key)) return;
  settings[key] = length;
  WriteFileAtomically(path, settings.dump(2) + "\n");
}

void WriteConfig(const std::string& source, const FolderChanges& changes, const std::string& folder) {
  const std::string path = source + "/config.json";
  Json config = ReadModelConfigJson(path);
  if (changes.positions > 0) config = WithPositions(config, changes.positions, Shown(path, 120));
  if (!changes.attention.is_null()) config["attention"] = changes.attention;
  WriteFileAtomically(folder + "/config.json", config.dump(2) + "\n");
  if (changes.positions == 0) return;
  SetLength(folder + "/tokenizer_config.json", "model_max_length", changes.positions);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (const std::string name = entry.path().filename().string();
        name.starts_with("sentence_") && name.ends_with("_config.json"))
      SetLength(entry.path().string(), "max_seq_length", changes.positions);
}

// Whether something else than `own` is in the folder, which may be missing.
bool HasOtherFiles(const std::string& folder, const std::string& own) {
  if (IsEmptyFolder(folder)) return false;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (entry->path() != own) return true;
  return static_cast<bool>(error);
}

// Status 2 where the name is at fault, 1 where its place is (read-only, full, somebody else's).
[[noreturn]] void FailToMake(const std::string& shown, const std::error_code& error) {
  const bool name = error == std::errc::filename_too_long || error == std::errc::not_a_directory ||
                    error == std::errc::invalid_argument || error == std::errc::too_many_symbolic_link_levels;
  if (name) FailUsage("{}: cannot be made: {}", shown, error.message());
  Fail("{}: cannot be made: {}", shown, error.message());
}

}  // namespace

StagedFolder::StagedFolder(Temporary) {
  static std::atomic<int> count{0};  // a command may need several
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  const char* given = std::getenv("TMPDIR");
  const std::string shown = fmt::format("TMPDIR \"{}\"", Shown(given == nullptr ? "" : given, 120));
  if (error) Fail("{}: {}", shown, error.message());
  const std::string path = (folder / "convert-").string() + std::to_string(count++);
  RemoveStagedLeftovers(path);  // others may be at work, on copies of their own
  staged_ = StagedName(path);
  Make(shown);
}

StagedFolder::StagedFolder(const std::string& path) {
  const std::string shown = fmt::format("{}: {}", Marked("output_dir"), Shown(path, 160));
  const fs::path plain = fs::path(path).has_filename() ? fs::path(path) : fs::path(path).parent_path();
  std::error_code error;
  path_ = fs::weakly_canonical(fs::absolute(FollowLinks(plain.string())), error).string();
  if (error) FailToMake(shown, error);
  inside_ = fs::is_directory(path_, error);
  const std::string whose = inside_ ? path_ + "/convert" : path_;
  const auto refuse = [&](pid_t holder) { Fail("{} is in use by process {}", shown, holder); };
  if (const pid_t holder = RemoveStagedLeftovers(whose); holder > 0) refuse(holder);
  unfinished_ = UnfinishedName(whose);
  if (HasOtherFiles(path_, unfinished_)) Fail("{} has files already; name a new folder", shown);
  for (fs::path parent = fs::path(path_).parent_path(); !fs::exists(parent, error); parent = parent.parent_path())
    made_.push_back(parent.string());
  staged_ = StagedName(whose);
  Make(shown);
  // Of two that began at the same moment one goes on.
  if (const pid_t holder = RemoveStagedLeftovers(whose); holder > 0 && holder < getpid()) {
    Remove();
    refuse(holder);
  }
}

void StagedFolder::Make(const std::string& shown) {
  std::error_code error;
  fs::create_directories(staged_, error);
  if (error) {
    Remove();
    FailToMake(shown, error);
  }
  lock_ = ::open(staged_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0) ::flock(lock_, LOCK_EX);  // where there are no locks, the process's number has to do
}

void StagedFolder::Remove() {
  std::error_code error;
  if (lock_ >= 0) ::close(lock_);
  lock_ = -1;
  if (staged_.empty()) return;
  fs::remove_all(staged_, error);
  for (const std::string& parent : made_) fs::remove(parent, error);  // only where it is empty
  staged_.clear();
}

StagedFolder::~StagedFolder() { Remove(); }

// The config goes last: until then it is no model's folder. Where one file cannot go, those before it go too.
void StagedFolder::MoveUp() {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(staged_, error), end; !error && entry != end; entry.increment(error))
    files.push_back(entry->path());
  std::stable_partition(files.begin(), files.end(),
                        [](const fs::path& file) { return file.filename() != "config.json"; });
  size_t moved = 0;
  for (; moved < files.size() && !error; ++moved)
    fs::rename(files[moved], fs::path(path_) / files[moved].filename(), error);
  if (!error) return;
  std::error_code ignored;
  for (size_t i = 0; i < moved; ++i) fs::remove_all(fs::path(path_) / files[i].filename(), ignored);
  FailOption("output_dir", "{}: {}", Shown(path_, 160), error.message());
}

void StagedFolder::RemoveUnfinished() {
  std::error_code ignored;
  if (!unfinished_.empty()) fs::remove_all(unfinished_, ignored);
}

void StagedFolder::Commit() {
  RemoveUnfinished();  // first: behind a finished folder it would never be looked for
  if (inside_) return MoveUp();
  std::error_code error;
  fs::rename(staged_, path_, error);
  if (error) FailOption("output_dir", "{}: {}", Shown(path_, 160), error.message());
  staged_.clear();
}

void WriteChangedModel(const std::string& source, const FolderChanges& changes, const std::string& folder) {
  const std::string encoder = SentenceModules::EncoderFolder(source);
  try {
    CopyOtherFiles(encoder, folder);
    CopyModules(source, encoder, folder);
  } catch (const fs::filesystem_error& error) {
    Fail("{}: {}", Shown(folder, 160), error.code().message());
  }
  WriteWeights(encoder, changes, folder + "/model.safetensors");
  WriteConfig(encoder, changes, folder);
}

}  // namespace lshformer
