// A model's answers to a file of requests, or to one text or question.
#pragma once
#include <optional>
#include <string>

#include "base/attention_changes.h"
#include "infer/pipeline.h"

namespace lshformer {

struct PredictJob {
  std::string model_name_or_path;
  std::string tokenizer_name;  // default: the model's folder
  PredictOptions options;
  AttentionChanges attention;
  std::string input;                             // JSONL, plain or gzip; or
  std::optional<std::string> text, text_pair;    // one text; or
  std::optional<std::string> question, context;  // one question
  std::string output = "-";                      // JSONL, one line per line of input
};

// UsageError where not exactly one input is given, or one of another task. Memory as in infer/stream.h. A bad line is
// answered by {"id", "error"} and the rest goes on; in the end it is an Error that counts them. Texts that were cut are
// told in one warning.
void RunPredict(const PredictJob& job);

}  // namespace lshformer
