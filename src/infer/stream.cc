#include "infer/stream.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "base/signals.h"
#include "data/file_kind.h"
#include "io/lines_ahead.h"

namespace lshformer {
namespace {

// A writer with a sink of its own.
template <class Writer, class Sink>
struct Recorder {
  Recorder(const Pipeline& pipeline, Sink into) : sink(std::move(into)), writer(pipeline, sink) {}
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  Sink sink;
  Writer writer;
};

// Where answers go: lines of JSON, …
class JsonWriter {
 public:
  JsonWriter(const Pipeline& pipeline, const LineSink& sink) : pipeline_(pipeline), sink_(sink) {}
  template <class Answer>
  void Write(const std::string& id, const Answer& answer, bool truncated) {
    WriteAnswer(pipeline_, id, answer, sink_.write, truncated);
    sink_.write("\n");
  }
  void WriteBad(const std::string& id, const std::string& error) {
    WriteError(id, error, sink_.write);
    sink_.write("\n");
  }
  void Flush() {
    if (sink_.flush) sink_.flush();
  }
  // What writes into `text`, and writing that.
  static auto Recording(const Pipeline& pipeline, std::string& text) {
    return Recorder<JsonWriter, LineSink>(pipeline, {[&text](std::string_view json) { text += json; }, {}});
  }
  void Replay(std::string_view text) { sink_.write(text); }
  // Why there is no place for the answer to a query; "": there is.
  template <class Query>
  static std::string Refuses(const Pipeline&, const Query&) {
    return "";
  }

 private:
  const Pipeline& pipeline_;
  const LineSink& sink_;
};

// … or rows of a matrix.
class RowWriter {
 public:
  RowWriter(const Pipeline& pipeline, const RowSink& sink)
      : nothing_(static_cast<size_t>(pipeline.EmbeddingWidth(pipeline.options().embedding)),
                 std::numeric_limits<float>::quiet_NaN()),
        sink_(sink) {}
  void Write(const std::string&, const Embedding& answer, bool) { sink_(answer.values); }
  void WriteBad(const std::string&, const std::string&) { sink_(nothing_); }
  void Flush() {}
  static std::string Refuses(const Pipeline& pipeline, const EmbedQuery& query) {
    if (pipeline.IsPerToken(query.options))
      return "\"pooling\": none gives a vector for each token, a matrix has one row a line";
    const int64_t width = pipeline.EmbeddingWidth(query.options),
                  wanted = pipeline.EmbeddingWidth(pipeline.options().embedding);
    return width == wanted ? ""
                           : fmt::format("\"pooling\": gives {} numbers, a row of the matrix has {}", width, wanted);
  }
  static auto Recording(const Pipeline& pipeline, std::string& text) {
    return Recorder<RowWriter, RowSink>(pipeline, [&text](std::span<const float> row) {
      text.append(reinterpret_cast<const char*>(row.data()), row.size_bytes());
    });
  }
  void Replay(std::string_view text) {
    std::vector<float> row(nothing_.size());
    for (; !text.empty(); text.remove_prefix(row.size() * sizeof(float))) {
      std::memcpy(row.data(), text.data(), row.size() * sizeof(float));
      sink_(row);
    }
  }

