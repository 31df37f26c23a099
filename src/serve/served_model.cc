#include "serve/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/logging.h"
#include "data/long_text.h"
#include "infer/line_queries.h"
#include "models/family.h"
#include "serve/request_error.h"
#include "text/code_points.h"

namespace lshformer {
namespace {

using enum RequestErrorType;

// What the forward calls of this thread are told while a batch runs.
struct RunningCall {
  const StopToken* stop;
  AttentionCounts* counts;
};
thread_local const RunningCall* running_call = nullptr;

void AdjustForward(ForwardOptions& forward) {
  if (running_call == nullptr) return;
  forward.stop = running_call->stop;
  forward.counts = running_call->counts;
}

PredictTask TaskOf(const std::string& folder, const std::string& task) {
  if (!task.empty()) return ParsePredictTask(task);
  // A Sentence-Transformers folder is for vectors, whatever head the encoder was trained with.
  if (SentenceModules::MakeVectors(folder)) return PredictTask::kFeatureExtraction;
  const std::string path = folder + "/config.json";
  const ModelConfig config = ReadModelConfig(path);
  switch (TaskFromArchitectures(config, path)) {
    case Task::kMaskedLm:
    case Task::kPretraining:
      return PredictTask::kFillMask;
    case Task::kSequenceClassification:
      return PredictTask::kTextClassification;
    case Task::kMultipleChoice:
      return PredictTask::kMultipleChoice;
    case Task::kQuestionAnswering:
      return PredictTask::kQuestionAnswering;
    case Task::kEncoder:
      break;
  }
  return PredictTask::kFeatureExtraction;
}

// The attention flags over the folder's own.
void ChangeAttentionOf(const std::string& folder, const AttentionChanges& changes, ModelConfig& config) {
  if (changes.attention.empty() && changes.keys.empty()) return;
  if (!FamilyOf(config).encoder_layers)
    FailOption("attention", "{}: a model of type \"{}\" has no self-attention", Shown(folder, 120), config.model_type);
  const std::vector<AttentionSpec> made_with = config.attention;
  changes.Apply(config.attention);
  if (!std::ranges::equal(made_with, config.attention, SameWork))
    Warn("{}: runs with another attention than it was made with; its answers change", Shown(folder, 120));
}

int64_t SizeOf(const Encoding& text) { return static_cast<int64_t>(text.ids.size()); }

std::string TooLong(const std::string& place, int64_t tokens, int64_t limit) {
  return fmt::format("{} has {} tokens, expected at most {}; \"truncate\": true cuts it", place, tokens, limit);
}

// An error of the pipeline that begins with its own name of the input, by its place in the request.
[[noreturn]] void FailInput(const std::string& error, const std::string& place) {
  const std::string_view own = "\"text\"";
  FailRequest(kValidation, "{}", error.starts_with(own) ? place + error.substr(own.size()) : place + ": " + error);
}

// How a request's body calls its i-th input.
std::string PlaceOf(const ApiRequest& request, size_t i) {
  const bool openai = request.route == Route::kOpenAiEmbeddings;
  if (request.single) return openai ? "\"input\"" : "\"inputs\"";
  switch (request.route) {
    case Route::kRerank:
      return fmt::format("\"texts\"[{}]", i);
    case Route::kCohereRerank:
      return fmt::format("\"documents\"[{}]", i);
    case Route::kSimilarity:
      return i == 0 ? "\"source_sentence\"" : fmt::format("\"sentences\"[{}]", i - 1);
    default:
      return fmt::format("\"{}\"[{}]", openai ? "input" : "inputs", i);
  }
}

}  // namespace

ServedModel::ServedModel(std::string name, Pipeline pipeline, const ServeOptions& options)
    : name_(std::move(name)), pipeline_(std::move(pipeline)), auto_truncate_(options.auto_truncate) {
  const std::string& prompt = options.default_prompt_name;
  if (prompt.empty() || task() != PredictTask::kFeatureExtraction) return;
  if (const std::string error = PromptError(prompt); !error.empty()) FailOption("default_prompt_name", "{}", error);
  default_prompt_ = prompt;
}

// "": the model has a prompt of that name.
std::string ServedModel::PromptError(const std::string& name) const {
  const std::vector<std::string> names =
      pipeline_.modules() == nullptr ? std::vector<std::string>() : pipeline_.modules()->PromptNames();
  if (std::ranges::count(names, name) > 0) return "";
  if (names.empty()) return fmt::format("the model \"{}\" has no prompts, got \"{}\"", Shown(name_), Shown(name));
  return fmt::format("expected one of {}, got \"{}\"{}", fmt::join(names, ", "), Shown(name), Suggestion(name, names));
}

ServedModel ServedModel::Load(const std::string& folder, const std::string& name, const std::string& task,
                              const ServeOptions& options) {
  RequirePrecision(options.precision, Marked(options.precision == Precision::kBFloat16 ? "bf16" : "int8").c_str());
  PredictOptions predict;
  predict.task = TaskOf(folder, task);
  predict.batch_tokens = options.max_batch_tokens;
  predict.precision = options.precision;
  predict.adjust_forward = AdjustForward;
  if (predict.task == PredictTask::kFeatureExtraction && !options.pooling.empty())
    predict.embedding.pooling = ParsePooling(options.pooling);
  Pipeline pipeline = Pipeline::Load(
      folder, "", predict, [&](ModelConfig& config) { ChangeAttentionOf(folder, options.attention, config); });
  ServedModel model(name, std::move(pipeline), options);
  if (predict.task == PredictTask::kFeatureExtraction && options.pooling.empty() && !model.pipeline().modules())
    Warn("{}: does not say how a text's vector is made; it is the mean ({} says another)", Shown(folder, 120),
         OptionName{"pooling"});
  return model;
}

int64_t ServedModel::parameter_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : pipeline_.model().NamedParameters())
    bytes += tensor.numel() * static_cast<int64_t>(tensor.element_size());
  return bytes;
}

