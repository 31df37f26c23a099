#include "eval/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/progress.h"
#include "data/answer_beam.h"
#include "data/sampler.h"
#include "eval/answer_files.h"
#include "eval/cosines.h"
#include "eval/metrics.h"
#include "eval/shared_outputs.h"
#include "eval/squad_score.h"
#include "models/excerpt_answers.h"
#include "models/pooled_heads.h"
#include "nn/pooling.h"

namespace lshformer {
namespace {

// Of one forward: beyond it more tokens at once gain no speed and only take memory.
constexpr int64_t kBatchTokens = 16384;

// Feeds the whole set to the model in order, at most `batch_size` examples and kBatchTokens tokens at a time, without
// gradients. (No result depends on the batch.)
class EvaluationLoop {
 public:
  EvaluationLoop(Model& model, const SequenceSet& set, const EvaluateOptions& options)
      : model_(model), set_(set), options_(options), begin_(std::chrono::steady_clock::now()) {
    if (options.batch_size < 1) {
      FailOption("per_device_eval_batch_size", "expected at least 1, got {}", options.batch_size);
    }
    if (set.size() == 0) Fail("no examples to evaluate");
  }

  using MakeBatchOf = std::function<PackedBatch(std::span<const int64_t>)>;
  using Visit = std::function<void(const PackedBatch&, const ModelOutput&)>;
  void Run(const MakeBatchOf& make, const Visit& visit) {
    torch::NoGradGuard no_grad;
    std::optional<Progress> progress;
    if (options_.progress) progress.emplace(options_.title, set_.size(), "sequences");
    std::vector<int> lengths(static_cast<size_t>(set_.size()));
    for (int64_t i = 0; i < set_.size(); ++i) lengths[i] = static_cast<int>(set_.TokensOf(i));
    const std::vector<std::pair<int64_t, int64_t>> runs = CutByTokens(lengths, kBatchTokens, options_.batch_size);
    const size_t together = shares_forwards() ? static_cast<size_t>(options_.processes->size()) : 1;
    for (size_t first = 0; first < runs.size(); first += together) {
      std::vector<PackedBatch> batches;
      // Labels, and the borders of examples, are not the model's where an example is several sequences of a text.
      std::vector<Labels> labels;
      for (size_t run = first; run < std::min(first + together, runs.size()); ++run) {
        std::vector<int64_t> examples(static_cast<size_t>(runs[run].second - runs[run].first));
        std::iota(examples.begin(), examples.end(), runs[run].first);
        batches.push_back(make(examples));
        labels.emplace_back();
        if (has_windows()) std::swap(labels.back(), batches.back().labels);
      }
      std::vector<CountedOutput> outputs = Forwards(batches);
      for (size_t i = 0; i < batches.size(); ++i) {
        if (options_.observe) options_.observe(batches[i], outputs[i].output);
        if (has_windows()) {
          std::swap(labels[i], batches[i].labels);
          if (outputs[i].output.logits.defined()) JoinLogits(batches[i], outputs[i].output);
        }
        visit(batches[i], outputs[i].output);
        counts_ += outputs[i].counts;
      }
      if (progress) progress->Update(runs[first + batches.size() - 1].second);
    }
  }

  // HF's rates, with its rounding.
  void Finish(Evaluation& evaluation) const {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
    const double seconds = std::max(elapsed.count(), 1e-9);
    const int64_t steps = (set_.size() + options_.batch_size - 1) / options_.batch_size;
    Json& metrics = evaluation.metrics;
    metrics["eval_runtime"] = Rounded(seconds, 4);
    metrics["eval_samples_per_second"] = Rounded(static_cast<double>(set_.size()) / seconds, 3);
    metrics["eval_steps_per_second"] = Rounded(static_cast<double>(steps) / seconds, 3);
    metrics["eval_samples"] = set_.size();
    AddAttention(metrics);
    evaluation.samples = set_.size();
    evaluation.counts = counts_;
  }

 private:
  bool has_windows() const {
    return set_.has_choices() && (model_.task() == Task::kSequenceClassification || model_.task() == Task::kEncoder);
  }

