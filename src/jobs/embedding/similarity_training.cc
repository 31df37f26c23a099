#include "jobs/embedding/similarity_training.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/logging.h"
#include "base/number.h"
#include "base/signals.h"
#include "data/corpus.h"
#include "data/passages/text_groups.h"
#include "infer/pipeline.h"
#include "jobs/data/label_data.h"
#include "jobs/embedding/evaluate_groups.h"
#include "jobs/embedding/sentence_folder.h"
#include "jobs/embedding/teacher.h"
#include "jobs/search/passages.h"
#include "nn/sentence/module_files.h"
#include "nn/sentence/modules.h"

namespace lshformer {
namespace {

std::vector<int64_t> ParseDims(const std::string& text) {
  std::vector<int64_t> dims;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const auto dim = ParseNumber<int64_t>(std::string_view(text).substr(begin, end - begin));
    if (!dim || *dim < 1 || std::find(dims.begin(), dims.end(), *dim) != dims.end())
      FailOption("matryoshka_dims", "expected different numbers from 1 on with commas between them, got \"{}\"",
                 Shown(text));
    dims.push_back(*dim);
    begin = end + 1;
  }
  return dims;
}

struct EmbeddingData {
  std::vector<TextGroups> train;
  TextGroups validation;
};

EmbeddingData ReadData(const TrainOptions& options, bool do_eval) {
  EmbeddingData data;
  int64_t rows = 0;
  for (const std::string& file : options.train_files) {
    data.train.push_back(ReadTextGroups(file));
    rows += data.train.back().size();
  }
  if (options.validation_split_percentage > 0) {
    if (data.train.size() > 1)
      FailOption("validation_split_percentage", "splits the rows of one {}, got {}", OptionName{"train_file"},
                 data.train.size());
    data.validation = data.train.front().SplitFront(ValidationShare(rows, options.validation_split_percentage, "row"));
  } else if (do_eval) {
    data.validation = ReadTextGroups(options.validation_file);
  }
  data.validation.KeepFirst(options.max_eval_samples);
  return data;
}

SimilarityLossType LossTypeOf(const SimilarityOptions& options, const EmbeddingData& data) {
  if (!options.loss.empty()) return ParseSimilarityLoss(options.loss);
  return data.train.front().scores.empty() ? SimilarityLossType::kMnrl : SimilarityLossType::kCosent;
}

// Error for the first row that the loss cannot read.
void CheckRows(const TextGroups& groups, SimilarityLossType type, bool teacher) {
  const auto where = [&](size_t row) { return fmt::format("{}:{}", Shown(groups.path, 120), groups.lines[row]); };
  if (teacher) return;
  if (NeedsScores(type) && groups.scores.empty())
    Fail("{}: {} needs pairs with a score each", Shown(groups.path, 120), OptionName{"loss"});
  for (size_t row = 0; row < groups.rows.size(); ++row) {
    const size_t texts = groups.rows[row].size();
    if (texts < 2) Fail("{}: a text alone, but {} needs pairs", where(row), OptionName{"loss"});
    if (type == SimilarityLossType::kTriplet && texts < 3)
      Fail("{}: has no negative, which {} triplet needs", where(row), OptionName{"loss"});
    if (type == SimilarityLossType::kCosine && (groups.scores[row] < -1 || groups.scores[row] > 1))
      Fail("{}: score {} is no cosine, from -1 to 1; {} cosent compares scores alone", where(row), groups.scores[row],
           OptionName{"loss"});
  }
  if (!NeedsScores(type) && !groups.scores.empty())
    Warn("{}: scores are not read: every pair counts as one that fits", Shown(groups.path, 120));
}

// Which columns may have a prompt.
std::vector<std::string> ColumnsOf(const EmbeddingData& data) {
  std::vector<std::string> columns;
  for (const TextGroups& groups : data.train)
    for (const std::vector<GroupText>& row : groups.rows)
      for (const GroupText& text : row)
        if (std::find(columns.begin(), columns.end(), text.column) == columns.end()) columns.push_back(text.column);
  return columns;
}

// The rows of all files; with scores where all have some.
TextGroups Joined(std::vector<TextGroups> files) {
  TextGroups all = std::move(files.front());
  for (size_t i = 1; i < files.size(); ++i) {
    if (all.scores.empty() || files[i].scores.empty())
      all.scores.clear();
    else
      all.scores.insert(all.scores.end(), files[i].scores.begin(), files[i].scores.end());
    std::move(files[i].rows.begin(), files[i].rows.end(), std::back_inserter(all.rows));
    all.lines.insert(all.lines.end(), files[i].lines.begin(), files[i].lines.end());
  }
  return all;
}

SequenceSet EncodeTold(const TextGroups& groups, const Json& prompts, const Tokenizer& tokenizer, int limit) {
  int64_t truncated = 0;
  SequenceSet set = EncodeGroups(groups, prompts, tokenizer, limit, &truncated);
  if (truncated > 0)
    Warn("{} of {} texts were cut at {} {}", truncated, set.sequences(), OptionName{"max_seq_length"}, limit);
  return set;
}

// A Sentence-Transformers folder that is trained further.
struct SentenceSource {
  std::shared_ptr<const SentenceModules> modules = nullptr;  // null: it is no such folder, and nothing else is set
  Json settings = Json::object();                            // config_sentence_transformers.json
  std::vector<Pooling> modes = {};
  bool weights_behind = false;  // a module behind the pooling has some
};

SentenceSource ReadSource(const std::string& folder) {
  SentenceSource source;
  if (!folder.empty()) source.modules = SentenceModules::Read(folder);
  if (source.modules == nullptr) return source;
  const std::string settings = folder + "/config_sentence_transformers.json";
  if (std::filesystem::exists(settings)) source.settings = ReadJsonObject(settings);
  for (const ModuleEntry& entry : ReadModuleEntries(folder)) {
    if (entry.kind == ModuleKind::kPooling) source.modes = ReadPoolingModule(entry.folder).first.modes;
    source.weights_behind |= entry.kind == ModuleKind::kDense || entry.kind == ModuleKind::kLayerNorm;
  }
  return source;
}

// What the loss's vectors are made by, and the folder that is left says so. Error where modules stand behind the
// pooling whose weights a training would lose.
Pooling PoolingOf(const SimilarityOptions& options, const std::string& folder, const SentenceSource& source) {
  if (!options.pooling.empty()) return ParsePooling(options.pooling);
  if (source.modules == nullptr) return Pooling::kMean;
  if (source.weights_behind)
    Fail("{}: has a module with weights behind its pooling, which is not trained; {} leaves it out", Shown(folder, 120),
         OptionName{"pooling"});
  if (source.modes.size() != 1)
    Fail("{}: pools in several ways; {} chooses one", Shown(folder, 120), OptionName{"pooling"});
  return source.modes.front();
}

// By column, and by the names under which Sentence-Transformers and a search look for those of queries and documents.
Json SavedPrompts(const Json& prompts, const std::vector<std::string>& columns) {
  Json saved = prompts;
  if (prompts.empty() || std::find(columns.begin(), columns.end(), "anchor") == columns.end()) return saved;
  saved["query"] = prompts.value("anchor", "");
  saved["document"] = prompts.value("positive", "");
  return saved;
}

SimilarityLossOptions LossOptions(const SimilarityOptions& options, SimilarityLossType type, int64_t width,
                                  Pooling pooling) {
  SimilarityLossOptions loss{
      type,   options.scale, options.triplet_margin, ParseDims(options.matryoshka_dims), options.gradient_cache_chunk,
      pooling};
  for (const int64_t dim : loss.dims)
    if (dim > width) FailOption("matryoshka_dims", "expected at most {}, the model's, got {}", width, dim);
  return loss;
}

}  // namespace