 private:
  std::vector<float> nothing_;  // the row of a bad line
  const RowSink& sink_;
};

// … or the rows of chunks.
class ChunkWriter {
 public:
  ChunkWriter(const Pipeline&, const ChunkSink& sink) : sink_(sink) {}
  void Write(const std::string&, const std::vector<ChunkVector>& answer, bool) { sink_(answer); }
  void WriteBad(const std::string&, const std::string&) { sink_({}); }
  void Flush() {}
  static std::string Refuses(const Pipeline&, const ChunkQuery&) { return ""; }
  static auto Recording(const Pipeline& pipeline, std::string& text) {
    return Recorder<ChunkWriter, ChunkSink>(pipeline, [&text](std::span<const ChunkVector> chunks) {
      const auto put = [&](const auto* data, size_t count) {
        text.append(reinterpret_cast<const char*>(data), count * sizeof(*data));
      };
      const size_t count = chunks.size();
      put(&count, 1);
      for (const ChunkVector& chunk : chunks) {
        const size_t width = chunk.values.size();
        put(&chunk.place.first, 1), put(&chunk.place.second, 1), put(&width, 1), put(chunk.values.data(), width);
      }
    });
  }
  void Replay(std::string_view text) {
    const auto get = [&](auto* data, size_t count) {
      std::memcpy(data, text.data(), count * sizeof(*data));
      text.remove_prefix(count * sizeof(*data));
    };
    while (!text.empty()) {
      size_t count = 0;
      get(&count, 1);
      std::vector<ChunkVector> chunks(count);
      for (ChunkVector& chunk : chunks) {
        size_t width = 0;
        get(&chunk.place.first, 1), get(&chunk.place.second, 1), get(&width, 1);
        chunk.values.resize(width);
        get(chunk.values.data(), width);
      }
      sink_(chunks);
    }
  }

 private:
  const ChunkSink& sink_;
};

// A line's text is released as soon as it is encoded: a window may hold one of 64 MiB.
template <class Query, class Writer>
std::vector<LineQuery<Query>> ReadAll(const Pipeline& pipeline, std::vector<LineAhead> lines, LineFormat format) {
  std::vector<LineQuery<Query>> queries(lines.size());
  ParallelFor(static_cast<int64_t>(lines.size()), 16, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      LineAhead& line = lines[i];
      Outcome<Query>& query = queries[i].query;
      if (!line.error.empty()) {
        query.error = line.error;
      } else if (format == LineFormat::kText) {
        query = ReadTextQuery<Query>(pipeline, line.text, line.where);
      } else {
        queries[i] = ReadLineQuery<Query>(pipeline, line.text, line.where);
      }
      if (const std::string reason = query.ok() ? Writer::Refuses(pipeline, query.value) : ""; !reason.empty())
        query.error = fmt::format("{}: {}", line.where, reason);
      line = LineAhead();
    }
  });
  return queries;
}

// The good lines of a piece run together, all of its lines written in their order.
template <class Query, class Writer>
class Piece {
 public:
  using Answered = Outcome<typename Query::Answer>;
  Piece(const Pipeline& pipeline, std::span<LineQuery<Query>> lines, Writer& writer,
        const std::function<void(int64_t)>& progress, StreamStatistics& statistics)
      : pipeline_(pipeline), lines_(lines), writer_(writer), progress_(progress), statistics_(statistics) {
    for (LineQuery<Query>& line : lines_)
      if (line.query.ok()) queries_.push_back(std::move(line.query.value));
  }

  void Run() {
    if constexpr (std::is_same_v<Query, QuestionQuery>) {
      pipeline_.Run(queries_, [&](size_t, std::span<const Answered> found) {
        Write(found);
        if (!pipeline_.model().shares_tokens()) ThrowIfStopped("predict");
      });
    } else {
      const std::vector<Answered> answered = RunAll();
      Write(answered);
    }
    Write({});  // bad lines at the end
  }

 private:
  std::vector<Answered> RunAll() const {
    if constexpr (std::is_same_v<Query, ChunkQuery>)
      return RunChunks(pipeline_, queries_);
    else
      return pipeline_.Run(queries_);
  }

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
        writer_.Write(line.id, answer.value, line.query.truncated);
        statistics_.truncated += line.query.truncated;
      }
      ++statistics_.lines;
      line = LineQuery<Query>();
    }
    if (written_ == before) return;
    writer_.Flush();
    if (progress_) progress_(statistics_.lines);
  }

  void WriteBad(const std::string& id, const std::string& error) {
    writer_.WriteBad(id, error);
    if (++statistics_.bad == 1) statistics_.first_error = error;
  }

  const Pipeline& pipeline_;
  const std::span<LineQuery<Query>> lines_;
  Writer& writer_;
  const std::function<void(int64_t)>& progress_;
  StreamStatistics& statistics_;
  std::vector<Query> queries_;
  size_t written_ = 0;  // lines
};

