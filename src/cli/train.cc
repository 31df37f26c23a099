// lshformer train: a labelled task, from a checkpoint or from scratch.
#include "jobs/train.h"

#include "cli/training_job.h"

namespace lshformer::cli {

void AddTrain(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand("train", "a labelled task, from a checkpoint or from scratch");
  AddTrainingJob(*command, TrainTable(), RunTrain, common);
}

}  // namespace lshformer::cli
