// lshformer predict: JSONL in, JSONL out, or one text or question.
#include "jobs/predict/predict.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/logging.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/precision_flags.h"
#include "jobs/use_matmul_precision.h"

namespace lshformer::cli {
namespace {

struct PredictFlags {
  PredictJob job;
  std::string task, pooling, prompt_name, long_text = kLongTextNames[0], window_pooling = kWindowPoolingNames[0],
                                          chunking = kChunkingNames[0];
  bool normalize = false;
  PrecisionFlags precision;
};

// The value whose name it is: of names in order of their values.
template <class Value>
Value ValueOf(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<Value>(std::find(names.begin(), names.end(), name) - names.begin());
}

PredictOptions CheckedOptions(const CLI::App& command, const PredictFlags& flags) {
  PredictOptions options = flags.job.options;
  options.task = ParsePredictTask(flags.task);
  options.long_text = ValueOf<LongText>(kLongTextNames, flags.long_text);
  options.window_pooling = ValueOf<WindowPooling>(kWindowPoolingNames, flags.window_pooling);
  options.chunks.chunking = ValueOf<Chunking>(kChunkingNames, flags.chunking);
  if (options.chunks.chunking != Chunking::kNone && command.count("--long_text") == 0)
    options.long_text = LongText::kWhole;
  if (options.chunks.chunking != Chunking::kTokens)
    RefuseFlags(command, {"--chunk_tokens"}, "is for --chunking tokens");
  if (options.chunks.chunking != Chunking::kNone) RefuseFlags(command, {"--text_pair"}, "is not for --chunking");
  if (options.chunks.chunking == Chunking::kSpans) RefuseFlags(command, {"--text", "--text_file"}, "has no \"spans\"");
  if (options.long_text != LongText::kWindows) RefuseFlags(command, {"--window_pooling"}, "is for --long_text windows");
  if (command.count("--pooling") > 0) options.embedding.pooling = ParsePooling(flags.pooling);
  if (flags.normalize) options.embedding.normalize = true;
  if (command.count("--prompt_name") > 0) options.embedding.prompt_name = flags.prompt_name;
  options.precision = flags.precision.Chosen();
  UseMatmulPrecision(flags.precision.ChosenMatmulPrecision());
  const auto only_for = [&](const char* flag, PredictTask task, const char* name) {
    if (command.count(flag) > 0 && options.task != task) FailUsage("{}: is for --task {}", flag, name);
  };
  const bool asking = options.task == PredictTask::kQuestionAnswering;
  if (!asking) only_for("--top_k", PredictTask::kFillMask, "fill-mask and question-answering");
  only_for("--question", PredictTask::kQuestionAnswering, "question-answering");
  only_for("--context", PredictTask::kQuestionAnswering, "question-answering");
  only_for("--context_file", PredictTask::kQuestionAnswering, "question-answering");
  CheckAnswerFlags(command, options.answers, asking);
  if (asking) return options;
  if (options.task != PredictTask::kFeatureExtraction)
    only_for("--text_pair", PredictTask::kTextClassification, "text-classification and feature-extraction");
  only_for("--pooling", PredictTask::kFeatureExtraction, "feature-extraction");
  only_for("--normalize", PredictTask::kFeatureExtraction, "feature-extraction");
  only_for("--prompt_name", PredictTask::kFeatureExtraction, "feature-extraction");
  return options;
}

}  // namespace

void AddPredict(CLI::App& app, CommonFlags& common) {
  CLI::App* command =
      app.add_subcommand("predict", "answers of a model: JSONL in, JSONL out, or one --text or --question");
  auto flags = std::make_shared<PredictFlags>();
  const char* group = "Model";
  command->add_option("--model_name_or_path", flags->job.model_name_or_path, "checkpoint folder")
      ->required()
      ->type_name("DIR")
      ->group(group);
  command->add_option("--tokenizer_name", flags->job.tokenizer_name, "tokenizer folder, if not the checkpoint")
      ->type_name("DIR")
      ->group(group);
  command->add_option("--task", flags->task, "what to ask the model")
      ->required()
      ->check(
          OneOf({"fill-mask", "text-classification", "multiple-choice", "question-answering", "feature-extraction"}))
      ->group(group);
  group = "Input and output";
  command->add_option("--input", flags->job.input, "JSONL file, plain or .gz; - is stdin")
      ->type_name("FILE")
      ->group(group);
  command->add_option("--text_file", flags->job.text_file, "plain lines instead, a text each; plain or .gz, - is stdin")
      ->type_name("FILE")
      ->group(group);
  command
      ->add_option("--output", flags->job.output,
                   "JSONL file, one line per line of input, - is stdout; a name in .npy or .safetensors: a matrix, one "
                   "row per line (feature-extraction), or per chunk, with their places")
      ->type_name("FILE")
      ->group(group);
  command
      ->add_flag("--resume", flags->job.resume,
                 "goes on behind the lines that a stopped or killed run of the same left")
      ->group(group);
  command->add_option("--text", flags->job.text, "one text instead of a file")->type_name("TEXT")->group(group);
  command->add_option("--text_pair", flags->job.text_pair, "its second text (text-classification, feature-extraction)")
      ->type_name("TEXT")
      ->group(group);
  command->add_option("--question", flags->job.question, "one question (question-answering)")
      ->type_name("TEXT")
      ->group(group);
  command->add_option("--context", flags->job.context, "the text to find its answer in, of up to 16 MiB")
      ->type_name("TEXT")
      ->group(group);
  command->add_option("--context_file", flags->job.context_file, "a text file that holds it, plain or .gz")
      ->type_name("FILE")
      ->group(group);
  group = "Answers (a line's own \"top_k\", \"pooling\", \"normalize\" and \"prompt_name\" win)";
  command
      ->add_option("--top_k", flags->job.options.top_k, "fill-mask: candidates per mask; question-answering: answers")
      ->check(IntegerIn(1, INT32_MAX))
      ->default_str("5, or 1 answer")
      ->group(group);
  command
      ->add_option("--pooling", flags->pooling,
                   "feature-extraction: a vector per token (none), of the first, the last, their mean, …")
      ->check(OneOf({"none", "cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken"}))
      ->default_str("what a Sentence-Transformers folder says, else none")
      ->group(group);
  command->add_flag("--normalize", flags->normalize, "feature-extraction: vectors of length 1")->group(group);
  command
      ->add_option("--prompt_name", flags->prompt_name,
                   "feature-extraction: which prompt of a Sentence-Transformers folder stands before each text")
      ->type_name("NAME")
      ->default_str("the folder's default_prompt_name")
      ->group(group);
  AddTableFlags(*command, AnswerTable(), flags->job.options.answers);
  group = "Limits";
  command
      ->add_option("--max_seq_length", flags->job.options.max_seq_length,
                   "tokens per text (of contexts: per excerpt); 0: the position table, or less where a "
                   "Sentence-Transformers folder says so")
      ->check(IntegerIn(0, INT32_MAX))
      ->group(group);
  command
      ->add_option(
          "--long_text", flags->long_text,
          "what becomes of longer texts: cut, \"truncated\": true in the answer; windows: in pieces, whose "
          "embeddings or logits are joined; whole (so with --chunking): read as far as the positions go, else an error")
      ->check(OneOf({"cut", "windows", "whole"}))
      ->group(group);
  command->add_option("--window_pooling", flags->window_pooling, "how windows are joined")
      ->check(OneOf({"mean", "max"}))
      ->group(group);
  command
      ->add_option("--chunking", flags->chunking,
                   "feature-extraction of whole texts (--long_text whole): a vector of each chunk's own tokens, out of "
                   "one pass over the text (beyond the positions in passes that overlap); spans: those of the line")
      ->check(OneOf(kChunkingNames))
      ->group(group);
  command->add_option("--chunk_tokens", flags->job.options.chunks.chunk_tokens, "tokens a chunk")
      ->check(IntegerIn(1, INT32_MAX))
      ->group(group);
  command
      ->add_option("--batch_tokens", flags->job.options.batch_tokens,
                   "tokens a forward call; answers do not depend on it")
      ->check(IntegerIn(1, int64_t{1} << 24))
      ->group(group);
  AddTableFlags(*command, MeetingTable(), flags->job.meeting);
  command
      ->add_flag("--sequence_parallel", flags->job.sequence_parallel,
                 "they share the tokens of each forward and the heads of attention, in place of the lines: for texts "
                 "that are too long for one")
      ->group(MeetingTable().group);
  AddPrecisionFlags(*command, flags->precision, /*inference=*/true);
  AddAttentionFlags(*command, flags->job.attention);
  command->callback([command, flags] {
    const HeldLog warnings;  // a run that fails says one line
    flags->job.options = CheckedOptions(*command, *flags);
    flags->job.meeting.join = true;
    RunPredict(flags->job);
  });
}

}  // namespace lshformer::cli
