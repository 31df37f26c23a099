// Bodies of requests to what they ask for: strict in types, blind to fields that it does not know, as Text Embeddings
// Inference is.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/passages/chunking.h"
#include "infer/score_function.h"
#include "serve/routes.h"

namespace lshformer {

// One text, a text with its second, or tokens.
struct ApiInput {
  std::string text;
  std::optional<std::string> pair = {};
  std::vector<int32_t> ids = {};
  bool is_ids = false;
};

// How a question is answered, in the words of Hugging Face's clients; what is not said is as the model has it.
struct QuestionChoices {
  std::optional<int> doc_stride, max_answer_len, max_question_len, max_seq_len;
  std::optional<bool> handle_impossible_answer;
  bool align_to_words = false;
};

// What a body asks for; which members count is the route's matter.
struct ApiRequest {
  Route route = Route::kEmbed;  // of kRoot the one that its task and body mean
  bool from_root = false;       // answered in the shape of Hugging Face's inference clients where that differs
  std::string model;
  std::vector<ApiInput> inputs;  // in their order; of rerank (query, text); of similarity the source sentence first
  bool single = false;           // the body has one input and no list around it
  std::optional<bool> truncate;
  bool cut_left = false;
  std::string prompt_name;
  bool normalize = true, return_text = false, base64 = false;
  ScoreFunction function = ScoreFunction::kModels;  // of labels' scores
  bool add_special_tokens = true, skip_special_tokens = true;
  int64_t dimensions = 0;            // 0: all
  int64_t top_n = 0;                 // 0: all
  int top_k = 0;                     // 0: the model's own; labels: all
  std::vector<std::string> targets;  // words to fill a mask with; none: all
  std::string question, context;
  QuestionChoices choices;
  std::vector<std::string> options;
  std::vector<std::vector<int32_t>> ids;          // to decode
  bool late_chunking = false;                     // the inputs are parts of one text
  ChunkOptions chunks;                            // of /embed_chunks
  std::vector<std::vector<CodePointSpan>> spans;  // a list for each input, of Chunking::kSpans
  std::string attention;                          // of /inspect: a kind's name or a JSON object; "": the model's own
  int layer = 0, head = 0;                        // likewise
};

struct ApiLimits {
  int64_t inputs = 32;          // of one request
  bool several_models = false;  // "model" chooses one, else it is not looked at
};

// The task, in the words of --task, of the model that a body's "model" names ("": it names none), by which POST / is
// read. May throw a RequestError.
using TaskOfModel = std::function<std::string(const std::string& model)>;

// RequestError of the first thing that is wrong, which names the item: 400 where there is nothing to answer, else 422.
ApiRequest ParseApiRequest(Route route, std::string_view body, const TaskOfModel& task_of, const ApiLimits& limits);

}  // namespace lshformer
