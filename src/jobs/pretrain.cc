#include "jobs/pretrain.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/signals.h"
#include "jobs/data/text_data.h"
#include "jobs/seed_runs.h"
#include "jobs/training_run.h"

namespace lshformer {
namespace {

struct Corpora {
  SequenceSet train, validation;
};

Corpora ReadCorpora(const PretrainOptions& options, bool do_eval, const Tokenizer& tokenizer,
                    const ModelConfig& config) {
  const TextOptions text{.max_seq_length = SequenceLimit(options.max_seq_length, config),
                         .line_by_line = options.line_by_line,
                         .pairs = PairsOf(options.objective),
                         .short_seq_prob = options.short_seq_prob,
                         .dupe_factor = options.dupe_factor,
                         .seed = options.training.seed};
  const auto read = [&](const std::vector<std::string>& files, int64_t limit) {
    return ReadTextToMask(files, tokenizer, text, limit);
  };
  Corpora corpora;
  const bool split = options.validation_file.empty() && do_eval;  // a share of all
  corpora.train = read(options.train_files, split ? 0 : options.max_train_samples);
  if (!options.validation_file.empty()) {
    corpora.validation = read({options.validation_file}, options.max_eval_samples);
  } else if (split) {
    auto [train, validation] = SplitValidation(std::move(corpora.train), options.validation_split_percentage);
    corpora.train = std::move(train);
    corpora.validation = std::move(validation);
  }
  corpora.train.KeepFirst(options.max_train_samples);
  corpora.validation.KeepFirst(options.max_eval_samples);
  return corpora;
}

std::vector<OptionFile> FilesOf(const PretrainOptions& options) {
  std::vector<OptionFile> files{{"validation_file", options.validation_file}};
  for (const std::string& file : options.train_files) files.emplace_back("train_file", file);
  return files;
}

}  // namespace

JobResult RunPretrain(const PretrainOptions& given) {
  CheckTrainingJob(given, PretrainTable());
  PretrainOptions options = given;
  if (MakesVocabulary(options.model)) FailOption("model_type", "a model that reads words has no masked-LM head");
  const std::optional<PairKind> pairs = PairsOf(options.objective);
  if (pairs && options.line_by_line)
    FailOption("line_by_line", "is for {} mlm; pairs are made of sentences", OptionName{"objective"});
  const std::shared_ptr<Communicator> processes = JoinTraining(options);
  if (!options.folder.seeds.empty()) return RunEachSeed(options, FilesOf(options), RunPretrain);
  HeldLog warnings;
  TrainingJob job = BeginTrainingJob("pretraining", options, PretrainTable(), {{"command", "pretrain"}}, processes);
  job.warnings = &warnings;
  if (job.start.finished) return FinishedBefore(job);
  job.model = MakeModel(options.model, job.start.resume_from, pairs ? Task::kPretraining : Task::kMaskedLm,
                        *job.tokenizer, options.training);
  if (pairs) RequireTypesOfPairs(*pairs, job.model->config());
  EvaluateOptions evaluating = Evaluating(job);
  if (pairs) evaluating.pairs = *pairs;
  job.metrics = EvaluationKeys(job.model->config(), job.model->task(), evaluating);
  CheckBestMetric(job.training, job.metrics);  // before the text is read
  const Masker masker(*job.tokenizer, options.mlm_probability, options.training.seed, options.masking);
  const Corpora corpora = ReadCorpora(options, job.do_eval, *job.tokenizer, job.model->config());
  ThrowIfStopped("reading the training text");
  job.train_set = &corpora.train;
  job.validation_sets = {&corpora.validation};
  job.batch = [&](int64_t epoch, std::span<const int64_t> examples) {
    return MakeMaskedBatch(corpora.train, examples, masker, static_cast<uint64_t>(epoch));
  };
  job.evaluate = [&] { return EvaluateMaskedLm(*job.model, corpora.validation, masker, evaluating).metrics; };
  return RunTrainingJob(job);
}

}  // namespace lshformer