std::string ServedModel::EmbedPooling() const {
  if (const std::optional<Pooling> pooling = pipeline_.options().embedding.pooling) return Name(*pooling);
  return pipeline_.modules() ? pipeline_.modules()->Names().front() : Name(Pooling::kMean);
}

bool ServedModel::IsReranker() const {
  return task() == PredictTask::kTextClassification && pipeline_.config().num_labels == 1;
}

void ServedModel::RequireRoute(const ApiRequest& request) const {
  PredictTask wanted = PredictTask::kFeatureExtraction;
  switch (request.route) {
    case Route::kPredict:
    case Route::kRerank:
    case Route::kCohereRerank:
      wanted = PredictTask::kTextClassification;
      break;
    case Route::kFillMask:
      wanted = PredictTask::kFillMask;
      break;
    case Route::kQuestionAnswering:
      wanted = PredictTask::kQuestionAnswering;
      break;
    case Route::kMultipleChoice:
      wanted = PredictTask::kMultipleChoice;
      break;
    default:
      break;
  }
  if (task() != wanted)
    FailRequest(kBackend, "the model \"{}\" is for {}, not for {}", name_, Name(task()), Name(wanted));
  if ((request.route == Route::kRerank || request.route == Route::kCohereRerank) && !IsReranker())
    FailRequest(kBackend, "the model \"{}\" has {} labels; one that ranks texts has one", name_,
                pipeline_.config().num_labels);
}

EmbedOptions ServedModel::EmbedOptionsOf(const ApiRequest& request) const {
  EmbedOptions options = pipeline_.options().embedding;
  if (!options.pooling && !pipeline_.modules()) options.pooling = Pooling::kMean;
  if (request.route == Route::kEmbedAll) options.pooling = Pooling::kNone;
  if (request.route == Route::kEmbedChunks || request.late_chunking) options.pooling = Pooling::kMean;
  options.prompt_name = default_prompt_;
  if (!request.prompt_name.empty()) {
    if (const std::string error = PromptError(request.prompt_name); !error.empty())
      FailRequest(kValidation, "\"prompt_name\": {}", error);
    options.prompt_name = request.prompt_name;
  }
  const int64_t width = pipeline_.EmbeddingWidth(options);
  if (request.dimensions > width)
    FailRequest(kValidation, "\"dimensions\": expected at most {}, got {}", width, request.dimensions);
  const bool whole = request.dimensions == 0 || request.dimensions == width;
  options.normalize = request.normalize && whole &&
                      request.route != Route::kEmbedAll;  // vectors that are cut get their length afterwards
  return options;
}

void ServedModel::CheckIds(std::span<const int32_t> ids, const std::string& place) const {
  const int32_t most = pipeline_.tokenizer().vocab_size();
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= most)
      FailRequest(kValidation, "{}[{}]: expected a token below {}, got {}", place, i, most, ids[i]);
}