// The lines [begin, end) of a window that are answered together.
template <class Query>
std::vector<std::span<LineQuery<Query>>> CutIntoPieces(const Pipeline& pipeline, std::vector<LineQuery<Query>>& lines) {
  const int64_t most_tokens = kPieceBatches * pipeline.options().batch_tokens;
  std::vector<std::span<LineQuery<Query>>> pieces;
  for (size_t begin = 0, end = 0; begin < lines.size(); begin = end) {
    for (int64_t size = 0, tokens = 0; end < lines.size(); ++end) {
      if (lines[end].query.ok()) {
        size += AnswerSize(pipeline, lines[end].query.value);
        tokens += TokensAtOnce(lines[end].query.value);
      }
      if ((size > kAnswers || tokens > most_tokens) && end > begin) break;
    }
    pieces.emplace_back(lines.data() + begin, end - begin);
  }
  return pieces;
}

// The pieces of a window among several processes, as many at a time as there are; or each by all of them, whose model
// shares the tokens.
template <class Query, class Writer>
void AnswerTogether(const Pipeline& pipeline, std::span<std::span<LineQuery<Query>>> pieces, Writer& writer,
                    const std::function<void(int64_t)>& progress, StreamStatistics& statistics,
                    Communicator& processes) {
  const bool shares_tokens = pipeline.model().shares_tokens();
  const size_t count = shares_tokens ? 1 : static_cast<size_t>(processes.size()),
               own = shares_tokens ? 0 : static_cast<size_t>(processes.rank());
  for (size_t first = 0; first < pieces.size(); first += count) {
    std::string text;
    StreamStatistics mine;
    int stopped = 0;
    try {
      if (first + own < pieces.size()) {
        auto recorder = Writer::Recording(pipeline, text);
        const std::function<void(int64_t)> silent;
        Piece<Query, Writer>(pipeline, pieces[first + own], recorder.writer, silent, mine).Run();
      }
    } catch (const Interrupted& interrupted) {
      stopped = interrupted.signal();
    }
    ThrowIfAnyStopped(&processes, stopped, "predict");
    const std::string told = Json{mine.lines, mine.bad, mine.truncated, mine.first_error}.dump(
        -1, ' ', false, Json::error_handler_t::replace);
    const auto of_all = [&](const std::string& one) {
      return shares_tokens ? std::vector<std::string>{one} : processes.AllGather(one);
    };
    const std::vector<std::string> texts = of_all(text);
    for (const std::string& json : of_all(told)) {
      const Json its = Json::parse(json);
      statistics.lines += its[0].get<int64_t>();
      if (statistics.bad == 0) statistics.first_error = its[3];
      statistics.bad += its[1].get<int64_t>();
      statistics.truncated += its[2].get<int64_t>();
    }
    if (!processes.first()) continue;
    for (const std::string& piece : texts) writer.Replay(piece);
    writer.Flush();
    if (progress) progress(statistics.lines);
  }
}

template <class Query, class Writer>
StreamStatistics AnswerLines(const Pipeline& pipeline, LineReader& reader, Writer writer,
                             const std::function<void(int64_t)>& progress, LineFormat format, Communicator* processes) {
  StreamStatistics statistics;
  for (bool more = true; more;) {
    if (processes == nullptr) ThrowIfStopped("predict");
    std::vector<LineAhead> ahead;
    const bool first = reader.line_number() == 0;
    more = ReadLinesAhead(reader, kLinesAhead, kBytesAhead, ahead);
    if (first && !ahead.empty() && format == LineFormat::kText) StripByteOrderMark(ahead[0].text);
    std::vector<LineQuery<Query>> lines = ReadAll<Query, Writer>(pipeline, std::move(ahead), format);
    std::vector<std::span<LineQuery<Query>>> pieces = CutIntoPieces(pipeline, lines);
    if (processes != nullptr) {
      AnswerTogether<Query, Writer>(pipeline, pieces, writer, progress, statistics, *processes);
      continue;
    }
    for (const std::span<LineQuery<Query>> piece : pieces) {
      ThrowIfStopped("predict");
      Piece<Query, Writer>(pipeline, piece, writer, progress, statistics).Run();
    }
  }
  return statistics;
}

