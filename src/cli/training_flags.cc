#include "cli/training_flags.h"

#include <iostream>

#include "cli/flags.h"
#include "models/family.h"

namespace lshformer::cli {
void AddModelFlags(CLI::App& command, ModelSource& model) {
  const char* group = "Model";
  command.add_option("--model_name_or_path", model.model_name_or_path, "checkpoint folder to start from")
      ->type_name("DIR")
      ->group(group);
  command.add_option("--model_type", model.model_type, "or a new model of this kind")
      ->check(OneOf(ModelTypes()))
      ->group(group);
  command.add_option("--config_name", model.config_name, "config.json of a new model, or a folder that has one")
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--config_overrides", model.config_overrides,
                  "changes to it, \"hidden_size=128,num_hidden_layers=2\"")
      ->type_name("KEY=VALUE,…")
      ->group(group);
  command.add_option("--tokenizer_name", model.tokenizer_name, "tokenizer folder, if not the checkpoint")
      ->type_name("DIR")
      ->group(group);
}

void AddMaskingFlags(CLI::App& command, double& mlm_probability, MaskedChoice& choice, const char* group) {
  command.add_option("--mlm_probability", mlm_probability, "masked LM: share of tokens to predict")
      ->check(NumberIn(0, 1))
      ->group(group);
  command
      .add_option_function<std::string>(
          "--masking", [&choice](const std::string& name) { choice.whole_words = name == "whole_word"; },
          "masked LM: tokens by themselves, or all pieces of a word")
      ->check(OneOf({"token", "whole_word"}))
      ->default_str("token")
      ->group(group);
  command
      .add_option("--max_predictions_per_seq", choice.max_predictions,
                  "masked LM: a fixed number per sequence, at most this many, as BERT was trained; 0: no limit")
      ->check(IntegerIn(0, INT32_MAX))
      ->group(group);
}

void AddFolderFlags(CLI::App& command, RunFolder& folder) {
  const char* group = "Output folder";
  command.add_option("--output_dir", folder.output_dir, "where the model, results and checkpoints go")
      ->required()
      ->type_name("DIR")
      ->group(group);
  command.add_flag("--overwrite_output_dir", folder.overwrite_output_dir, "replace an older run in it")->group(group);
  command
      .add_option("--resume_from_checkpoint", folder.resume_from_checkpoint,
                  "go on from a checkpoint; auto: the newest complete one of --output_dir, else anew")
      ->type_name("auto|DIR")
      ->group(group);
  // Programs' own jobs (quickstart) leave none; whoever trains from the command line finds what transformers leaves.
  folder.report_to = "tensorboard";
  command.add_option("--report_to", folder.report_to, "tensorboard: the log as event files in runs/")
      ->check(OneOf({"tensorboard", "none"}))
      ->group(group);
  command.add_option("--save_dtype", folder.save_dtype, "numbers of the finished model; checkpoints are float32")
      ->check(OneOf({"float32", "float16", "bfloat16"}))
      ->group(group);
}

void AddTrainingFlags(CLI::App& command, TrainingOptions& training) {
  const OptionTable<TrainingOptions>& table = TrainingTable();
  for (const Option<TrainingOptions>& option : table.options) {
    if (option.help.empty()) continue;  // no flag of its own
    AddOptionFlag(command, /*prefix=*/"", table, option, [&training, &option](const Json& value) {
      option.read(Json{{option.name, value}}, "", training);
    });
  }
}

bool AsksForCheckpoints(const CLI::App& command) {
  return command.count("--save_steps") > 0 || command.count("--save_total_limit") > 0;
}

void PrintJobResult(const JobResult& result) {
  Json shown = result.plan;
  if (shown.is_null()) {
    shown = result.train;
    if (result.eval.is_object()) shown.update(result.eval);
  }
  std::cout << shown.dump(2) << "\n";
}

}  // namespace lshformer::cli