// All tokens of a text with its prompt, however many.
Encoding ServedModel::WholeText(const ApiInput& input, const ApiRequest& request) const {
  const SentenceModules* modules = pipeline_.modules();
  TextEncoding how;
  std::string prompt;
  if (modules != nullptr && task() == PredictTask::kFeatureExtraction) {
    how.lower_case = modules->lower_cases();
    prompt = modules->Prompt(EmbedOptionsOf(request).prompt_name);
  }
  return std::move(EncodeLong(pipeline_.tokenizer(), prompt + input.text, input.pair, how).front());
}

Encoding ServedModel::Encode(const ApiInput& input, const ApiRequest& request, const std::string& place,
                             bool& truncated) const {
  const Tokenizer& tokenizer = pipeline_.tokenizer();
  const TextTemplate::Form& form = tokenizer.text_template().Of(input.pair ? 2 : 1);
  Encoding text;
  if (!input.is_ids) {
    text = WholeText(input, request);
    if (text.ids.size() <= form.tokens()) FailRequest(kValidation, "{} has no tokens: it is blank", place);
  } else {
    CheckIds(input.ids, place);
    const auto push = [&](const std::vector<TextTemplate::Token>& tokens) {
      for (const TextTemplate::Token& token : tokens) text.Push(token.id, token.type, 0, 0);
    };
    // As /tokenize gives them, with what stands around a text, or without.
    const bool whole = !form.before.empty() && input.ids.front() == form.before.front().id;
    if (!whole) push(form.before);
    for (const int32_t id : input.ids) text.Push(id, form.first_type, 0, 0);
    if (!whole) push(form.after);
  }
  const int64_t limit = max_input_length(), over = SizeOf(text) - limit;
  if (over > 0) {
    if (!request.truncate.value_or(auto_truncate_)) FailRequest(kValidation, "{}", TooLong(place, SizeOf(text), limit));
    const bool prompted = pipeline_.modules() != nullptr && !input.is_ids &&
                          !pipeline_.modules()->Prompt(EmbedOptionsOf(request).prompt_name).empty();
    if (prompted) FailRequest(kValidation, "{}: \"truncation_direction\" would cut the prompt", place);
    if (input.pair)
      FailRequest(kValidation, "{}: of a pair \"truncation_direction\" is that of the model's tokenizer", place);
    const size_t kept = text.ids.size() - static_cast<size_t>(over);
    text.Remove(request.cut_left ? form.before.size() : kept - form.after.size(), static_cast<size_t>(over));
    truncated = true;
  }
  return text;
}

PreparedQuery ServedModel::PrepareText(const ApiInput& input, const ApiRequest& request,
                                       const std::string& place) const {
  const bool embeds = task() == PredictTask::kFeatureExtraction;
  PreparedQuery prepared;
  prepared.characters = CountCodePoints(input.text) + (input.pair ? CountCodePoints(*input.pair) : 0);
  Outcome<EmbedQuery> embed;
  Outcome<ClassifyQuery> classify;
  if (embeds) embed.value.options = EmbedOptionsOf(request);
  if (input.is_ids || request.cut_left != pipeline_.tokenizer().truncates_left()) {
    (embeds ? embed.value.text : classify.value.text) = Encode(input, request, place, prepared.truncated);
  } else {
    const TextInput text{input.text, input.pair};
    if (embeds)
      embed = pipeline_.PrepareEmbed(text, embed.value.options);
    else
      classify = pipeline_.PrepareClassify(text);
    if (const std::string& error = embeds ? embed.error : classify.error; !error.empty()) FailInput(error, place);
    prepared.truncated = embed.truncated || classify.truncated;
    if (prepared.truncated && !request.truncate.value_or(auto_truncate_))
      FailRequest(kValidation, "{}", TooLong(place, SizeOf(WholeText(input, request)), max_input_length()));
  }
  classify.value.function = request.route == Route::kPredict ? request.function : ScoreFunction::kNone;
  classify.value.top_k = request.top_k;
  prepared.tokens = SizeOf(embeds ? embed.value.text : classify.value.text);
  if (embeds)
    prepared.query = std::move(embed.value);
  else
    prepared.query = std::move(classify.value);
  return prepared;
}

PreparedQuery ServedModel::PrepareMasks(const ApiRequest& request, const ApiInput& input,
                                        const std::string& place) const {
  if (input.is_ids || input.pair) FailRequest(kValidation, "{}: expected a text", place);
  Outcome<FillMaskQuery> query = pipeline_.PrepareFillMask({input.text}, request.top_k, request.targets);
  for (const char* option : {"\"top_k\"", "\"targets\""})  // of the whole request
    if (query.error.starts_with(option)) FailRequest(kValidation, "{}", query.error);
  if (!query.ok()) FailInput(query.error, place);
  if (query.truncated && !request.truncate.value_or(auto_truncate_))
    FailRequest(kValidation, "{}",
                TooLong(place, SizeOf(pipeline_.tokenizer().Encode(input.text)), max_input_length()));
  const int64_t tokens = SizeOf(query.value.text);
  return {std::move(query.value), tokens, CountCodePoints(input.text), query.truncated};
}