  // Logits of windows to logits of examples, and their loss.
  void JoinLogits(const PackedBatch& batch, ModelOutput& output) const {
    const std::vector<int32_t>& borders = batch.labels.cu_choices;
    std::vector<torch::Tensor> joined;
    for (size_t e = 0; e + 1 < borders.size(); ++e) {
      const torch::Tensor own = output.logits.slice(0, borders[e], borders[e + 1]);  // [windows, labels]
      joined.push_back(options_.window_pooling == WindowPooling::kMax
                           ? own.amax(0)
                           : own.to(torch::kFloat64).mean(0).to(torch::kFloat32));
    }
    output.logits = torch::stack(joined);
    const torch::Tensor loss = LabelLoss(output.logits, batch);
    if (loss.defined()) output.terms = {loss};
  }

  // Each process runs forwards of its own.
  bool shares_forwards() const { return options_.processes != nullptr && !model_.shares_tokens(); }

  // The outputs of as many batches as there are processes, or fewer: each process runs one. Or all run the only one.
  std::vector<CountedOutput> Forwards(const std::vector<PackedBatch>& batches) {
    const size_t own = shares_forwards() ? static_cast<size_t>(options_.processes->rank()) : 0;
    CountedOutput forward;
    int stopped = 0;
    try {
      if (own < batches.size()) {
        ForwardOptions how;
        how.counts = &forward.counts;
        how.stop = &StopOnSignal();
        how.head_only = !options_.observe && model_.task() != Task::kEncoder;
        forward.output = model_.Forward(batches[own], how);
      }
    } catch (const Interrupted& interrupted) {
      stopped = interrupted.signal();
    }
    ThrowIfAnyStopped(options_.processes, stopped, "evaluation");
    if (options_.processes == nullptr) return {forward};
    if (!shares_forwards()) {
      forward.counts = Summed(*options_.processes, forward.counts);
      return {forward};
    }
    return Shared(*options_.processes, own < batches.size() ? &forward : nullptr);
  }

  // What a model that hashes computed of the pairs, and how many sequences were long enough to be hashed (of layers
  // that differ in this, the mean).
  void AddAttention(Json& metrics) const {
    const std::vector<AttentionSpec>& layers = model_.config().attention;
    const auto is_dense = [](const AttentionSpec& spec) { return ShortestSparse(spec) == kNeverSparse; };
    if (std::all_of(layers.begin(), layers.end(), is_dense) || counts_.pairs_total == 0) return;
    int64_t hashed = 0;
    for (const AttentionSpec& spec : layers)
      for (int64_t i = 0; i < set_.sequences(); ++i) hashed += IsSparseAt(spec, set_.length(i)) ? 1 : 0;
    metrics["eval_pairs_fraction"] =
        static_cast<double>(counts_.pairs_computed) / static_cast<double>(counts_.pairs_total);
    metrics["eval_hashed_fraction"] =
        static_cast<double>(hashed) / static_cast<double>(set_.sequences() * static_cast<int64_t>(layers.size()));
  }

