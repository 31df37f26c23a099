#include "base/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/terminal.h"

namespace lshformer {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBarInterval = std::chrono::milliseconds(100);
constexpr auto kLineInterval = std::chrono::seconds(5);
// Work that ends sooner shows nothing: a bar that flashes up tells nobody anything.
constexpr auto kBarDelay = std::chrono::milliseconds(500);

std::atomic<ProgressStyle> chosen_style{ProgressStyle::kOff};
thread_local PhasedProgress* current_phases = nullptr;  // of which what this thread does is a part

int TerminalColumns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string DurationText(double seconds) {
  const auto whole = static_cast<int64_t>(std::clamp(seconds, 0.0, 1e9) + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string ProgressText(const ProgressState& state) {
  std::string text = state.title + " ";
  const double share = state.total > 0 ? std::clamp(static_cast<double>(state.done) / state.total, 0.0, 1.0) : 0;
  if (state.bar_width > 0 && state.total > 0) {
    const int filled = static_cast<int>(share * state.bar_width);
    text += "[" + std::string(filled, '#') + std::string(state.bar_width - filled, '.') + "] ";
  }
  if (state.total > 0)
    text += state.unit.empty() ? fmt::format("{:.0f} %", 100 * share)
                               : fmt::format("{}/{} {} ({:.0f} %)", state.done, state.total, state.unit, 100 * share);
  else
    text += fmt::format("{} {}", state.done, state.unit);
  const int64_t fresh = state.done - state.start;  // a resumed run's rate counts only its own steps
  if (fresh > 0 && state.seconds > 0) {
    const double rate = static_cast<double>(fresh) / state.seconds;
    if (!state.unit.empty()) text += fmt::format(", {:.{}f} {}/s", rate, rate < 100 ? 1 : 0, state.unit);
    if (state.done < state.total) text += fmt::format(", {} left", DurationText((state.total - state.done) / rate));
  }
  if (state.total > 0 && state.done >= state.total) text += ", " + DurationText(state.seconds);
  if (!state.note.empty()) text += ", " + state.note;
  return text;
}

std::string ProgressBarText(ProgressState state, int columns) {
  constexpr int kShortestBar = 5;
  state.bar_width = std::clamp(columns / 4, 0, 30);
  const int excess = static_cast<int>(ProgressText(state).size()) - (columns - 1);
  if (excess > 0) state.bar_width = state.bar_width - excess >= kShortestBar ? state.bar_width - excess : 0;
  std::string text = ProgressText(state);
  if (static_cast<int>(text.size()) >= columns) text.resize(std::max(0, columns - 1));
  return text;
}

void SetProgressStyle(ProgressStyle style) { chosen_style = style; }

Progress::Progress(std::string title, int64_t total, std::string unit, int64_t start)
    : whole_(current_phases),
      title_(std::move(title)),
      unit_(std::move(unit)),
      total_(total),
      start_(start),
      done_(start) {
  begin_ = drawn_ = Clock::now();
  if (whole_) {
    whole_->Begin(title_);
    return;
  }
  ProgressStyle style = chosen_style;
  if (style == ProgressStyle::kAuto) style = isatty(STDERR_FILENO) ? ProgressStyle::kBar : ProgressStyle::kLines;
  bar_ = style == ProgressStyle::kBar;
  lines_ = style == ProgressStyle::kLines;
}

Progress::~Progress() { Finish(); }

void Progress::Update(int64_t done, const std::string& note) {
  done_ = done;
  if (whole_) {
    const auto all = static_cast<double>(total_ - start_);
    return whole_->Show(all > 0 ? static_cast<double>(done_ - start_) / all : 0, title_);
  }
  if (!bar_ && !lines_) return;
  note_ = note;
  const auto now = Clock::now();
  const bool due = bar_ ? now - drawn_ >= kBarInterval && now - begin_ >= kBarDelay : now - drawn_ >= kLineInterval;
  if (!due) return;
  drawn_ = now;
  shown_ = true;
  Draw(false);
}

void Progress::Finish() {
  if (finished_) return;
  finished_ = true;
  if (shown_ && (bar_ || done_ != drawn_done_)) Draw(true);
}

void Progress::Draw(bool last) {
  drawn_done_ = done_;
  ProgressState state{
      title_, unit_, note_, done_, total_, start_, std::chrono::duration<double>(Clock::now() - begin_).count()};
  if (lines_) {
    WriteStderrLine(ProgressText(state) + "\n");
    return;
  }
  const std::string text = ProgressBarText(state, TerminalColumns());
  WriteStderrBar(text);
  if (last) EndStderrBar(/*keep=*/true);
}

namespace {
constexpr int64_t kParts = 1'000'000;  // of the whole
}

PhasedProgress::PhasedProgress(std::string title, std::vector<ProgressPhase> phases)
    : phases_(std::move(phases)), outer_(current_phases), bar_(std::move(title), kParts, "") {
  for (const ProgressPhase& phase : phases_) total_ += phase.work;
  current_phases = this;
}

PhasedProgress::~PhasedProgress() { current_phases = outer_; }

void PhasedProgress::Finish() {
  done_ = 1;
  bar_.Update(kParts);
}

void PhasedProgress::Begin(const std::string& title) {
  const auto is_it = [&](const ProgressPhase& phase) { return phase.title == title; };
  if (phase_ >= 0 && is_it(phases_[phase_])) {
    ++time_;
  } else if (const auto next = std::find_if(phases_.begin() + phase_ + 1, phases_.end(), is_it);
             next != phases_.end()) {
    phase_ = next - phases_.begin();
    time_ = 0;
  }
  Show(0, title);
}

// Short of the end: more may come than was expected.
void PhasedProgress::Show(double share, const std::string& title) {
  constexpr double kNearlyAll = 0.999;
  if (phase_ >= 0 && phases_[phase_].title == title) {
    double work = 0;
    for (int64_t before = 0; before < phase_; ++before) work += phases_[before].work;
    work += phases_[phase_].work * std::min(1.0, (time_ + std::clamp(share, 0.0, 1.0)) / phases_[phase_].times);
    done_ = std::max(done_, std::min(kNearlyAll, work / std::max(total_, 1e-9)));
  }
  bar_.Update(static_cast<int64_t>(done_ * kParts), title);
}

}  // namespace lshformer
