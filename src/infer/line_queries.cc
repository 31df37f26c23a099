#include "infer/line_queries.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <numeric>
#include <type_traits>

#include "base/error.h"
#include "base/not_finite.h"
#include "data/file_kind.h"
#include "data/json_rows.h"
#include "data/passages/chunking.h"
#include "infer/long_line.h"
#include "infer/member_text.h"

namespace lshformer {
namespace {

// Beyond this, lines are shortened before they are parsed; the beginning of a text is far more than any position table
// takes.
constexpr size_t kLongLine = size_t{4} << 20, kLongText = size_t{1} << 20;
constexpr size_t kLongestId = size_t{1} << 20;  // answers wait for their turn, ids with them

std::string RequiredText(const Json& object, const char* key, std::string_view where) {
  if (!object.contains(key)) Fail("{}: \"{}\" is missing", where, key);
  return GetString(object, key, where);
}

TextInput ReadText(const Json& object, bool pair, std::string_view where) {
  TextInput input{RequiredText(object, "text", where)};
  if (pair && HasValue(object, "text_pair")) input.text_pair = GetString(object, "text_pair", where);
  return input;
}

int ReadTopK(const Pipeline& pipeline, const Json& object, int64_t most, std::string_view where) {
  if (!HasValue(object, "top_k")) return pipeline.options().top_k;
  return static_cast<int>(GetInt(object, "top_k", where, 1, most));
}

// The query of one task from a line's object.
void Read(const Pipeline& pipeline, const Json& object, std::string_view where, Outcome<EmbedQuery>& query) {
  const TextInput input = ReadText(object, /*pair=*/true, where);
  EmbedOptions options = pipeline.options().embedding;
  if (HasValue(object, "pooling")) options.pooling = ParsePooling(GetString(object, "pooling", where));
  if (HasValue(object, "normalize")) options.normalize = GetBool(object, "normalize", where);
  if (HasValue(object, "prompt_name")) options.prompt_name = GetString(object, "prompt_name", where);
  query = pipeline.PrepareEmbed(input, options);
}

void Read(const Pipeline& pipeline, const Json& object, std::string_view where, Outcome<ChunkQuery>& query) {
  const TextInput input = ReadText(object, /*pair=*/false, where);
  for (const char* key : {"text_pair", "pooling"})
    if (HasValue(object, key)) Fail("{}: \"{}\": a chunk's vector is the mean of its own tokens' states", where, key);
  EmbedOptions options = pipeline.options().embedding;
  if (HasValue(object, "normalize")) options.normalize = GetBool(object, "normalize", where);
  if (HasValue(object, "prompt_name")) options.prompt_name = GetString(object, "prompt_name", where);
  const ChunkOptions& chunks = pipeline.options().chunks;
  const bool given = chunks.chunking == Chunking::kSpans;
  query = PrepareChunks(pipeline, input.text, options, chunks,
                        given ? ReadSpans(object, where) : std::vector<CodePointSpan>());
}

void Read(const Pipeline& pipeline, const Json& object, std::string_view where, Outcome<ClassifyQuery>& query) {
  query = pipeline.PrepareClassify(ReadText(object, /*pair=*/true, where));
}

void Read(const Pipeline& pipeline, const Json& object, std::string_view where, Outcome<FillMaskQuery>& query) {
  const TextInput input = ReadText(object, /*pair=*/false, where);
  query = pipeline.PrepareFillMask(input, ReadTopK(pipeline, object, pipeline.config().vocab_size, where));
}

void Read(const Pipeline& pipeline, const Json& object, std::string_view where, Outcome<ChooseQuery>& query) {
  ChoiceInput input{RequiredText(object, "question", where), RequiredText(object, "context", where), {}};
  for (const Json& option : GetList(object, "options", where)) {
    if (!option.is_string())
      Fail("{}: \"options\"[{}]: expected a string, got {}", where, input.options.size(), ShownValue(option));
    input.options.push_back(option.get<std::string>());
  }
  query = pipeline.PrepareChoose(input);
}

void Read(const Pipeline& pipeline, const Json& object, std::string_view where, Outcome<QuestionQuery>& query) {
  const int top_k = ReadTopK(pipeline, object, pipeline.options().answers.n_best_size, where);
  std::string question = RequiredText(object, "question", where), context = RequiredText(object, "context", where);
  query = pipeline.PrepareQuestion({std::move(question), std::move(context)}, {.top_k = top_k});
}

template <class Query>
LineQuery<Query> ReadWhole(const Pipeline& pipeline, std::string_view json, std::string_view where) {
  LineQuery<Query> line;
  std::string& error = line.query.error;
  try {
    const Json object = ParseJson(json, where, kJsonLineLimits);
    if (!object.is_object()) Fail("{}: expected a JSON object, got {}", where, object.type_name());
    if (const auto found = object.find("id"); found != object.end() && IsNotFinite(*found, /*inside=*/true))
      Fail("{}: \"id\" has {}, which JSON cannot say", where,
           found->is_structured() ? "NaN or Infinity" : ShownValue(*found));
    std::string id = MemberText(json, "id").value_or("");
    if (id.size() > kLongestId) Fail("{}: \"id\" has {} bytes, expected at most {}", where, id.size(), kLongestId);
    line.id = std::move(id);
    Read(pipeline, object, where, line.query);
  } catch (const Error& failure) {
    error = failure.what();
  }
  if (!error.empty() && !error.starts_with(where)) error = fmt::format("{}: {}", where, error);
  return line;
}

std::string Quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

// The shortest digits that give the same float back.
void AppendNumber(float value, fmt::memory_buffer& out) {
  const size_t begin = out.size();
  fmt::format_to(fmt::appender(out), FMT_COMPILE("{}"), value);
  const std::string_view digits(out.data() + begin, out.size() - begin);
  if (digits.find_first_of(".e") == digits.npos) out.append(std::string_view(".0"));
}
std::string Number(float value) {
  fmt::memory_buffer out;
  AppendNumber(value, out);
  return fmt::to_string(out);
}

void WriteVector(std::span<const float> vector, const JsonSink& sink) {
  fmt::memory_buffer out;
  out.reserve(16 * vector.size());
  out.push_back('[');
  for (size_t i = 0; i < vector.size(); ++i) {
    if (i > 0) out.append(std::string_view(", "));
    AppendNumber(vector[i], out);
  }
  out.push_back(']');
  sink({out.data(), out.size()});
}

void Begin(const std::string& id, const char* key, const JsonSink& sink) {
  sink(id.empty() ? fmt::format(R"({{"{}": )", key) : fmt::format(R"({{"id": {}, "{}": )", id, key));
}

void End(const char* bracket, bool truncated, const JsonSink& sink) {
  sink(fmt::format("{}{}}}", bracket, truncated ? R"(, "truncated": true)" : ""));
}

}  // namespace

template <class Query>
LineQuery<Query> ReadLineQuery(const Pipeline& pipeline, std::string_view json, std::string_view where) {
  // A question's context is read to its end, and its options are not texts to be shortened.
  constexpr bool kCut = !std::is_same_v<Query, QuestionQuery> && !std::is_same_v<Query, ChooseQuery>;
  if (kCut && pipeline.options().long_text == LongText::kCut && json.size() > kLongLine) {
    if (const std::optional<std::string> shorter = WithShorterTexts(json, kLongText)) {
      // A beginning of mere blanks does not stand for the text. (Of a pair the odd token may go to the other part.)
      LineQuery<Query> line = ReadWhole<Query>(pipeline, *shorter, where);
      if (line.query.truncated) return line;
    }
  }
  return ReadWhole<Query>(pipeline, json, where);
}

template LineQuery<EmbedQuery> ReadLineQuery(const Pipeline&, std::string_view, std::string_view);
template LineQuery<ChunkQuery> ReadLineQuery(const Pipeline&, std::string_view, std::string_view);
template LineQuery<ClassifyQuery> ReadLineQuery(const Pipeline&, std::string_view, std::string_view);
template LineQuery<FillMaskQuery> ReadLineQuery(const Pipeline&, std::string_view, std::string_view);
template LineQuery<ChooseQuery> ReadLineQuery(const Pipeline&, std::string_view, std::string_view);
template LineQuery<QuestionQuery> ReadLineQuery(const Pipeline&, std::string_view, std::string_view);

template <class Query>
Outcome<Query> ReadTextQuery(const Pipeline& pipeline, std::string_view text, std::string_view where) {
  // A long one is shortened as it would be in a line of JSON.
  if (pipeline.options().long_text == LongText::kCut && text.size() > kLongLine && IsValidUtf8(text))
    return ReadLineQuery<Query>(pipeline, Json{{"text", std::string(text)}}.dump(), where).query;
  const TextInput input{std::string(text)};
  Outcome<Query> query;
  if constexpr (std::is_same_v<Query, EmbedQuery>) {
    query = pipeline.PrepareEmbed(input, pipeline.options().embedding);
  } else if constexpr (std::is_same_v<Query, ChunkQuery>) {
    query = PrepareChunks(pipeline, input.text, pipeline.options().embedding, pipeline.options().chunks, {});
  } else if constexpr (std::is_same_v<Query, ClassifyQuery>) {
    query = pipeline.PrepareClassify(input);
  } else if constexpr (std::is_same_v<Query, FillMaskQuery>) {
    query = pipeline.PrepareFillMask(input, /*top_k=*/0);
  } else {
    query.error = "the task takes more than a text";
  }
  if (!query.ok()) query.error = fmt::format("{}: {}", where, query.error);
  return query;
}

template Outcome<EmbedQuery> ReadTextQuery(const Pipeline&, std::string_view, std::string_view);
template Outcome<ChunkQuery> ReadTextQuery(const Pipeline&, std::string_view, std::string_view);
template Outcome<ClassifyQuery> ReadTextQuery(const Pipeline&, std::string_view, std::string_view);
template Outcome<FillMaskQuery> ReadTextQuery(const Pipeline&, std::string_view, std::string_view);
template Outcome<ChooseQuery> ReadTextQuery(const Pipeline&, std::string_view, std::string_view);
template Outcome<QuestionQuery> ReadTextQuery(const Pipeline&, std::string_view, std::string_view);

namespace {

int64_t Tokens(const Encoding& text) { return static_cast<int64_t>(text.ids.size()); }
int64_t Tokens(std::span<const Encoding> texts) {
  return std::accumulate(texts.begin(), texts.end(), int64_t{0},
                         [](int64_t sum, const Encoding& text) { return sum + Tokens(text); });
}

}  // namespace

int64_t TokensAtOnce(const EmbedQuery& query) { return Tokens(query.text) + Tokens(query.further); }
int64_t TokensAtOnce(const ChunkQuery& query) {
  return std::accumulate(query.passes.begin(), query.passes.end(), int64_t{0},
                         [](int64_t sum, const ChunkQuery::Pass& pass) { return sum + Tokens(pass.text); });
}
int64_t TokensAtOnce(const ClassifyQuery& query) { return Tokens(query.text) + Tokens(query.further); }
int64_t TokensAtOnce(const FillMaskQuery& query) { return Tokens(query.text); }
int64_t TokensAtOnce(const ChooseQuery& query) { return Tokens(query.options); }
int64_t TokensAtOnce(const QuestionQuery&) { return 0; }

int64_t AnswerSize(const Pipeline& pipeline, const EmbedQuery& query) {
  const int64_t rows = pipeline.IsPerToken(query.options) ? std::ssize(query.text.ids) : 1;
  return rows * pipeline.EmbeddingWidth(query.options);
}
int64_t AnswerSize(const Pipeline& pipeline, const ChunkQuery& query) {
  return std::ssize(query.chunks) * pipeline.config().hidden_size;
}
int64_t AnswerSize(const Pipeline& pipeline, const ClassifyQuery&) { return pipeline.config().num_labels; }
int64_t AnswerSize(const Pipeline&, const FillMaskQuery& query) {
  return static_cast<int64_t>(query.masks.size()) * query.top_k;
}
int64_t AnswerSize(const Pipeline&, const ChooseQuery& query) { return static_cast<int64_t>(query.options.size()); }
int64_t AnswerSize(const Pipeline&, const QuestionQuery& query) { return query.top_k; }

// One vector, or a list of them: EmbedOptions::pooling.
void WriteAnswer(const Pipeline&, const std::string& id, const Embedding& answer, const JsonSink& sink,
                 bool truncated) {
  Begin(id, "embedding", sink);
  const auto width = static_cast<size_t>(answer.width);
  if (!answer.per_token) {
    WriteVector(answer.values, sink);
  } else {
    for (size_t begin = 0; begin < answer.values.size(); begin += width) {
      sink(begin == 0 ? "[" : ", ");
      WriteVector({answer.values.data() + begin, width}, sink);
    }
    sink("]");
  }
  End("", truncated, sink);
}

void WriteAnswer(const Pipeline&, const std::string& id, const std::vector<ChunkVector>& answer, const JsonSink& sink,
                 bool truncated) {
  Begin(id, "chunks", sink);
  sink("[");
  for (size_t i = 0; i < answer.size(); ++i) {
    sink(fmt::format(R"({}{{"start": {}, "end": {}, "embedding": )", i == 0 ? "" : ", ", answer[i].place.first,
                     answer[i].place.second));
    WriteVector(answer[i].values, sink);
    sink("}");
  }
  End("]", truncated, sink);
}

void WriteAnswer(const Pipeline&, const std::string& id, const std::vector<ClassScore>& answer, const JsonSink& sink,
                 bool truncated) {
  Begin(id, "results", sink);
  sink("[");
  for (size_t i = 0; i < answer.size(); ++i) {
    sink(fmt::format(R"({}{{"label": {}, "score": {}}})", i == 0 ? "" : ", ", Quoted(answer[i].label),
                     Number(answer[i].score)));
  }
  End("]", truncated, sink);
}

// A list for one mask, else a list of lists.
void WriteAnswer(const Pipeline& pipeline, const std::string& id, const FilledMasks& answer, const JsonSink& sink,
                 bool truncated) {
  Begin(id, "results", sink);
  const bool single = answer.masks.size() == 1;
  if (!single) sink("[");
  for (size_t mask = 0; mask < answer.masks.size(); ++mask) {
    sink(mask == 0 ? "[" : ", [");
    for (size_t i = 0; i < answer.candidates[mask].size(); ++i) {
      const MaskCandidate& best = answer.candidates[mask][i];
      sink(fmt::format(R"({}{{"score": {}, "token": {}, "token_str": {}, "sequence": {}}})", i == 0 ? "" : ", ",
                       Number(best.score), best.token, Quoted(pipeline.TokenText(best.token)),
                       Quoted(pipeline.FilledText(answer, mask, best.token))));
    }
    sink("]");
  }
  End(single ? "" : "]", truncated, sink);
}

// An option goes by its number, as in data.
void WriteAnswer(const Pipeline&, const std::string& id, const std::vector<OptionScore>& answer, const JsonSink& sink,
                 bool truncated) {
  Begin(id, "results", sink);
  sink("[");
  for (size_t i = 0; i < answer.size(); ++i)
    sink(fmt::format(R"({}{{"label": {}, "score": {}}})", i == 0 ? "" : ", ", answer[i].option,
                     Number(answer[i].score)));
  End("]", truncated, sink);
}

void WriteAnswer(const Pipeline&, const std::string& id, const std::vector<SpanAnswer>& answer, const JsonSink& sink,
                 bool truncated) {
  Begin(id, "results", sink);
  sink("[");
  for (size_t i = 0; i < answer.size(); ++i) {
    sink(fmt::format(R"({}{{"answer": {}, "score": {}, "start": {}, "end": {}}})", i == 0 ? "" : ", ",
                     Quoted(answer[i].text), Number(answer[i].score), answer[i].start, answer[i].end));
  }
  End("]", truncated, sink);
}

void WriteError(const std::string& id, const std::string& error, const JsonSink& sink) {
  sink(fmt::format(R"({{"id": {}, "error": {}}})", id.empty() ? "null" : id, Quoted(error)));
}

}  // namespace lshformer
