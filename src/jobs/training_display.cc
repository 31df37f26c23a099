#include "jobs/training_display.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace lshformer {

void TrainingDisplay::AddTo(TrainerHooks& hooks) {
  hooks.progress = [this](const TrainingProgress& progress) { ShowProgress(progress); };
  hooks.log = [this, log = hooks.log](const Json& entry) {
    if (log) log(entry);
    ShowEntry(entry);
  };
}

void TrainingDisplay::ShowProgress(const TrainingProgress& progress) {
  total_ = progress.total;
  if (!progress_) progress_.emplace(title_, progress.total, "step", progress.step);
  if (progress.loss) progress_->Update(progress.step, fmt::format("loss {:.4f}", *progress.loss));
  if (progress.step >= progress.total) progress_->Finish();  // what follows has a progress of its own
}

void TrainingDisplay::ShowEntry(const Json& entry) const {
  const auto step = entry["step"].get<int64_t>();
  if (entry.contains("grad_norm")) {
    spdlog::info("step {} of {}: loss {:.4f}, gradient norm {:.3g}, learning rate {:.3g}", step, total_,
                 entry["loss"].get<double>(), entry["grad_norm"].get<double>(), entry["learning_rate"].get<double>());
    return;
  }
  Json metrics = entry;
  for (const char* key : {"epoch", "step"}) metrics.erase(key);
  spdlog::info("step {}: {}", step, metrics.dump());
}

}  // namespace lshformer
