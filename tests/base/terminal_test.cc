// What reaches stderr: log lines, progress lines and the bar.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/logging.h"
#include "base/progress.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using testing::TempFolder;
using namespace std::chrono_literals;

// What `action` writes to stderr, in a child so that levels and styles do not leak into other tests.
template <class Action>
std::string StderrOf(const Action& action) {
  TempFolder folder;
  const std::string path = folder.Write("stderr", "");
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(path.c_str(), O_WRONLY | O_APPEND), STDERR_FILENO);
    action();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return folder.Read("stderr");
}

// A chroot or container may have no /dev/pts.
bool HasTerminals() {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0) return false;
  close(terminal);
  return true;
}

// The same with a terminal of 60 columns as stderr.
template <class Action>
std::string TerminalOutputOf(const Action& action) {
  int terminal = -1;
  winsize size{.ws_row = 20, .ws_col = 60, .ws_xpixel = 0, .ws_ypixel = 0};
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    action();
    _exit(0);
  }
  EXPECT_GT(child, 0) << std::strerror(errno);
  if (child < 0) return "";
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(terminal, buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(got));
  int status = 0;
  waitpid(child, &status, 0);
  close(terminal);
  EXPECT_EQ(status, 0);
  return text;
}

TEST(Logging, TextIsOneLineAMessage) {
  EXPECT_EQ(StderrOf([] {
              SetUpLogging("warn", LogFormat::kText);
              spdlog::info("not shown");
              spdlog::warn("a {} line", 2);
              spdlog::error("two\nlines \x1B[31m\xFF");
            }),
            "lshformer: warning: a 2 line\nlshformer: error: two\\x0Alines \\x1B[31m\\xFF\n");
}

TEST(Logging, JsonIsOneObjectAMessage) {
  const std::string text = StderrOf([] {
    SetUpLogging("info", LogFormat::kJson);
    spdlog::debug("not shown");
    spdlog::info("quote \" and\nline \xFF");
  });
  ASSERT_EQ(text.find('\n'), text.size() - 1);
  const Json line = ParseJson(text, "stderr");
  EXPECT_EQ(line.size(), 3u);
  EXPECT_EQ(line["level"], "info");
  EXPECT_EQ(line["message"], "quote \" and\nline \uFFFD");
  EXPECT_THAT(line["time"].get<std::string>(),
              MatchesRegex("20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]\\.[0-9][0-9][0-9]Z"));
}

TEST(Logging, LevelsAndTypos) {
  EXPECT_EQ(StderrOf([] {
              SetUpLogging("off", LogFormat::kText);
              spdlog::critical("not shown");
            }),
            "");
  EXPECT_EQ(ErrorOf([] { SetUpLogging("wran", LogFormat::kText); }),
            "log_level: expected trace, debug, info, warn, error or off, got \"wran\" (did you mean \"warn\"?)");
  EXPECT_THROW(SetUpLogging("", LogFormat::kText), UsageError);
}

TEST(ProgressText, RateTimeLeftAndNote) {
  ProgressState state{.title = "train", .unit = "steps", .note = "loss 5.3", .done = 340, .total = 1000, .seconds = 34};
  EXPECT_EQ(ProgressText(state), "train 340/1000 steps (34 %), 10.0 steps/s, 1:06 left, loss 5.3");
  state.start = 170;  // resumed: only 170 steps took the 34 s
  EXPECT_EQ(ProgressText(state), "train 340/1000 steps (34 %), 5.0 steps/s, 2:12 left, loss 5.3");
  state.note = "";
  state.bar_width = 10;
  EXPECT_THAT(ProgressText(state), StartsWith("train [###.......] 340/1000"));
  state.done = 1000;
  EXPECT_THAT(ProgressText(state), ::testing::EndsWith("steps/s, 0:34"));
  state.total = 0;  // unknown
  EXPECT_EQ(ProgressText(state), "train 1000 steps, 24.4 steps/s");
  state.done = state.start;
  EXPECT_EQ(ProgressText(state), "train 170 steps");
}

TEST(ProgressText, OfAShareAlone) {
  EXPECT_EQ(ProgressText(
                {.title = "converting", .unit = "", .note = "directions", .done = 250, .total = 1000, .seconds = 30}),
            "converting 25 %, 1:30 left, directions");
}

// Each phase moves the whole by its work, one that does not come is passed over, and nothing goes back.
TEST(PhasedProgress, SharesOfTheWhole) {
  PhasedProgress whole("all", {{"a", 1}, {"b", 4, 2}, {"c", 3}, {"d", 2}});
  {
    Progress a("a", 10, "texts");
    a.Update(5);
    EXPECT_DOUBLE_EQ(whole.done(), 0.05);
  }
  for (const double begun : {0.1, 0.3}) {
    Progress b("b", 4, "texts");
    EXPECT_DOUBLE_EQ(whole.done(), begun);
    b.Update(4);
    EXPECT_DOUBLE_EQ(whole.done(), begun + 0.2);
  }
  {
    Progress more("b", 4, "texts"), other("nobody knows it", 4, "texts");
    more.Update(1);
    other.Update(3);
    EXPECT_DOUBLE_EQ(whole.done(), 0.5);
  }
  Progress d("d", 4, "texts");
  d.Update(2);
  EXPECT_DOUBLE_EQ(whole.done(), 0.9);
  d.Update(4);
  EXPECT_LT(whole.done(), 1);
  whole.Finish();
  EXPECT_EQ(whole.done(), 1);
}

