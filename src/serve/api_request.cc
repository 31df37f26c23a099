#include "serve/api_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/lower_case.h"
#include "base/option_table.h"
#include "serve/request_error.h"

namespace lshformer {
namespace {

constexpr const char* kWhere = "body";
constexpr JsonLimits kBodyLimits{.depth = 16, .bytes = size_t{1} << 30, .values = size_t{1} << 20};
using enum RequestErrorType;

[[noreturn]] void Wrong(std::string_view place, std::string_view expected, const Json& got) {
  FailRequest(kValidation, "{}: expected {}, got {}", place, expected, ShownValue(got));
}

// What the readers of base/json throw, as an error of the request.
template <class Get>
auto Valid(const Get& get) {
  try {
    return get();
  } catch (const RequestError&) {
    throw;
  } catch (const Error& error) {
    throw RequestError(kValidation, error.what());
  }
}

const Json& Required(const Json& object, const char* key) {
  if (!HasValue(object, key)) FailRequest(kValidation, "{}: \"{}\" is missing", kWhere, key);
  return object.at(key);
}

std::string TextAt(const Json& value, const std::string& place) {
  if (!value.is_string()) Wrong(place, "a text", value);
  return value.get<std::string>();
}
std::string NotEmpty(std::string text, const std::string& place) {
  if (text.empty()) FailRequest(kEmpty, "{} is empty", place);
  return text;
}

bool IsIds(const Json& value) { return value.is_array() && !value.empty() && value.front().is_number(); }

std::vector<int32_t> IdsAt(const Json& value, const std::string& place) {
  if (!value.is_array()) Wrong(place, "a list of tokens", value);
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (const Json& id : value) {
    const std::string item = fmt::format("{}[{}]", place, ids.size());
    if (!id.is_number_integer() || id > INT32_MAX || id < 0) Wrong(item, "a token's number", id);
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

// A text or a list of tokens.
ApiInput TextOrIds(const Json& value, const std::string& place) {
  if (IsIds(value)) return {.text = "", .ids = IdsAt(value, place), .is_ids = true};
  if (!value.is_string()) Wrong(place, "a text or a list of tokens", value);
  return {NotEmpty(value.get<std::string>(), place)};
}

// ["a"] or ["a", "b"]: a text, or one with its second.
ApiInput PairAt(const Json& value, const std::string& place) {
  if (value.size() > 2) Wrong(place, "one text or two", value);
  ApiInput input{NotEmpty(TextAt(value[0], place + "[0]"), place + "[0]")};
  if (value.size() == 2) input.pair = TextAt(value[1], place + "[1]");
  return input;
}

ApiInput InputAt(const Json& value, const std::string& place) {
  if (value.is_array() && value.empty()) FailRequest(kEmpty, "{} is empty", place);
  return value.is_array() && !IsIds(value) ? PairAt(value, place) : TextOrIds(value, place);
}

class Body {
 public:
  Body(Route route, std::string_view text, const TaskOfModel& task_of, const ApiLimits& limits)
      : json_(Valid([&] { return ParseJson(text, kWhere, kBodyLimits); })), limits_(limits) {
    if (!json_.is_object()) Wrong(kWhere, "a JSON object", json_);
    if (limits.several_models && HasValue(json_, "model")) request_.model = TextAt(json_.at("model"), "\"model\"");
    task_ = task_of(request_.model);
    request_.route = route;
    options_ = HasValue(json_, "parameters") ? json_.at("parameters") : Json::object();
    if (!options_.is_object()) Wrong("\"parameters\"", "an object", options_);
  }

  ApiRequest Read() {
    if (request_.route == Route::kRoot) ReadRoot();
    ReadOptions();
    switch (request_.route) {
      case Route::kEmbed:
      case Route::kEmbedAll:
      case Route::kTokenize:
        ReadList("inputs");
        break;
      case Route::kFillMask:
        ReadFillMask();
        break;
      case Route::kInspect:
        ReadInspect();
        break;
      case Route::kOpenAiEmbeddings:
        ReadList("input");
        if (request_.late_chunking) RequireTexts("input");
        break;
      case Route::kEmbedChunks:
        ReadChunks();
        break;
      case Route::kPredict:
        ReadPredict();
        break;
      case Route::kRerank:
      case Route::kCohereRerank:
        ReadRerank();
        break;
      case Route::kSimilarity:
        ReadSimilarity();
        break;
      case Route::kDecode:
        ReadDecode();
        break;
      case Route::kQuestionAnswering:
      case Route::kMultipleChoice:
        ReadQuestion();
        break;
      default:
        break;
    }
    return std::move(request_);
  }

 private:
  // The route that a request to the bare address means.
  void ReadRoot() {
    request_.from_root = true;
    const Json* inputs = HasValue(json_, "inputs") ? &json_.at("inputs") : nullptr;
    if (task_ == "text-classification") request_.route = Route::kPredict;
    if (task_ == "fill-mask") request_.route = Route::kFillMask;
    if (task_ == "question-answering") request_.route = Route::kQuestionAnswering;
    if (task_ == "multiple-choice") request_.route = Route::kMultipleChoice;
    if (task_ == "feature-extraction")
      request_.route = inputs != nullptr && inputs->is_object() ? Route::kSimilarity : Route::kEmbed;
    if (task_ == "text-classification" && HasValue(json_, "query")) request_.route = Route::kRerank;
  }

  // At the top, or in "parameters", where Hugging Face's clients put them.
  const Json* Given(const char* key) const {
    if (HasValue(json_, key)) return &json_.at(key);
    return HasValue(options_, key) ? &options_.at(key) : nullptr;
  }
  void Flag(const char* key, bool& into) const {
    const Json* value = Given(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) Wrong(fmt::format("\"{}\"", key), "true or false", *value);
    into = value->get<bool>();
  }
  template <class Int>
  void Whole(const char* key, Int& into, int64_t low, int64_t high) const {
    const Json* value = Given(key);
    if (value == nullptr) return;
    const bool fits = value->is_number_integer() && *value >= low && *value <= high;
    if (!fits) Wrong(fmt::format("\"{}\"", key), IntegerRange(low, high), *value);
    into = value->get<Int>();
  }
  std::string Word(const char* key) const {
    const Json* value = Given(key);
    return value == nullptr ? "" : TextAt(*value, fmt::format("\"{}\"", key));
  }

  void ReadOptions() {
    if (Given("truncate") != nullptr) {
      bool truncate = false;
      Flag("truncate", truncate);
      request_.truncate = truncate;
    }
    const std::string direction = LowerCase(Word("truncation_direction"));
    if (!direction.empty() && direction != "left" && direction != "right")
      Wrong("\"truncation_direction\"", "Left or Right", direction);
    request_.cut_left = direction == "left";
    request_.prompt_name = Word("prompt_name");
    Flag("normalize", request_.normalize);
    Flag("return_text", request_.return_text);
    Flag("add_special_tokens", request_.add_special_tokens);
    Flag("skip_special_tokens", request_.skip_special_tokens);
    Whole("dimensions", request_.dimensions, 1, int64_t{1} << 24);
    Whole("top_k", request_.top_k, 1, INT32_MAX);
    ReadFunction();
    if (request_.route == Route::kOpenAiEmbeddings) Flag("late_chunking", request_.late_chunking);
    // Hugging Face's clients have the option too, and read lists of numbers.
    const bool openai = request_.route == Route::kOpenAiEmbeddings;
    if (openai || request_.from_root) request_.base64 = OneOf("encoding_format", {"float", "base64"}) == "base64";
    if (request_.base64 && !openai)
      FailRequest(kValidation, "\"encoding_format\": expected float, got base64, which /v1/embeddings gives");
  }

  // The value of a key, one of `names`; "": it is not there.
  std::string OneOf(const char* key, const std::vector<std::string>& names) const {
    std::string name = Word(key);
    if (!name.empty() && !std::ranges::count(names, name))
      Wrong(fmt::format("\"{}\"", key), fmt::format("{}", fmt::join(names, " or ")), name);
    return name;
  }

  // TEI's raw_scores, or function_to_apply of Hugging Face's clients.
  void ReadFunction() {
    bool raw = false;
    Flag("raw_scores", raw);
    const bool predicts = request_.route == Route::kPredict;
    const std::string name = predicts ? OneOf("function_to_apply", {"softmax", "sigmoid", "none"}) : "";
    if (raw && !name.empty() && name != "none")
      FailRequest(kValidation, "\"raw_scores\" and \"function_to_apply\" {}: expected one of them", name);
    if (raw || name == "none") request_.function = ScoreFunction::kNone;
    if (name == "softmax") request_.function = ScoreFunction::kSoftmax;
    if (name == "sigmoid") request_.function = ScoreFunction::kSigmoid;
  }

  void CheckCount(int64_t count, const char* key) const {
    if (count == 0) FailRequest(kEmpty, "\"{}\" is empty", key);
    if (count > limits_.inputs)
      FailRequest(kValidation, "\"{}\": {} inputs, expected at most {} (max_client_batch_size)", key, count,
                  limits_.inputs);
  }

  // A text, tokens, or a list of such and of pairs.
  void ReadList(const char* key) {
    const Json& value = Required(json_, key);
    const std::string place = fmt::format("\"{}\"", key);
    request_.single = !value.is_array() || IsIds(value);
    if (request_.single) return request_.inputs.push_back(TextOrIds(value, place));
    if (!request_.late_chunking) CheckCount(static_cast<int64_t>(value.size()), key);  // parts are of one text
    if (value.empty()) FailRequest(kEmpty, "{} is empty", place);
    for (const Json& item : value)
      request_.inputs.push_back(InputAt(item, fmt::format("{}[{}]", place, request_.inputs.size())));
  }

  void RequireTexts(const char* key) const {
    for (size_t i = 0; i < request_.inputs.size(); ++i)
      if (request_.inputs[i].is_ids || request_.inputs[i].pair)
        FailRequest(kValidation, "\"{}\"{}: expected a text", key, request_.single ? "" : fmt::format("[{}]", i));
  }

  void ReadChunks() {
    ReadList("inputs");
    RequireTexts("inputs");
    const Json* spans = Given("spans");
    const std::string name = OneOf("chunking", {"tokens", "sentences", "spans"});
    ChunkOptions& chunks = request_.chunks;
    chunks.chunking = name == "sentences"                                     ? Chunking::kSentences
                      : name == "spans" || (name.empty() && spans != nullptr) ? Chunking::kSpans
                                                                              : Chunking::kTokens;
    if (chunks.chunking != Chunking::kTokens && Given("chunk_tokens") != nullptr)
      FailRequest(kValidation, "\"chunk_tokens\": is for \"chunking\" tokens");
    Whole("chunk_tokens", chunks.chunk_tokens, 1, INT32_MAX);
    if ((chunks.chunking == Chunking::kSpans) != (spans != nullptr))
      FailRequest(kValidation, "\"spans\": {}", spans == nullptr ? "is missing" : "is for \"chunking\" spans");
    if (spans == nullptr) return;
    if (request_.single) return request_.spans.push_back(SpansAt(*spans, "\"spans\""));
    if (!spans->is_array() || spans->size() != request_.inputs.size())
      Wrong("\"spans\"", fmt::format("a list for each of {} inputs", request_.inputs.size()), *spans);
    for (const Json& list : *spans)
      request_.spans.push_back(SpansAt(list, fmt::format("\"spans\"[{}]", request_.spans.size())));
  }
  static std::vector<CodePointSpan> SpansAt(const Json& list, const std::string& place) {
    std::vector<CodePointSpan> spans = Valid([&] { return SpansOf(list, place); });
    if (spans.empty()) FailRequest(kEmpty, "{} is empty", place);
    return spans;
  }

  // "a", ["a", "b"] (a pair) or tokens; a list of lists has several. At the bare address a list has several in any
  // case, as in Hugging Face's pipelines, where {"text", "text_pair"} is a pair.
  void ReadPredict() {
    const Json& value = Required(json_, "inputs");
    const bool several =
        value.is_array() && !value.empty() && !IsIds(value) &&
        (request_.from_root || std::ranges::any_of(value, [](const Json& item) { return item.is_array(); }));
    request_.single = !several;
    if (!several) return request_.inputs.push_back(ClassifiedAt(value, "\"inputs\""));
    CheckCount(static_cast<int64_t>(value.size()), "inputs");
    for (const Json& item : value)
      request_.inputs.push_back(ClassifiedAt(item, fmt::format("\"inputs\"[{}]", request_.inputs.size())));
  }
  ApiInput ClassifiedAt(const Json& value, const std::string& place) const {
    if (!request_.from_root || !value.is_object()) return InputAt(value, place);
    const auto part = [&](const char* key) {
      if (!HasValue(value, key)) FailRequest(kValidation, "{}: \"{}\" is missing", place, key);
      return TextAt(value.at(key), fmt::format("{}.\"{}\"", place, key));
    };
    ApiInput input{NotEmpty(part("text"), place)};
    if (HasValue(value, "text_pair")) input.pair = part("text_pair");
    return input;
  }

  void ReadFillMask() {
    ReadList("inputs");
    const Json* targets = Given("targets");
    if (targets == nullptr) return;
    if (targets->is_string()) return request_.targets.push_back(NotEmpty(targets->get<std::string>(), "\"targets\""));
    if (!targets->is_array()) Wrong("\"targets\"", "a list of words", *targets);
    if (targets->empty()) FailRequest(kEmpty, "\"targets\" is empty");
    for (const Json& word : *targets) {
      const std::string place = fmt::format("\"targets\"[{}]", request_.targets.size());
      request_.targets.push_back(NotEmpty(TextAt(word, place), place));
    }
  }

  std::vector<std::string> Texts(const Json& value, const char* key) {
    if (!value.is_array()) Wrong(fmt::format("\"{}\"", key), "a list of texts", value);
    CheckCount(static_cast<int64_t>(value.size()), key);
    std::vector<std::string> texts;
    for (const Json& item : value) {
      const std::string place = fmt::format("\"{}\"[{}]", key, texts.size());
      const Json& text = item.is_object() && HasValue(item, "text") ? item.at("text") : item;  // Cohere's documents
      texts.push_back(NotEmpty(TextAt(text, place), place));
    }
    return texts;
  }

  void ReadRerank() {
    const std::string query = NotEmpty(TextAt(Required(json_, "query"), "\"query\""), "\"query\"");
    if (HasValue(json_, "documents")) request_.route = Route::kCohereRerank;
    const bool cohere = request_.route == Route::kCohereRerank;
    const char* key = cohere && !HasValue(json_, "texts") ? "documents" : "texts";
    for (std::string& text : Texts(Required(json_, key), key)) request_.inputs.push_back({query, std::move(text)});
    if (!cohere) return;
    Flag("return_documents", request_.return_text);
    Whole("top_n", request_.top_n, 1, INT64_MAX);
  }

  void ReadSimilarity() {
    request_.normalize = true;  // cosines
    request_.dimensions = 0;
    const Json& inputs = Required(json_, "inputs");
    if (!inputs.is_object()) Wrong("\"inputs\"", "an object with source_sentence and sentences", inputs);
    request_.inputs.push_back(
        {NotEmpty(TextAt(Required(inputs, "source_sentence"), "\"source_sentence\""), "\"source_sentence\"")});
    for (std::string& text : Texts(Required(inputs, "sentences"), "sentences"))
      request_.inputs.push_back({std::move(text)});
  }

  void ReadDecode() {
    const Json& value = Required(json_, "ids");
    if (!value.is_array()) Wrong("\"ids\"", "a list of tokens, or of lists of them", value);
    request_.single = IsIds(value);
    if (request_.single) return request_.ids.push_back(IdsAt(value, "\"ids\""));
    CheckCount(static_cast<int64_t>(value.size()), "ids");
    for (const Json& item : value) request_.ids.push_back(IdsAt(item, fmt::format("\"ids\"[{}]", request_.ids.size())));
  }

  void ReadInspect() {
    request_.single = true;
    request_.inputs.push_back({NotEmpty(TextAt(Required(json_, "inputs"), "\"inputs\""), "\"inputs\"")});
    const Json* attention = Given("attention");
    if (attention != nullptr)
      request_.attention = attention->is_string() ? attention->get<std::string>() : attention->dump();
    Whole("layer", request_.layer, 0, INT32_MAX);
    Whole("head", request_.head, 0, INT32_MAX);
  }

  void ReadQuestion() {
    const Json& object = HasValue(json_, "inputs") && json_.at("inputs").is_object() ? json_.at("inputs") : json_;
    request_.question = NotEmpty(TextAt(Required(object, "question"), "\"question\""), "\"question\"");
    request_.context = NotEmpty(TextAt(Required(object, "context"), "\"context\""), "\"context\"");
    request_.single = true;
    if (request_.route == Route::kMultipleChoice)
      request_.options = Texts(Required(object, "options"), "options");
    else
      ReadChoices();
  }

  void ReadChoices() {
    QuestionChoices& choices = request_.choices;
    const auto whole = [&](const char* key, std::optional<int>& into, int64_t low) {
      if (Given(key) != nullptr) Whole(key, into.emplace(), low, INT32_MAX);
    };
    whole("doc_stride", choices.doc_stride, 0);
    whole("max_answer_len", choices.max_answer_len, 1);
    whole("max_question_len", choices.max_question_len, 1);
    whole("max_seq_len", choices.max_seq_len, 1);
    if (Given("handle_impossible_answer") != nullptr)
      Flag("handle_impossible_answer", choices.handle_impossible_answer.emplace());
    Flag("align_to_words", choices.align_to_words);
  }

  const Json json_;
  Json options_;
  std::string task_;
  const ApiLimits& limits_;
  ApiRequest request_;
};

}  // namespace

ApiRequest ParseApiRequest(Route route, std::string_view body, const TaskOfModel& task_of, const ApiLimits& limits) {
  return Body(route, body, task_of, limits).Read();
}

}  // namespace lshformer
