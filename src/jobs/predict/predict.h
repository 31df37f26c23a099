// A model's answers to a file of requests, or to one text or question.
#pragma once
#include <optional>
#include <string>

#include "attention/spec_changes.h"
#include "dist/communicator.h"
#include "infer/pipeline.h"

namespace lshformer {

struct PredictJob {
  std::string model_name_or_path;
  std::string tokenizer_name;  // default: the model's folder
  PredictOptions options;
  AttentionChanges attention;
  std::string input;                             // JSONL, plain or gzip; or
  std::string text_file;                         // plain lines, a text each, plain or gzip; or
  std::optional<std::string> text, text_pair;    // one text; or
  std::optional<std::string> question, context;  // one question, whose context may be
  std::optional<std::string> context_file;       // a whole file
  // JSONL, one line per line of input; .npy or .safetensors: a matrix with a row per line (io/matrix_file.h).
  std::string output = "-";
  MeetingOptions meeting;          // of several processes that share the lines of a file,
  bool sequence_parallel = false;  // or the tokens of each forward: of one text too
  bool resume = false;             // goes on behind the lines that a run before this one has left
};

// UsageError where not exactly one input is given, or one of another task, or the output is the input. Memory as in
// infer/stream.h. A bad line is answered by {"id", "error"}, of a matrix by a row of NaN, and the rest goes on; in the
// end it is an Error that counts them. Texts that were cut are told in one warning.
//
// Lines that are done are not lost: Interrupted says how many there are in the output, an Error how many were left
// beside it, and a process that is killed leaves them there too (jobs/predict/unfinished_output.h). A resumed run ends
// with the output of one that was never stopped; where it would not, it is refused: another input, model or settings.
void RunPredict(const PredictJob& job);

}  // namespace lshformer
