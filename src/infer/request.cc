// Lines to requests: what a request may say, and how its text is cut.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/file_kind.h"
#include "infer/long_line.h"
#include "infer/pipeline.h"

namespace lshformer {
namespace {

template <class Value>
Value Choose(const std::string& name, const char* flag, const std::vector<std::pair<std::string, Value>>& choices) {
  std::vector<std::string> names;
  std::string list;
  for (const auto& [known, value] : choices) {
    if (known == name) return value;
    names.push_back(known);
    list += (list.empty() ? "" : ", ") + known;
  }
  const std::string nearest = Nearest(name, names);
  FailUsage("{}: expected one of {}, got \"{}\"{}", flag, list, Shown(name),
            nearest.empty() ? "" : " (did you mean \"" + nearest + "\"?)");
}

std::string RequiredText(const Json& object, const char* key, std::string_view where) {
  if (!object.contains(key)) Fail("{}: \"{}\" is missing", where, key);
  return GetString(object, key, where);
}

// Beyond this, lines are shortened before they are parsed; the beginning of a text is far more than any position table
// takes.
constexpr size_t kLongLine = size_t{4} << 20, kLongText = size_t{1} << 20;

}  // namespace

PredictTask ParsePredictTask(const std::string& name) {
  return Choose<PredictTask>(name, "--task",
                             {{"fill-mask", PredictTask::kFillMask},
                              {"text-classification", PredictTask::kTextClassification},
                              {"question-answering", PredictTask::kQuestionAnswering},
                              {"feature-extraction", PredictTask::kFeatureExtraction}});
}

Pooling ParsePooling(const std::string& name) {
  return Choose<Pooling>(name, "pooling", {{"none", Pooling::kNone}, {"cls", Pooling::kCls}, {"mean", Pooling::kMean}});
}

Request Pipeline::NewRequest() const {
  Request request;
  request.top_k = options_.top_k;
  request.pooling = options_.pooling;
  request.normalize = options_.normalize;
  return request;
}

Request Pipeline::PrepareText(std::string_view text, std::string_view text_pair) const {
  Request request = NewRequest();
  Encode(text, text_pair, request);
  return request;
}

Request Pipeline::Prepare(std::string_view json, std::string_view where) const {
  const bool cut = options_.task != PredictTask::kQuestionAnswering;  // which reads a context to its end
  if (cut && json.size() > kLongLine) {
    if (const std::optional<std::string> shorter = WithShorterTexts(json, kLongText)) {
      // A beginning of mere blanks does not stand for the text. (Of a pair the odd token may go to the other part.)
      Request request = PrepareLine(*shorter, where);
      if (request.encoding.truncated) return request;
    }
  }
  return PrepareLine(json, where);
}

Request Pipeline::PrepareLine(std::string_view json, std::string_view where) const {
  Request request = NewRequest();
  try {
    const Json object = ParseJson(json, where, kJsonLineLimits);
    if (!object.is_object()) Fail("{}: expected a JSON object, got {}", where, object.type_name());
    if (object.contains("id")) {
      constexpr size_t kMostBytes = size_t{1} << 20;  // answers wait for their turn, ids with them
      const size_t bytes = object["id"].dump(-1, ' ', false, Json::error_handler_t::replace).size();
      if (bytes > kMostBytes) Fail("{}: \"id\" has {} bytes, expected at most {}", where, bytes, kMostBytes);
      request.id = object["id"];
    }
    if (options_.task == PredictTask::kQuestionAnswering) {
      if (HasValue(object, "top_k")) {
        request.top_k = static_cast<int>(GetInt(object, "top_k", where, 1, options_.answers.n_best_size));
      }
      Ask(RequiredText(object, "question", where), RequiredText(object, "context", where), request);
      return request;
    }
    std::string pair;
    const std::string text = RequiredText(object, "text", where);
    if (options_.task == PredictTask::kTextClassification && HasValue(object, "text_pair")) {
      pair = GetString(object, "text_pair", where);
    }
    if (options_.task == PredictTask::kFillMask && HasValue(object, "top_k")) {
      request.top_k = static_cast<int>(GetInt(object, "top_k", where, 1, config().vocab_size));
    }
    if (options_.task == PredictTask::kFeatureExtraction) {
      if (HasValue(object, "pooling")) request.pooling = ParsePooling(GetString(object, "pooling", where));
      if (HasValue(object, "normalize")) request.normalize = GetBool(object, "normalize", where);
    }
    Encode(text, pair, request);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    const std::string message = error.what();
    request.error = message.rfind(where, 0) == 0 ? message : std::string(where) + ": " + message;
    request.encoding.ids.clear();
    request.masks.clear();
    request.asked.reset();
  }
  return request;
}

void Pipeline::Encode(std::string_view text, std::string_view text_pair, Request& request) const {
  if (text.empty()) Fail("\"text\" is empty");
  EncodeOptions encode;
  encode.max_length = options_.max_seq_length;
  request.encoding = tokenizer_->Encode(text, text_pair, encode);
  const std::vector<int32_t>& ids = request.encoding.ids;
  if (ids.size() <= (text_pair.empty() ? 2U : 3U)) Fail("\"text\" has no tokens: it is blank");
  if (options_.task != PredictTask::kFillMask) return;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == tokenizer_->mask_id()) request.masks.push_back(static_cast<int32_t>(i));
  }
  const std::string& mask = tokenizer_->Token(tokenizer_->mask_id());
  if (request.masks.empty() && request.encoding.truncated && text.find(mask) != text.npos) {
    Fail("\"text\" has no {} in its first {} tokens", mask, options_.max_seq_length);
  }
  if (request.masks.empty()) Fail("\"text\" has no {}", mask);
  // 8 bytes each: what one line may make this process keep.
  constexpr int64_t kMostCandidates = int64_t{1} << 20;
  if (AnswerSize(request) > kMostCandidates) {
    Fail("{} masks with top_k {} ask for {} results, expected at most {}", request.masks.size(), request.top_k,
         AnswerSize(request), kMostCandidates);
  }
}

int64_t Pipeline::AnswerSize(const Request& request) const {
  switch (options_.task) {
    case PredictTask::kFillMask:
      return static_cast<int64_t>(request.masks.size()) * request.top_k;
    case PredictTask::kTextClassification:
      return config().num_labels;
    case PredictTask::kQuestionAnswering:
      return request.top_k;
    case PredictTask::kFeatureExtraction:
      break;
  }
  const auto rows = request.pooling == Pooling::kNone ? static_cast<int64_t>(request.encoding.ids.size()) : 1;
  return rows * config().hidden_size;
}

}  // namespace lshformer