JobResult RunTrainEmbeddings(const TrainOptions& options, TrainingJob& job) {
  const SimilarityOptions& similarity = options.similarity;
  EmbeddingData data = ReadData(options, job.do_eval);
  const SimilarityLossType type = LossTypeOf(similarity, data);
  const bool teaches = !similarity.teacher_name_or_path.empty();
  for (const TextGroups& groups : data.train) CheckRows(groups, type, teaches);
  if (job.do_eval) CheckRows(data.validation, type, teaches);
  const std::vector<std::string> columns = ColumnsOf(data);
  const Json prompts = ParsePrompts(similarity.prompts, columns);
  job.model = MakeModel(options.model, job.start.resume_from, Task::kEncoder, *job.tokenizer, options.training);
  const SentenceSource source = ReadSource(options.model.model_name_or_path);
  SimilarityLossOptions loss = LossOptions(similarity, type, job.model->config().hidden_size,
                                           PoolingOf(similarity, options.model.model_name_or_path, source));
  std::optional<Teacher> teacher;
  if (teaches) {
    teacher.emplace(similarity.teacher_name_or_path, job.model->config().hidden_size, loss.pooling);
    loss.unit_teacher = teacher->normalizes();
  }
  if (source.modules != nullptr && !source.modules->includes_prompt() && !prompts.empty())
    FailOption("prompts", "the folder's pooling leaves prompts out, which training cannot");
  int limit = SequenceLimit(options.max_seq_length, job.model->config());
  if (source.modules != nullptr && options.max_seq_length == 0)
    limit = static_cast<int>(source.modules->LongestText(*job.tokenizer, limit));
  const TextGroups groups = Joined(std::move(data.train));
  SequenceSet train = EncodeTold(groups, prompts, *job.tokenizer, limit);
  train.KeepFirst(options.max_train_samples);
  const SequenceSet validation =
      job.do_eval ? EncodeTold(data.validation, prompts, *job.tokenizer, limit) : SequenceSet();
  ThrowIfStopped("reading the training data");
  job.train_set = &train;
  job.validation_sets = {&validation};
  job.batch = [&](int64_t, std::span<const int64_t> examples) { return MakeBatch(train, examples); };
  const bool in_parts = job.training.gradient_shards > 1 || job.training.total_batch_size > 0;
  const auto wanted = [&](const TextGroups& texts) {
    return teacher ? teacher->VectorsOf(texts.rows) : WantedVectors();
  };
  job.loss = SimilarityLoss(loss, wanted(groups), in_parts);
  job.metrics = GroupMetrics(validation);
  job.evaluate = [&, evaluating = Evaluating(job), of_validation = wanted(data.validation)] {
    return EvaluateGroups(*job.model, of_validation, validation, loss, evaluating);
  };
  job.save_extra = [&](const std::string& folder) {
    WriteSentenceFolder(folder, {job.model->config().hidden_size, limit, loss.pooling, SavedPrompts(prompts, columns),
                                 source.settings, source.modules == nullptr || source.modules->includes_prompt()});
  };
  return RunTrainingJob(job);
}

}  // namespace lshformer
