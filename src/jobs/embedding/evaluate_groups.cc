#include "jobs/embedding/evaluate_groups.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/progress.h"
#include "base/signals.h"
#include "eval/metrics.h"
#include "kernels/nearest.h"

namespace lshformer {
namespace {

constexpr int kNearest = 10;

int64_t TextsOf(const SequenceSet& set, int64_t group) {
  const auto [begin, end] = set.SequencesOf(group);
  return end - begin;
}
bool ArePairs(const SequenceSet& set) { return set.size() > 0 && TextsOf(set, 0) > 1; }

// All vectors [texts, H] float32, of length 1, and the mean loss of the batches.
struct Embedded {
  torch::Tensor vectors;
  WeightedMean loss;
};

Embedded EmbedAll(Model& model, const WantedVectors& teacher, const SequenceSet& set, const SimilarityLossOptions& loss,
                  const EvaluateOptions& options) {
  const torch::NoGradGuard no_grad;
  Embedded embedded;
  std::vector<torch::Tensor> parts;
  std::optional<Progress> progress;
  if (options.progress) progress.emplace(options.title, set.size(), "groups");
  for (int64_t begin = 0; begin < set.size(); begin += options.batch_size) {
    ThrowIfStopped("evaluation");
    std::vector<int64_t> examples(static_cast<size_t>(std::min<int64_t>(options.batch_size, set.size() - begin)));
    std::iota(examples.begin(), examples.end(), begin);
    const PackedBatch batch = MakeBatch(set, examples);
    const torch::Tensor vectors = VectorsOf(model, batch, {.stop = &StopOnSignal()}, loss);
    const double value = EvaluatedLoss(teacher, batch, vectors, loss);
    if (!std::isfinite(value)) Fail("the model's output is not finite");
    embedded.loss.Add(value, std::ssize(examples));
    parts.push_back((vectors / vectors.norm(2, 1, /*keepdim=*/true).clamp_min(1e-12)).to(torch::kFloat32));
    if (progress) progress->Update(begin + std::ssize(examples));
  }
  embedded.vectors = torch::cat(parts);
  return embedded;
}

void AddScored(const SequenceSet& set, const torch::Tensor& vectors, Json& metrics) {
  std::vector<double> cosines, scores(set.values().begin(), set.values().end());
  for (int64_t group = 0; group < set.size(); ++group) {
    const int64_t first = set.SequencesOf(group).first;
    cosines.push_back(vectors[first].to(torch::kFloat64).dot(vectors[first + 1].to(torch::kFloat64)).item<double>());
  }
  const auto known = [](double value) { return std::isnan(value) ? Json() : Json(value); };
  const double pearson = Pearson(cosines, scores), spearman = Spearman(cosines, scores);
  metrics["eval_pearson"] = known(pearson);
  metrics["eval_spearmanr"] = known(spearman);
  metrics["eval_combined_score"] = known((pearson + spearman) / 2);
}

void AddRanked(const SequenceSet& set, const torch::Tensor& vectors, Json& metrics) {
  std::vector<int64_t> anchors, candidates;
  for (int64_t group = 0; group < set.size(); ++group) {
    const auto [begin, end] = set.SequencesOf(group);
    anchors.push_back(begin);
    for (int64_t text = begin + 1; text < end; ++text) candidates.push_back(text);
  }
  const auto rows = [&](const std::vector<int64_t>& numbers) {
    return vectors.index_select(0, torch::tensor(numbers, torch::kInt64)).contiguous();
  };
  const torch::Tensor queries = rows(anchors), among = rows(candidates);
  const int64_t width = vectors.size(1);
  const auto found = NearestGroups({among.data_ptr<float>(), among.size(0), width, width}, {},
                                   {queries.data_ptr<float>(), static_cast<size_t>(queries.numel())}, kNearest);
  double reciprocals = 0, first = 0;
  for (size_t group = 0; group < found.size(); ++group) {
    const auto positive = set.ids(anchors[group] + 1);
    const auto fits = [&](const NearRow& row) {  // another copy of the text is as good
      const auto text = set.ids(candidates[static_cast<size_t>(row.row)]);
      return std::equal(text.begin(), text.end(), positive.begin(), positive.end());
    };
    const auto place = std::find_if(found[group].begin(), found[group].end(), fits);
    if (place == found[group].end()) continue;
    reciprocals += 1 / static_cast<double>(place - found[group].begin() + 1);
    first += place == found[group].begin() ? 1 : 0;
  }
  metrics["eval_mrr_at_10"] = reciprocals / static_cast<double>(found.size());
  metrics["eval_accuracy"] = first / static_cast<double>(found.size());
}

}  // namespace

std::vector<std::string> GroupMetrics(const SequenceSet& set) {
  if (set.has_values()) return {"eval_loss", "eval_pearson", "eval_spearmanr", "eval_combined_score"};
  if (ArePairs(set)) return {"eval_loss", "eval_mrr_at_10", "eval_accuracy"};
  return {"eval_loss"};
}

Json EvaluateGroups(Model& model, const WantedVectors& teacher, const SequenceSet& set,
                    const SimilarityLossOptions& loss, const EvaluateOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const Embedded embedded = EmbedAll(model, teacher, set, loss, options);
  Json metrics{{"eval_loss", embedded.loss.mean()}};
  if (set.has_values())
    AddScored(set, embedded.vectors, metrics);
  else if (ArePairs(set))
    AddRanked(set, embedded.vectors, metrics);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  const double seconds = std::max(elapsed.count(), 1e-9);
  metrics["eval_runtime"] = Rounded(seconds, 4);
  metrics["eval_samples_per_second"] = Rounded(static_cast<double>(set.size()) / seconds, 3);
  metrics["eval_samples"] = set.size();
  return metrics;
}

}  // namespace lshformer
