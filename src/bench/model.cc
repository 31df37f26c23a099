#include "bench/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <unordered_map>

#include "base/error.h"
#include "base/philox.h"
#include "data/file_kind.h"
#include "eval/model_cost.h"
#include "infer/pipeline.h"
#include "io/gzip.h"
#include "jobs/model_source.h"
#include "kernels/matmul_precision.h"
#include "models/family.h"
#include "models/model.h"

namespace lshformer {
namespace {

ModelPtr LoadVariant(const BenchModelOptions& options, const ModelVariant& variant) {
  const ModelPtr model = LoadModel(
      options.model_name_or_path, TaskOf(variant.config, Task::kEncoder), /*seed=*/0, /*require_head=*/false,
      [&](ModelConfig& config) { config.attention = variant.config.attention; }, WeightPlace::kMappedFile);
  model->set_precision(variant.precision);
  return model;
}

Json LengthRows(const BenchModelOptions& options, const std::vector<ModelVariant>& variants) {
  std::vector<ModelPtr> models;
  for (const ModelVariant& variant : variants) models.push_back(LoadVariant(options, variant));
  Json rows = Json::array();
  for (const int length : Distinct(options.lengths)) {
    const PackedBatch batch = RandomBatch(variants[0].config, options.batch_size, length, options.seed);
    std::deque<AttentionMeter> meters;
    std::vector<std::function<void()>> runs;
    for (const ModelPtr& model : models) {
      runs.push_back([&batch, model = model.get(), meter = &meters.emplace_back(/*backward=*/false)] {
        const torch::NoGradGuard no_gradients;
        ForwardOptions forward{.stop = &StopOnSignal()};
        meter->LookAt(forward);
        model->Forward(batch, forward);
        meter->Stop();  // the first run is not timed
      });
    }
    const std::vector<Timing> timings = TimeInterleaved(runs, options.runs, fmt::format("timing {} tokens", length));
    const std::vector<int64_t> sequences(static_cast<size_t>(options.batch_size), length);
    for (size_t v = 0; v < variants.size(); ++v)
      rows.push_back(ModelRow(variants[v], /*backward=*/false, length, sequences, meters[v], timings[v]));
  }
  return rows;
}

// {"text", "text_pair"} a line. All are tokenised before anything is timed; an error in one ends the run.
std::vector<EmbedQuery> ReadQueries(const std::string& path, const Pipeline& pipeline, std::vector<int64_t>& lengths) {
  LineReader lines(path);
  std::vector<EmbedQuery> queries;
  for (std::string line; lines.Next(line);) {
    const std::string where = lines.where();
    const Json object = ParseJson(line, where, kJsonLineLimits);
    if (!object.is_object() || !object.contains("text")) Fail("{}: expected an object with \"text\"", where);
    TextInput input{GetString(object, "text", where)};
    if (HasValue(object, "text_pair")) input.text_pair = GetString(object, "text_pair", where);
    Outcome<EmbedQuery> query = pipeline.PrepareEmbed(input, pipeline.options().embedding);
    if (!query.ok()) Fail("{}: {}", where, query.error);
    lengths.push_back(static_cast<int64_t>(query.value.text.ids.size()));
    queries.push_back(std::move(query.value));
  }
  if (queries.empty()) Fail("{}: holds no text", path);
  return queries;
}

Json TextRows(const BenchModelOptions& options, const std::vector<ModelVariant>& variants) {
  PredictOptions predict;
  predict.task = PredictTask::kFeatureExtraction;
  predict.embedding.pooling = Pooling::kMean;
  predict.max_seq_length = options.max_seq_length;
  predict.batch_tokens = options.batch_tokens;
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Load(options.model_name_or_path);
  std::vector<std::unique_ptr<Pipeline>> pipelines;
  std::deque<AttentionMeter> meters;
  for (const ModelVariant& variant : variants) {
    predict.precision = variant.precision;
    predict.adjust_forward = [meter = &meters.emplace_back(/*backward=*/false)](ForwardOptions& forward) {
      meter->LookAt(forward);
    };
    pipelines.push_back(std::make_unique<Pipeline>(LoadVariant(options, variant), tokenizer, predict));
  }
  std::vector<int64_t> lengths;
  const std::vector<EmbedQuery> queries = ReadQueries(options.input, *pipelines[0], lengths);
  std::vector<std::function<void()>> runs;
  for (size_t v = 0; v < variants.size(); ++v) {
    runs.push_back([&queries, &pipeline = *pipelines[v], &meter = meters[v]] {
      pipeline.Run(queries);
      meter.Stop();  // the first run is not timed
    });
  }
  const std::vector<Timing> timings = TimeInterleaved(runs, options.runs, "timing texts");
  Json rows = Json::array();
  for (size_t v = 0; v < variants.size(); ++v)
    rows.push_back(ModelRow(variants[v], /*backward=*/false, 0, lengths, meters[v], timings[v]));
  return rows;
}

}  // namespace

BenchResult RunBenchModel(const BenchModelOptions& options) {
  const bool texts = !options.input.empty();
  const std::string path = options.model_name_or_path + "/config.json";
  const ModelConfig config = ReadModelConfig(path);
  const std::vector<ModelVariant> variants =
      ModelVariants(config, options.attention, options.lsh, options.precisions, path);
  if (!texts) CheckLengths(options.lengths, options.batch_size, config, "batch_size");
  const Json machine = DescribeMachine(options.probe_machine);
  return {machine, texts ? TextRows(options, variants) : LengthRows(options, variants)};
}

std::vector<ModelVariant> ModelVariants(const ModelConfig& config, const std::vector<std::string>& attention,
                                        const AttentionChanges& lsh, const std::vector<Precision>& precisions,
                                        const std::string& where) {
  std::vector<ModelVariant> variants;
  std::vector<AttentionSpec> specs;  // of the first layer
  for (size_t v = 0; v < std::max<size_t>(1, attention.size()); ++v) {
    ModelVariant variant{"", config};
    AttentionChanges changes = lsh;
    if (!attention.empty()) changes.attention = attention[v];
    ApplyAttention(changes, variant.config);
    ValidateModelConfig(variant.config, where);
    specs.push_back(variant.config.layer_attention(0));
    variants.push_back(std::move(variant));
  }
  const std::vector<std::string> names = FamilyOf(config).encoder_layers
                                             ? VariantNames(specs)
                                             : std::vector<std::string>(variants.size(), config.model_type);
  std::vector<ModelVariant> all;
  for (size_t v = 0; v < variants.size(); ++v) {
    for (const Precision precision : Distinct(precisions)) {
      all.push_back(variants[v]);
      all.back().precision = precision;
      all.back().name = names[v] + (precision == Precision::kFloat32 ? "" : fmt::format("-{}", Name(precision)));
    }
  }
  return all;
}

Task TaskOf(const ModelConfig& config, Task wanted) {
  const std::span<const Head> heads = FamilyOf(config).heads;
  const auto found = std::find_if(heads.begin(), heads.end(), [&](const Head& head) { return head.task == wanted; });
  return found == heads.end() ? heads.front().task : wanted;
}

namespace {

// Words one after another, each as often as its rank in a text's vocabulary lets expect (Zipf's law): a context has
// words more than once. Their letters do not matter to the time.
class RandomWords {
 public:
  RandomWords(int64_t vocab_size, uint64_t key) : vocab_size_(static_cast<double>(vocab_size)), stream_(key) {
    Place(kOutOfVocabulary, /*letters=*/1);
  }
  // Sequences begin with the out-of-vocabulary word.
  std::vector<int32_t> Draw(int length) {
    std::vector<int32_t> places{0};
    while (static_cast<int>(places.size()) < length) {
      const auto id = static_cast<int32_t>(std::pow(vocab_size_, stream_.Uniform()));
      places.push_back(Place(std::max(id, kOutOfVocabulary), 1 + id % kMostLetters));
    }
    return places;
  }
  void AppendTo(PackedBatch& batch) const {
    AppendSequence(batch.further_streams[1], ids_);
    for (const int letters : letters_)
      AppendSequence(batch.further_streams[2], std::vector<int32_t>(static_cast<size_t>(letters), 1));
  }

