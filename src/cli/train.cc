// lshformer train: a labelled task, from a checkpoint or from scratch.
#include "jobs/train.h"

#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/precision_flags.h"
#include "cli/training_flags.h"

namespace lshformer::cli {

void AddTrain(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand("train", "a labelled task, from a checkpoint or from scratch");
  auto options = std::make_shared<TrainOptions>();
  AddModelFlags(*command, options->model);
  const char* group = "Data";
  command->add_option("--task", options->task, "the task")
      ->check(OneOf({"text-classification", "question-answering"}))
      ->group(group);
  command->add_option("--task_name", options->task_name, "GLUE task: its labels and metrics, with --data_dir its files")
      ->type_name("NAME")
      ->group(group);
  command->add_option("--data_dir", options->data_dir, "its folder, with train.tsv and dev.tsv")
      ->type_name("DIR")
      ->group(group);
  command
      ->add_flag_function(
          "--do_regression", [options](int64_t count) { options->do_regression = count > 0; },
          "labels are values; default: where all are numbers and not all integers")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->group(group);
  command
      ->add_option("--train_file", options->train_files, "or TSV or JSONL with labels, or SQuAD JSON; may be repeated")
      ->type_name("FILE")
      ->group(group);
  command->add_option("--validation_file", options->validation_file, "the same, to evaluate on")
      ->type_name("FILE")
      ->group(group);
  command
      ->add_option("--validation_split_percentage", options->validation_split_percentage,
                   "or this share of the training rows or questions, the first; 0: none")
      ->check(NumberBelow(0, 100))
      ->group(group);
  command->add_option("--test_file", options->test_file, "the same, to predict; labels are not read")
      ->type_name("FILE")
      ->group(group);
  command->add_option("--max_train_samples", options->max_train_samples, "first rows or questions only; 0: all")
      ->check(IntegerIn(0, INT64_MAX))
      ->group(group);
  command->add_option("--max_eval_samples", options->max_eval_samples, "first rows or questions only; 0: all")
      ->check(IntegerIn(0, INT64_MAX))
      ->group(group);
  command
      ->add_option("--max_seq_length", options->max_seq_length,
                   "tokens per row, longer ones are cut (contexts: in windows); 0: the position table")
      ->check(IntegerIn(0, INT32_MAX))
      ->group(group);
  AddAnswerFlags(*command, options->answers, options->doc_stride, "Question answering");
  group = "Run";
  command->add_flag("--do_eval", options->do_eval, "evaluate at the end (with --eval_steps also before)")->group(group);
  command
      ->add_flag("--do_predict", options->do_predict,
                 "write predict_results_TASK.txt for the test rows, or predict_predictions.json")
      ->group(group);
  command->add_flag("--dry_run", options->dry_run, "only tell tokens, steps, memory and time")->group(group);
  AddFolderFlags(*command, options->folder);
  AddTrainingFlags(*command, options->training);
  auto precision = std::make_shared<PrecisionFlags>();
  AddPrecisionFlags(*command, *precision, /*inference=*/false);
  AddAttentionFlags(*command, options->model.attention);
  command->callback([command, options, precision, &common] {
    CheckAnswerFlags(*command, options->answers, options->question_answering());
    if (options->question_answering())
      RefuseFlags(*command, {"--task_name", "--data_dir", "--do_regression"}, "is for --task text-classification");
    if (!options->do_eval && options->training.eval_steps == 0)
      RefuseFlags(*command, {"--validation_file"}, "needs --do_eval or --eval_steps");
    if (!options->do_predict) RefuseFlags(*command, {"--test_file"}, "needs --do_predict");
    options->training.seed = common.seed;
    options->folder.keep_optimizer_states = AsksForCheckpoints(*command);
    options->progress = true;
    options->model.precision = precision->Chosen();
    PrintJobResult(RunTrain(*options));
  });
}

}  // namespace lshformer::cli
