#include "jobs/predict/predict.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/logging.h"
#include "base/progress.h"
#include "base/signals.h"
#include "data/file_kind.h"
#include "dist/communicator.h"
#include "infer/stream.h"
#include "io/gzip.h"
#include "io/matrix_file.h"
#include "jobs/build_info.h"
#include "jobs/model_source.h"
#include "jobs/predict/predict_record.h"
#include "jobs/predict/unfinished_output.h"

namespace lshformer {
namespace {

const char* LinesOption(const PredictJob& job) { return job.text_file.empty() ? "input" : "text_file"; }
const std::string& LinesFile(const PredictJob& job) { return job.text_file.empty() ? job.input : job.text_file; }

// The option that an error is about: it begins with the name of what it says in quotes, "context" has no tokens.
std::string_view OptionOf(const std::string& error, const PredictJob& job) {
  for (const char* name : {"text", "text_pair", "question", "context"})
    if (error.starts_with(fmt::format("\"{}\"", name)))
      return job.context_file && std::string_view(name) == "context" ? "context_file" : name;
  return job.question ? "question" : "text";
}

std::string Context(const PredictJob& job) {
  if (job.context) return *job.context;
  std::string context = ReadText(*job.context_file, kLongestContext);
  StripByteOrderMark(context);
  return context;
}

bool IsMatrix(const PredictJob& job) { return IsMatrixName(job.output); }
bool MakesChunks(const Pipeline& pipeline) { return pipeline.options().chunks.chunking != Chunking::kNone; }

int64_t MatrixWidth(const Pipeline& pipeline) {
  EmbedOptions embedding = pipeline.options().embedding;
  if (MakesChunks(pipeline)) embedding.pooling = Pooling::kMean;
  return pipeline.EmbeddingWidth(embedding);
}

void RequireVectors(const Pipeline& pipeline, const PredictJob& job) {
  if (!MakesChunks(pipeline) && pipeline.IsPerToken(pipeline.options().embedding))
    FailOption("output", "{} holds one row a text, which {} none does not give: cls or mean", Shown(job.output, 120),
               OptionName{"pooling"});
}

void WriteChunks(std::span<const ChunkVector> chunks, int64_t line, MatrixFile& matrix) {
  if (line > INT32_MAX) Fail("a matrix has places in at most {} lines", INT32_MAX);
  for (const ChunkVector& chunk : chunks)
    matrix.Write(chunk.values, {static_cast<int32_t>(line), chunk.place.first, chunk.place.second});
}

SingleAnswer AnswerInput(const Pipeline& pipeline, const PredictJob& job, const JsonSink& sink) {
  return job.question ? PredictOne(pipeline, QuestionInput{*job.question, Context(job)}, sink)
                      : PredictOne(pipeline, TextInput{*job.text, job.text_pair}, sink);
}

void PredictInput(const Pipeline& pipeline, const PredictJob& job, UnfinishedOutput* place) {
  SingleAnswer answer;
  const auto done = [&] {
    if (answer.error.empty()) return;
    const std::string_view option = OptionOf(answer.error, job);
    const std::string file = option == "context_file" ? " " + InputName(*job.context_file) : "";
    Fail("{}{}: {}", OptionName{option}, file, answer.error);
  };
  if (IsMatrix(job) && MakesChunks(pipeline)) {
    const Outcome<ChunkQuery> query =
        PrepareChunks(pipeline, *job.text, pipeline.options().embedding, pipeline.options().chunks, {});
    answer.error = query.error;
    done();
    const Outcome<std::vector<ChunkVector>> outcome = RunChunks(pipeline, {&query.value, 1}).front();
    answer.error = outcome.error;
    done();
    MatrixFile matrix(place->rows(), job.output, MatrixWidth(pipeline), /*places=*/true);
    WriteChunks(outcome.value, /*line=*/1, matrix);
    matrix.MoveTo(place->target());
  } else if (IsMatrix(job)) {
    const TextInput input{*job.text, job.text_pair};
    const Outcome<Embedding> outcome = pipeline.Embed({&input, 1}).front();
    answer = {outcome.error, outcome.truncated};
    done();
    MatrixFile matrix(place->rows(), job.output, outcome.value.width);
    matrix.Write(outcome.value.values);
    matrix.MoveTo(place->target());
  } else {
    AtomicFile output(job.output);
    answer = AnswerInput(pipeline, job, [&](std::string_view json) { output.Write(json); });
    done();
    output.Commit();
  }
  if (answer.truncated) Warn("{}: cut to {} tokens", OptionName{"text"}, pipeline.options().max_seq_length);
}

// What there is to say of all lines, in the end. `before`: of those that an earlier run answered.
void Report(const Pipeline& pipeline, const PredictJob& job, const StreamStatistics& now, const KeptLines& before) {
  const std::string cut = now.truncated == 0
                              ? ""
                              : fmt::format("{} of {} texts {}were cut to {} tokens", now.truncated, now.lines,
                                            before.lines > 0 ? "answered now " : "", pipeline.options().max_seq_length);
  if (const int64_t bad = now.bad + before.bad; bad > 0) {
    Fail("{} of {} lines could not be answered, the first: {}{}", bad, now.lines + before.lines,
         before.bad > 0 ? before.first_error : now.first_error, cut.empty() ? "" : "; " + cut);
  }
  if (!cut.empty()) spdlog::warn("{}: {}", InputName(LinesFile(job)), cut);
}

LineFormat FormatOf(const PredictJob& job) { return job.text_file.empty() ? LineFormat::kJson : LineFormat::kText; }

// Lines to a pipe or a device, which gets them as they are found.
void PredictDirectly(const Pipeline& pipeline, const PredictJob& job, Communicator* processes) {
  LineReader lines(LinesFile(job));
  AtomicFile output(job.output);
  Progress progress("predict", 0, "lines");
  const LineSink sink{[&](std::string_view json) { output.Write(json); }, [&] { output.Flush(); }};
  const StreamStatistics statistics = PredictLines(
      pipeline, lines, sink, [&](int64_t done) { progress.Update(done); }, FormatOf(job), processes);
  output.Commit();
  progress.Finish();
  Report(pipeline, job, statistics, {});
}

void PredictMatrix(const Pipeline& pipeline, const PredictJob& job, const UnfinishedOutput& place,
                   Communicator* processes) {
  LineReader lines(LinesFile(job));
  MatrixFile matrix(place.rows(), job.output, MatrixWidth(pipeline), MakesChunks(pipeline));
  Progress progress("predict", 0, "lines");
  const auto advance = [&](int64_t done) { progress.Update(done); };
  const RowSink row_sink = [&](std::span<const float> row) { matrix.Write(row); };
  int64_t line = 0;
  const ChunkSink chunk_sink = [&](std::span<const ChunkVector> chunks) { WriteChunks(chunks, ++line, matrix); };
  StreamStatistics statistics;
  try {
    statistics = MakesChunks(pipeline) ? ChunkLines(pipeline, lines, chunk_sink, advance, FormatOf(job), processes)
                                       : EmbedLines(pipeline, lines, row_sink, advance, FormatOf(job), processes);
  } catch (const Interrupted& stop) {
    throw Interrupted(stop.signal(), fmt::format("{}; {} is not written", stop.what(), OutputName(job.output)));
  }
  matrix.MoveTo(place.target());
  progress.Finish();
  Report(pipeline, job, statistics, {});
}

// Takes the lines that a run answers, of which the first is one that stands already: compared, not written.
class LinesBehind {
 public:
  LinesBehind(UnfinishedOutput& output, const std::string& name, const KeptLines& kept)
      : output_(output), name_(name), kept_(kept) {}
  void Write(std::string_view json) {
    if (const size_t compared = std::min(json.size(), kept_.last.size() - same_); compared > 0) {
      if (json.substr(0, compared) != std::string_view(kept_.last).substr(same_, compared))
        FailUsage("{}: line {} of {} is not what this run answers: another input, model, setting or processor",
                  OptionName{"resume"}, kept_.lines, OutputName(name_));
      same_ += compared;
      json.remove_prefix(compared);
    }
    if (!json.empty()) output_.Write(json);
  }

