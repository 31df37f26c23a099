// Lines of JSON to queries, and answers to JSON in the shapes of HF's pipelines.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "infer/late_chunks.h"
#include "infer/pipeline.h"

namespace lshformer {

using JsonSink = std::function<void(std::string_view)>;

// One line on its way to one line of output.
template <class Query>
struct LineQuery {
  std::string id;        // as it was written; "": the line has none
  Outcome<Query> query;  // its error begins with where the line is
};

// Reads a JSON object: "text" (and "text_pair" for classification and embeddings), or "question" and "context" (and
// "options" for multiple choice), "id", and the options of its task; further keys are ignored. A bad line is an error
// of the query, never thrown.
template <class Query>
LineQuery<Query> ReadLineQuery(const Pipeline& pipeline, std::string_view json, std::string_view where);

// A line that is a text as it stands, with the pipeline's options: of tasks that take one text. Errors likewise.
template <class Query>
Outcome<Query> ReadTextQuery(const Pipeline& pipeline, std::string_view text, std::string_view where);

// Tokens of the query where it runs with others in one go; 0: it is answered by itself, whatever its length.
int64_t TokensAtOnce(const EmbedQuery& query);
int64_t TokensAtOnce(const ChunkQuery& query);
int64_t TokensAtOnce(const ClassifyQuery& query);
int64_t TokensAtOnce(const FillMaskQuery& query);
int64_t TokensAtOnce(const ChooseQuery& query);
int64_t TokensAtOnce(const QuestionQuery& query);

// Numbers that a run will keep for the query: what bounds how many may be run together.
int64_t AnswerSize(const Pipeline& pipeline, const EmbedQuery& query);
int64_t AnswerSize(const Pipeline& pipeline, const ChunkQuery& query);
int64_t AnswerSize(const Pipeline& pipeline, const ClassifyQuery& query);
int64_t AnswerSize(const Pipeline& pipeline, const FillMaskQuery& query);
int64_t AnswerSize(const Pipeline& pipeline, const ChooseQuery& query);
int64_t AnswerSize(const Pipeline& pipeline, const QuestionQuery& query);

// The answer as one JSON object without line end, in pieces; with `id`, JSON text, unless that is empty, and with
// "truncated": true of a text that was cut.
void WriteAnswer(const Pipeline& pipeline, const std::string& id, const Embedding& answer, const JsonSink& sink,
                 bool truncated = false);
void WriteAnswer(const Pipeline& pipeline, const std::string& id, const std::vector<ChunkVector>& answer,
                 const JsonSink& sink, bool truncated = false);
void WriteAnswer(const Pipeline& pipeline, const std::string& id, const std::vector<ClassScore>& answer,
                 const JsonSink& sink, bool truncated = false);
void WriteAnswer(const Pipeline& pipeline, const std::string& id, const FilledMasks& answer, const JsonSink& sink,
                 bool truncated = false);
void WriteAnswer(const Pipeline& pipeline, const std::string& id, const std::vector<OptionScore>& answer,
                 const JsonSink& sink, bool truncated = false);
void WriteAnswer(const Pipeline& pipeline, const std::string& id, const std::vector<SpanAnswer>& answer,
                 const JsonSink& sink, bool truncated = false);
// {"id", "error"}: an id of null where the line has none.
void WriteError(const std::string& id, const std::string& error, const JsonSink& sink);

}  // namespace lshformer
