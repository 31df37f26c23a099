#include "cli/report_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <new>

#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace lshformer::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ErrorLine, IsOneLineWhateverTheMessageHolds) {
  EXPECT_EQ(ErrorLine("a.txt:3: bad"), "lshformer: a.txt:3: bad\n");
  EXPECT_EQ(ErrorLine("größe → 中"), "lshformer: größe → 中\n");
  EXPECT_EQ(ErrorLine("a\nb\r\x1b[31m\x7f"), "lshformer: a\\x0Ab\\x0D\\x1B[31m\\x7F\n");
  EXPECT_EQ(ErrorLine("\xff\xc3"), "lshformer: \\xFF\\xC3\n");
}

// Every length and every place of a cut inside a character.
TEST(ErrorLine, IsAtMost300BytesOfUtf8) {
  for (const std::string piece : {"x", "ä", "中", "😀", "\n", "\xfe"}) {
    for (size_t shift = 0; shift < 4; ++shift) {
      std::string message(shift, '.');
      while (message.size() < 700) {
        message += piece;
        const std::string line = ErrorLine(message + "END");
        ASSERT_LE(line.size(), 300u);
        ASSERT_TRUE(IsValidUtf8(line)) << line;
        ASSERT_THAT(line, StartsWith("lshformer: "));
        ASSERT_THAT(line, EndsWith("END\n"));
        ASSERT_EQ(line.find('\n'), line.size() - 1);
      }
      EXPECT_THAT(ErrorLine(message), HasSubstr("…"));
      EXPECT_GE(ErrorLine(message).size(), 288u);  // no more is cut than must be
    }
  }
}

template <class Exception>
int StatusOf(const Exception& exception) {
  ::testing::internal::CaptureStderr();
  const int status = ReportError(std::make_exception_ptr(exception));
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(line, StartsWith("lshformer: "));
  EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
  return status;
}

// The library names options, the command line makes flags of them.
TEST(ReportError, SpellsOptionsAsFlags) {
  const auto line_of = [](std::exception_ptr error) {
    ::testing::internal::CaptureStderr();
    ReportError(error);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(line_of(std::make_exception_ptr(OptionError("top_k", "expected 1 to 5"))),
            "lshformer: --top_k: expected 1 to 5\n");
  EXPECT_EQ(line_of(std::make_exception_ptr(Error(fmt::format("a.json: give {}", OptionName{"task_name"})))),
            "lshformer: a.json: give --task_name\n");
}

TEST(ReportError, GivesEachKindItsStatus) {
  EXPECT_EQ(StatusOf(UsageError("flag")), 2);
  EXPECT_EQ(StatusOf(Error("file")), 1);
  EXPECT_EQ(StatusOf(Interrupted(SIGINT, "stopped")), 130);
  EXPECT_EQ(StatusOf(Interrupted(SIGTERM, "stopped")), 143);
  EXPECT_EQ(StatusOf(std::bad_alloc()), 1);
  EXPECT_EQ(StatusOf(std::runtime_error("libtorch: out of luck\nframe #0: 0xdead\nframe #1: …")), 1);
  EXPECT_EQ(StatusOf(42), 1);
}

TEST(ReportError, TellsNothingOfTheJsonLibrary) {
  const auto line_of = [](const std::function<void()>& work) {
    ::testing::internal::CaptureStderr();
    try {
      work();
    } catch (...) {
      EXPECT_EQ(ReportError(std::current_exception()), 1);
    }
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(line_of([] { Json("\xFF").dump(); }),
            "lshformer: a name or text that is not UTF-8 cannot be written as JSON\n");
  EXPECT_EQ(line_of([] { Json(1).get<std::string>(); }),
            "lshformer: a JSON value is not of the kind that was expected\n");
}

TEST(ReportError, LeavesStackTracesOut) {
  ::testing::internal::CaptureStderr();
  ReportError(std::make_exception_ptr(std::runtime_error("cause\nframe #0")));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "lshformer: cause\n");
}

}  // namespace
}  // namespace lshformer::cli
