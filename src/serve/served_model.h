// A model that is served: a pipeline, and what requests ask of it beyond a pipeline's inputs.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/stop_token.h"
#include "infer/late_chunks.h"
#include "infer/pipeline.h"
#include "kernels/counts.h"
#include "serve/api_request.h"
#include "serve/options.h"

namespace lshformer {

using ModelQuery = std::variant<EmbedQuery, ChunkQuery, ClassifyQuery, FillMaskQuery, ChooseQuery, QuestionQuery>;
using ModelAnswer = std::variant<Embedding, std::vector<ChunkVector>, std::vector<ClassScore>, FilledMasks,
                                 std::vector<OptionScore>, std::vector<SpanAnswer>>;

struct PreparedQuery {
  ModelQuery query;
  int64_t tokens = 0, characters = 0;  // of a question with a long context those of all windows
  bool truncated = false;
};

class ServedModel {
 public:
  ServedModel(std::string name, Pipeline pipeline, const ServeOptions& options);
  // `task`: as --task; "": what "architectures" in config.json say.
  static ServedModel Load(const std::string& folder, const std::string& name, const std::string& task,
                          const ServeOptions& options);

  const std::string& name() const { return name_; }
  PredictTask task() const { return pipeline_.options().task; }
  const Pipeline& pipeline() const { return pipeline_; }
  int64_t max_input_length() const { return pipeline_.options().max_seq_length; }  // tokens
  int64_t parameter_bytes() const;
  std::string EmbedPooling() const;  // of /embed, for people
  // One output: it says how well the second text suits the first.
  bool IsReranker() const;

  // The inputs of a request as queries. RequestError that names the item: 422 where one is too long and may not be cut
  // or cannot be read, 424 where the model is for another task.
  std::vector<PreparedQuery> Prepare(const ApiRequest& request) const;
  // Answers in the order of the queries, which are of one type. What `stop` throws ends the run. `counts` gets what is
  // computed.
  std::vector<Outcome<ModelAnswer>> Run(std::vector<ModelQuery> queries, const StopToken& stop,
                                        AttentionCounts& counts) const;

  // [[{id, text, special, start, stop}]] of a request's inputs, and the texts of tokens, as JSON.
  std::string Tokenize(const ApiRequest& request) const;
  std::string Decode(const ApiRequest& request) const;

 private:
  void RequireRoute(const ApiRequest& request) const;
  Encoding Encode(const ApiInput& input, const ApiRequest& request, const std::string& place, bool& truncated) const;
  Encoding WholeText(const ApiInput& input, const ApiRequest& request) const;
  PreparedQuery PrepareText(const ApiInput& input, const ApiRequest& request, const std::string& place) const;
  PreparedQuery PrepareMasks(const ApiRequest& request, const ApiInput& input, const std::string& place) const;
  PreparedQuery PrepareQuestion(const ApiRequest& request) const;
  PreparedQuery PrepareChoose(const ApiRequest& request) const;
  PreparedQuery PrepareChunked(const ApiRequest& request, const std::string& text, const ChunkOptions& chunks,
                               std::span<const CodePointSpan> spans, const std::string& place) const;
  PreparedQuery PrepareParts(const ApiRequest& request) const;  // of late_chunking
  EmbedOptions EmbedOptionsOf(const ApiRequest& request) const;
  std::string PromptError(const std::string& name) const;
  void CheckIds(std::span<const int32_t> ids, const std::string& place) const;

  std::string name_;
  Pipeline pipeline_;
  bool auto_truncate_;
  std::optional<std::string> default_prompt_;  // of a request that names none; else the folder's
};

}  // namespace lshformer
