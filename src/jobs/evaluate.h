// A model on labelled data or text, without training.
#pragma once
#include <cstdint>
#include <string>

#include "base/figures.h"
#include "data/answer_search.h"
#include "data/long_text.h"
#include "data/masking.h"
#include "dist/communicator.h"
#include "jobs/model_source.h"
#include "models/model.h"

namespace lshformer {

struct EvaluateJob {
  ModelSource model;  // a checkpoint
  std::string task;   // as in the table; "sentence-similarity": how alike two texts' embeddings are, which are made as
                      // the folder's modules say (nn/sentence/modules.h); without them cosines of mean states
  std::string task_name;                // GLUE task: its labels and metrics
  std::string data_dir;                 // its folder, or RACE's; or
  std::string validation_file;          // text (fill-mask), TSV or JSONL with labels, SQuAD JSON, RACE's file or folder
  int64_t max_eval_samples = 0;         // 0: all
  int max_seq_length = 0;               // 0: the position table, of sentence-similarity less where modules say so
  LongText long_text = LongText::kCut;  // text-classification, sentence-similarity
  WindowPooling window_pooling = WindowPooling::kMean;  // likewise
  std::string prompt_name = {};                         // of the folder's prompts; "": its default
  int batch_size = 8;
  bool line_by_line = false;  // masked LM
  std::string objective;      // masked LM: "mlm", "mlm+nsp" or "mlm+sop"; "": what the model's heads are named for
  double mlm_probability = 0.15;
  MaskedChoice masking = {};
  AnswerOptions answers = {};      // question answering
  bool compare_exact = false;      // the same data once more with exact attention: what the model's own keeps of it
  std::string output_dir;          // "": none; else it gets eval_results.json and the answers to questions
  uint64_t seed = 42;              // of the masks
  bool progress = false;           // shown where SetProgressStyle was called
  MeetingOptions meeting = {};     // of several processes that share the data,
  bool sequence_parallel = false;  // or the tokens of each forward
};

const OptionTable<EvaluateJob>& EvaluateTable();  // of what is no part with a table of its own

// The head that the job asks; kEncoder for sentence-similarity. UsageError where options contradict each other, or the
// data is not named.
Task CheckEvaluateJob(const EvaluateJob& job);

// The metrics, under the names of eval/evaluate.h; none where another process of several has them, which writes them.
// Errors: the model lacks the head; labels that it does not know. compare_exact adds the metrics of the same weights
// under exact attention, "_exact" behind their names (not sizes and times, which are the model's), and, over all
// evaluated sequences, eval_cosine_to_exact_mean and eval_cosine_to_exact_worst: the cosine of the mean of a sequence's
// last hidden states to that under exact attention. The answers in output_dir are the model's own. OptionError where
// the model has no other attention, or none at all.
Figures RunEvaluate(const EvaluateJob& job);

}  // namespace lshformer
