#include "jobs/search/passages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/logging.h"
#include "data/file_kind.h"
#include "data/passages/chunking.h"
#include "jobs/model_digest.h"
#include "jobs/use_matmul_precision.h"
#include "models/config.h"
#include "nn/sentence/modules.h"
#include "text/code_points.h"

namespace lshformer {
namespace {

constexpr const char *kNoChunks = "none", *kQuery = "query", *kCorpus = "corpus";

Pipeline MakePipeline(const ModelSource& model, const PassageOptions& options) {
  CheckPrecision(model.precision);
  UseMatmulPrecision(model.matmul_precision);
  PredictOptions predict;
  predict.task = PredictTask::kFeatureExtraction;
  predict.max_seq_length = options.max_seq_length;
  predict.batch_tokens = options.batch_tokens;
  predict.precision = model.precision;
  predict.embedding.normalize = options.normalize;
  if (!options.pooling.empty())
    predict.embedding.pooling = ParsePooling(options.pooling);
  else if (SentenceModules::Read(model.model_name_or_path) == nullptr)
    predict.embedding.pooling = Pooling::kMean;
  std::optional<AttentionChange> change;
  Pipeline pipeline = Pipeline::Load(model.model_name_or_path, model.tokenizer_name, predict, [&](ModelConfig& config) {
    change = ChangeAttention(model.model_name_or_path, model.attention, config);
    ValidateModelConfig(config, model.model_name_or_path);
  });
  WarnOfAttention(pipeline.model(), change);
  return pipeline;
}

}  // namespace

Json ParsePrompts(const std::string& prompts, const std::vector<std::string>& known) {
  if (prompts.empty()) return Json::object();
  Json object;
  try {
    object = ParseJson(prompts, "the object");
  } catch (const Error& error) {
    FailOption("prompts", "{}", error.what());
  }
  if (!object.is_object()) FailOption("prompts", "expected a JSON object, got {}", ShownValue(object));
  for (const auto& [name, prompt] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      FailOption("prompts", "\"{}\": expected {}{}", Shown(name), fmt::join(known, ", "), Suggestion(name, known));
    if (!prompt.is_string()) FailOption("prompts", "\"{}\": expected a string, got {}", name, ShownValue(prompt));
  }
  return object;
}

PassageEncoder::PassageEncoder(const ModelSource& model, const PassageOptions& options)
    : model_(model),
      options_(options),
      prompts_(ParsePrompts(options.prompts, {kQuery, kCorpus})),
      tokenizer_(Tokenizer::Load(model.tokenizer_name.empty() ? model.model_name_or_path : model.tokenizer_name)),
      pipeline_(MakePipeline(model, options)),
      query_(PromptOf(kQuery, {kQuery})),
      corpus_(PromptOf(kCorpus, {"document", "passage", kCorpus})) {
  options_.max_seq_length = pipeline_.options().max_seq_length;
  const SentenceModules* modules = pipeline_.modules();
  const std::string prompt = modules == nullptr ? "" : modules->Prompt(corpus_.options.prompt_name);
  const auto around = std::ssize(tokenizer_->Encode(prompt + corpus_.text).ids);
  const int64_t most = options_.max_seq_length - around;
  if (most < 1) FailOption("max_seq_length", "the prompt alone takes {} of {} tokens", around, options_.max_seq_length);
  if (options_.chunk_tokens > most)
    FailOption("chunk_tokens", "expected at most {}, which the model reads beside special tokens and prompt, got {}",
               most, options_.chunk_tokens);
  if (options_.chunk_tokens == 0) options_.chunk_tokens = most;
}

PassageEncoder::Prompt PassageEncoder::PromptOf(const char* name, const std::vector<std::string>& of_folder) const {
  Prompt prompt{prompts_.value(name, ""), pipeline_.options().embedding};
  if (prompts_.contains(name) || pipeline_.modules() == nullptr) return prompt;
  const std::vector<std::string> known = pipeline_.modules()->PromptNames();
  for (const std::string& candidate : of_folder)
    if (!prompt.options.prompt_name && std::find(known.begin(), known.end(), candidate) != known.end())
      prompt.options.prompt_name = candidate;
  return prompt;
}

Json PassageEncoder::settings() const {
  Json settings{
      {"model digest", DigestOfModel(model_.model_name_or_path)},
      {"tokenizer digest", model_.tokenizer_name.empty() ? Json() : Json(DigestOfModel(model_.tokenizer_name))},
      {"max_seq_length", options_.max_seq_length},
      {"bf16", model_.precision == Precision::kBFloat16},
      {"int8", model_.precision == Precision::kInt8},
      {"float32_matmul_precision", Name(model_.matmul_precision)}};
  for (const Option<PassageOptions>& option : PassageTable().options)
    if (option.name != "prompts") settings[option.name] = option.write(options_);
  if (options_.chunking == kNoChunks) settings["chunk_tokens"] = nullptr;
  settings["prompts"] = corpus_.text;
  settings.update(AttentionSettings(model_.attention));
  return settings;
}

std::vector<float> PassageEncoder::EmbedQueries(std::span<const std::string> queries) const {
  std::vector<TextInput> inputs;
  for (const std::string& query : queries) inputs.push_back({query_.text + query});
  std::vector<float> vectors;
  const auto outcomes = pipeline_.Embed(inputs, query_.options);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (!outcomes[i].ok()) Fail("query \"{}\": {}", Shown(queries[i]), outcomes[i].error);
    if (outcomes[i].truncated)
      Warn("query \"{}\": cut to {} tokens", Shown(queries[i]), pipeline_.options().max_seq_length);
    vectors.insert(vectors.end(), outcomes[i].value.values.begin(), outcomes[i].value.values.end());
  }
  return vectors;
}

