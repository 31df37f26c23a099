// lshformer pretrain: masked language modelling on plain text.
#include "jobs/pretrain.h"

#include "cli/training_job.h"

namespace lshformer::cli {

void AddPretrain(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand(
      "pretrain", "masked language modelling on plain text, with or without a second loss on pairs of sentences");
  AddTrainingJob(*command, PretrainTable(), RunPretrain, common);
}

}  // namespace lshformer::cli
