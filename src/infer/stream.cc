#include "infer/stream.h"

#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "base/signals.h"
#include "io/line_window.h"

namespace lshformer {
namespace {

// A line's text is released as soon as it is encoded: a window may hold one of 64 MiB.
template <class Query>
std::vector<LineQuery<Query>> ReadAll(const Pipeline& pipeline, std::vector<WindowLine> lines) {
  std::vector<LineQuery<Query>> queries(lines.size());
  ParallelFor(static_cast<int64_t>(lines.size()), 16, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      WindowLine& line = lines[i];
      if (line.error.empty()) {
        queries[i] = ReadLineQuery<Query>(pipeline, line.text, line.where);
      } else {
        queries[i].query.error = line.error;
      }
      line = WindowLine();
    }
  });
  return queries;
}

// The good lines of a piece run together, all of its lines written in their order.
template <class Query>
class Piece {
 public:
  using Answered = Outcome<typename Query::Answer>;
  Piece(const Pipeline& pipeline, std::span<LineQuery<Query>> lines, const LineSink& sink,
        const std::function<void(int64_t)>& progress, StreamStatistics& statistics)
      : pipeline_(pipeline), lines_(lines), sink_(sink), progress_(progress), statistics_(statistics) {
    for (LineQuery<Query>& line : lines_)
      if (line.query.ok()) queries_.push_back(std::move(line.query.value));
  }

  void Run() {
    if constexpr (std::is_same_v<Query, QuestionQuery>) {
      pipeline_.Run(queries_, [&](size_t, std::span<const Answered> found) {
        Write(found);
        ThrowIfStopped("predict");
      });
    } else {
      const std::vector<Answered> answered = pipeline_.Run(queries_);
      Write(answered);
    }
    Write({});  // bad lines at the end
  }

 private:
  // The lines of the queries that come next, and the bad lines among and right behind them.
  void Write(std::span<const Answered> answered) {
    const size_t before = written_;
    for (size_t next = 0; written_ < lines_.size(); ++written_) {
      LineQuery<Query>& line = lines_[written_];
      if (!line.query.ok()) {
        WriteBad(line.id, line.query.error);
      } else if (next == answered.size()) {
        break;
      } else if (const Answered& answer = answered[next++]; !answer.ok()) {
        WriteBad(line.id, answer.error);
      } else {
        WriteAnswer(pipeline_, line.id, answer.value, sink_.write);
        statistics_.truncated += line.query.truncated;
      }
      sink_.write("\n");
      ++statistics_.lines;
      line = LineQuery<Query>();
    }
    if (written_ == before) return;
    sink_.flush();
    if (progress_) progress_(statistics_.lines);
  }

  void WriteBad(const std::string& id, const std::string& error) {
    WriteError(id, error, sink_.write);
    if (++statistics_.bad == 1) statistics_.first_error = error;
  }

  const Pipeline& pipeline_;
  const std::span<LineQuery<Query>> lines_;
  const LineSink& sink_;
  const std::function<void(int64_t)>& progress_;
  StreamStatistics& statistics_;
  std::vector<Query> queries_;
  size_t written_ = 0;  // lines
};

template <class Query>
StreamStatistics PredictLinesOf(const Pipeline& pipeline, LineReader& reader, const LineSink& sink,
                                const std::function<void(int64_t)>& progress) {
  StreamStatistics statistics;
  for (bool more = true; more;) {
    ThrowIfStopped("predict");
    std::vector<WindowLine> window;
    more = ReadWindow(reader, kWindowLines, kWindowBytes, window);
    std::vector<LineQuery<Query>> lines = ReadAll<Query>(pipeline, std::move(window));
    for (size_t begin = 0, end = 0; begin < lines.size(); begin = end) {
      ThrowIfStopped("predict");
      for (int64_t size = 0; end < lines.size(); ++end) {
        size += lines[end].query.ok() ? AnswerSize(pipeline, lines[end].query.value) : 0;
        if (size > kAnswers && end > begin) break;
      }
      Piece<Query>(pipeline, {lines.data() + begin, end - begin}, sink, progress, statistics).Run();
    }
  }
  return statistics;
}

template <class Answer>
SingleAnswer WriteSingle(const Pipeline& pipeline, const std::vector<Outcome<Answer>>& outcomes, const JsonSink& sink) {
  const Outcome<Answer>& outcome = outcomes[0];
  if (outcome.ok()) {
    WriteAnswer(pipeline, /*id=*/"", outcome.value, sink);
    sink("\n");
  }
  return {outcome.error, outcome.truncated};
}

}  // namespace

StreamStatistics PredictLines(const Pipeline& pipeline, LineReader& lines, const LineSink& sink,
                              const std::function<void(int64_t)>& progress) {
  switch (pipeline.options().task) {
    case PredictTask::kFillMask:
      return PredictLinesOf<FillMaskQuery>(pipeline, lines, sink, progress);
    case PredictTask::kTextClassification:
      return PredictLinesOf<ClassifyQuery>(pipeline, lines, sink, progress);
    case PredictTask::kMultipleChoice:
      return PredictLinesOf<ChooseQuery>(pipeline, lines, sink, progress);
    case PredictTask::kQuestionAnswering:
      return PredictLinesOf<QuestionQuery>(pipeline, lines, sink, progress);
    case PredictTask::kFeatureExtraction:
      break;
  }
  return PredictLinesOf<EmbedQuery>(pipeline, lines, sink, progress);
}

SingleAnswer PredictOne(const Pipeline& pipeline, const TextInput& input, const JsonSink& sink) {
  const std::span<const TextInput> inputs(&input, 1);
  switch (pipeline.options().task) {
    case PredictTask::kFillMask:
      return WriteSingle(pipeline, pipeline.FillMask(inputs), sink);
    case PredictTask::kTextClassification:
      return WriteSingle(pipeline, pipeline.Classify(inputs), sink);
    case PredictTask::kFeatureExtraction:
      return WriteSingle(pipeline, pipeline.Embed(inputs), sink);
    case PredictTask::kMultipleChoice:
    case PredictTask::kQuestionAnswering:
      break;
  }
  Fail("the task takes a question, not a text");
}

SingleAnswer PredictOne(const Pipeline& pipeline, const QuestionInput& input, const JsonSink& sink) {
  return WriteSingle(pipeline, pipeline.Answer({&input, 1}), sink);
}

}  // namespace lshformer
