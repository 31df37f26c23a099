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
    if (HasValue(json_, "model") && json_.at("model").is_string()) request_.model = json_.at("model");
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
      case Route::kFillMask:
        ReadList("inputs");
        break;
      case Route::kInspect:
        ReadInspect();
        break;
      case Route::kOpenAiEmbeddings:
        ReadList("input");
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
    Flag("raw_scores", request_.raw_scores);
    Flag("return_text", request_.return_text);
    Flag("add_special_tokens", request_.add_special_tokens);
    Flag("skip_special_tokens", request_.skip_special_tokens);
    Whole("dimensions", request_.dimensions, 1, int64_t{1} << 24);
    Whole("top_k", request_.top_k, 1, INT32_MAX);
    if (request_.route != Route::kOpenAiEmbeddings) return;
    const std::string format = Word("encoding_format");
    if (!format.empty() && format != "float" && format != "base64")
      Wrong("\"encoding_format\"", "float or base64", format);
    request_.base64 = format == "base64";
    bool late = false;
    Flag("late_chunking", late);
    if (late) FailRequest(kValidation, "\"late_chunking\": is not offered here");
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
    CheckCount(static_cast<int64_t>(value.size()), key);
    for (const Json& item : value)
      request_.inputs.push_back(InputAt(item, fmt::format("{}[{}]", place, request_.inputs.size())));
  }

  // "a", ["a", "b"] (a pair) or tokens; a list of lists has several.
  void ReadPredict() {
    const Json& value = Required(json_, "inputs");
    const bool several = value.is_array() && !value.empty() &&
                         std::ranges::any_of(value, [](const Json& item) { return item.is_array(); });
    request_.single = !several;
    if (!several) return request_.inputs.push_back(InputAt(value, "\"inputs\""));
    CheckCount(static_cast<int64_t>(value.size()), "inputs");
    for (const Json& item : value)
      request_.inputs.push_back(InputAt(item, fmt::format("\"inputs\"[{}]", request_.inputs.size())));
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
    if (request_.route == Route::kMultipleChoice) request_.options = Texts(Required(object, "options"), "options");
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