 private:
  UnfinishedOutput& output_;
  const std::string& name_;
  const KeptLines& kept_;
  size_t same_ = 0;  // bytes of the line that were found to be the same
};

[[noreturn]] void FailFewerLines(const PredictJob& job, const KeptLines& kept, int64_t lines) {
  FailUsage("{}: {} has {} lines, {} only {}", OptionName{"resume"}, OutputName(job.output), kept.lines,
            InputName(LinesFile(job)), lines);
}

// Goes on to the last line that is answered already, which is answered once more.
void SkipAnswered(LineReader& lines, const KeptLines& kept, const PredictJob& job) {
  std::string line;
  for (int64_t number = 1; number < kept.lines; ++number) {
    ThrowIfStopped("predict");
    try {
      if (lines.Next(line)) continue;
    } catch (const LineTooLong&) {
      continue;
    }
    FailFewerLines(job, kept, number - 1);
  }
}

void PredictFile(const Pipeline& pipeline, const PredictJob& job, UnfinishedOutput& output, KeptLines kept,
                 Communicator* processes) {
  LineReader lines(LinesFile(job));
  SkipAnswered(lines, kept, job);
  Progress progress("predict", 0, "lines");
  LinesBehind behind(output, job.output, kept);
  KeptLines before = kept;
  if (kept.lines > 0) {
    --before.lines;  // the last one is among those of now
    before.bad -= kept.last_is_bad ? 1 : 0;
  }
  int64_t done = kept.lines;
  const LineSink sink{[&](std::string_view json) { behind.Write(json); }, [&] { output.Flush(); }};
  const auto advance = [&](int64_t answered) { progress.Update(done = before.lines + answered); };
  StreamStatistics statistics;
  try {
    statistics = PredictLines(pipeline, lines, sink, advance, FormatOf(job), processes);
    if (kept.lines > 0 && statistics.lines == 0) FailFewerLines(job, kept, kept.lines - 1);
  } catch (const Interrupted& stop) {
    if (done == 0) throw;
    output.Commit(/*whole=*/false);
    throw Interrupted(stop.signal(),
                      fmt::format("{}; {} lines are done, in {}{}", stop.what(), done, OutputName(job.output),
                                  output.Keep() ? "; " + Marked("resume") + " goes on behind them" : ""));
  } catch (const UsageError&) {
    throw;
  } catch (const Error& failure) {
    if (done == 0 || !output.Keep()) throw;
    Fail("{}; {} lines are done: {} goes on behind them", failure.Spelled(kOptionMark), done, OptionName{"resume"});
  }
  output.Commit(/*whole=*/true);
  progress.Finish();
  Report(pipeline, job, statistics, before);
}

bool NamesFile(const std::string& text) {
  std::error_code error;
  return text.find_first_of("./") != text.npos && text.size() < PATH_MAX && text.find('\0') == text.npos &&
         std::filesystem::is_regular_file(text, error);
}

// A file's name in place of its contents would be answered without a word.
void RefuseNames(const PredictJob& job) {
  if (job.text && NamesFile(*job.text))
    FailOption("text", "{} is a file; {} reads its lines, {} lines of JSON", Shown(*job.text, 120),
               OptionName{"text_file"}, OptionName{"input"});
  if (job.context && NamesFile(*job.context))
    FailOption("context", "{} is a file; {} reads it", Shown(*job.context, 120), OptionName{"context_file"});
}

void CheckQuestion(const PredictJob& job) {
  const bool file = !job.input.empty(), context = job.context || job.context_file;
  for (const auto& [name, given] : {std::pair("text", job.text.has_value()), {"text_file", !job.text_file.empty()}})
    if (given)
      FailOption(name, "{} question-answering takes {} and {}", OptionName{"task"}, OptionName{"question"},
                 OptionName{"context"});
  if (job.context && job.context_file)
    FailOption("context_file", "stands instead of {}, got both", OptionName{"context"});
  if (job.question.has_value() != context)
    FailUsage("{} and {}: expected both, got one ({} reads a context)", OptionName{"question"}, OptionName{"context"},
              OptionName{"context_file"});
  if (job.question && file) FailOption("question", "stands instead of {}, got both", OptionName{"input"});
  if (!job.question && !file)
    FailOption("input", "expected a JSONL file (or {} \"...\" {} \"...\"), got neither", OptionName{"question"},
               OptionName{"context"});
}

// Which is what the option says, but hardly what was meant.
void WarnOfLinesAsTexts(const std::string& path) {
  if (IsJsonLines(path))
    Warn("{}: each line is read as a text as it stands; {} reads lines of JSON", Shown(path, 120), OptionName{"input"});
  if (IsTable(path)) Warn("{}: each line of the table is read as a text as it stands", Shown(path, 120));
}

// A file or one text or question, of the task's kind.
void CheckInput(const PredictJob& job) {
  RefuseNames(job);
  if (job.options.task == PredictTask::kQuestionAnswering) return CheckQuestion(job);
  const bool file = !job.input.empty();
  if (job.question || job.context || job.context_file)
    FailOption("question", "is for {} question-answering", OptionName{"task"});
  if (job.options.task == PredictTask::kMultipleChoice) {
    if (job.text) FailOption("text", "{} multiple-choice takes {}", OptionName{"task"}, OptionName{"input"});
    if (!job.text_file.empty())
      FailOption("text_file", "{} multiple-choice takes {}", OptionName{"task"}, OptionName{"input"});
    if (!file) FailOption("input", "expected a JSONL file");
  }
  if (file && !job.text_file.empty()) FailOption("text_file", "stands instead of {}, got both", OptionName{"input"});
  if (job.text && (file || !job.text_file.empty()))
    FailOption("text", "stands instead of {}, got both", OptionName{LinesOption(job)});
  if (!job.text && !file && job.text_file.empty())
    FailOption("input", "expected a JSONL file (or {} \"...\", or {} FILE), got neither", OptionName{"text"},
               OptionName{"text_file"});
  if (job.text_pair && !job.text) FailOption("text_pair", "stands beside {}, which is missing", OptionName{"text"});
}

bool IsRegularFile(const std::string& path) {
  std::error_code error;
  return path != "-" && std::filesystem::is_regular_file(path, error);
}

void CheckOutput(const PredictJob& job, const OutputPlace& place) {
  const std::string& input = LinesFile(job);
  for (const auto& [option, path] :
       {std::pair(LinesOption(job), input), {"context_file", job.context_file.value_or("")}})
    if (!path.empty()) RefuseInputAsOutput(option, path, job.output);
  for (const std::string& folder : {job.model_name_or_path, job.tokenizer_name})
    RefuseModelFileAsOutput(folder, job.output);
  if (IsMatrix(job)) {
    if (job.options.task != PredictTask::kFeatureExtraction)
      FailOption("output", "{}: a matrix is for {} feature-extraction", Shown(job.output, 120), OptionName{"task"});
    if (place.direct) FailOption("output", "{}: a matrix needs a regular file", Shown(job.output, 120));
    if (job.resume) FailOption("resume", "is for lines of JSON, {} is a matrix", Shown(job.output, 120));
  } else {
    RefuseOtherKind(job.output, {"json", "jsonl"},
                    "lines of JSON (.jsonl, .json), vectors as .npy or .safetensors too");
  }
  if (!job.resume) return;
  if (input.empty()) FailOption("resume", "is for {} or {}", OptionName{"input"}, OptionName{"text_file"});
  if (place.direct)
    FailOption("resume", "needs {} that is a regular file, got {}", OptionName{"output"}, OutputName(job.output));
  if (!CanBeReadAgain(input))
    FailOption("resume", "needs {} that can be read again, got {}", OptionName{LinesOption(job)}, InputName(input));
}

// What the first lines of a file say of its form.
struct FirstLines {
  std::string first;     // of those that say something
  bool objects = false;  // whole ones, a line each
  bool pieces = false;   // lines that are a piece of a list: "},", "]"