PreparedQuery ServedModel::PrepareQuestion(const ApiRequest& request) const {
  const QuestionChoices& asked = request.choices;
  AnswerOptions answers = pipeline_.options().answers;
  answers.doc_stride = asked.doc_stride.value_or(answers.doc_stride);
  answers.max_answer_length = asked.max_answer_len.value_or(answers.max_answer_length);
  answers.max_query_length = asked.max_question_len.value_or(answers.max_query_length);
  answers.version_2 = asked.handle_impossible_answer.value_or(answers.version_2);
  const auto most = static_cast<int>(max_input_length());
  if (asked.max_seq_len.value_or(0) > most)
    FailRequest(kValidation, "\"max_seq_len\": expected at most {}, got {}", most, *asked.max_seq_len);
  Outcome<QuestionQuery> outcome =
      pipeline_.PrepareQuestion({request.question, request.context}, {.top_k = request.top_k,
                                                                      .answers = answers,
                                                                      .max_seq_length = asked.max_seq_len.value_or(0),
                                                                      .whole_words = asked.align_to_words});
  if (!outcome.ok()) FailRequest(kValidation, "{}", outcome.error);
  PreparedQuery prepared;
  const QuestionQuery& query = outcome.value;
  for (const ContextExcerpt& excerpt : query.excerpts)
    prepared.tokens += query.first + 1 + static_cast<int64_t>(excerpt.end - excerpt.begin);
  prepared.characters = CountCodePoints(request.question) + CountCodePoints(request.context);
  prepared.query = std::move(outcome.value);
  return prepared;
}

PreparedQuery ServedModel::PrepareChoose(const ApiRequest& request) const {
  Outcome<ChooseQuery> outcome = pipeline_.PrepareChoose({request.question, request.context, request.options});
  if (!outcome.ok()) FailRequest(kValidation, "{}", outcome.error);
  if (outcome.truncated && !request.truncate.value_or(auto_truncate_))
    FailRequest(kValidation,
                "\"context\" has more than {} tokens with question and options; \"truncate\": true cuts it",
                max_input_length());
  PreparedQuery prepared;
  for (const Encoding& option : outcome.value.options) prepared.tokens += SizeOf(option);
  prepared.characters = CountCodePoints(request.question) + CountCodePoints(request.context);
  prepared.truncated = outcome.truncated;
  prepared.query = std::move(outcome.value);
  return prepared;
}

PreparedQuery ServedModel::PrepareChunked(const ApiRequest& request, const std::string& text,
                                          const ChunkOptions& chunks, std::span<const CodePointSpan> spans,
                                          const std::string& place) const {
  Outcome<ChunkQuery> outcome = PrepareChunks(pipeline_, text, EmbedOptionsOf(request), chunks, spans);
  if (!outcome.ok()) FailInput(outcome.error, place);
  const int64_t tokens = TokensAtOnce(outcome.value);
  return {std::move(outcome.value), tokens, CountCodePoints(text), false};
}

// The parts one behind the other, with a space between two of which neither has white space there.
PreparedQuery ServedModel::PrepareParts(const ApiRequest& request) const {
  const auto is_blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  std::string text;
  std::vector<CodePointSpan> spans;
  int64_t end = 0;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const std::string& part = request.inputs[i].text;
    if (!text.empty() && !is_blank(text.back()) && !is_blank(part.front())) {
      text += ' ';
      ++end;
    }
    const int64_t begin = end;
    end += CountCodePoints(part);
    spans.emplace_back(static_cast<int32_t>(begin), static_cast<int32_t>(end));
    text += part;
  }
  try {
    return PrepareChunked(request, text, {.chunking = Chunking::kSpans}, spans, "\"input\"");
  } catch (const RequestError& error) {
    // "input": "spans"[3]: [7, 9] has no tokens
    const std::string_view own = "\"input\": \"spans\"", message = error.what();
    if (!message.starts_with(own)) throw;
    const size_t number = message.find(']') + 1;
    FailRequest(kValidation, "\"input\"{} has no tokens: it is blank", message.substr(own.size(), number - own.size()));
  }
}

