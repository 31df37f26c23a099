#include "io/gzip.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using testing::TempFolder;

std::string Gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::vector<std::string> LinesOf(const std::string& path, const LineOptions& options = {}) {
  LineReader reader(path, options);
  std::vector<std::string> lines;
  for (std::string line; reader.Next(line);) {
    lines.push_back(line);
    EXPECT_EQ(reader.line_number(), static_cast<int64_t>(lines.size()));
  }
  std::string line;
  EXPECT_FALSE(reader.Next(line)) << "the end stays the end";
  return lines;
}

// Of another kind than text: at the first line, packed or not.
TEST(LineReader, ForeignContentIsRefused) {
  const TempFolder folder;
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 3\n";
  for (const std::string& text : {pointer, std::string("\xFF\xFEt\0h\0", 6), std::string("PK\x03\x04rest")}) {
    for (const std::string& written : {text, Gzip(text)}) {
      const std::string path = folder.Write("a.txt", written);
      EXPECT_THAT(ErrorOf([&] { LinesOf(path); }), HasSubstr("a.txt: is ")) << text;
      EXPECT_THAT(ErrorOf([&] { ReadText(path); }), HasSubstr("a.txt: is ")) << text;
    }
  }
  EXPECT_THAT(LinesOf(folder.Write("a.html", "<html>\n")), ElementsAre("<html>"));
}

