#include "jobs/embedding/listwise_training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/logging.h"
#include "base/signals.h"
#include "data/corpus.h"
#include "data/passages/ranked_lists.h"
#include "eval/metrics.h"
#include "eval/ranking.h"
#include "train/listwise_loss.h"

namespace lshformer {
namespace {

constexpr int kFront = 10;

// Lists as sequences, and what is said of each passage.
struct ListData {
  SequenceSet set;
  std::vector<std::vector<float>> labels;  // [queries]
  PackedBatch Batch(std::span<const int64_t> examples) const {
    PackedBatch batch = MakeBatch(set, examples);
    for (const int64_t example : examples) {
      const std::vector<float>& own = labels[static_cast<size_t>(example)];
      batch.labels.values.insert(batch.labels.values.end(), own.begin(), own.end());
    }
    return batch;
  }
};

ListData Prepare(const std::vector<RankedList>& lists, const Tokenizer& tokenizer, int limit) {
  ListData data;
  int64_t truncated = 0;
  data.set = EncodeLists(lists, tokenizer, limit, &truncated);
  for (const RankedList& list : lists) data.labels.push_back(list.labels);
  if (truncated > 0)
    Warn("{} of {} passages were cut at {} {}", truncated, data.set.sequences(), OptionName{"max_seq_length"}, limit);
  return data;
}

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

// What the scores of one query's passages are worth.
void AddRanking(const double* scores, const std::vector<float>& labels, WeightedMean& ndcg, WeightedMean& mrr) {
  std::vector<RankedDocument> ranking;
  Relevances relevances;
  for (size_t i = 0; i < labels.size(); ++i) {
    ranking.push_back({std::to_string(i), static_cast<float>(scores[i])});
    relevances.emplace(std::to_string(i), labels[i]);
  }
  SortRanking(ranking);
  ndcg.Add(NdcgAt(kFront, ranking, relevances), 1);
  mrr.Add(MrrAt(kFront, ranking, relevances), 1);
}

Json EvaluateLists(Model& model, const ListData& data, const EvaluateOptions& options) {
  const torch::NoGradGuard no_grad;
  const auto begin = std::chrono::steady_clock::now();
  WeightedMean loss, ndcg, mrr;
  for (int64_t first = 0; first < data.set.size(); first += options.batch_size) {
    ThrowIfStopped("evaluation");
    std::vector<int64_t> examples(static_cast<size_t>(std::min<int64_t>(options.batch_size, data.set.size() - first)));
    std::iota(examples.begin(), examples.end(), first);
    const PackedBatch batch = data.Batch(examples);
    const torch::Tensor scores = ListScores(model, batch, {}).contiguous();
    const torch::Tensor labels = torch::tensor(batch.labels.values, torch::kFloat64);
    const double value = ListwiseLossOf(scores, labels, batch.labels.cu_choices).item<double>();
    if (!std::isfinite(value)) Fail("the model's output is not finite");
    loss.Add(value, std::ssize(examples));
    for (size_t i = 0; i < examples.size(); ++i)
      AddRanking(scores.data_ptr<double>() + batch.labels.cu_choices[i], data.labels[static_cast<size_t>(examples[i])],
                 ndcg, mrr);
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  const double seconds = std::max(elapsed.count(), 1e-9);
  return {{"eval_loss", loss.mean()},
          {"eval_ndcg_at_10", ndcg.mean()},
          {"eval_mrr_at_10", mrr.mean()},
          {"eval_runtime", Rounded(seconds, 4)},
          {"eval_samples_per_second", Rounded(static_cast<double>(data.set.size()) / seconds, 3)},
          {"eval_samples", data.set.size()}};
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
  const ListData train = Prepare(files.train, *job.tokenizer, limit);
  const ListData validation = files.validation.empty() ? ListData() : Prepare(files.validation, *job.tokenizer, limit);
  RequireTypes(train.set, job.model->config(), Shown(options.train_files.front(), 120));
  ThrowIfStopped("reading the training data");
  job.train_set = &train.set;
  job.validation_sets = {&validation.set};
  job.batch = [&](int64_t, std::span<const int64_t> examples) { return train.Batch(examples); };
  job.loss = ListwiseLoss();
  job.metrics = {"eval_loss", "eval_ndcg_at_10", "eval_mrr_at_10"};
  job.evaluate = [&, evaluating = Evaluating(job)] { return EvaluateLists(*job.model, validation, evaluating); };
  return RunTrainingJob(job);
}

}  // namespace lshformer
