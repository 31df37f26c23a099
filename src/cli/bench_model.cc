// lshformer bench model: the encoder of a checkpoint, forward, on random ids or on texts; variants in turn.
#include "cli/bench_model.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/philox.h"
#include "cli/flags.h"
#include "cli/precision_flags.h"
#include "data/file_kind.h"
#include "infer/pipeline.h"
#include "io/gzip.h"
#include "models/model.h"

namespace lshformer::cli {
namespace {

struct BenchModelFlags {
  std::string folder, input;
  std::vector<int> lengths{128, 512};
  int batch_size = 1, max_seq_length = 0, runs = 5;
  int64_t batch_tokens = PredictOptions().batch_tokens;
  std::vector<std::string> attention;  // empty: the model's own
  std::vector<std::string> dtypes{"float32"};
  AttentionChanges lsh;
  bool json = false, no_machine = false;
};

ModelPtr LoadVariant(const BenchModelFlags& flags, const ModelVariant& variant) {
  const ModelPtr model = LoadModel(
      flags.folder, Task::kEncoder, /*seed=*/0, /*require_head=*/false,
      [&](ModelConfig& config) { config.attention = variant.config.attention; }, WeightPlace::kMappedFile);
  model->set_precision(variant.precision);
  return model;
}

Json LengthRows(const BenchModelFlags& flags, const std::vector<ModelVariant>& variants, uint64_t seed) {
  std::vector<ModelPtr> models;
  for (const ModelVariant& variant : variants) models.push_back(LoadVariant(flags, variant));
  Json rows = Json::array();
  for (const int length : Distinct(flags.lengths)) {
    const PackedBatch batch = RandomBatch(variants[0].config, flags.batch_size, length, seed);
    std::vector<std::function<void()>> runs;
    for (const ModelPtr& model : models) {
      runs.push_back([&batch, model = model.get()] {
        const torch::NoGradGuard no_gradients;
        model->Forward(batch, {});
      });
    }
    const std::vector<Timing> timings = TimeInterleaved(runs, flags.runs);
    for (size_t v = 0; v < variants.size(); ++v)
      rows.push_back(ModelRow(variants[v], "forward", flags.batch_size, length, batch.tokens(), timings[v]));
  }
  return rows;
}

// {"text", "text_pair"} a line. All are tokenised before anything is timed; an error in one ends the run.
std::vector<Request> ReadRequests(const std::string& path, const Pipeline& pipeline, int64_t& tokens) {
  LineReader lines(path);
  std::vector<Request> requests;
  for (std::string line; lines.Next(line);) {
    const std::string where = lines.where();
    const Json object = ParseJson(line, where, kJsonLineLimits);
    if (!object.is_object() || !object.contains("text")) Fail("{}: expected an object with \"text\"", where);
    const std::string text = GetString(object, "text", where),
                      pair = HasValue(object, "text_pair") ? GetString(object, "text_pair", where) : "";
    try {
      requests.push_back(pipeline.PrepareText(text, pair));
    } catch (const Error& error) {
      Fail("{}: {}", where, error.what());
    }
    tokens += static_cast<int64_t>(requests.back().encoding.ids.size());
  }
  if (requests.empty()) Fail("{}: holds no text", path);
  return requests;
}

Json TextRows(const BenchModelFlags& flags, const std::vector<ModelVariant>& variants) {
  PredictOptions options;
  options.task = PredictTask::kFeatureExtraction;
  options.pooling = Pooling::kMean;
  options.max_seq_length = flags.max_seq_length;
  options.batch_tokens = flags.batch_tokens;
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Load(flags.folder);
  std::vector<std::unique_ptr<Pipeline>> pipelines;
  for (const ModelVariant& variant : variants) {
    options.precision = variant.precision;
    pipelines.push_back(std::make_unique<Pipeline>(LoadVariant(flags, variant), tokenizer, options));
  }
  int64_t tokens = 0;
  std::vector<Request> requests = ReadRequests(flags.input, *pipelines[0], tokens);
  std::vector<std::function<void()>> runs;
  for (const auto& pipeline : pipelines) runs.push_back([&requests, &pipeline] { pipeline->Run(requests); });
  const std::vector<Timing> timings = TimeInterleaved(runs, flags.runs);
  Json rows = Json::array();
  for (size_t v = 0; v < variants.size(); ++v)
    rows.push_back(ModelRow(variants[v], "forward", static_cast<int64_t>(requests.size()), 0, tokens, timings[v]));
  return rows;
}

void BenchModel(const CLI::App& command, const BenchModelFlags& flags, uint64_t seed) {
  const bool texts = !flags.input.empty();
  for (const char* flag : {"--lengths", "--batch_size"})
    if (texts && command.count(flag) > 0) FailUsage("{}: the texts of --input have lengths of their own", flag);
  for (const char* flag : {"--max_seq_length", "--batch_tokens"})
    if (!texts && command.count(flag) > 0) FailUsage("{}: is for the texts of --input", flag);
  const std::string path = flags.folder + "/config.json";
  const ModelConfig config = ReadModelConfig(path);
  const std::vector<ModelVariant> variants = ModelVariants(config, flags.attention, flags.lsh, flags.dtypes, path);
  if (!texts) CheckLengths(flags.lengths, flags.batch_size, config, "--batch_size");
  const Json machine = DescribeMachine(!flags.no_machine);
  const Json rows = texts ? TextRows(flags, variants) : LengthRows(flags, variants, seed);
  const std::vector<std::string> columns{"name",
                                         "batch",
                                         "length",
                                         "tokens",
                                         "median_ms",
                                         "p10_ms",
                                         "p90_ms",
                                         "tokens_per_second",
                                         "sequences_per_second"};
  const std::string text = FormatBenchmark(machine, rows, columns, flags.json);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

std::vector<ModelVariant> ModelVariants(const ModelConfig& config, const std::vector<std::string>& attention,
                                        const AttentionChanges& lsh, const std::vector<std::string>& dtypes,
                                        const std::string& where) {
  std::vector<Precision> precisions;
  for (const std::string& dtype : dtypes) {
    const Precision precision = ParsePrecisionFlag(dtype);
    if (std::find(precisions.begin(), precisions.end(), precision) == precisions.end()) precisions.push_back(precision);
  }
  std::vector<ModelVariant> variants;
  std::vector<AttentionSpec> specs;  // of the first layer
  for (size_t v = 0; v < std::max<size_t>(1, attention.size()); ++v) {
    ModelVariant variant{"", config};
    AttentionChanges changes = lsh;
    if (!attention.empty()) changes.attention = attention[v];
    changes.Apply(variant.config.attention);
    ValidateModelConfig(variant.config, where);
    specs.push_back(variant.config.layer_attention(0));
    variants.push_back(std::move(variant));
  }
  const std::vector<std::string> names = VariantNames(specs);
  std::vector<ModelVariant> all;
  for (size_t v = 0; v < variants.size(); ++v) {
    for (const Precision precision : precisions) {
      all.push_back(variants[v]);
      all.back().precision = precision;
      all.back().name = names[v] + (precision == Precision::kFloat32 ? "" : fmt::format("-{}", Name(precision)));
    }
  }
  return all;
}

PackedBatch RandomBatch(const ModelConfig& config, int sequences, int length, uint64_t seed) {
  PackedBatch batch;
  PhiloxStream stream(StreamKey(seed, 0, 0, 0, Purpose::kBenchmark));
  for (int b = 0; b < sequences; ++b) {
    std::vector<int32_t> ids(static_cast<size_t>(length));
    for (int32_t& id : ids) id = static_cast<int32_t>(stream.Below(static_cast<uint64_t>(config.vocab_size)));
    AppendSequence(batch, ids, {}, static_cast<uint64_t>(b));
  }
  return batch;
}

void CheckLengths(const std::vector<int>& lengths, int batch, const ModelConfig& config, const char* batch_flag) {
  for (const int length : lengths) {
    if (length > config.max_position_embeddings)
      FailUsage("--lengths: {} exceeds max_position_embeddings {}", length, config.max_position_embeddings);
    if (int64_t{length} * batch > INT32_MAX)
      FailUsage("--lengths: {} tokens times {} {} exceed {}", length, batch_flag, batch, INT32_MAX);
  }
}

Json ModelRow(const ModelVariant& variant, const char* direction, int64_t batch, int64_t length, int64_t tokens,
              const Timing& timing) {
  const AttentionSpec& spec = variant.config.layer_attention(0);
  Json row = {{"name", variant.name},
              {"attention", Name(spec)},
              {"spec", ToJson(spec)},
              {"direction", direction},
              {"dtype", Name(variant.precision)},
              {"batch", batch},
              {"heads", variant.config.num_attention_heads},
              {"head_dim", variant.config.head_dim()},
              {"length", length},
              {"tokens", tokens}};
  AddTiming(timing, row);
  const double seconds = timing.median_ms / 1e3;
  row["tokens_per_second"] = static_cast<double>(tokens) / seconds;
  row["sequences_per_second"] = static_cast<double>(batch) / seconds;
  return row;
}

void AddBenchModel(CLI::App& bench, CommonFlags& common) {
  CLI::App* command = bench.add_subcommand("model", "the encoder of a checkpoint, forward, variants in turn");
  auto flags = std::make_shared<BenchModelFlags>();
  const char* group = "What is timed";
  command->add_option("DIR", flags->folder, "checkpoint folder")->required()->type_name("DIR")->group(group);
  command->add_option("--lengths", flags->lengths, "random sequences of this many tokens")
      ->delimiter(',')
      ->check(IntegerIn(1, INT32_MAX))
      ->group(group);
  command->add_option("--batch_size", flags->batch_size, "of them in a call")
      ->check(IntegerIn(1, 1 << 20))
      ->group(group);
  command
      ->add_option(
          "--input", flags->input,
          "or JSONL of \"text\" and \"text_pair\": all of them in one run, batched as predict does; - is stdin")
      ->type_name("FILE")
      ->group(group);
  command->add_option("--max_seq_length", flags->max_seq_length, "longer texts are cut; 0: the position table")
      ->check(IntegerIn(0, INT32_MAX))
      ->group(group);
  command->add_option("--batch_tokens", flags->batch_tokens, "tokens a forward call")
      ->check(IntegerIn(1, int64_t{1} << 24))
      ->group(group);
  AddVariantsFlag(*command, flags->attention, "instead of the model's own; repeat it for several", group);
  command
      ->add_option("--dtype", flags->dtypes, "of the linear layers (bfloat16: of attention too); repeat it for several")
      ->delimiter(',')
      ->check(OneOf({"float32", "bfloat16", "int8"}))
      ->group(group);
  AddMeasuringFlags(*command, flags->runs, flags->no_machine, flags->json);
  AddLshFlags(*command, flags->lsh);
  command->callback([command, flags, &common] { BenchModel(*command, *flags, common.seed); });
}

}  // namespace lshformer::cli
