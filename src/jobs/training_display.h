// A run on stderr while it trains: its progress, and with log level info a line for each entry of its log.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/progress.h"
#include "train/trainer.h"

namespace lshformer {

class TrainingDisplay {
 public:
  explicit TrainingDisplay(std::string title) : title_(std::move(title)) {}
  // Makes the hooks tell this display too; it must outlive the run.
  void AddTo(TrainerHooks& hooks);

 private:
  void ShowProgress(const TrainingProgress& progress);
  void ShowEntry(const Json& entry) const;

  std::string title_;
  std::optional<Progress> progress_;  // from the first update on
  int64_t total_ = 0;
};

}  // namespace lshformer