  bool begins_list() const {
    const size_t next = first.find_first_not_of(" \t", 1);
    return first[0] == '[' && (next == first.npos || first[next] == '{');
  }
  bool begins_object() const { return first == "{"; }
  // JSON lines, some of them bad.
  bool are_lines() const { return first.empty() || (objects && !(begins_list() && pieces)); }

  void Add(std::string_view line) {
    if (first.empty()) first = line.substr(0, 80);
    // Where nothing says otherwise the beginning of an object is enough.
    objects |= line[0] == '{' && (line.ends_with('}') || (!begins_list() && !begins_object()));
    pieces |= line[0] == ']' || line.ends_with("},") || line.ends_with("}]");
  }
};

// Another form of file, said once and not line by line: none of the first lines is an object, and some say something;
// or objects are parts of a list, or spread over lines.
void RefusePlainText(const PredictJob& job) {
  if (!IsRegularFile(job.input)) return;
  constexpr int kLooked = 100;
  LineReader lines(job.input);
  std::string line;
  FirstLines head;
  try {
    for (int number = 0; number < kLooked && lines.Next(line); ++number) {
      if (number == 0) StripByteOrderMark(line);
      const size_t begin = line.find_first_not_of(" \t\r");
      if (begin == line.npos) continue;
      head.Add(std::string_view(line).substr(begin, line.find_last_not_of(" \t\r") + 1 - begin));
      if (head.are_lines() && !head.begins_list()) return;
    }
  } catch (const LineTooLong&) {
    return;
  }
  if (head.are_lines()) return;
  const char* found = head.first[0] == '['   ? "a JSON list"
                      : head.begins_object() ? "an object over several lines"
                      : IsTable(job.input)   ? "a table, not lines of JSON"
                                             : "not lines of JSON";
  const bool asks = job.options.task == PredictTask::kQuestionAnswering,
             chooses = job.options.task == PredictTask::kMultipleChoice;
  if (asks || chooses)
    Fail("{}: {}; {} takes one object a line (JSON lines): {{\"question\": …, \"context\": …{}}}", InputName(job.input),
         found, OptionName{"input"}, chooses ? ", \"options\": …" : "");
  Fail("{}: {}; {} takes one object a line (JSON lines): {{\"text\": …}}; {} takes plain lines, a text each",
       InputName(job.input), found, OptionName{"input"}, OptionName{"text_file"});
}

Pipeline LoadPipeline(const PredictJob& job, std::optional<AttentionChange>& change, Communicator* processes) {
  Pipeline pipeline = Pipeline::Load(job.model_name_or_path, job.tokenizer_name, job.options, [&](ModelConfig& config) {
    change = ChangeAttention(job.model_name_or_path, job.attention, config);
    ValidateModelConfig(config, job.model_name_or_path);
  });
  if (job.sequence_parallel && processes != nullptr) pipeline.model().ShareTokens(processes);
  return pipeline;
}

// What decides the answers, of a text or question too.
std::vector<std::pair<std::string, std::string>> FactsOf(const PredictJob& job) {
  std::vector<std::pair<std::string, std::string>> facts = ProgramFacts();
  const Json record = PredictRecord(job);
  for (const auto& [name, value] : record.items()) facts.emplace_back(name, value.dump());
  for (const auto& [name, text] : {std::pair("text", job.text),
                                   {"text_pair", job.text_pair},
                                   {"question", job.question},
                                   {"context", job.context}})
    facts.emplace_back(name, text ? DigestOfText(*text) : "");
  if (job.context_file) facts.emplace_back("context_file digest", DigestOfFiles({*job.context_file}));
  facts.emplace_back("sequence_parallel", job.sequence_parallel ? "true" : "false");
  return facts;
}

void RequireRegularFile(const PredictJob& job) {
  const std::string& path = LinesFile(job);
  if (IsRegularFile(path)) return;
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (path != "-" && (!std::filesystem::exists(status) || std::filesystem::is_directory(status)))
    CloseInput(OpenInput(path));  // fails as for one process
  FailOption(LinesOption(job), "each of several processes reads {}: expected a regular file", InputName(path));
}

// The processes that share the lines, each with the same model and input.
std::shared_ptr<Communicator> Together(const PredictJob& job) {
  std::shared_ptr<Communicator> processes = JoinProcesses(job.meeting);
  if (processes == nullptr) return processes;
  const bool single = job.text || job.question;
  if (single && !job.sequence_parallel) return processes;  // rank 0 answers it
  if (!single) RequireRegularFile(job);
  RequireSame(*processes, FactsOf(job));
  return processes;
}

// What the ranks behind the first do: they answer their pieces, or their tokens, and write nothing.
void PredictShare(const PredictJob& job, Communicator& processes) {
  const bool single = job.text || job.question;
  if (single && !job.sequence_parallel) return;
  std::optional<AttentionChange> change;
  const Pipeline pipeline = LoadPipeline(job, change, &processes);
  if (single) {
    AnswerInput(pipeline, job, [](std::string_view) {});  // what is wrong with it rank 0 says
    return;
  }
  KeptLines kept;
  kept.lines = std::stoll(processes.Broadcast("", 0));
  LineReader lines(LinesFile(job));
  SkipAnswered(lines, kept, job);
  if (IsMatrix(job) && MakesChunks(pipeline)) {
    ChunkLines(
        pipeline, lines, [](std::span<const ChunkVector>) {}, {}, FormatOf(job), &processes);
  } else if (IsMatrix(job)) {
    EmbedLines(
        pipeline, lines, [](std::span<const float>) {}, {}, FormatOf(job), &processes);
  } else {
    PredictLines(pipeline, lines, {[](std::string_view) {}, {}}, {}, FormatOf(job), &processes);
  }
}

}  // namespace

void RunPredict(const PredictJob& job) {
  const HeldLog warnings;
  CheckInput(job);
  const std::shared_ptr<Communicator> processes = Together(job);
  if (processes != nullptr && !processes->first()) return PredictShare(job, *processes);
  const bool single = job.text || job.question;
  const OutputPlace place = PlaceOfOutput(job.output);
  CheckOutput(job, place);
  CheckPrecision(job.options.precision);
  RefusePlainText(job);
  WarnOfLinesAsTexts(job.text_file);
  std::optional<UnfinishedOutput> output;
  KeptLines kept;
  if (!place.direct) output.emplace(job.output, place);
  if (output && !single && !IsMatrix(job)) {
    const Json record = IsRegularFile(LinesFile(job)) ? PredictRecord(job) : Json();
    if (job.resume)
      kept = output->Resume(record);
    else
      output->Begin(record);
  }
  std::optional<AttentionChange> change;
  const Pipeline pipeline = LoadPipeline(job, change, processes.get());
  WarnOfAttention(pipeline.model(), change);
  if (IsMatrix(job)) RequireVectors(pipeline, job);
  if (single) return PredictInput(pipeline, job, output ? &*output : nullptr);
  Communicator* const all = processes.get();
  if (all != nullptr) all->Broadcast(std::to_string(kept.lines), 0);
  if (!output) return PredictDirectly(pipeline, job, all);
  if (IsMatrix(job)) return PredictMatrix(pipeline, job, *output, all);
  PredictFile(pipeline, job, *output, std::move(kept), all);
}

}  // namespace lshformer
