#include "jobs/predict.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/error.h"
#include "base/files.h"
#include "base/logging.h"
#include "base/progress.h"
#include "infer/stream.h"
#include "jobs/model_source.h"

namespace lshformer {
namespace {

// The option that an error is about: it begins with the name of what it says in quotes, "context" has no tokens.
std::string_view OptionOf(const std::string& error, const PredictJob& job) {
  for (const char* name : {"text", "text_pair", "question", "context"})
    if (error.starts_with(fmt::format("\"{}\"", name))) return name;
  return job.question ? "question" : "text";
}

void PredictInput(const Pipeline& pipeline, const PredictJob& job) {
  AtomicFile output(job.output);
  const JsonSink sink = [&](std::string_view json) { output.Write(json); };
  const SingleAnswer answer = job.question
                                  ? PredictOne(pipeline, QuestionInput{*job.question, *job.context}, sink)
                                  : PredictOne(pipeline, TextInput{*job.text, job.text_pair.value_or("")}, sink);
  if (!answer.error.empty()) Fail("{}: {}", OptionName{OptionOf(answer.error, job)}, answer.error);
  output.Commit();
  if (answer.truncated) Warn("{}: cut to {} tokens", OptionName{"text"}, pipeline.options().max_seq_length);
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
  if (!cut.empty()) spdlog::warn("{}: {}", InputName(job.input), cut);
}

// A file or one text or question, of the task's kind.
void CheckInput(const PredictJob& job) {
  const bool file = !job.input.empty();
  if (job.options.task == PredictTask::kQuestionAnswering) {
    if (job.text)
      FailOption("text", "{} question-answering takes {} and {}", OptionName{"task"}, OptionName{"question"},
                 OptionName{"context"});
    if (job.question.has_value() != job.context.has_value())
      FailUsage("{} and {}: expected both, got one", OptionName{"question"}, OptionName{"context"});
    if (job.question && file) FailOption("question", "stands instead of {}, got both", OptionName{"input"});
    if (!job.question && !file)
      FailOption("input", "expected a JSONL file (or {} \"...\" {} \"...\"), got neither", OptionName{"question"},
                 OptionName{"context"});
    return;
  }
  if (job.question || job.context) FailOption("question", "is for {} question-answering", OptionName{"task"});
  if (job.options.task == PredictTask::kMultipleChoice) {
    if (job.text) FailOption("text", "{} multiple-choice takes {}", OptionName{"task"}, OptionName{"input"});
    if (!file) FailOption("input", "expected a JSONL file");
  }
  if (job.text && file) FailOption("text", "stands instead of {}, got both", OptionName{"input"});
  if (!job.text && !file) FailOption("input", "expected a JSONL file (or {} \"...\"), got neither", OptionName{"text"});
  if (job.text_pair && !job.text) FailOption("text_pair", "stands beside {}, which is missing", OptionName{"text"});
}

}  // namespace

void RunPredict(const PredictJob& job) {
  const HeldLog warnings;
  CheckInput(job);
  CheckPrecision(job.options.precision);
  std::optional<AttentionChange> change;
  const Pipeline pipeline =
      Pipeline::Load(job.model_name_or_path, job.tokenizer_name, job.options, [&](ModelConfig& config) {
        change = ChangeAttention(job.model_name_or_path, job.attention, config);
        ValidateModelConfig(config, job.model_name_or_path);
      });
  WarnOfAttention(pipeline.model(), change);
  if (job.text || job.question) {
    PredictInput(pipeline, job);
  } else {
    PredictFile(pipeline, job);
  }
}

}  // namespace lshformer