TEST(ProgressText, MoreThanTheTotalDoesNotBreakTheBar) {
  EXPECT_THAT(
      ProgressText({.title = "t", .unit = "u", .note = "", .done = 30, .total = 10, .seconds = 1, .bar_width = 4}),
      StartsWith("t [####] 30/10 u (100 %)"));
}

TEST(ProgressText, TheBarMakesRoomForTheFigures) {
  const ProgressState state{
      .title = "fine-tuning", .unit = "step", .note = "loss 0.1234", .done = 1340, .total = 63150, .seconds = 34};
  EXPECT_THAT(ProgressBarText(state, 200), StartsWith("fine-tuning [" + std::string(30, '.') + "] 1340/63150 step"));
  const std::string narrow = ProgressBarText(state, 80);
  EXPECT_LT(narrow.size(), 80u);
  EXPECT_THAT(narrow, ::testing::EndsWith("left, loss 0.1234"));
  EXPECT_THAT(ProgressBarText(state, 95), ::testing::AllOf(HasSubstr("[....."), ::testing::EndsWith("loss 0.1234")));
  EXPECT_EQ(ProgressBarText(state, 20), "fine-tuning 1340/63");
  EXPECT_EQ(ProgressBarText(state, 0), "");
}

TEST(DurationText, Clock) {
  EXPECT_EQ(DurationText(0.2), "0:00");
  EXPECT_EQ(DurationText(59.6), "1:00");
  EXPECT_EQ(DurationText(725), "12:05");
  EXPECT_EQ(DurationText(3 * 3600 + 7 * 60 + 9), "3:07:09");
  EXPECT_EQ(DurationText(-1), "0:00");
  EXPECT_EQ(DurationText(1e300), "277777:46:40");
}

void ShortWork() {
  SetProgressStyle(ProgressStyle::kAuto);
  Progress progress("work", 100, "steps");
  for (int i = 0; i <= 100; ++i) progress.Update(i);
}

void WorkUntold() {
  Progress progress("work", 8, "steps");
  for (int i = 1; i <= 8; ++i) {
    std::this_thread::sleep_for(110ms);
    progress.Update(i, "note");
  }
}

void LongWork() {
  SetProgressStyle(ProgressStyle::kAuto);
  WorkUntold();
}

TEST(Progress, ShortWorkAndOffLeaveNothing) {
  EXPECT_EQ(StderrOf(ShortWork), "");
  EXPECT_EQ(StderrOf(LongWork), "");  // lines come every five seconds
}

TEST(Progress, ShortWorkAndOffLeaveNothingOnATerminal) {
  if (!HasTerminals()) GTEST_SKIP() << "no pseudo-terminals here: /dev/pts is not mounted";
  EXPECT_EQ(TerminalOutputOf(ShortWork), "");
  EXPECT_EQ(TerminalOutputOf([] {
              SetProgressStyle(ProgressStyle::kOff);
              WorkUntold();
            }),
            "");
  EXPECT_EQ(TerminalOutputOf(WorkUntold), "") << "nobody asked for it";
}

TEST(Progress, ABarThatRedrawsItselfOnATerminal) {
  if (!HasTerminals()) GTEST_SKIP() << "no pseudo-terminals here: /dev/pts is not mounted";
  const std::string text = TerminalOutputOf(LongWork);
  EXPECT_THAT(text, StartsWith("\r\033[Kwork ["));
  EXPECT_THAT(text, HasSubstr("8/8 steps (100 %)"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);  // only the end ends the line
  size_t begin = 0;
  for (size_t end; (end = text.find("\r\033[K", begin + 1)) != text.npos; begin = end)
    EXPECT_LE(end - begin, 4u + 59u) << "a wrapped line cannot be wiped";
}

TEST(Progress, LogLinesDoNotTearTheBar) {
  if (!HasTerminals()) GTEST_SKIP() << "no pseudo-terminals here: /dev/pts is not mounted";
  const std::string text = TerminalOutputOf([] {
    SetUpLogging("warn", LogFormat::kText);
    SetProgressStyle(ProgressStyle::kAuto);
    Progress progress("work", 100, "steps");
    std::this_thread::sleep_for(600ms);
    progress.Update(50);
    spdlog::warn("careful");
  });
  EXPECT_THAT(text, HasSubstr("\r\033[Klshformer: warning: careful\r\n"));
}

}  // namespace
}  // namespace lshformer
