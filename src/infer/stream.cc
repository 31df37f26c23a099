#include "infer/stream.h"

#include <vector>

#include "base/parallel.h"
#include "base/signals.h"
#include "io/line_window.h"

namespace lshformer {
namespace {

// A line's text is let go as soon as it is encoded: a window may hold one of 64 MiB.
std::vector<Request> PrepareAll(const Pipeline& pipeline, std::vector<WindowLine> lines) {
  std::vector<Request> requests(lines.size());
  ParallelFor(static_cast<int64_t>(lines.size()), 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      WindowLine& line = lines[static_cast<size_t>(i)];
      if (line.error.empty()) {
        requests[static_cast<size_t>(i)] = pipeline.Prepare(line.text, line.where);
      } else {
        requests[static_cast<size_t>(i)].error = line.error;
      }
      line = WindowLine();
    }
  });
  return requests;
}

}  // namespace

StreamStatistics PredictLines(const Pipeline& pipeline, LineReader& lines, const LineSink& sink,
                              const std::function<void(int64_t)>& progress) {
  StreamStatistics statistics;
  for (bool more = true; more;) {
    ThrowIfStopped("predict");
    std::vector<WindowLine> window;
    more = ReadWindow(lines, kWindowLines, kWindowBytes, window);
    std::vector<Request> requests = PrepareAll(pipeline, std::move(window));
    for (size_t begin = 0, end = 0; begin < requests.size(); begin = end) {
      ThrowIfStopped("predict");
      for (int64_t size = 0; end < requests.size(); ++end) {
        size += requests[end].error.empty() ? pipeline.AnswerSize(requests[end]) : 0;
        if (size > kAnswers && end > begin) break;
      }
      const std::span<Request> piece(requests.data() + begin, end - begin);
      size_t written = 0;  // of the piece
      pipeline.Run(piece, [&](size_t finished) {
        for (; written < finished; ++written) {
          Request& request = piece[written];
          pipeline.Write(request, sink.write);
          sink.write("\n");
          ++statistics.lines;
          statistics.truncated += request.error.empty() && request.encoding.truncated;
          if (!request.error.empty() && ++statistics.bad == 1) statistics.first_error = request.error;
          request = Request();  // its answer is written
        }
        sink.flush();
        if (progress) progress(statistics.lines);
      });
    }
  }
  return statistics;
}

}  // namespace lshformer
