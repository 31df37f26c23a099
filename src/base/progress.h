// Progress of long work on stderr: a bar that redraws itself on a terminal, a plain line every few seconds elsewhere,
// with rate and estimated time left. Silent until a program chooses a style: a library prints nothing unasked.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace lshformer {

enum class ProgressStyle { kAuto, kBar, kLines, kOff };
void SetProgressStyle(ProgressStyle style);  // process-wide; at first kOff. kAuto: bar if stderr is a terminal, else
                                             // lines

// The line that is shown; a pure function, so that it can be tested without a terminal or a clock.
struct ProgressState {
  std::string title, unit, note;  // unit "": only the share of the total is told
  int64_t done = 0, total = 0, start = 0;
  double seconds = 0;  // since the work began
  int bar_width = 0;   // characters; 0: no bar
};
std::string ProgressText(const ProgressState& state);
// With a bar, in less than `columns` characters (a line that wraps cannot be wiped). The bar shrinks before the
// figures.
std::string ProgressBarText(ProgressState state, int columns);
std::string DurationText(double seconds);  // "0:42", "12:05", "3:07:09"

class PhasedProgress;

// Work shorter than half a second (a bar) or five seconds (lines) leaves nothing on stderr.
class Progress {
 public:
  Progress(std::string title, int64_t total, std::string unit, int64_t start = 0);  // total 0: unknown
  ~Progress();                                                                      // finishes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void Update(int64_t done, const std::string& note = "");  // cheap: draws at most ten times a second
  void Finish();

 private:
  void Draw(bool last);
  PhasedProgress* whole_;  // that this is a part of; nullptr: none
  std::string title_, unit_, note_;
  int64_t total_, start_, done_, drawn_done_ = 0;
  std::chrono::steady_clock::time_point begin_, drawn_;
  bool finished_ = false;
  bool bar_ = false, lines_ = false, shown_ = false;
};

// Work of several phases under one bar. While it lives, what a Progress of this thread would draw moves this one: it is
// the phase of its title, or, of a phase of several `times`, one of them, and tells its name as the note.
struct ProgressPhase {
  std::string title;
  double work = 0;  // in a unit that all phases share
  int times = 1;
};
class PhasedProgress {
 public:
  // The phases in their order. One that does not come is skipped; more than was expected moves nothing.
  PhasedProgress(std::string title, std::vector<ProgressPhase> phases);
  ~PhasedProgress();
  PhasedProgress(const PhasedProgress&) = delete;
  PhasedProgress& operator=(const PhasedProgress&) = delete;
  void Finish();                         // all is done
  double done() const { return done_; }  // of the whole

 private:
  friend class Progress;
  void Begin(const std::string& title);
  void Show(double share, const std::string& title);  // of what began last
  std::vector<ProgressPhase> phases_;
  double total_ = 0, done_ = 0;
  int64_t phase_ = -1;  // the one that is going on
  int time_ = 0;
  PhasedProgress* outer_;
  Progress bar_;
};

}  // namespace lshformer
