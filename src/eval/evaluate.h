// A model on a data set: losses and metrics under the names that HF's Trainer writes.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "data/answer_search.h"
#include "data/long_text.h"
#include "data/masking.h"
#include "data/sentence_pairs.h"
#include "data/sequence_set.h"
#include "dist/communicator.h"
#include "models/model.h"
#include "nn/sentence/modules.h"

namespace lshformer {

struct EvaluateOptions {
  int batch_size = 8;     // examples a batch (--per_device_eval_batch_size)
  bool progress = false;  // shown on stderr
  bool f1 = true;         // classification with two labels: also F1 of one of them, and its mean with accuracy
  int32_t positive = 1;   // which one
  bool matthews = false;  // classification: also Matthews' correlation
  PairKind pairs = PairKind::kNextSentence;  // which the labels of a set of pairs are
  std::function<void(const PackedBatch&, const ModelOutput&)> observe = nullptr;  // sees every forward, in order
  std::string title = "evaluating";                                               // of the progress
  // Of text classification and similarity where an example is several sequences, the windows of one text: how their
  // logits or vectors are joined.
  WindowPooling window_pooling = WindowPooling::kMean;
  // That share the forwards, or of a model that shares_tokens() each forward, called alike by all; each gets the whole
  // result.
  Communicator* processes = nullptr;
};

struct Evaluation {
  Json metrics;                       // keys as HF writes them, "eval_" included; see below
  std::vector<int32_t> predictions;   // classification, multiple choice: [examples]
  std::vector<double> values;         // regression: [examples]
  std::vector<uint8_t> flags;         // multi-label: [examples, labels], 1: the label is there
  AttentionCounts counts;             // summed over layers and batches
  int64_t samples = 0, labelled = 0;  // examples; masked tokens or labelled examples
};

// The metrics that the evaluations below write for a model, without sizes and times: what a best model can be chosen
// by. Question answering: all that some data may have.
std::vector<std::string> EvaluationKeys(const ModelConfig& config, Task task, const EvaluateOptions& options,
                                        bool version_2 = false);

// Masked LM under masks drawn once from the masker's seed (visit 0), so that metrics compare between models and steps.
// eval_loss = mean cross-entropy over all masked tokens (not a mean of batch means), eval_accuracy = share predicted
// exactly; perplexity = exp(eval_loss); eval_mlm_loss and eval_mlm_accuracy repeat the two. eval_samples, eval_runtime,
// eval_samples_per_second, eval_steps_per_second. Error if no token was masked.
// A model with both heads of pretraining (Task::kPretraining) on labelled pairs: also eval_nsp_loss and
// eval_nsp_accuracy, or eval_sop_loss and eval_sop_accuracy, by options.pairs alone: a head may be scored on pairs that
// it was not trained on. eval_loss is then the sum of both losses.
Evaluation EvaluateMaskedLm(Model& model, const SequenceSet& set, const Masker& masker, const EvaluateOptions& options);

// eval_loss (mean over examples), eval_accuracy, and as the options say eval_f1 with eval_combined_score, the mean of
// both, and eval_matthews_correlation; without labels only predictions and rates.
Evaluation EvaluateClassification(Model& model, const SequenceSet& set, const EvaluateOptions& options);

// A model of several labels and a set with flags, or without any. A label is there where its sigmoid is above 1/2.
// eval_loss (mean over examples and labels), eval_accuracy (of whole sets), eval_f1_micro and eval_f1_macro
// (metrics.h); without flags only what is there and rates. Error if an output is not finite.
Evaluation EvaluateMultiLabel(Model& model, const SequenceSet& set, const EvaluateOptions& options);

// A set whose examples are the options of questions. eval_loss (mean over examples) and eval_accuracy, the share whose
// option of the highest score, of equals the first, is the right one; without labels only predictions and rates. Error
// naming the example where a score is not finite.
Evaluation EvaluateMultipleChoice(Model& model, const SequenceSet& set, const EvaluateOptions& options);

// A model with one output and a set with values, or without any. eval_loss = eval_mse = mean of (output − value)²,
// eval_pearson, eval_spearmanr, and their mean eval_combined_score; a correlation that is undefined, as of equal
// outputs, is null. Without values only the outputs and rates. Error if an output is not finite.
Evaluation EvaluateRegression(Model& model, const SequenceSet& set, const EvaluateOptions& options);

// How a sentence's states become its vector, and two vectors a number.
struct SentenceVectors {
  const SentenceModules* modules = nullptr;  // nullptr: the mean of its last hidden states, and the cosine
  int64_t prompt_tokens = 0;                 // that every sentence begins with
};
// How well the similarity of two sentences' embeddings follows `similarities` [pairs]; sentences 2i and 2i + 1 are pair
// i. eval_pearson, eval_spearmanr, their mean eval_combined_score (null where undefined), and eval_pairs_fraction, the
// share of pairs of tokens that the attention computed. `values` are the embeddings' similarities. Error if a hidden
// state is not finite.
Evaluation EvaluateSimilarity(Model& model, const SequenceSet& sentences, std::span<const double> similarities,
                              const EvaluateOptions& options, const SentenceVectors& vectors = {});

struct AnswerEvaluation {
  Evaluation evaluation;
  std::vector<FoundAnswer> answers;  // [questions]
};
// Question answering over excerpts with their places kept. With `scored`: eval_loss (mean over excerpts, first gold
// answer) and the metrics of squad_score.h under "eval_"; best thresholds are those over null_odds. Without: rates
// only. Error naming the question where a logit is not finite.
AnswerEvaluation EvaluateQuestionAnswering(Model& model, const SquadData& data, const SquadExcerpts& excerpts,
                                           const AnswerOptions& answering, const EvaluateOptions& options, bool scored);

}  // namespace lshformer
