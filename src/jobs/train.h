// Learning a labelled task: text classification, regression, multiple choice, question answering; or embeddings.
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

// Of embeddings (train/similarity_loss.h).
struct SimilarityOptions {
  std::string loss;   // "listwise": of text-classification, a reranker; "": cosent where the data has scores, else mnrl
  double scale = 20;  // of cosines, in cosent and mnrl
  double triplet_margin = 5;
  std::string matryoshka_dims;  // "384,128,64"; "": none
  int64_t gradient_cache_chunk = 0;
  std::string prompts;               // JSON: what stands before the texts of a column
  std::string pooling;               // "": what a Sentence-Transformers folder says, else mean
  std::string teacher_name_or_path;  // "": none; else its vectors are learned, in place of a loss
};

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
  SimilarityOptions similarity;
  bool question_answering() const { return task == "question-answering"; }
  bool multiple_choice() const { return task == "multiple-choice"; }
  bool embeddings() const { return task == "sentence-similarity"; }
  bool listwise() const { return task == "text-classification" && similarity.loss == "listwise"; }
};

const OptionTable<SimilarityOptions>& SimilarityTable();
const OptionTable<TrainOptions>& TrainTable();  // of what is no part with a table of its own, and of the answers

// Writes the output folder (model, tokenizer, results, checkpoints, predictions; docs/formats.md). Errors as in
// train/trainer.h.
JobResult RunTrain(const TrainOptions& options);

}  // namespace lshformer