// Every property holds for a plain file and for its gzip.
class LineReaderTest : public ::testing::TestWithParam<bool> {
 protected:
  std::string Write(const std::string& text) const { return folder_.Write("text", GetParam() ? Gzip(text) : text); }
  TempFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(PlainAndGzip, LineReaderTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Gzip" : "Plain"; });

TEST_P(LineReaderTest, EndsOfLinesAndFiles) {
  EXPECT_THAT(LinesOf(Write("")), IsEmpty());
  EXPECT_THAT(LinesOf(Write("a")), ElementsAre("a"));
  EXPECT_THAT(LinesOf(Write("a\n")), ElementsAre("a"));
  EXPECT_THAT(LinesOf(Write("\n")), ElementsAre(""));
  EXPECT_THAT(LinesOf(Write("a\n\nb")), ElementsAre("a", "", "b"));
  EXPECT_THAT(LinesOf(Write("a\r\nb\r\n\r\nc\rd\r")), ElementsAre("a", "b", "", "c\rd"));
  EXPECT_THAT(LinesOf(Write("a\r\r\nb\r\n"), {.strip_cr = false}), ElementsAre("a\r\r", "b\r"));
  EXPECT_THAT(LinesOf(Write(std::string("a\0b\n\0", 5))), ElementsAre(std::string("a\0b", 3), std::string("\0", 1)));
  EXPECT_THAT(LinesOf(Write("\xFE\xFD\n")), ElementsAre("\xFE\xFD"));  // bytes, not text
}

// Lines of all lengths around the chunk that is read at a time.
TEST_P(LineReaderTest, LinesAcrossChunks) {
  std::vector<std::string> lines;
  std::string text;
  for (const size_t length : {65534, 1, 65535, 0, 65536, 65537, 7, 200'000, 131'071, 131'072}) {
    lines.push_back(std::string(length, static_cast<char>('a' + lines.size())));
    text += lines.back() + (lines.size() % 2 ? "\n" : "\r\n");
  }
  EXPECT_EQ(LinesOf(Write(text)), lines);
}

TEST_P(LineReaderTest, ALineThatIsTooLongIsNamedAndSkipped) {
  const std::string path = Write("12345\n123456\n" + std::string(300'000, 'x') + "\n12345\r\n123456\r\nend");
  LineReader reader(path, {.longest = 5});
  std::vector<std::string> lines;
  for (int i = 0; i < 6; ++i) {
    std::string line;
    try {
      ASSERT_TRUE(reader.Next(line));
      lines.push_back(line);
    } catch (const LineTooLong& error) {
      lines.push_back(std::string(error.what()).substr(path.size()));
    }
  }
  EXPECT_THAT(lines, ElementsAre("12345", ":2: the line is longer than 5 bytes", ":3: the line is longer than 5 bytes",
                                 "12345", ":5: the line is longer than 5 bytes", "end"));
  std::string line;
  EXPECT_FALSE(reader.Next(line));
}

TEST_P(LineReaderTest, TooLongAtTheEndOfTheFile) {
  LineReader reader(Write("a\n" + std::string(100'000, 'x')), {.longest = 10});
  std::string line;
  EXPECT_TRUE(reader.Next(line));
  EXPECT_THROW(reader.Next(line), LineTooLong);
  EXPECT_FALSE(reader.Next(line));
}

TEST_P(LineReaderTest, TheLongestLineIsAllowed) {
  const std::string longest(size_t{64} << 20, 'x');
  EXPECT_EQ(LinesOf(Write(longest + "\r\nshort\n")), (std::vector<std::string>{longest, "short"}));
  LineReader reader(Write(longest + "y\nshort\n"));
  std::string line;
  EXPECT_THAT(ErrorOf([&] { reader.Next(line); }), HasSubstr(":1: the line is longer than 67108864 bytes"));
  EXPECT_TRUE(reader.Next(line));
  EXPECT_EQ(line, "short");
}

TEST_P(LineReaderTest, KnowsHowFarItIs) {
  const std::string path = Write("a\nb\n");
  LineReader reader(path);
  EXPECT_EQ(reader.bytes_total(), static_cast<int64_t>(folder_.Read("text").size()));
  std::string line;
  while (reader.Next(line)) EXPECT_TRUE(reader.Ready());
  EXPECT_EQ(reader.bytes_read(), reader.bytes_total());
  EXPECT_EQ(reader.where(), path + ":2");
}

TEST_P(LineReaderTest, ReadTextIsTheWholeFile) {
  const std::string text = "a\r\nb" + std::string(200'000, 'x');
  const std::string path = Write(text);
  EXPECT_EQ(ReadText(path), text);
  EXPECT_EQ(ReadText(path, text.size()), text);
  EXPECT_EQ(ErrorOf([&] { ReadText(path, text.size() - 1); }), path + ": has more than 200003 bytes");
}

TEST(LineReader, NamesWhatItCannotOpen) {
  TempFolder folder;
  EXPECT_EQ(ErrorOf([&] { LineReader reader(folder / "none"); }),
            folder / "none" + ": cannot open: No such file or directory");
  EXPECT_EQ(ErrorOf([&] { LineReader reader(folder.path()); }), folder.path() + ": is a folder, expected a file");
}

TEST(Gzip, MembersEndToEndAndPadding) {
  TempFolder folder;
  EXPECT_EQ(ReadText(folder.Write("two", Gzip("one\ntw") + Gzip("") + Gzip("o\n"))), "one\ntwo\n");
  EXPECT_EQ(ReadText(folder.Write("padded", Gzip("one\n") + std::string(10'000, '\0'))), "one\n");
  EXPECT_EQ(ReadText(folder.Write("padded2", Gzip("one\n") + std::string(100'000, '\0') + Gzip("two\n"))),
            "one\ntwo\n");
  for (const char* tail : {"garbage", "x", "\x1F", "\x1Fx"}) {
    const std::string path = folder.Write("tail", Gzip("one\n") + tail);
    EXPECT_EQ(ErrorOf([&] { ReadText(path); }), path + ": bytes after the gzip data are not gzip") << tail;
  }
}

TEST(Gzip, AMemberOfManyChunks) {
  TempFolder folder;
  std::string text;
  for (int64_t i = 0; i < 300'000; ++i) text += std::to_string(i * 7919) + "\n";
  EXPECT_EQ(ReadText(folder.Write("big", Gzip(text) + Gzip(text))), text + text);
}

TEST(Gzip, EveryTruncationIsAnError) {
  TempFolder folder;
  const std::string packed = Gzip("some lines\nof text\n");
  for (size_t size = 2; size < packed.size(); ++size) {
    const std::string path = folder.Write("cut", packed.substr(0, size));
    EXPECT_EQ(ErrorOf([&] { ReadText(path); }), path + ": the gzip data ends early (truncated file?)") << size;
  }
}

// The bits that pad the last byte of the packed data carry nothing; every other flip must be noticed.
TEST(Gzip, NoFlippedBitChangesTheTextUnnoticed) {
  TempFolder folder;
  const std::string text = "some lines\nof text\n", packed = Gzip(text);
  size_t noticed = 0;
  for (size_t i = 10; i < packed.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = packed;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      const std::string path = folder.Write("damaged", damaged);
      std::string got;
      const std::string error = ErrorOf([&] { got = ReadText(path); });
      EXPECT_TRUE(error.starts_with(path + ": ") || got == text) << i << " bit " << bit << ": " << error;
      noticed += got.empty();
    }
  EXPECT_GE(noticed, 8 * (packed.size() - 10) - 7);
}

// 128 MB of one line in 128 KB of gzip: refused by the limit of a line, not by the machine's memory.
TEST(Gzip, ABombIsALineThatIsTooLong) {
  TempFolder folder;
  std::string bomb;
  const std::string megabytes = Gzip(std::string(size_t{16} << 20, 'x'));
  for (int i = 0; i < 8; ++i) bomb += megabytes;
  LineReader reader(folder.Write("bomb.gz", bomb));
  std::string line;
  EXPECT_THROW(reader.Next(line), LineTooLong);
  EXPECT_FALSE(reader.Next(line));
}

TEST(LineReader, APipeGivesItsLinesAsTheyCome) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto send = [&](std::string_view text) {
    ASSERT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  };
  std::thread writer([&] {
    send("o");  // less than the two bytes that tell gzip
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    send("ne\ntw");
  });
  LineReader reader("/dev/fd/" + std::to_string(ends[0]));
  EXPECT_EQ(reader.bytes_total(), 0);
  std::string line;
  ASSERT_TRUE(reader.Next(line));  // before the pipe is closed
  EXPECT_EQ(line, "one");
  writer.join();
  send("o\nthree\n");
  ASSERT_TRUE(reader.Next(line));
  EXPECT_EQ(line, "two");
  EXPECT_TRUE(reader.Ready());
  ASSERT_TRUE(reader.Next(line));
  EXPECT_EQ(line, "three");
  EXPECT_FALSE(reader.Ready());
  close(ends[1]);
  EXPECT_TRUE(reader.Ready());  // the end is at hand
  EXPECT_FALSE(reader.Next(line));
  close(ends[0]);
}

TEST(LineReader, PipesAndDevicesCannotBeReadAgain) {
  testing::TempFolder folder;
  const std::string file = folder.Write("a.txt", "a"), pipe = folder / "pipe", link = folder / "link";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", link);
  for (const std::string& once : {std::string("-"), pipe, link, std::string("/dev/null")})
    EXPECT_FALSE(CanBeReadAgain(once)) << once;
  for (const std::string& again : {file, folder / "missing", std::string(folder / "")})
    EXPECT_TRUE(CanBeReadAgain(again)) << again;
}

TEST(LineReader, MinusIsStdin) {
  TempFolder folder;
  const std::string path = folder.Write("in.gz", Gzip("one\ntwo\n"));
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(path.c_str(), O_RDONLY), STDIN_FILENO);
    LineReader reader("-");
    std::string line;
    const bool good =
        reader.Next(line) && line == "one" && reader.where() == "stdin:1" && reader.Next(line) && line == "two";
    _exit(good && !reader.Next(line) ? 3 : 4);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

}  // namespace
}  // namespace lshformer
