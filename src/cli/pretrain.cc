// lshformer pretrain: masked language modelling on plain text.
#include "jobs/pretrain.h"

#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/precision_flags.h"
#include "cli/training_flags.h"

namespace lshformer::cli {

void AddPretrain(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand(
      "pretrain", "masked language modelling on plain text, with or without next-sentence prediction");
  auto options = std::make_shared<PretrainOptions>();
  AddModelFlags(*command, options->model);
  const char* group = "Data";
  command->add_option("--train_file", options->train_files, "text or JSONL, plain or .gz; may be repeated; - is stdin")
      ->required()
      ->type_name("FILE")
      ->group(group);
  command->add_option("--validation_file", options->validation_file, "text to evaluate on")
      ->type_name("FILE")
      ->group(group);
  command
      ->add_option("--validation_split_percentage", options->validation_split_percentage,
                   "else, with --do_eval, this share of the training text")
      ->check(NumberIn(0, 100))
      ->group(group);
  command->add_option("--max_train_samples", options->max_train_samples, "first sequences only; 0: all")
      ->check(IntegerIn(0, INT64_MAX))
      ->group(group);
  command->add_option("--max_eval_samples", options->max_eval_samples, "first sequences only; 0: all")
      ->check(IntegerIn(0, INT64_MAX))
      ->group(group);
  command->add_option("--max_seq_length", options->max_seq_length, "tokens per sequence; 0: the position table")
      ->check(IntegerIn(0, INT32_MAX))
      ->group(group);
  command
      ->add_flag("--line_by_line", options->line_by_line,
                 "every line is a sequence; otherwise blocks of --max_seq_length")
      ->group(group);
  command->add_option("--objective", options->objective, "masked LM alone, or with next-sentence prediction on pairs")
      ->check(OneOf({"mlm", "mlm+nsp"}))
      ->group(group);
  command->add_option("--short_seq_prob", options->short_seq_prob, "mlm+nsp: share of documents with shorter pairs")
      ->check(NumberIn(0, 1))
      ->group(group);
  command
      ->add_option("--dupe_factor", options->dupe_factor, "mlm+nsp: passes over the text, each with pairs of its own")
      ->check(IntegerIn(1, 1000))
      ->group(group);
  AddMaskingFlags(*command, options->mlm_probability, options->masking, group);
  group = "Run";
  command->add_flag("--do_eval", options->do_eval, "evaluate at the end (with --eval_steps also before)")->group(group);
  command->add_flag("--dry_run", options->dry_run, "only tell tokens, steps, memory and time")->group(group);
  AddFolderFlags(*command, options->folder);
  AddTrainingFlags(*command, options->training);
  auto precision = std::make_shared<PrecisionFlags>();
  AddPrecisionFlags(*command, *precision, /*inference=*/false);
  AddAttentionFlags(*command, options->model.attention);
  command->callback([options, command, precision, &common] {
    for (const char* flag : {"--short_seq_prob", "--dupe_factor"})
      if (options->objective == "mlm" && command->count(flag) > 0) FailUsage("{}: is for --objective mlm+nsp", flag);
    if (!options->do_eval && options->training.eval_steps == 0)
      RefuseFlags(*command, {"--validation_file"}, "needs --do_eval or --eval_steps");
    options->training.seed = common.seed;
    options->folder.keep_optimizer_states = AsksForCheckpoints(*command);
    options->progress = true;
    options->model.precision = precision->Chosen();
    PrintJobResult(RunPretrain(*options));
  });
}

}  // namespace lshformer::cli