 private:
  static constexpr int32_t kOutOfVocabulary = 1, kMostLetters = 9;
  int32_t Place(int32_t id, int letters) {
    const auto [found, fresh] = places_.try_emplace(id, static_cast<int32_t>(ids_.size()));
    if (fresh) ids_.push_back(id), letters_.push_back(letters);
    return found->second;
  }
  double vocab_size_;
  PhiloxStream stream_;
  std::unordered_map<int32_t, int32_t> places_;
  std::vector<int32_t> ids_;
  std::vector<int> letters_;
};

// The streams of models of words (nn/word_streams.h).
PackedBatch RandomQuestions(const ModelConfig& config, int sequences, int length, uint64_t key) {
  PackedBatch batch;
  batch.further_streams.resize(3);
  RandomWords words(config.vocab_size, key);
  for (int b = 0; b < sequences; ++b) {
    AppendSequence(batch, words.Draw(length), {}, static_cast<uint64_t>(b));
    AppendSequence(batch.further_streams[0], words.Draw(kBenchQuestion));
  }
  words.AppendTo(batch);
  return batch;
}

}  // namespace

PackedBatch RandomBatch(const ModelConfig& config, int sequences, int length, uint64_t seed) {
  const uint64_t key = StreamKey(seed, 0, 0, 0, Purpose::kBenchmark);
  if (!FamilyOf(config).word_table.empty()) return RandomQuestions(config, sequences, length, key);
  PackedBatch batch;
  PhiloxStream stream(key);
  for (int b = 0; b < sequences; ++b) {
    std::vector<int32_t> ids(static_cast<size_t>(length));
    for (int32_t& id : ids) id = static_cast<int32_t>(stream.Below(static_cast<uint64_t>(config.vocab_size)));
    AppendSequence(batch, ids, {}, static_cast<uint64_t>(b));
  }
  return batch;
}

void CheckLengths(const std::vector<int>& lengths, int batch, const ModelConfig& config, const char* batch_name) {
  for (const int length : lengths) {
    if (length > config.max_position_embeddings)
      FailOption("lengths", "{} exceeds max_position_embeddings {}", length, config.max_position_embeddings);
    if (int64_t{length} * batch > INT32_MAX)
      FailOption("lengths", "{} tokens times {} {} exceed {}", length, OptionName{batch_name}, batch, INT32_MAX);
  }
}

namespace {

// A backward has two products for each of the forward's. Null where costs are not known.
Json Gflops(const ModelConfig& config, bool backward, const std::vector<int64_t>& sequences, double seconds) {
  if (!HasCosts(config)) return {};
  std::map<int64_t, int64_t> counts;  // by length
  for (const int64_t length : sequences) ++counts[length];
  double flops = 0;
  for (const auto& [length, count] : counts) flops += static_cast<double>(count) * EncoderFlops(config, length);
  return (backward ? 3 : 1) * flops / seconds / 1e9;
}

}  // namespace

Json ModelRow(const ModelVariant& variant, bool backward, int64_t length, const std::vector<int64_t>& sequences,
              const AttentionMeter& attention, const Timing& timing) {
  const bool attends = FamilyOf(variant.config).encoder_layers;
  const auto batch = static_cast<int64_t>(sequences.size());
  const int64_t tokens = std::accumulate(sequences.begin(), sequences.end(), int64_t{0});
  const AttentionSpec& spec = variant.config.layer_attention(0);
  Json row = {
      {"name", variant.name},
      {"attention", attends ? Json(Name(spec)) : Json()},
      {"spec", attends ? ToJson(spec) : Json()},
      {"direction", backward ? "forward_backward" : "forward"},
      {"dtype", Name(variant.precision)},
      {"matmul_precision", variant.precision == Precision::kFloat32 ? Json(Name(ActiveMatmulPrecision())) : Json()},
      {"batch", batch},
      {"heads", attends ? Json(variant.config.num_attention_heads) : Json()},
      {"head_dim", attends ? Json(variant.config.head_dim()) : Json()},
      {"length", length},
      {"tokens", tokens}};
  AddTiming(timing, row);
  const double seconds = timing.median_ms / 1e3;
  row["tokens_per_second"] = static_cast<double>(tokens) / seconds;
  row["sequences_per_second"] = static_cast<double>(batch) / seconds;
  row["gflops"] = Gflops(variant.config, backward, sequences, seconds);
  row["pairs_fraction"] = attention.pairs_fraction();
  row["work_bytes"] = attention.work_bytes();
  return row;
}

}  // namespace lshformer
