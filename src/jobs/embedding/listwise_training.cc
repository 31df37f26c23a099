#include "jobs/embedding/listwise_training.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/signals.h"
#include "data/corpus.h"
#include "data/passages/ranked_lists.h"
#include "jobs/embedding/evaluate_lists.h"
#include "train/listwise_loss.h"

namespace lshformer {
namespace {

void LimitLists(std::vector<RankedList>& lists, int64_t most) {
  if (most > 0 && most < std::ssize(lists)) lists.resize(static_cast<size_t>(most));
}

struct ListFiles {
  std::vector<RankedList> train, validation;
};

ListFiles ReadLists(const TrainOptions& options, bool do_eval) {
  ListFiles files;
  for (const std::string& path : options.train_files) {
    std::vector<RankedList> more = ReadRankedLists(path);
    std::move(more.begin(), more.end(), std::back_inserter(files.train));
  }
  if (options.validation_split_percentage > 0) {
    const int64_t share = ValidationShare(std::ssize(files.train), options.validation_split_percentage, "row");
    files.validation.assign(files.train.begin(), files.train.begin() + share);
    files.train.erase(files.train.begin(), files.train.begin() + share);
  } else if (do_eval) {
    files.validation = ReadRankedLists(options.validation_file);
  }
  LimitLists(files.train, options.max_train_samples);
  LimitLists(files.validation, options.max_eval_samples);
  return files;
}

void BecomeReranker(ModelConfig& config) {
  config.num_labels = 1;
  config.labels.clear();
  config.problem_type.clear();
}

}  // namespace

JobResult RunTrainLists(const TrainOptions& options, TrainingJob& job) {
  const ListFiles files = ReadLists(options, job.do_eval);
  job.model = MakeModel(options.model, job.start.resume_from, Task::kSequenceClassification, *job.tokenizer,
                        options.training, BecomeReranker);
  const int limit = SequenceLimit(options.max_seq_length, job.model->config());
  CheckMaxSeqLength(limit, /*texts=*/2, job.tokenizer.get(), job.model->config().max_position_embeddings);
  const ListData train = PrepareLists(files.train, *job.tokenizer, limit);
  const ListData validation =
      files.validation.empty() ? ListData() : PrepareLists(files.validation, *job.tokenizer, limit);
  RequireTypes(train.set, job.model->config(), Shown(options.train_files.front(), 120));
  ThrowIfStopped("reading the training data");
  job.train_set = &train.set;
  job.validation_sets = {&validation.set};
  job.batch = [&](int64_t, std::span<const int64_t> examples) { return train.Batch(examples); };
  job.loss = ListwiseLoss();
  job.metrics = ListMetrics();
  job.evaluate = [&, evaluating = Evaluating(job)] { return EvaluateLists(*job.model, validation, evaluating); };
  return RunTrainingJob(job);
}

}  // namespace lshformer
