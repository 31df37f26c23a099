#include "cli/training_job.h"

#include <iostream>

#include "jobs/seed_summary.h"

namespace lshformer::cli {

void PrintJobResult(const JobResult& result) {
  if (!result.first_process) return;
  if (result.summary.is_object()) {
    std::cout << SeedsText(result.summary);
    return;
  }
  Json shown = result.plan;
  if (shown.is_null()) {
    shown = result.train;
    if (!result.eval.empty()) shown.update(Json(result.eval));
  }
  std::cout << shown.dump(2) << "\n";
}

}  // namespace lshformer::cli
