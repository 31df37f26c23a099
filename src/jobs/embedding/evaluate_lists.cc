#include "jobs/embedding/evaluate_lists.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/logging.h"
#include "base/progress.h"
#include "base/signals.h"
#include "eval/metrics.h"
#include "eval/ranking.h"
#include "train/listwise_loss.h"

namespace lshformer {
namespace {

constexpr int kFront = 10;

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

}  // namespace

PackedBatch ListData::Batch(std::span<const int64_t> examples) const {
  PackedBatch batch = MakeBatch(set, examples);
  for (const int64_t example : examples) {
    const std::vector<float>& own = labels[static_cast<size_t>(example)];
    batch.labels.values.insert(batch.labels.values.end(), own.begin(), own.end());
  }
  return batch;
}

ListData PrepareLists(const std::vector<RankedList>& lists, const Tokenizer& tokenizer, int max_seq_length) {
  ListData data;
  int64_t truncated = 0;
  data.set = EncodeLists(lists, tokenizer, max_seq_length, &truncated);
  for (const RankedList& list : lists) data.labels.push_back(list.labels);
  if (truncated > 0)
    Warn("{} of {} passages were cut at {} {}", truncated, data.set.sequences(), OptionName{"max_seq_length"},
         max_seq_length);
  return data;
}

std::vector<std::string> ListMetrics() { return {"eval_loss", "eval_ndcg_at_10", "eval_mrr_at_10"}; }

Json EvaluateLists(Model& model, const ListData& data, const EvaluateOptions& options) {
  const torch::NoGradGuard no_grad;
  const auto begin = std::chrono::steady_clock::now();
  WeightedMean loss, ndcg, mrr;
  std::optional<Progress> progress;
  if (options.progress) progress.emplace(options.title, data.set.size(), "queries");
  for (int64_t first = 0; first < data.set.size(); first += options.batch_size) {
    ThrowIfStopped("evaluation");
    std::vector<int64_t> examples(static_cast<size_t>(std::min<int64_t>(options.batch_size, data.set.size() - first)));
    std::iota(examples.begin(), examples.end(), first);
    const PackedBatch batch = data.Batch(examples);
    const torch::Tensor scores = ListScores(model, batch, {.stop = &StopOnSignal()}).contiguous();
    const torch::Tensor labels = torch::tensor(batch.labels.values, torch::kFloat64);
    const double value = ListwiseLossOf(scores, labels, batch.labels.cu_choices).item<double>();
    if (!std::isfinite(value)) Fail("the model's output is not finite");
    loss.Add(value, std::ssize(examples));
    for (size_t i = 0; i < examples.size(); ++i)
      AddRanking(scores.data_ptr<double>() + batch.labels.cu_choices[i], data.labels[static_cast<size_t>(examples[i])],
                 ndcg, mrr);
    if (progress) progress->Update(first + std::ssize(examples));
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

}  // namespace lshformer