std::vector<PreparedQuery> ServedModel::Prepare(const ApiRequest& request) const {
  RequireRoute(request);
  std::vector<PreparedQuery> prepared;
  if (request.route == Route::kQuestionAnswering) prepared.push_back(PrepareQuestion(request));
  if (request.route == Route::kMultipleChoice) prepared.push_back(PrepareChoose(request));
  if (request.late_chunking) prepared.push_back(PrepareParts(request));
  if (!prepared.empty()) return prepared;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const ApiInput& input = request.inputs[i];
    const std::string place = PlaceOf(request, i);
    switch (request.route) {
      case Route::kFillMask:
        prepared.push_back(PrepareMasks(request, input, place));
        break;
      case Route::kEmbedChunks: {
        const std::span<const CodePointSpan> spans =
            request.spans.empty() ? std::span<const CodePointSpan>() : request.spans[i];
        prepared.push_back(PrepareChunked(request, input.text, request.chunks, spans, place));
        break;
      }
      default:
        prepared.push_back(PrepareText(input, request, place));
    }
  }
  return prepared;
}

namespace {

template <class Query>
std::vector<Outcome<ModelAnswer>> RunAs(const Pipeline& pipeline, std::vector<ModelQuery>& queries) {
  std::vector<Query> own;
  for (ModelQuery& query : queries) own.push_back(std::move(std::get<Query>(query)));
  std::vector<Outcome<ModelAnswer>> outcomes;
  const auto keep = [&](const auto& found) {
    for (const auto& outcome : found) outcomes.push_back({outcome.value, outcome.error, outcome.truncated});
  };
  if constexpr (std::is_same_v<Query, QuestionQuery>) {
    pipeline.Run(own, [&](size_t, std::span<const Outcome<std::vector<SpanAnswer>>> found) { keep(found); });
  } else if constexpr (std::is_same_v<Query, ChunkQuery>) {
    keep(RunChunks(pipeline, own));
  } else {
    keep(pipeline.Run(own));
  }
  return outcomes;
}

}  // namespace

std::vector<Outcome<ModelAnswer>> ServedModel::Run(std::vector<ModelQuery> queries, const StopToken& stop,
                                                   AttentionCounts& counts) const {
  const RunningCall call{&stop, &counts};
  running_call = &call;
  struct Forget {
    ~Forget() { running_call = nullptr; }
  } forget;
  switch (task()) {
    case PredictTask::kFillMask:
      return RunAs<FillMaskQuery>(pipeline_, queries);
    case PredictTask::kTextClassification:
      return RunAs<ClassifyQuery>(pipeline_, queries);
    case PredictTask::kMultipleChoice:
      return RunAs<ChooseQuery>(pipeline_, queries);
    case PredictTask::kQuestionAnswering:
      return RunAs<QuestionQuery>(pipeline_, queries);
    case PredictTask::kFeatureExtraction:
      break;
  }
  if (std::holds_alternative<ChunkQuery>(queries.front())) return RunAs<ChunkQuery>(pipeline_, queries);
  return RunAs<EmbedQuery>(pipeline_, queries);
}

std::string ServedModel::Tokenize(const ApiRequest& request) const {
  const Tokenizer& tokenizer = pipeline_.tokenizer();
  Json answer = Json::array();
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const ApiInput& input = request.inputs[i];
    const std::string place = PlaceOf(request, i);
    if (input.is_ids || input.pair) FailRequest(kValidation, "{}: expected a text", place);
    EncodeOptions options;
    options.add_special_tokens = request.add_special_tokens;
    const Encoding text = tokenizer.Encode(input.text, {}, options);
    const CodePointIndex code_points(input.text);
    Json& tokens = answer.emplace_back(Json::array());
    for (size_t t = 0; t < text.ids.size(); ++t) {
      const auto [start, stop] = text.offsets[t];
      const bool special = stop == start && tokenizer.IsSpecial(text.ids[t]);  // not one that the text itself has
      tokens.push_back({{"id", text.ids[t]},
                        {"text", special ? tokenizer.Token(text.ids[t]) : std::string(code_points.Slice(start, stop))},
                        {"special", special},
                        {"start", special ? Json() : Json(start)},
                        {"stop", special ? Json() : Json(stop)}});
    }
  }
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string ServedModel::Decode(const ApiRequest& request) const {
  Json answer = Json::array();
  for (size_t i = 0; i < request.ids.size(); ++i) {
    CheckIds(request.ids[i], request.single ? "\"ids\"" : fmt::format("\"ids\"[{}]", i));
    answer.push_back(pipeline_.tokenizer().Decode(request.ids[i], request.skip_special_tokens));
  }
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lshformer
