// A trained model as a function of texts: fill-mask, text classification, question answering, feature extraction.
//
//   Pipeline pipeline = Pipeline::Load(folder, options);
//   std::vector<Request> requests{pipeline.Prepare(R"({"text": "The capital of [MASK] is Rome."})", "line 1")};
//   pipeline.Run(requests);
//   pipeline.Write(requests[0], [](std::string_view json) { … });
//
// An answer depends on its request alone, bit for bit: not on the requests beside it, their order or the threads.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "data/answer_search.h"
#include "models/model.h"
#include "text/tokenizer.h"

namespace lshformer {

enum class PredictTask { kFillMask, kTextClassification, kQuestionAnswering, kFeatureExtraction };
enum class Pooling { kNone, kCls, kMean };  // a vector per token; that of [CLS]; the mean over all tokens, specials too

struct PredictOptions {
  PredictTask task = PredictTask::kFillMask;
  int max_seq_length = 0;            // longer texts are cut; 0: the position table
  int64_t batch_tokens = 4096;       // tokens a forward call; a longer text stands alone
  int top_k = 0;                     // for requests that do not say; 0: fill-mask 5, question answering 1
  AnswerOptions answers;             // question answering: the search for a span
  int doc_stride = -1;               // tokens that windows of a long context share; −1: as in WindowOptions
  Pooling pooling = Pooling::kNone;  // feature extraction, likewise
  bool normalize = false;
  Precision precision = Precision::kFloat32;  // of the encoder's linear layers; see Model::set_precision
};

// A question, its context, and the way to the answer. The context is held until the answer is written.
struct AskedQuestion {
  std::string context;
  std::vector<int32_t> question;     // tokens
  std::vector<int32_t> context_ids;  // tokens
  TokenPlaces places;                // of them
  std::vector<ContextWindow> windows;
  FoundAnswer found;  // the answer
};

// One line of input on its way to one line of output.
struct Request {
  std::optional<Json> id;  // none: the line has none
  std::string error;       // not empty: the answer is this error
  Encoding encoding;
  std::vector<int32_t> masks;  // places of [MASK] in encoding.ids
  int top_k = 0;
  Pooling pooling = Pooling::kNone;
  bool normalize = false;

  // The answer. fill-mask: [masks · top_k] best first, classification: [labels] best first.
  struct Candidate {
    int32_t index;
    float score;
  };
  std::vector<Candidate> candidates;
  std::vector<float> embedding;          // [tokens, H] or [H]
  std::shared_ptr<AskedQuestion> asked;  // question answering
};

using JsonSink = std::function<void(std::string_view)>;

class Pipeline {
 public:
  // Error if the head the task needs is missing, the vocabulary is larger than the model's, or max_seq_length or top_k
  // is out of range (UsageError).
  Pipeline(ModelPtr model, std::shared_ptr<const Tokenizer> tokenizer, const PredictOptions& options);
  // `adjust` as in LoadModel. The tokenizer is read from `tokenizer_folder`, or from `folder` where that is empty.
  static Pipeline Load(const std::string& folder, const std::string& tokenizer_folder, const PredictOptions& options,
                       const std::function<void(ModelConfig&)>& adjust = {});

  // Reads a JSON object: "text" (and "text_pair" for classification) or "question" and "context", "id", and the options
  // of its task; further keys are ignored. Never throws for a bad line: the request then carries the error.
  Request Prepare(std::string_view json, std::string_view where) const;
  Request PrepareText(std::string_view text, std::string_view text_pair) const;
  Request PrepareQuestion(std::string_view question, std::string_view context) const;

  // Numbers that Run will keep for the request: what bounds how many may be run together.
  int64_t AnswerSize(const Request& request) const;

  // Fills in the answers: requests of similar length share a forward call. Requests with an error are left alone.
  // `finished` is told how many of the first requests have their answers, as more of them do: questions are answered in
  // their order, all else is finished together.
  using Finished = std::function<void(size_t requests)>;
  void Run(std::span<Request> requests, const Finished& finished = {}) const;

  // The answer as one JSON object without line end, in pieces.
  void Write(const Request& request, const JsonSink& sink) const;

  const ModelConfig& config() const { return model_->config(); }
  const PredictOptions& options() const { return options_; }

 private:
  Request NewRequest() const;
  Request PrepareLine(std::string_view json, std::string_view where) const;
  void Encode(std::string_view text, std::string_view text_pair, Request& request) const;
  void Ask(std::string question, std::string context, Request& request) const;
  void RunBatch(const std::vector<Request*>& batch) const;
  void RunQuestions(std::span<Request> requests, const Finished& finished) const;
  void WriteFillMask(const Request& request, const JsonSink& sink) const;
  void WriteAnswers(const Request& request, const JsonSink& sink) const;

  ModelPtr model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  PredictOptions options_;
  std::vector<std::string> token_strings_;  // fill-mask: JSON text of each token alone, as Decode writes it
};

PredictTask ParsePredictTask(const std::string& name);  // UsageError lists the names and suggests the nearest
Pooling ParsePooling(const std::string& name);

// Softmax of one row; probabilities sum to 1 within rounding. Double inside, so that the order of large vocabularies
// does not matter.
void SoftmaxRow(std::span<const float> logits, std::span<float> probabilities);
// The `count` largest, best first; of equals the smaller index first.
std::vector<Request::Candidate> BestOf(std::span<const float> scores, int count);

}  // namespace lshformer
