// Learning a labelled task: text classification, regression, multiple choice, question answering.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/answer_search.h"
#include "dist/communicator.h"
#include "jobs/model_source.h"
#include "jobs/run_folder.h"
#include "train/options.h"

namespace lshformer {

struct TrainOptions {
  ModelSource model;
  RunFolder folder;
  TrainingOptions training;
  MeetingOptions meeting;  // of several processes that share the run
  std::string task = "text-classification";
  std::string task_name, data_dir;       // GLUE layout: data_dir/train.tsv, data_dir/dev.tsv; multiple choice: RACE's
  std::optional<bool> do_regression;     // not given: as the labels look
  std::vector<std::string> train_files;  // or files of one's own: .tsv, .jsonl; question answering: SQuAD .json;
                                         // multiple choice: .jsonl, RACE's files or folders
  std::string validation_file, test_file;
  std::string word_vectors;  // of a new model that reads words: a text file of vectors, which stay as they are
  double validation_split_percentage = 0;  // this share of the training rows or questions; 0: none
  double unanswerable_pairs = 0;           // with version_2: of unanswerable_pairs.h
  int64_t max_train_samples = 0, max_eval_samples = 0;
  int max_seq_length = 0;  // 0: the position table
  bool do_eval = false, do_predict = false, dry_run = false;
  bool progress = false;  // as in PretrainOptions
  AnswerOptions answers;  // question answering
  bool question_answering() const { return task == "question-answering"; }
  bool multiple_choice() const { return task == "multiple-choice"; }
};

const OptionTable<TrainOptions>& TrainTable();  // of what is no part with a table of its own, and of the answers

// Writes the output folder (model, tokenizer, results, checkpoints, predictions; docs/formats.md). Errors as in
// train/trainer.h.
JobResult RunTrain(const TrainOptions& options);

}  // namespace lshformer
