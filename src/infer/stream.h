// JSONL in, JSONL out: any number of lines through a pipeline, in order, in bounded memory; or a single input.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "dist/communicator.h"
#include "infer/line_queries.h"
#include "infer/pipeline.h"
#include "io/gzip.h"

namespace lshformer {

struct LineSink {
  JsonSink write;
  std::function<void()> flush;  // called after each piece of work, so that a reader at a pipe's end need not wait
};

// What a line of input is: a JSON object, or a text as it stands, blanks and quotes included.
enum class LineFormat { kJson, kText };

// Takes a row of numbers a line.
using RowSink = std::function<void(std::span<const float> row)>;
// Takes the chunks of a line; none of a bad one.
using ChunkSink = std::function<void(std::span<const ChunkVector> chunks)>;

struct StreamStatistics {
  int64_t lines = 0, bad = 0, truncated = 0;
  std::string first_error;  // of the first bad line
};

// Reads lines ahead (kLinesAhead or kBytesAhead, less where the reader has no more at hand), encodes them
// on all cores, runs those of similar length together and writes the answers in the order of the lines: those of
// kPieceBatches forward calls, or less where they are many, together; questions', whose contexts may be long, as they
// are found. Work memory: the window, the answers (kAnswers numbers, at least one line's) and one forward call of
// batch_tokens. A text is the "text" of its line; the mark that some editors put before a file's first is no part of
// it. Throws what reader, sink and model throw; Interrupted after a signal, with whole lines written.
inline constexpr size_t kLinesAhead = 1024;
inline constexpr size_t kBytesAhead = size_t{2} << 20;
inline constexpr int64_t kAnswers = int64_t{1} << 22;
inline constexpr int64_t kPieceBatches = 8;
//
// `processes`: those that share the lines, which all read; each answers every so many'th piece, and rank 0 alone
// writes, the same bytes as one process. The statistics are of all.
StreamStatistics PredictLines(const Pipeline& pipeline, LineReader& lines, const LineSink& sink,
                              const std::function<void(int64_t lines)>& progress = {},
                              LineFormat format = LineFormat::kJson, Communicator* processes = nullptr);
// The same of feature extraction with a vector a line: EmbeddingWidth numbers, all NaN of a bad line. A line that asks
// for a vector per token, or one of another width, is bad.
StreamStatistics EmbedLines(const Pipeline& pipeline, LineReader& lines, const RowSink& sink,
                            const std::function<void(int64_t lines)>& progress = {},
                            LineFormat format = LineFormat::kJson, Communicator* processes = nullptr);
// The same with the vectors of chunks, of a pipeline whose options ask for some.
StreamStatistics ChunkLines(const Pipeline& pipeline, LineReader& lines, const ChunkSink& sink,
                            const std::function<void(int64_t lines)>& progress = {},
                            LineFormat format = LineFormat::kJson, Communicator* processes = nullptr);

// The line that stands for one input alone, by the pipeline's options. Nothing is written where that has an error.
struct SingleAnswer {
  std::string error;       // as Outcome::error
  bool truncated = false;  // likewise
};
SingleAnswer PredictOne(const Pipeline& pipeline, const TextInput& input, const JsonSink& sink);
SingleAnswer PredictOne(const Pipeline& pipeline, const QuestionInput& input, const JsonSink& sink);

}  // namespace lshformer
