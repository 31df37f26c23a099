// lshformer predict: JSONL in, JSONL out, or one text or question.
#include <spdlog/spdlog.h>

#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/precision_flags.h"
#include "infer/stream.h"
#include "jobs/model_source.h"

namespace lshformer::cli {
namespace {

struct PredictFlags {
  std::string model, tokenizer, task, input, output = "-", pooling = "none";
  std::optional<std::string> text, text_pair, question, context;
  PredictOptions options;
  AttentionChanges attention;
  PrecisionFlags precision;
};

PredictOptions CheckedOptions(const CLI::App& command, const PredictFlags& flags) {
  PredictOptions options = flags.options;
  options.task = ParsePredictTask(flags.task);
  options.pooling = ParsePooling(flags.pooling);
  options.precision = flags.precision.Chosen();
  CheckPrecision(options.precision);
  const auto only_for = [&](const char* flag, PredictTask task, const char* name) {
    if (command.count(flag) > 0 && options.task != task) FailUsage("{}: is for --task {}", flag, name);
  };
  const bool asking = options.task == PredictTask::kQuestionAnswering;
  if (!asking) only_for("--top_k", PredictTask::kFillMask, "fill-mask and question-answering");
  only_for("--question", PredictTask::kQuestionAnswering, "question-answering");
  only_for("--context", PredictTask::kQuestionAnswering, "question-answering");
  CheckAnswerFlags(command, options.answers, asking);
  if (asking) {
    if (flags.text) FailUsage("--text: --task question-answering takes --question and --context");
    if (flags.question.has_value() != flags.context.has_value())
      FailUsage("--question and --context: expected both, got one");
    if (flags.question && !flags.input.empty()) FailUsage("--question: stands instead of --input, got both");
    if (!flags.question && flags.input.empty())
      FailUsage("--input: expected a JSONL file (or --question \"...\" --context \"...\"), got neither");
    return options;
  }
  only_for("--text_pair", PredictTask::kTextClassification, "text-classification");
  only_for("--pooling", PredictTask::kFeatureExtraction, "feature-extraction");
  only_for("--normalize", PredictTask::kFeatureExtraction, "feature-extraction");
  if (flags.text && !flags.input.empty()) FailUsage("--text: stands instead of --input, got both");
  if (!flags.text && flags.input.empty()) FailUsage("--input: expected a JSONL file (or --text \"...\"), got neither");
  if (flags.text_pair && !flags.text) FailUsage("--text_pair: stands beside --text, which is missing");
  return options;
}

// The flag that an error is about: it begins with the name of what it says in quotes, "context" has no tokens.
std::string FlagOf(const std::string& error, const PredictFlags& flags) {
  for (const char* name : {"text", "text_pair", "question", "context"})
    if (error.starts_with(fmt::format("\"{}\"", name))) return fmt::format("--{}", name);
  return flags.question ? "--question" : "--text";
}

void PredictText(const Pipeline& pipeline, const PredictFlags& flags) {
  std::vector<Request> requests;
  try {
    requests.push_back(flags.question ? pipeline.PrepareQuestion(*flags.question, *flags.context)
                                      : pipeline.PrepareText(*flags.text, flags.text_pair.value_or("")));
  } catch (const Error& error) {
    Fail("{}: {}", FlagOf(error.what(), flags), error.what());
  }
  pipeline.Run(requests);
  if (!requests[0].error.empty()) Fail("{}: {}", FlagOf(requests[0].error, flags), requests[0].error);
  AtomicFile output(flags.output);
  pipeline.Write(requests[0], [&](std::string_view json) { output.Write(json); });
  output.Write("\n");
  output.Commit();
  if (requests[0].encoding.truncated) spdlog::warn("--text: cut to {} tokens", pipeline.options().max_seq_length);
}

void PredictFile(const Pipeline& pipeline, const PredictFlags& flags) {
  LineReader lines(flags.input);
  AtomicFile output(flags.output);
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
  if (!cut.empty()) spdlog::warn("{}: {}", flags.input == "-" ? "stdin" : Shown(flags.input, 120), cut);
}

void Predict(const CLI::App& command, const PredictFlags& flags) {
  const PredictOptions options = CheckedOptions(command, flags);
  const Pipeline pipeline = Pipeline::Load(flags.model, flags.tokenizer, options, [&](ModelConfig& config) {
    flags.attention.Apply(config.attention);
    ValidateModelConfig(config, flags.model);
  });
  if (flags.text || flags.question) {
    PredictText(pipeline, flags);
  } else {
    PredictFile(pipeline, flags);
  }
}

}  // namespace

void AddPredict(CLI::App& app, CommonFlags& common) {
  CLI::App* command =
      app.add_subcommand("predict", "answers of a model: JSONL in, JSONL out, or one --text or --question");
  auto flags = std::make_shared<PredictFlags>();
  const char* group = "Model";
  command->add_option("--model_name_or_path", flags->model, "checkpoint folder")
      ->required()
      ->type_name("DIR")
      ->group(group);
  command->add_option("--tokenizer_name", flags->tokenizer, "tokenizer folder, if not the checkpoint")
      ->type_name("DIR")
      ->group(group);
  command->add_option("--task", flags->task, "what to ask the model")
      ->required()
      ->check(OneOf({"fill-mask", "text-classification", "question-answering", "feature-extraction"}))
      ->group(group);
  group = "Input and output";
  command->add_option("--input", flags->input, "JSONL file, plain or .gz; - is stdin")->type_name("FILE")->group(group);
  command->add_option("--output", flags->output, "JSONL file, one line per line of input; - is stdout")
      ->type_name("FILE")
      ->group(group);
  command->add_option("--text", flags->text, "one text instead of a file")->type_name("TEXT")->group(group);
  command->add_option("--text_pair", flags->text_pair, "its second part (text-classification)")
      ->type_name("TEXT")
      ->group(group);
  command->add_option("--question", flags->question, "one question (question-answering)")
      ->type_name("TEXT")
      ->group(group);
  command->add_option("--context", flags->context, "the text to find its answer in, of any length")
      ->type_name("TEXT")
      ->group(group);
  group = "Answers (a line's own \"top_k\", \"pooling\" and \"normalize\" win)";
  command->add_option("--top_k", flags->options.top_k, "fill-mask: candidates per mask; question-answering: answers")
      ->check(IntegerIn(1, INT32_MAX))
      ->default_str("5, or 1 answer")
      ->group(group);
  command->add_option("--pooling", flags->pooling, "feature-extraction: a vector per token, of [CLS], or their mean")
      ->check(OneOf({"none", "cls", "mean"}))
      ->group(group);
  command->add_flag("--normalize", flags->options.normalize, "feature-extraction: vectors of length 1")->group(group);
  AnswerOptions& answers = flags->options.answers;
  AddAnswerFlags(*command, answers, flags->options.doc_stride, "Question answering");
  group = "Limits";
  command
      ->add_option("--max_seq_length", flags->options.max_seq_length,
                   "longer texts are cut (contexts: in windows); 0: the position table")
      ->check(IntegerIn(0, INT32_MAX))
      ->group(group);
  command
      ->add_option("--batch_tokens", flags->options.batch_tokens, "tokens a forward call; answers do not depend on it")
      ->check(IntegerIn(1, int64_t{1} << 24))
      ->group(group);
  AddPrecisionFlags(*command, flags->precision, /*inference=*/true);
  AddAttentionFlags(*command, flags->attention);
  command->callback([command, flags] { Predict(*command, *flags); });
}

}  // namespace lshformer::cli
