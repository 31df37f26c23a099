#include "cli/training_flags.h"

#include <iostream>
#include <limits>

#include "cli/flags.h"
#include "models/family.h"

namespace lshformer::cli {
namespace {

template <class Enum>
CLI::Option* AddNamed(CLI::App& command, const char* flag, Enum& value, Enum (*parse)(const std::string&),
                      std::vector<std::string> names, const char* help) {
  return command
      .add_option_function<std::string>(
          flag, [&value, parse](const std::string& name) { value = parse(name); }, help)
      ->check(OneOf(names))
      ->default_str(Name(value));
}

}  // namespace

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
  const auto number = [&](const char* flag, auto& value, const char* help, const CLI::Validator& check,
                          const char* group) { command.add_option(flag, value, help)->check(check)->group(group); };
  const auto from = [](int64_t low) { return IntegerIn(low, INT32_MAX); };
  const char* group = "Batches and length of the run";
  number("--per_device_train_batch_size", training.per_device_train_batch_size, "sequences per forward", from(1),
         group);
  number("--per_device_eval_batch_size", training.per_device_eval_batch_size, "sequences per forward of evaluation",
         from(1), group);
  number("--gradient_accumulation_steps", training.gradient_accumulation_steps, "forwards per update", from(1), group);
  number("--num_train_epochs", training.num_train_epochs, "passes over the data; a fraction is allowed",
         NumberIn(0, 1e9), group);
  number("--max_steps", training.max_steps, "updates, whatever the epochs; -1: not given", IntegerIn(-1, INT64_MAX),
         group);
  command
      .add_flag("--gradient_checkpointing", training.gradient_checkpointing,
                "keep the input of each layer alone and compute the rest again in the backward: the same result with "
                "less memory, a third more time")
      ->group(group);
  group = "Optimizer";
  AddNamed<OptimizerType>(command, "--optim", training.optim, ParseOptimizerType, {"adamw", "adamw_bert"},
                          "adamw_bert: without bias correction, as BERT was trained (there --adam_epsilon 1e-6)")
      ->group(group);
  number("--learning_rate", training.learning_rate, "the peak", NumberIn(0, std::numeric_limits<double>::max()), group);
  number("--weight_decay", training.weight_decay, "decoupled; not on biases and LayerNorm",
         NumberIn(0, std::numeric_limits<double>::max()), group);
  number("--adam_beta1", training.adam_beta1, "decay of the mean gradient", NumberBelow(0, 1), group);
  number("--adam_beta2", training.adam_beta2, "decay of the mean square", NumberBelow(0, 1), group);
  number("--adam_epsilon", training.adam_epsilon, "added to the root", NumberIn(0, std::numeric_limits<double>::max()),
         group);
  number("--max_grad_norm", training.max_grad_norm, "clips the norm of all gradients; 0: not",
         NumberIn(0, std::numeric_limits<double>::max()), group);
  AddNamed<ScheduleType>(command, "--lr_scheduler_type", training.lr_scheduler_type, ParseScheduleType,
                         {"linear", "cosine", "constant"}, "learning rate after the warm-up")
      ->group(group);
  number("--warmup_steps", training.warmup_steps, "updates of linear warm-up", IntegerIn(0, INT64_MAX), group);
  number("--warmup_ratio", training.warmup_ratio, "or their share of all updates", NumberIn(0, 1), group);
  command
      .add_option(
          "--ema_decay", training.ema_decay,
          "evaluate and save the exponential moving average of the weights; 0.999 looks back about 1000 updates")
      ->check(NumberBetween(0, 1))
      ->type_name("NUMBER")
      ->default_str("none")
      ->group(group);
  group = "Logging and checkpoints (in updates)";
  number("--logging_steps", training.logging_steps, "between log entries; 0: none", IntegerIn(0, INT64_MAX), group);
  number("--eval_steps", training.eval_steps, "between evaluations; 0: only at the end", IntegerIn(0, INT64_MAX),
         group);
  number("--save_steps", training.save_steps,
         "between checkpoints; 0: only when stopped. Given, a finished run keeps what further steps need",
         IntegerIn(0, INT64_MAX), group);
  number("--save_total_limit", training.save_total_limit, "newest checkpoints kept, beside the best; 0: all", from(0),
         group);
  command
      .add_flag("--load_best_model_at_end", training.load_best_model_at_end,
                "the result is the checkpoint with the best evaluation, not the last")
      ->group(group);
  command
      .add_option("--metric_for_best_model", training.metric_for_best_model,
                  "which figure decides; smaller is better for losses and perplexity")
      ->type_name("NAME")
      ->group(group);
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
