// The two jobs that make models, as functions: `pretrain`, `train` and `quickstart` call them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/attention_changes.h"
#include "base/json.h"
#include "data/answer_search.h"
#include "data/masking.h"
#include "data/sentence_pairs.h"
#include "ops/precision.h"
#include "train/options.h"

namespace lshformer {

struct ModelSource {
  std::string model_name_or_path;  // a checkpoint folder; or
  std::string model_type;          // a new model (default bert)
  std::string config_name;         // with this config.json
  std::string config_overrides;    // and these changes, "hidden_size=128,num_hidden_layers=2"
  std::string tokenizer_name;      // default: model_name_or_path
  AttentionChanges attention;
  Precision precision = Precision::kFloat32;
};

struct RunFolder {
  std::string output_dir;
  bool overwrite_output_dir = false;
  std::string resume_from_checkpoint;  // "", "auto" or a checkpoint folder
  std::string report_to = "none";      // or "tensorboard": output_dir/runs
  std::string save_dtype = "float32";  // of the finished model; checkpoints are float32
  bool keep_optimizer_states = false;  // of the checkpoints, when the run is finished: for further steps
};

struct PretrainOptions {
  ModelSource model;
  RunFolder folder;
  TrainingOptions training;
  std::vector<std::string> train_files;
  std::string validation_file;
  double validation_split_percentage = 5;  // of the training text, where do_eval is set and no validation_file given
  int64_t max_train_samples = 0, max_eval_samples = 0;  // 0: all
  int max_seq_length = 0;                               // 0: the position table
  bool line_by_line = false;
  std::string objective = "mlm";                                 // or "mlm+nsp"
  double short_seq_prob = SentencePairOptions().short_seq_prob;  // of pairs, as dupe_factor
  int dupe_factor = SentencePairOptions().dupe_factor;
  double mlm_probability = 0.15;
  MaskedChoice masking;
  bool do_eval = false, dry_run = false;
  bool progress = false;  // shown on stderr, as are evaluations and log entries
};

struct TrainOptions {
  ModelSource model;
  RunFolder folder;
  TrainingOptions training;
  std::string task = "text-classification";
  std::string task_name, data_dir;       // GLUE layout: data_dir/train.tsv, data_dir/dev.tsv
  std::optional<bool> do_regression;     // not given: as the labels look
  std::vector<std::string> train_files;  // or files of one's own: .tsv, .jsonl; question answering: SQuAD .json
  std::string validation_file, test_file;
  double validation_split_percentage = 0;  // of the rows or questions that train, where above 0
  int64_t max_train_samples = 0, max_eval_samples = 0;
  int max_seq_length = 0;  // 0: the position table
  bool do_eval = false, do_predict = false, dry_run = false;
  bool progress = false;  // as in PretrainOptions
  int doc_stride = -1;    // question answering: as in WindowOptions
  AnswerOptions answers;
  bool question_answering() const { return task == "question-answering"; }
};

struct JobResult {
  std::string output_dir;
  bool finished_before = false;  // nothing was left to do: the folder holds a finished run
  Json train;                    // as in train_results.json
  Json eval;                     // as in eval_results.json; null without do_eval
  Json log_history =
      Json::array();  // as in trainer_state.json: {"step", "loss", "learning_rate", …}, {"step", "eval_loss", …}
  Json plan;  // with dry_run: {"train_samples", "tokens", "steps", "parameters", "memory_bytes", "seconds"}; nothing
              // was written
};

// Write the folder described in cli.md (model, tokenizer, results, checkpoints). Errors as in train/trainer.h.
JobResult RunPretrain(const PretrainOptions& options);
JobResult RunTrain(const TrainOptions& options);

}  // namespace lshformer