template <class Answer>
SingleAnswer WriteSingle(const Pipeline& pipeline, const std::vector<Outcome<Answer>>& outcomes, const JsonSink& sink) {
  const Outcome<Answer>& outcome = outcomes[0];
  if (outcome.ok()) {
    WriteAnswer(pipeline, /*id=*/"", outcome.value, sink, outcome.truncated);
    sink("\n");
  }
  return {outcome.error, outcome.truncated};
}

SingleAnswer ChunkOne(const Pipeline& pipeline, const TextInput& input, const JsonSink& sink) {
  const Outcome<ChunkQuery> query =
      PrepareChunks(pipeline, input.text, pipeline.options().embedding, pipeline.options().chunks, {});
  if (!query.ok()) return {query.error, false};
  return WriteSingle(pipeline, RunChunks(pipeline, {&query.value, 1}), sink);
}

}  // namespace

StreamStatistics PredictLines(const Pipeline& pipeline, LineReader& lines, const LineSink& sink,
                              const std::function<void(int64_t)>& progress, LineFormat format,
                              Communicator* processes) {
  const JsonWriter writer(pipeline, sink);
  switch (pipeline.options().task) {
    case PredictTask::kFillMask:
      return AnswerLines<FillMaskQuery>(pipeline, lines, writer, progress, format, processes);
    case PredictTask::kTextClassification:
      return AnswerLines<ClassifyQuery>(pipeline, lines, writer, progress, format, processes);
    case PredictTask::kMultipleChoice:
      return AnswerLines<ChooseQuery>(pipeline, lines, writer, progress, format, processes);
    case PredictTask::kQuestionAnswering:
      return AnswerLines<QuestionQuery>(pipeline, lines, writer, progress, format, processes);
    case PredictTask::kFeatureExtraction:
      break;
  }
  if (pipeline.options().chunks.chunking != Chunking::kNone)
    return AnswerLines<ChunkQuery>(pipeline, lines, writer, progress, format, processes);
  return AnswerLines<EmbedQuery>(pipeline, lines, writer, progress, format, processes);
}

StreamStatistics EmbedLines(const Pipeline& pipeline, LineReader& lines, const RowSink& sink,
                            const std::function<void(int64_t)>& progress, LineFormat format, Communicator* processes) {
  return AnswerLines<EmbedQuery>(pipeline, lines, RowWriter(pipeline, sink), progress, format, processes);
}

StreamStatistics ChunkLines(const Pipeline& pipeline, LineReader& lines, const ChunkSink& sink,
                            const std::function<void(int64_t)>& progress, LineFormat format, Communicator* processes) {
  return AnswerLines<ChunkQuery>(pipeline, lines, ChunkWriter(pipeline, sink), progress, format, processes);
}

SingleAnswer PredictOne(const Pipeline& pipeline, const TextInput& input, const JsonSink& sink) {
  const std::span<const TextInput> inputs(&input, 1);
  switch (pipeline.options().task) {
    case PredictTask::kFillMask:
      return WriteSingle(pipeline, pipeline.FillMask(inputs), sink);
    case PredictTask::kTextClassification:
      return WriteSingle(pipeline, pipeline.Classify(inputs), sink);
    case PredictTask::kFeatureExtraction:
      if (pipeline.options().chunks.chunking != Chunking::kNone) return ChunkOne(pipeline, input, sink);
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
