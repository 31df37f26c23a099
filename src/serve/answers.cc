#include "serve/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <numeric>

#include "base/json.h"
#include "infer/line_queries.h"

namespace lshformer {
namespace {

std::string Quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string Number(float value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

// What predict writes of an answer, without the key before it: {"results": [1]} is [1].
std::string Value(const ServedModel& model, const ModelAnswer& answer) {
  std::string text;
  std::visit(
      [&](const auto& own) {
        WriteAnswer(model.pipeline(), /*id=*/"", own, [&](std::string_view piece) { text += piece; });
      },
      answer);
  const size_t begin = text.find(": ") + 2;
  return text.substr(begin, text.size() - begin - 1);
}

// The first `dimensions` numbers of each vector, then of length 1 where that is asked for.
Embedding Cut(const ApiRequest& request, const Embedding& whole) {
  if (request.dimensions == 0 || request.dimensions >= whole.width) return whole;
  Embedding cut{request.dimensions, whole.per_token, {}};
  const auto width = static_cast<size_t>(whole.width), kept = static_cast<size_t>(request.dimensions);
  for (size_t row = 0; row < whole.values.size(); row += width) {
    const std::vector<float> vector = PoolRows({whole.values.data() + row, kept}, request.dimensions, Pooling::kCls,
                                               request.normalize && !whole.per_token);
    cut.values.insert(cut.values.end(), vector.begin(), vector.end());
  }
  return cut;
}

Embedding VectorOf(const ChunkVector& chunk) { return {std::ssize(chunk.values), /*per_token=*/false, chunk.values}; }

std::vector<ChunkVector> Cut(const ApiRequest& request, const std::vector<ChunkVector>& whole) {
  std::vector<ChunkVector> cut;
  for (const ChunkVector& chunk : whole) cut.push_back({chunk.place, Cut(request, VectorOf(chunk)).values});
  return cut;
}

// RFC 4648, padded.
std::string EncodeBase64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) bits = bits << 8 | (i < count ? static_cast<uint8_t>(bytes[at + i]) : 0U);
    for (size_t i = 0; i < 4; ++i) text += i <= count ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

// Little-endian float32, as OpenAI's client reads it.
std::string Base64Of(const Embedding& vector) {
  std::string bytes(vector.values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), vector.values.data(), bytes.size());
  return '"' + EncodeBase64(bytes) + '"';
}

std::string List(const std::vector<std::string>& items) { return fmt::format("[{}]", fmt::join(items, ",")); }

std::string OpenAiBody(const ApiRequest& request, const ServedModel& model, const std::vector<ModelAnswer>& answers,
                       int64_t tokens) {
  std::vector<Embedding> vectors;
  for (const ModelAnswer& answer : answers) {
    if (const auto* chunks = std::get_if<std::vector<ChunkVector>>(&answer))
      std::ranges::transform(*chunks, std::back_inserter(vectors), VectorOf);
    else
      vectors.push_back(std::get<Embedding>(answer));
  }
  std::vector<std::string> items;
  for (const Embedding& whole : vectors) {
    const Embedding vector = Cut(request, whole);
    items.push_back(fmt::format(R"({{"object":"embedding","index":{},"embedding":{}}})", items.size(),
                                request.base64 ? Base64Of(vector) : Value(model, vector)));
  }
  return fmt::format(R"({{"object":"list","data":{},"model":{},"usage":{{"prompt_tokens":{},"total_tokens":{}}}}})",
                     List(items), Quoted(model.name()), tokens, tokens);
}

std::string RerankBody(const ApiRequest& request, const ServedModel& model, const std::vector<ModelAnswer>& answers,
                       int64_t tokens) {
  const bool cohere = request.route == Route::kCohereRerank;
  std::vector<float> scores;
  for (const ModelAnswer& answer : answers) {
    const float raw = std::get<std::vector<ClassScore>>(answer).front().score;
    scores.push_back(request.function == ScoreFunction::kNone
                         ? raw
                         : static_cast<float>(1 / (1 + std::exp(-static_cast<double>(raw)))));
  }
  const auto most = request.top_n == 0 ? std::ssize(scores) : std::min<int64_t>(request.top_n, std::ssize(scores));
  std::vector<std::string> items;
  for (const auto& [index, score] : BestOf(scores, static_cast<int>(most))) {
    const std::string text =
        request.return_text ? Quoted(request.inputs[static_cast<size_t>(index)].pair.value()) : std::string();
    items.push_back(cohere ? fmt::format(R"({{"index":{},"relevance_score":{}{}}})", index, Number(score),
                                         text.empty() ? "" : fmt::format(R"(,"document":{{"text":{}}})", text))
                           : fmt::format(R"({{"index":{}{},"score":{}}})", index,
                                         text.empty() ? "" : R"(,"text":)" + text, Number(score)));
  }
  if (!cohere) return List(items);
  return fmt::format(R"({{"results":{},"model":{},"usage":{{"total_tokens":{}}}}})", List(items), Quoted(model.name()),
                     tokens);
}

// Cosines of the first vector and the others; vectors have length 1.
std::string SimilarityBody(const std::vector<ModelAnswer>& answers) {
  const std::vector<float>& source = std::get<Embedding>(answers.front()).values;
  std::vector<std::string> cosines;
  for (size_t i = 1; i < answers.size(); ++i) {
    const std::vector<float>& other = std::get<Embedding>(answers[i]).values;
    cosines.push_back(Number(static_cast<float>(std::inner_product(source.begin(), source.end(), other.begin(), 0.0))));
  }
  return List(cosines);
}

}  // namespace

std::string AnswerBody(const ApiRequest& request, const ServedModel& model, const std::vector<ModelAnswer>& answers,
                       int64_t tokens) {
  switch (request.route) {
    case Route::kOpenAiEmbeddings:
      return OpenAiBody(request, model, answers, tokens);
    case Route::kRerank:
    case Route::kCohereRerank:
      return RerankBody(request, model, answers, tokens);
    case Route::kSimilarity:
      return SimilarityBody(answers);
    default:
      break;
  }
  std::vector<std::string> items;
  for (const ModelAnswer& answer : answers) {
    if (const auto* vector = std::get_if<Embedding>(&answer))
      items.push_back(Value(model, Cut(request, *vector)));
    else if (const auto* chunks = std::get_if<std::vector<ChunkVector>>(&answer))
      items.push_back(Value(model, Cut(request, *chunks)));
    else
      items.push_back(Value(model, answer));
  }
  if (request.route == Route::kQuestionAnswering && request.top_k <= 1)
    return items.front().substr(1, items.front().size() - 2);  // of a list of one
  const bool vectors =
      request.route == Route::kEmbed || request.route == Route::kEmbedAll || request.route == Route::kEmbedChunks;
  const bool nested = request.from_root && request.route == Route::kPredict;
  return request.single && !vectors && !nested ? items.front() : List(items);
}

}  // namespace lshformer
