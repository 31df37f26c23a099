#include "jobs/search/passages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/logging.h"
#include "base/parallel.h"
#include "data/file_kind.h"
#include "data/passages/chunking.h"
#include "infer/late_chunks.h"
#include "jobs/model_digest.h"
#include "jobs/use_matmul_precision.h"
#include "models/config.h"
#include "nn/sentence/modules.h"
#include "text/code_points.h"

namespace lshformer {
namespace {

constexpr const char *kNoChunks = "none", *kTokens = "tokens", *kQuery = "query", *kCorpus = "corpus";

Pipeline MakePipeline(const ModelSource& model, const PassageOptions& options) {
  CheckPassageOptions(options);
  CheckPrecision(model.precision);
  UseMatmulPrecision(model.matmul_precision);
  PredictOptions predict;
  predict.task = PredictTask::kFeatureExtraction;
  predict.max_seq_length = options.max_seq_length;
  predict.batch_tokens = options.batch_tokens;
  predict.precision = model.precision;
  if (options.long_text == LongText::kWhole) {
    predict.long_text = LongText::kWhole;
    const auto chunking = std::find(kChunkingNames.begin(), kChunkingNames.end(), options.chunking);
    predict.chunks.chunking = static_cast<Chunking>(chunking - kChunkingNames.begin());
    if (options.chunk_tokens > 0) predict.chunks.chunk_tokens = options.chunk_tokens;
  }
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
      pipeline_(MakePipeline(model, options)),
      query_(PromptOf(kQuery, {kQuery})),
      corpus_(PromptOf(kCorpus, {"document", "passage", kCorpus})) {
  options_.max_seq_length = pipeline_.options().max_seq_length;
  if (options_.long_text == LongText::kWhole)
    options_.chunk_tokens = pipeline_.options().chunks.chunk_tokens;
  else
    CheckPassageLength();
}

void PassageEncoder::CheckPassageLength() {
  const auto around = std::ssize(pipeline_.tokenizer().Encode(pipeline_.PromptOf(corpus_)).ids);
  const int64_t most = options_.max_seq_length - around;
  if (most < 1) FailOption("max_seq_length", "the prompt alone takes {} of {} tokens", around, options_.max_seq_length);
  if (options_.chunk_tokens > most)
    FailOption("chunk_tokens", "expected at most {}, which the model reads beside special tokens and prompt, got {}",
               most, options_.chunk_tokens);
  if (options_.chunk_tokens == 0) options_.chunk_tokens = most;
}

EmbedOptions PassageEncoder::PromptOf(const char* name, const std::vector<std::string>& of_folder) const {
  EmbedOptions options = pipeline_.options().embedding;
  if (prompts_.contains(name)) {
    options.prompt = prompts_[name].get<std::string>();
  } else if (pipeline_.modules() != nullptr) {
    const std::vector<std::string> known = pipeline_.modules()->PromptNames();
    const auto found = std::find_first_of(of_folder.begin(), of_folder.end(), known.begin(), known.end());
    if (found != of_folder.end()) options.prompt_name = *found;
  }
  return options;
}

Json PassageEncoder::settings() const {
  const bool whole = options_.long_text == LongText::kWhole;
  Json settings{
      {"model digest", DigestOfModel(model_.model_name_or_path)},
      {"tokenizer digest", model_.tokenizer_name.empty() ? Json() : Json(DigestOfModel(model_.tokenizer_name))},
      {"long_text", whole ? Json(kLongTextNames[static_cast<size_t>(options_.long_text)]) : Json()},
      {"max_seq_length", options_.max_seq_length},
      {"bf16", model_.precision == Precision::kBFloat16},
      {"int8", model_.precision == Precision::kInt8},
      {"float32_matmul_precision", Name(model_.matmul_precision)}};
  for (const Option<PassageOptions>& option : PassageTable().options)
    if (option.name != "prompts") settings[option.name] = option.write(options_);
  if (options_.chunking != kTokens) settings["chunk_tokens"] = nullptr;
  settings["prompts"] = pipeline_.PromptOf(corpus_);
  settings.update(AttentionSettings(model_.attention));
  return settings;
}

size_t PassageEncoder::bytes_at_once() const {
  return size_t{1} << (options_.long_text == LongText::kWhole ? 18 : 21);  // a whole text costs more a byte
}

std::vector<float> PassageEncoder::EmbedQueries(std::span<const std::string> queries, int64_t* cut) const {
  std::vector<TextInput> inputs;
  for (const std::string& query : queries) inputs.push_back({query});
  std::vector<float> vectors;
  const auto outcomes = pipeline_.Embed(inputs, query_);
  *cut = 0;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (!outcomes[i].ok()) Fail("query \"{}\": {}", Shown(queries[i]), outcomes[i].error);
    *cut += outcomes[i].truncated;
    vectors.insert(vectors.end(), outcomes[i].value.values.begin(), outcomes[i].value.values.end());
  }
  return vectors;
}

void PassageEncoder::WarnOfCut(int64_t cut, int64_t queries) const {
  if (cut > 0) Warn("{} of {} queries were cut to {} tokens", cut, queries, options_.max_seq_length);
}

std::vector<CodePointSpan> PassageEncoder::Split(const std::string& whole) const {
  if (options_.chunking == kNoChunks) return {{0, static_cast<int32_t>(CountCodePoints(whole))}};
  const Tokenizer& tokenizer = pipeline_.tokenizer();
  const Encoding tokens = tokenizer.Encode(whole, {}, {.add_special_tokens = false});
  const auto most = static_cast<size_t>(options_.chunk_tokens);
  // What is left in as few passages as it takes, of like lengths: no passage of a word or two at the end.
  const auto next = [&](size_t begin) {
    const size_t left = tokens.ids.size() - begin, passages = (left + most - 1) / most;
    return (left + passages - 1) / passages;
  };
  std::vector<CodePointSpan> places;
  for (size_t begin = 0, end = 0; begin < tokens.ids.size(); begin = end) {
    end = EndOfWords(tokens, begin, next(begin), tokenizer);
    places.emplace_back(tokens.offsets[begin].first, tokens.offsets[end - 1].second);
  }
  return places;
}

namespace {

// What stands before the text in the two together; and a place in them as one in the text.
int32_t TitleLength(const CorpusDocument& document) {
  return document.title.empty() ? 0 : static_cast<int32_t>(CountCodePoints(document.title)) + 1;
}
CodePointSpan InText(CodePointSpan place, int32_t title) {
  return {std::max(0, place.first - title), std::max(0, place.second - title)};
}

}  // namespace

void PassageEncoder::EmbedAlone(std::span<const CorpusDocument> documents,
                                const std::function<std::string(size_t)>& where, const TakePassage& take) const {
  std::vector<TextInput> inputs;
  std::vector<std::pair<size_t, CodePointSpan>> passages;
  for (size_t i = 0; i < documents.size(); ++i) {
    const std::string whole = documents[i].Whole();
    if (IsBlank(whole)) continue;
    const CodePointIndex places(whole);
    for (const CodePointSpan& place : Split(whole)) {
      inputs.push_back({std::string(places.Slice(place.first, place.second))});
      passages.emplace_back(i, InText(place, TitleLength(documents[i])));
    }
  }
  const auto outcomes = pipeline_.Embed(inputs, corpus_);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (!outcomes[i].ok()) Fail("{}: {}", where(passages[i].first), outcomes[i].error);
    take(passages[i].first, passages[i].second, outcomes[i].value.values);
  }
}

// A title is the beginning of the first passage; where passages are given it is in none.
void PassageEncoder::EmbedWhole(std::span<const CorpusDocument> documents,
                                const std::function<std::string(size_t)>& where, const TakePassage& take) const {
  std::vector<Outcome<ChunkQuery>> prepared(documents.size());
  ParallelFor(std::ssize(documents), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const CorpusDocument& document = documents[i];
      const std::string whole = document.Whole();
      EmbedOptions options = corpus_;
      if (reads_spans() && !document.title.empty()) options.prompt = pipeline_.PromptOf(corpus_) + document.title + " ";
      if (!pipeline_.tokenizer().Encode(whole, {}, {.add_special_tokens = false}).ids.empty())
        prepared[i] = PrepareChunks(pipeline_, reads_spans() ? document.text : whole, options,
                                    pipeline_.options().chunks, document.spans);
    }
  });
  std::vector<ChunkQuery> queries;
  for (size_t i = 0; i < prepared.size(); ++i) {
    if (!prepared[i].ok()) Fail("{}: {}", where(i), prepared[i].error);
    queries.push_back(std::move(prepared[i].value));
  }
  const auto outcomes = RunChunks(pipeline_, queries);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (!outcomes[i].ok()) Fail("{}: {}", where(i), outcomes[i].error);
    const int32_t title = reads_spans() ? 0 : TitleLength(documents[i]);
    for (const ChunkVector& chunk : outcomes[i].value) take(i, InText(chunk.place, title), chunk.values);
  }
}

void PassageEncoder::Embed(std::span<const CorpusDocument> documents, const std::function<std::string(size_t)>& where,
                           const TakePassage& take) const {
  options_.long_text == LongText::kWhole ? EmbedWhole(documents, where, take) : EmbedAlone(documents, where, take);
}

}  // namespace lshformer
