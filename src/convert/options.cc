// The table of convert's options, a row an option.
#include "convert/convert.h"
#include "jobs/shared_options.h"

namespace lshformer {

const OptionTable<ConvertOptions>& ConvertTable() {
  using C = ConvertOptions;
  constexpr NumberRange kShare{.low = 0, .high = 1}, kQuality{.low = 0, .high = 1};
  constexpr const char *kBudget = "Attention", *kRecovery = "Recovery: training towards the exact model",
                       *kTask = "A task to measure on, as evaluate has them";
  static const OptionTable<C> table{
      {Path("model_name_or_path", &C::model_name_or_path, "DIR", "folder of a model with exact attention")
           .Required()
           .Group(kModelOptions),
       Path("output_dir", &C::output_dir, "DIR", "new folder for the result, convert_report.json and report.html")
           .Group("Output"),
       Boolean("dry_run", &C::dry_run, "write nothing, only measure").Group("Output"),
       Number("min_quality", &C::min_quality, kQuality,
              "write nothing where less is kept: of the mean cosine to the exact model's answers, with a task of the "
              "share of its metric")
           .Group("Output"),
       Number("budget_pairs", &C::budget_pairs, kShare,
              "every head gets a setting of clustered attention so that this share of the pairs is computed; 0: none")
           .Group(kBudget),
       Number("budget_time", &C::budget_time, kShare, "likewise, of exact attention's time on this machine; 0: none")
           .Group(kBudget),
       Integer("extend_positions", &C::extend_positions, 0, int64_t{1} << 24, "rows of the position table; 0: as it is")
           .Group(kModelOptions),
       Names("position_extension", &C::position_extension, kPositionExtensionNames,
             "extend_positions: repeat the table, or draw it out")
           .Group(kModelOptions),
       Paths("calibrate", &C::calibrate,
             "texts of the kind the model is for, lines or JSONL with \"text\" (and \"text_pair\") or \"question\" and "
             "\"context\"; the first 128 count (of long ones fewer), every fourth of them to measure; default: texts "
             "that come with the "
             "program"),
       Path("train_file", &C::train_file, "FILE", "texts to recover on, of the same forms").Group(kRecovery),
       Integer("recover_steps", &C::recover_steps, 0, INT64_MAX,
               "training steps towards the exact model's hidden states; 0: none")
           .Group(kRecovery),
       Number("learning_rate", &C::learning_rate, {.low = 0, .low_open = true}, "the peak of recover_steps")
           .Group(kRecovery),
       Boolean("bf16", &C::bf16, "recover_steps: linear layers and attention multiply in bfloat16").Group(kRecovery),
       MaxSeqLength<C>("tokens per text"),
       Names("task", &C::task,
             {"fill-mask", "text-classification", "multiple-choice", "question-answering", "sentence-similarity"},
             "which head; default: the one that the model has")
           .OrNone()
           .Group(kTask),
       Text("task_name", &C::task_name, "GLUE task").Syntax("NAME").Group(kTask),
       Path("data_dir", &C::data_dir, "DIR", "its folder").Group(kTask),
       Path("validation_file", &C::validation_file, "FILE", "or a file").Group(kTask),
       [] {
         Option<C> option = MaxEvalSamples<C>("sequences");
         option.group = kTask;
         return option;
       }()},
      nullptr,
      {},
      kDataOptions};
  return table;
}

}  // namespace lshformer