  Model& model_;
  const SequenceSet& set_;
  const EvaluateOptions& options_;
  std::chrono::steady_clock::time_point begin_;
  AttentionCounts counts_;
};

std::span<const float> Part(const torch::Tensor& logits, int32_t begin, int32_t end) {  // of [n] or [n, 1]
  return {logits.data_ptr<float>() + begin, static_cast<size_t>(end - begin)};
}

// [n, classes] → [n], of `examples` examples from number `example` on. The largest of numbers that are not finite would
// be some class or word, and counted as an answer: an Error.
std::vector<int32_t> RowMaxima(const torch::Tensor& logits, int64_t example, int64_t examples) {
  const auto [least, most] = torch::aminmax(logits);  // NaN if there is one
  if (!std::isfinite(least.item<float>()) || !std::isfinite(most.item<float>()))
    Fail("examples {} to {}: the model's output is not finite", example, example + examples - 1);
  const torch::Tensor best = logits.argmax(1).to(torch::kInt32).contiguous();
  return {best.data_ptr<int32_t>(), best.data_ptr<int32_t>() + best.numel()};
}

// Of a task whose loss is one mean.
void AddLoss(Task task, const PackedBatch& batch, const ModelOutput& output, WeightedMean& loss) {
  loss.Add(output.terms.front().item<double>(), LossItems(task, batch.labels).front());
}

std::string PairKey(PairKind kind, const char* figure) { return fmt::format("eval_{}_{}", NameOf(kind), figure); }

}  // namespace

std::vector<std::string> EvaluationKeys(const ModelConfig& config, Task task, const EvaluateOptions& options,
                                        bool version_2) {
  std::vector<std::string> keys{"eval_loss"};
  const auto add = [&keys](std::initializer_list<const char*> more) {
    keys.insert(keys.end(), more.begin(), more.end());
  };
  if (task == Task::kQuestionAnswering) {
    for (const char* part : {"", "HasAns_", "NoAns_"})
      for (const char* score : {"exact", "f1"}) keys.push_back(fmt::format("eval_{}{}", part, score));
    add({"eval_AvNA"});
    if (version_2) add({"eval_best_exact", "eval_best_f1"});
    if (!version_2) add({"eval_exact_match"});
  } else if (task == Task::kMultipleChoice) {
    add({"eval_accuracy"});
  } else if (task == Task::kSequenceClassification && config.regression()) {
    add({"eval_mse", "eval_pearson", "eval_spearmanr", "eval_combined_score"});
  } else if (task == Task::kSequenceClassification && config.multi_label()) {
    add({"eval_accuracy", "eval_f1_micro", "eval_f1_macro"});
  } else if (task == Task::kSequenceClassification) {
    add({"eval_accuracy"});
    if (options.f1 && config.num_labels == 2) add({"eval_f1", "eval_combined_score"});
    if (options.matthews) add({"eval_matthews_correlation"});
  } else {
    add({"eval_accuracy", "eval_mlm_loss", "eval_mlm_accuracy", "perplexity"});
    if (task == Task::kPretraining)
      for (const char* figure : {"loss", "accuracy"}) keys.push_back(PairKey(options.pairs, figure));
  }
  return keys;
}

Evaluation EvaluateMaskedLm(Model& model, const SequenceSet& set, const Masker& masker,
                            const EvaluateOptions& options) {
  EvaluationLoop loop(model, set, options);
  Evaluation evaluation;
  const bool pairs = model.task() == Task::kPretraining && set.labelled();
  WeightedMean loss, pair_loss;
  int64_t correct = 0, seen = 0;      // seen: examples of earlier batches
  std::vector<int32_t> pair_classes;  // [pairs] the head's choices
  const auto make = [&](std::span<const int64_t> examples) { return MakeMaskedBatch(set, examples, masker, 0); };
  loop.Run(make, [&](const PackedBatch& batch, const ModelOutput& output) {
    const int64_t first = seen;
    seen += batch.sequences();
    if (pairs) {
      const std::vector<int32_t> best = RowMaxima(output.sentence_pair_logits, first, batch.sequences());  // [B, 2]
      pair_classes.insert(pair_classes.end(), best.begin(), best.end());
      pair_loss.Add(output.terms.back().item<double>(), batch.sequences());
    }
    std::vector<int32_t> labels;  // of the labelled positions, in order, as the rows of logits are
    std::copy_if(batch.labels.tokens.begin(), batch.labels.tokens.end(), std::back_inserter(labels),
                 [](int32_t label) { return label != kIgnoredLabel; });
    if (labels.empty()) return;
    const std::vector<int32_t> best = RowMaxima(output.logits, first, batch.sequences());  // logits [labelled, V]
    for (size_t i = 0; i < labels.size(); ++i) correct += best[i] == labels[i];
    loss.Add(output.terms.front().item<double>(), static_cast<int64_t>(labels.size()));
  });
  if (loss.count() == 0)
    Fail("evaluation: no token was masked; the text is too short for {}", OptionName{"mlm_probability"});
  evaluation.labelled = loss.count();
  const double accuracy = static_cast<double>(correct) / static_cast<double>(loss.count());
  evaluation.metrics["eval_loss"] = loss.mean() + (pairs ? pair_loss.mean() : 0);
  evaluation.metrics["eval_accuracy"] = accuracy;
  evaluation.metrics["eval_mlm_loss"] = loss.mean();
  evaluation.metrics["eval_mlm_accuracy"] = accuracy;
  if (pairs) {
    evaluation.metrics[PairKey(options.pairs, "loss")] = pair_loss.mean();
    evaluation.metrics[PairKey(options.pairs, "accuracy")] = Accuracy(pair_classes, set.labels());
  }
  evaluation.metrics["perplexity"] = Perplexity(loss.mean());
  loop.Finish(evaluation);
  return evaluation;
}

Evaluation EvaluateClassification(Model& model, const SequenceSet& set, const EvaluateOptions& options) {
  EvaluationLoop loop(model, set, options);
  Evaluation evaluation;
  WeightedMean loss;
  const auto make = [&](std::span<const int64_t> examples) { return MakeBatch(set, examples); };
  loop.Run(make, [&](const PackedBatch& batch, const ModelOutput& output) {
    const auto first = static_cast<int64_t>(evaluation.predictions.size());
    const std::vector<int32_t> best = RowMaxima(output.logits, first, batch.examples());  // logits [examples, labels]
    evaluation.predictions.insert(evaluation.predictions.end(), best.begin(), best.end());
    if (set.labelled()) AddLoss(model.task(), batch, output, loss);
  });
  if (set.labelled()) {
    evaluation.labelled = loss.count();
    const double accuracy = Accuracy(evaluation.predictions, set.labels());
    evaluation.metrics["eval_loss"] = loss.mean();
    evaluation.metrics["eval_accuracy"] = accuracy;
    if (options.f1 && model.config().num_labels == 2) {
      const double f1 = F1(evaluation.predictions, set.labels(), options.positive);
      evaluation.metrics["eval_f1"] = f1;
      evaluation.metrics["eval_combined_score"] = (accuracy + f1) / 2;
    }
    if (options.matthews)
      evaluation.metrics["eval_matthews_correlation"] = Matthews(evaluation.predictions, set.labels());
  }
  loop.Finish(evaluation);
  return evaluation;
}

Evaluation EvaluateMultiLabel(Model& model, const SequenceSet& set, const EvaluateOptions& options) {
  EvaluationLoop loop(model, set, options);
  Evaluation evaluation;
  WeightedMean loss;
  const auto make = [&](std::span<const int64_t> examples) { return MakeBatch(set, examples); };
  int64_t seen = 0;
  loop.Run(make, [&](const PackedBatch& batch, const ModelOutput& output) {
    const torch::Tensor logits = output.logits.contiguous();  // [B, labels]
    const std::span<const float> all(logits.data_ptr<float>(), static_cast<size_t>(logits.numel()));
    if (!AllFinite(all)) Fail("examples {} to {}: the model's output is not finite", seen, seen + batch.examples() - 1);
    seen += batch.examples();
    for (const float logit : all) evaluation.flags.push_back(logit > 0 ? 1 : 0);
    if (set.has_flags()) AddLoss(model.task(), batch, output, loss);
  });
  if (set.has_flags()) {
    evaluation.labelled = set.size();
    std::vector<uint8_t> truth;
    for (int64_t i = 0; i < set.size(); ++i)
      for (const float flag : set.flags(i)) truth.push_back(flag > 0.5F ? 1 : 0);
    const FlagScores scores = ScoreFlags(evaluation.flags, truth, model.config().num_labels);
    evaluation.metrics["eval_loss"] = loss.mean();
    evaluation.metrics["eval_accuracy"] = scores.accuracy;
    evaluation.metrics["eval_f1_micro"] = scores.f1_micro;
    evaluation.metrics["eval_f1_macro"] = scores.f1_macro;
  }
  loop.Finish(evaluation);
  return evaluation;
}

Evaluation EvaluateMultipleChoice(Model& model, const SequenceSet& set, const EvaluateOptions& options) {
  EvaluationLoop loop(model, set, options);
  Evaluation evaluation;
  WeightedMean loss;
  const auto make = [&](std::span<const int64_t> examples) { return MakeBatch(set, examples); };
  loop.Run(make, [&](const PackedBatch& batch, const ModelOutput& output) {
    const torch::Tensor scores = output.logits.contiguous();  // [B]
    const std::vector<int32_t>& offsets = batch.labels.cu_choices;
    for (size_t e = 0; e + 1 < offsets.size(); ++e) {
      const std::span<const float> own = Part(scores, offsets[e], offsets[e + 1]);
      if (!AllFinite(own)) Fail("example {}: the model's output is not finite", evaluation.predictions.size());
      evaluation.predictions.push_back(static_cast<int32_t>(std::max_element(own.begin(), own.end()) - own.begin()));
    }
    if (set.labelled()) AddLoss(model.task(), batch, output, loss);
  });
  if (set.labelled()) {
    evaluation.labelled = loss.count();
    evaluation.metrics["eval_loss"] = loss.mean();
    evaluation.metrics["eval_accuracy"] = Accuracy(evaluation.predictions, set.labels());
  }
  loop.Finish(evaluation);
  return evaluation;
}

namespace {

void AddCorrelations(std::span<const double> values, std::span<const double> labels, Json& metrics) {
  const double pearson = Pearson(values, labels), spearman = Spearman(values, labels);
  for (const auto& [name, value] : {std::pair("eval_pearson", pearson), std::pair("eval_spearmanr", spearman),
                                    std::pair("eval_combined_score", (pearson + spearman) / 2)})
    metrics[name] = std::isnan(value) ? Json() : Json(value);
}

}  // namespace

Evaluation EvaluateRegression(Model& model, const SequenceSet& set, const EvaluateOptions& options) {
  EvaluationLoop loop(model, set, options);
  Evaluation evaluation;
  WeightedMean loss;
  const auto make = [&](std::span<const int64_t> examples) { return MakeBatch(set, examples); };
  loop.Run(make, [&](const PackedBatch& batch, const ModelOutput& output) {
    const torch::Tensor outputs = output.logits.contiguous();  // [examples, 1]
    for (const float value : Part(outputs, 0, batch.examples())) {
      if (!std::isfinite(value)) Fail("example {}: the model's output is not finite", evaluation.values.size());
      evaluation.values.push_back(value);
    }
    if (set.has_values()) AddLoss(model.task(), batch, output, loss);
  });
  if (set.has_values()) {
    evaluation.labelled = loss.count();
    Json& metrics = evaluation.metrics;
    metrics["eval_loss"] = loss.mean();
    metrics["eval_mse"] = loss.mean();
    const std::vector<double> labels(set.values().begin(), set.values().end());
    AddCorrelations(evaluation.values, labels, metrics);
  }
  loop.Finish(evaluation);
  return evaluation;
}

namespace {

// Of sentences' windows joined; of float64 without modules, as Pool gives it.
torch::Tensor VectorOf(const PackedBatch& batch, const torch::Tensor& states, int example,
                       const SentenceVectors& vectors, WindowPooling pooling) {
  const std::vector<int32_t>& borders = batch.labels.cu_choices;
  const int first = borders.empty() ? example : borders[static_cast<size_t>(example)],
            end = borders.empty() ? example + 1 : borders[static_cast<size_t>(example) + 1];
  const std::span<const int32_t> offsets(batch.tokens.cu_seqlens);
  if (vectors.modules == nullptr) {
    const torch::Tensor means = Pool(states, offsets.subspan(static_cast<size_t>(first), end - first + 1),
                                     Pooling::kMean);  // [windows, H]
    if (end - first == 1) return means[0];
    return pooling == WindowPooling::kMax ? means.amax(0) : means.mean(0);
  }
  const int64_t hidden = states.size(1);
  std::vector<std::vector<float>> windows;
  for (int window = first; window < end; ++window) {
    const auto begin = static_cast<size_t>(offsets[window] * hidden),
               past = static_cast<size_t>(offsets[window + 1] * hidden);
    windows.push_back(
        vectors.modules->Vector({states.data_ptr<float>() + begin, past - begin}, hidden, vectors.prompt_tokens));
  }
  std::vector<float> vector = windows.size() == 1 ? windows[0] : JoinWindows(windows, pooling);
  if (windows.size() > 1 && vectors.modules->Normalizes()) NormalizeVector(vector);
  return torch::tensor(vector);
}

double SimilarityOf(const torch::Tensor& a, const torch::Tensor& b, const SentenceVectors& vectors) {
  if (vectors.modules == nullptr) return Cosine(a, b);
  return SimilarityOf(vectors.modules->similarity(), {a.data_ptr<float>(), static_cast<size_t>(a.numel())},
                      {b.data_ptr<float>(), static_cast<size_t>(b.numel())});
}

}  // namespace

Evaluation EvaluateSimilarity(Model& model, const SequenceSet& sentences, std::span<const double> similarities,
                              const EvaluateOptions& options, const SentenceVectors& vectors) {
  EvaluationLoop loop(model, sentences, options);
  Evaluation evaluation;
  torch::Tensor first;  // [H], of a pair whose second sentence is still to come
  const auto make = [&](std::span<const int64_t> examples) { return MakeBatch(sentences, examples); };
  loop.Run(make, [&](const PackedBatch& batch, const ModelOutput& output) {
    const torch::Tensor states = output.last_hidden_state.contiguous();
    for (int example = 0; example < batch.examples(); ++example) {
      const torch::Tensor embedding = VectorOf(batch, states, example, vectors, options.window_pooling);
      if (!first.defined()) {
        first = embedding;
        continue;
      }
      const double similarity = SimilarityOf(first, embedding, vectors);
      if (!std::isfinite(similarity)) Fail("pair {}: the model's output is not finite", evaluation.values.size());
      evaluation.values.push_back(similarity);
      first.reset();
    }
  });
  AddCorrelations(evaluation.values, similarities, evaluation.metrics);
  loop.Finish(evaluation);
  evaluation.metrics["eval_samples"] = similarities.size();  // pairs, not sentences
  const double rate = evaluation.metrics["eval_samples_per_second"].get<double>();
  evaluation.metrics["eval_samples_per_second"] = rate / 2;
  evaluation.labelled = static_cast<int64_t>(similarities.size());
  evaluation.metrics["eval_pairs_fraction"] =
      static_cast<double>(evaluation.counts.pairs_computed) / static_cast<double>(evaluation.counts.pairs_total);
  return evaluation;
}

namespace {

// The metrics of the answers given; the threshold of no-answer has been applied.
void AddSquadScores(const SquadData& data, const std::vector<FoundAnswer>& answers, bool version_2, Json& metrics) {
  std::vector<SquadReference> references;
  SquadPredictions predictions;
  NoAnswerProbabilities null_odds;
  const std::vector<std::string> texts = AnswerTexts(data, answers);
  for (size_t q = 0; q < answers.size(); ++q) {
    const SquadQuestion& question = data.questions[q];
    references.push_back({question.id, {}});
    for (const SquadAnswer& answer : question.answers) references.back().answers.push_back(answer.text);
    predictions[question.id] = texts[q];
    if (version_2) null_odds.emplace_back(question.id, answers[q].null_odds);
  }
  const SquadScoring scoring{version_2, std::numeric_limits<double>::infinity()};
  const Json scores = ScoreSquad(references, predictions, "predictions", null_odds, "null_odds", scoring);
  for (const auto& [key, value] : scores.items()) metrics["eval_" + key] = value;
}

}  // namespace

AnswerEvaluation EvaluateQuestionAnswering(Model& model, const SquadData& data, const SquadExcerpts& excerpts,
                                           const AnswerOptions& answering, const EvaluateOptions& options,
                                           bool scored) {
  ValidateOptions(AnswerTable(), answering);
  EvaluationLoop loop(model, excerpts.set, options);
  AnswerEvaluation result;
  WeightedMean loss;
  AnswerSearch search(answering);
  size_t at = 0;  // of the excerpts, which the loop visits in order
  const auto make = [&](std::span<const int64_t> examples) { return MakeBatch(excerpts.set, examples); };
  loop.Run(make, [&](const PackedBatch& batch, const ModelOutput& output) {
    const ExcerptAnswers answers(batch, output);
    for (int b = 0; b < batch.sequences(); ++b) {
      const SquadExcerpt& excerpt = excerpts.excerpts[at++];
      const SquadQuestion& question = data.questions[static_cast<size_t>(excerpt.question)];
      if (!answers.AddTo(search, b, excerpt, excerpts.places[static_cast<size_t>(question.context)]))
        Fail("question \"{}\": the model's output is not finite", Shown(question.id));
      if (at < excerpts.excerpts.size() && excerpts.excerpts[at].question == excerpt.question) continue;
      result.answers.push_back(search.Finish());
      search = AnswerSearch(answering);
    }
    if (scored) AddLoss(model.task(), batch, output, loss);
  });
  if (scored) {
    result.evaluation.labelled = loss.count();
    result.evaluation.metrics["eval_loss"] = loss.mean();
    AddSquadScores(data, result.answers, answering.version_2, result.evaluation.metrics);
  }
  loop.Finish(result.evaluation);
  return result;
}

}  // namespace lshformer
