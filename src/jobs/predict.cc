#include "jobs/predict.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/error.h"
#include "base/files.h"
#include "base/progress.h"
#include "infer/stream.h"
#include "jobs/model_source.h"

namespace lshformer {
namespace {

// The flag that an error is about: it begins with the name of what it says in quotes, "context" has no tokens.
std::string FlagOf(const std::string& error, const PredictJob& job) {
  for (const char* name : {"text", "text_pair", "question", "context"})
    if (error.starts_with(fmt::format("\"{}\"", name))) return fmt::format("--{}", name);
  return job.question ? "--question" : "--text";
}

void PredictInput(const Pipeline& pipeline, const PredictJob& job) {
  AtomicFile output(job.output);
  const JsonSink sink = [&](std::string_view json) { output.Write(json); };
  const SingleAnswer answer = job.question
                                  ? PredictOne(pipeline, QuestionInput{*job.question, *job.context}, sink)
                                  : PredictOne(pipeline, TextInput{*job.text, job.text_pair.value_or("")}, sink);
  if (!answer.error.empty()) Fail("{}: {}", FlagOf(answer.error, job), answer.error);
  output.Commit();
  if (answer.truncated) spdlog::warn("--text: cut to {} tokens", pipeline.options().max_seq_length);
}

void PredictFile(const Pipeline& pipeline, const PredictJob& job) {
  LineReader lines(job.input);
  AtomicFile output(job.output);
  Progress progress("predict", 0, "lines");
  const LineSink sink{[&](std::string_view json) { output.Write(json); }, [&] { output.Flush(); }};
  const StreamStatistics statistics = PredictLines(pipeline, lines, sink, [&](int64_t done) { progress.Update(done); });
  output.Commit();
  progress.Finish();
  const std::string cut = statistics.truncated == 0
                              ? ""
                              : fmt::format("{} of {} texts were cut to {} tokens", statistics.truncated,
                                            statistics.lines, pipeline.options().max_seq_length);
  if (statistics.bad > 0) {
    Fail("{} of {} lines could not be answered, the first: {}{}", statistics.bad, statistics.lines,
         statistics.first_error, cut.empty() ? "" : "; " + cut);
  }
  if (!cut.empty()) spdlog::warn("{}: {}", job.input == "-" ? "stdin" : Shown(job.input, 120), cut);
}

// A file or one text or question, of the task's kind.
void CheckInput(const PredictJob& job) {
  const bool file = !job.input.empty();
  if (job.options.task == PredictTask::kQuestionAnswering) {
    if (job.text) FailUsage("--text: --task question-answering takes --question and --context");
    if (job.question.has_value() != job.context.has_value())
      FailUsage("--question and --context: expected both, got one");
    if (job.question && file) FailUsage("--question: stands instead of --input, got both");
    if (!job.question && !file)
      FailUsage("--input: expected a JSONL file (or --question \"...\" --context \"...\"), got neither");
    return;
  }
  if (job.question || job.context) FailUsage("--question: is for --task question-answering");
  if (job.text && file) FailUsage("--text: stands instead of --input, got both");
  if (!job.text && !file) FailUsage("--input: expected a JSONL file (or --text \"...\"), got neither");
  if (job.text_pair && !job.text) FailUsage("--text_pair: stands beside --text, which is missing");
}

}  // namespace

void RunPredict(const PredictJob& job) {
  CheckInput(job);
  CheckPrecision(job.options.precision);
  const Pipeline pipeline =
      Pipeline::Load(job.model_name_or_path, job.tokenizer_name, job.options, [&](ModelConfig& config) {
        job.attention.Apply(config.attention);
        ValidateModelConfig(config, job.model_name_or_path);
      });
  if (job.text || job.question) {
    PredictInput(pipeline, job);
  } else {
    PredictFile(pipeline, job);
  }
}

}  // namespace lshformer