std::vector<PassageEncoder::Part> PassageEncoder::Split(const CorpusDocument& document) const {
  std::vector<Part> parts;
  const std::string whole = document.Whole();
  if (IsBlank(whole)) return parts;
  const CodePointIndex places(whole);
  const auto title = static_cast<int32_t>(places.size() - CountCodePoints(document.text));
  const std::string& prompt = corpus_.text;
  const auto add = [&](int64_t begin, int64_t end) {
    const auto in_text = [&](int64_t place) { return std::max(0, static_cast<int32_t>(place) - title); };
    parts.push_back({in_text(begin), in_text(end), prompt + std::string(places.Slice(begin, end))});
  };
  if (options_.chunking == kNoChunks) {
    add(0, places.size());
    return parts;
  }
  const Encoding tokens = tokenizer_->Encode(whole, {}, {.add_special_tokens = false});
  const auto most = static_cast<size_t>(options_.chunk_tokens);
  // What is left in as few passages as it takes, of like lengths: no passage of a word or two at the end.
  const auto next = [&](size_t begin) {
    const size_t left = tokens.ids.size() - begin, passages = (left + most - 1) / most;
    return (left + passages - 1) / passages;
  };
  for (size_t begin = 0, end = 0; begin < tokens.ids.size(); begin = end) {
    end = EndOfWords(tokens, begin, next(begin), *tokenizer_);
    add(tokens.offsets[begin].first, tokens.offsets[end - 1].second);
  }
  return parts;
}

void PassageEncoder::Embed(std::span<const Part> parts, const std::function<std::string(size_t)>& where,
                           const std::function<void(size_t, std::span<const float>)>& take) const {
  std::vector<TextInput> inputs;
  for (const Part& part : parts) inputs.push_back({part.text});
  const auto outcomes = pipeline_.Embed(inputs, corpus_.options);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (!outcomes[i].ok()) Fail("{}: {}", where(i), outcomes[i].error);
    take(i, outcomes[i].value.values);
  }
}

}  // namespace lshformer
