// The folder of a converted model: what its source holds, under another config and with more tensors.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "convert/convert.h"
#include "ops/torch.h"

namespace lshformer {

// A folder beside `path` that takes its name once all is in it. Where that is an empty folder, or a link to one, the
// folder is made in there, and what is in it goes up. Without Commit it is removed again, with the parents that it
// needed; what processes left that were killed on the way there goes first.
//
// What a process that is stopped on the way leaves for the next one stands in a folder of its own, unfinished().
class StagedFolder {
 public:
  // For copies that are not to stay: a folder in $TMPDIR. Error naming that.
  struct Temporary {};
  explicit StagedFolder(Temporary);
  // Error naming output_dir: it has files already, its place cannot be written to, or another process makes it;
  // UsageError: its name cannot be one.
  explicit StagedFolder(const std::string& path);
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;
  const std::string& path() const { return staged_; }
  // Beside path(), under a name that stays the same; made by whoever keeps something there. "" of a temporary folder.
  const std::string& unfinished() const { return unfinished_; }
  void RemoveUnfinished();  // Commit does that too
  void Commit();

 private:
  void Make(const std::string& shown);
  void MoveUp();
  void Remove();

  std::string path_, staged_, unfinished_;
  bool inside_ = false;            // path_ was there
  int lock_ = -1;                  // on the staged folder, as long as the process lives: it is no leftover
  std::vector<std::string> made_;  // parents that were missing, innermost first
};

struct FolderChanges {
  Json attention;  // of config.json; null: as it is
  std::vector<std::pair<std::string, torch::Tensor>> tensors =
      {};                 // more, or in place of those of these names in files
  int64_t positions = 0;  // > 0: room for so many tokens, by WithPositions (models/family.h) and a longer table
  PositionExtension extension = PositionExtension::kTile;
};

// Copies the model of `source`: its tokenizer, its other settings and its tensors bit for bit and in their order, but
// for the changes;
// directions of the attention that it had go with it.
// Left behind: what a training run leaves beside a model (checkpoints, logs, results).
void WriteChangedModel(const std::string& source, const FolderChanges& changes, const std::string& folder);

}  // namespace lshformer
