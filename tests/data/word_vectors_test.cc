#include "data/word_vectors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WordVectorsTest : public ::testing::Test {
 protected:
  WordVectors Read(
      std::string_view text,
      const std::function<bool(std::string_view)>& wanted = [](std::string_view) { return true; }) {
    return ReadWordVectors(folder_.Write("vectors.txt", text), wanted);
  }
  std::string ErrorFor(std::string_view text) {
    const std::string error = ErrorOf([&] { Read(text); });
    const size_t place = error.find("vectors.txt");
    return place == error.npos ? error : error.substr(place);
  }
  const testing::TempFolder folder_;
};

TEST_F(WordVectorsTest, WithAHeaderAndWithout) {
  for (const char* text : {"a 1 -2.5\nb 0 1e-3\n", "2 2\na 1 -2.5\nb 0 1e-3\n", "2 2\r\na 1 -2.5 \r\nb 0 1e-3",
                           "\xEF\xBB\xBF"
                           "a 1 -2.5\nb 0 1e-3\n",
                           "\xEF\xBB\xBF"
                           "2 2\na 1 -2.5\nb 0 1e-3\n"}) {
    const WordVectors vectors = Read(text);
    EXPECT_EQ(vectors.width, 2);
    EXPECT_THAT(vectors.words, ElementsAre("a", "b"));
    EXPECT_THAT(vectors.values, ElementsAre(1.0f, -2.5f, 0.0f, 1e-3f));
  }
}

TEST_F(WordVectorsTest, KeepsWhatIsWanted) {
  const WordVectors vectors = Read("a 1 2\nb 3 4\nc 5 6\n", [](std::string_view word) { return word != "b"; });
  EXPECT_THAT(vectors.words, ElementsAre("a", "c"));
  EXPECT_THAT(vectors.values, ElementsAre(1, 2, 5, 6));
  EXPECT_THAT(Read("a 1 2\n", [](std::string_view) { return false; }).words, IsEmpty());
}

TEST_F(WordVectorsTest, WhatIsTooSmallIsZero) {
  EXPECT_THAT(Read("a 1e-50 -1e-999\nb 1e-44 2\n").values, ElementsAre(0.0f, -0.0f, 1e-44f, 2.0f));
}

TEST_F(WordVectorsTest, WordsMayHaveSpaces) {
  const WordVectors vectors = Read("a 1 2\n. . . 3 4\nat name@domain.com 5 6\n7 8 9\n");
  EXPECT_THAT(vectors.words, ElementsAre("a", ". . .", "at name@domain.com", "7"));
}

TEST_F(WordVectorsTest, BadFilesAreRefusedByLine) {
  EXPECT_THAT(ErrorFor(""), HasSubstr("vectors.txt: expected a word and its numbers a line, got an empty file"));
  EXPECT_THAT(ErrorFor("1 2\n"), HasSubstr("got the header alone"));
  EXPECT_THAT(ErrorFor("word\n"), HasSubstr("vectors.txt:1: expected a word and 1 to 8192 numbers, got 0"));
  EXPECT_THAT(ErrorFor("5 0\nword\n"), HasSubstr("vectors.txt:1: expected a word and 1 to 8192 numbers, got 0"));
  EXPECT_THAT(ErrorFor("a 0.5 2\nb 3\n"), HasSubstr("vectors.txt:2: expected a word and 2 numbers, got fewer"));
  EXPECT_THAT(ErrorFor("a 0.5 2\n 3 4\n"), HasSubstr("vectors.txt:2: expected a word and 2 numbers, got no word"));
  EXPECT_THAT(ErrorFor("a 0.5 2\n\n"), HasSubstr("vectors.txt:2: "));
  EXPECT_THAT(ErrorFor("a 0.5 2\nb 0.5 1.5 2\n"), HasSubstr("vectors.txt:2: expected a word and 2 numbers, got more"));
  EXPECT_THAT(ErrorFor("a 0.5 2\nb x 2\n"), HasSubstr("vectors.txt:2: expected a finite number, got \"x\""));
  for (const char* number : {"nan", "inf", "-inf", "1e39", "1e999", "", "0x1", "1,5"})
    EXPECT_THAT(ErrorFor(fmt::format("a 0.5 2\nb 1 {} 3\n", number)), HasSubstr("vectors.txt:2: expected")) << number;
  EXPECT_THAT(ErrorFor("a 0.5 2\nb 1 2\na 1 2\n"), HasSubstr("vectors.txt:3: \"a\" for the second time"));
  EXPECT_THAT(ErrorFor("a 0.5 2\n\xff 1 2\n"), HasSubstr("vectors.txt:2: expected UTF-8"));
  EXPECT_THAT(ErrorFor(std::string_view("a 0.5 2\nb\0 1 2\n", 16)),
              HasSubstr("vectors.txt:2: expected text, got a zero byte"));
  EXPECT_THAT(ErrorFor("3 2\na 1 2\nb 1 2\n"), HasSubstr("vectors.txt:3: expected 3 vectors as line 1 says, got 2"));
  EXPECT_THAT(ErrorFor("1 2\na 1 2\nb 1 2\n"), HasSubstr("expected 1 vectors as line 1 says, got 2"));
  EXPECT_THAT(ErrorOf([&] { ReadWordVectors(folder_ / "none", [](auto) { return true; }); }), HasSubstr("none"));
}

TEST_F(WordVectorsTest, WhatIsWrittenReadsBackAsItIs) {
  const WordVectors vectors{
      3, {"a", "é", ". ."}, {1.0f / 3, -0.0f, 1e-42f, std::numeric_limits<float>::max(), 1, 2, 3, 4, -5.25f}};
  const std::string path = folder_ / "written.txt";
  {
    AtomicFile file(path);
    WriteWordVectors(file, vectors);
    file.Commit();
  }
  EXPECT_THAT(folder_.Read("written.txt"), ::testing::StartsWith("3 3\na 0.33333334 -0 "));
  const WordVectors read = ReadWordVectors(path, [](std::string_view) { return true; });
  EXPECT_EQ(read.words, vectors.words);
  EXPECT_EQ(read.values, vectors.values);
  AtomicFile file(path);
  EXPECT_THAT(ErrorOf([&] { WriteWordVectors(file, {1, {"a\nb"}, {1}}); }), HasSubstr("a word must be one line"));
  EXPECT_THAT(ErrorOf([&] { WriteWordVectors(file, {1, {"a"}, {NAN}}); }), HasSubstr("is not finite"));
}

}  // namespace
}  // namespace lshformer
