// What was written is read, and what a killed process left is not taken for more than it is.
#include "io/passage_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/parallel.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer::testing {
namespace {

constexpr int64_t kColumns = 3;

IndexFront Front() { return {kColumns, Json{{"pooling", "mean"}}, Json()}; }
std::vector<float> VectorOf(int64_t row) { return {static_cast<float>(row), 0.5F, -1.0F}; }

void WriteRows(PassageWriter& writer, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) writer.Write({row / 2, row + 10, 3, 7, 99}, VectorOf(row));
}

// An index of so many rows, in `folder`.
std::string Written(const TempFolder& folder, int64_t rows) {
  const std::string path = folder.path() + "/a.index";
  PassageWriter writer(path, Front(), 0);
  WriteRows(writer, 0, rows);
  writer.Flush();
  return path;
}

void ExpectRows(const PassageIndex& index, int64_t rows) {
  ASSERT_EQ(index.rows(), rows);
  for (int64_t row = 0; row < rows; ++row) {
    const Passage passage = index.passage(row);
    EXPECT_EQ(passage.document, row / 2);
    EXPECT_EQ(passage.line, row + 10);
    EXPECT_EQ(passage.start, 3);
    EXPECT_EQ(passage.end, 7);
    EXPECT_EQ(passage.digest, 99U);
    const float* vector = index.vectors() + row * index.stride();
    EXPECT_EQ(std::vector<float>(vector, vector + kColumns), VectorOf(row));
  }
}

std::string OpenError(const std::string& path) {
  try {
    const PassageIndex index(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// What no writer wrote is told by its row; what it wrote is fine.
TEST(PassageIndex, DamageIsFound) {
  const TempFolder folder;
  const std::string path = Written(folder, 5);
  PassageIndex(path).Check();
  const std::string whole = folder.Read("a.index");
  const auto error = [&](int64_t row, size_t offset, const auto& value) {
    std::string damaged = whole;
    damaged.replace(static_cast<size_t>(PassageIndex(path).bytes_of(row)) + offset, sizeof(value),
                    reinterpret_cast<const char*>(&value), sizeof(value));
    folder.Write("b.index", damaged);
    return ErrorOf([&] { PassageIndex(folder / "b.index").Check(); });
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(error(0, 0, int64_t{-1}), HasSubstr("b.index: is damaged at passage 1 of 5"));
  EXPECT_THAT(error(3, 0, int64_t{0}), HasSubstr("passage 4 of 5"));
  EXPECT_THAT(error(2, 8, int64_t{3}), HasSubstr("passage 3 of 5"));
  EXPECT_THAT(error(1, 16, int32_t{-3}), HasSubstr("passage 2 of 5"));
  EXPECT_THAT(error(1, 20, int32_t{2}), HasSubstr("passage 2 of 5"));
  EXPECT_THAT(error(4, kPassageHeadBytes + 4, std::numeric_limits<float>::quiet_NaN()), HasSubstr("passage 5 of 5"));
  // Any bit of a passage, its checksum or its vector.
  const auto row = static_cast<size_t>(PassageIndex(path).bytes_of(2));
  for (size_t offset = 0; offset < static_cast<size_t>(kPassageHeadBytes) + kColumns * sizeof(float); ++offset) {
    if (offset >= 40 && offset < static_cast<size_t>(kPassageHeadBytes)) continue;  // zeros that nobody reads
    for (int bit = 0; bit < 8; ++bit) {
      const auto flipped = static_cast<char>(whole[row + offset] ^ (1 << bit));
      EXPECT_THAT(error(2, offset, flipped), HasSubstr("passage 3 of 5")) << "byte " << offset << ", bit " << bit;
    }
  }
}

TEST(PassageIndex, DamageIsFoundOnAnyNumberOfThreads) {
  const TempFolder folder;
  const std::string path = Written(folder, 6000);
  std::string damaged = folder.Read("a.index");
  damaged.replace(static_cast<size_t>(PassageIndex(path).bytes_of(4500)), 1, "\x01");
  const std::string damaged_path = folder.Write("b.index", damaged);
  const int before = Threads();
  for (const int threads : {1, 4}) {
    SetThreads(threads);
    PassageIndex(path).Check();
    EXPECT_THAT(ErrorOf([&] { PassageIndex(damaged_path).Check(); }), ::testing::HasSubstr("passage 4501 of 6000"));
  }
  SetThreads(before);
}

TEST(PassageIndex, GrowsBehindWhatThereIs) {
  const TempFolder folder;
  const std::string path = folder.path() + "/a.index";
  {
    PassageWriter writer(path, Front(), 0);
    WriteRows(writer, 0, 5);
    writer.Complete({{"rows", 5}, {"documents", 3}, {"corpus", "abc"}});
  }
  {
    const PassageIndex index(path);
    ExpectRows(index, 5);
    EXPECT_EQ(index.front().columns, kColumns);
    EXPECT_EQ(index.front().settings, Front().settings);
    EXPECT_EQ(index.front().complete["corpus"], "abc");
  }
  {
    PassageWriter writer(path, Front(), 5);
    WriteRows(writer, 5, 9);
    writer.Flush();
    const PassageIndex index(path);  // a process that ends here leaves this
    ExpectRows(index, 9);
    EXPECT_EQ(index.front().complete["rows"], 5);
  }
  PassageWriter writer(path, Front(), 4);  // cut after four
  WriteRows(writer, 4, 6);
  writer.Complete({{"rows", 6}, {"documents", 3}, {"corpus", "abd"}});
  ExpectRows(PassageIndex(path), 6);
}

TEST(PassageIndex, RefusesOtherFiles) {
  const TempFolder folder;
  const std::string path = folder.path() + "/a.index";
  EXPECT_NE(OpenError(path).find("cannot open"), std::string::npos);
  WriteFileAtomically(path, "{}");
  EXPECT_EQ(OpenError(path), path + ": is no index of passages");
  WriteFileAtomically(path, std::string(kIndexFrontBytes, ' '));
  EXPECT_EQ(OpenError(path), path + ": is no index of passages");
  {
    PassageWriter writer(path, Front(), 0);
    WriteRows(writer, 0, 4);
    writer.Complete({{"rows", 4}, {"documents", 2}, {"corpus", "abc"}});
  }
  const std::string whole = ReadFile(path);
  WriteFileAtomically(path, whole.substr(0, whole.size() - 1));  // half a row is none
  EXPECT_EQ(OpenError(path), path + ": is cut: it has 3 passages of 4");
  std::string other = whole;
  other.replace(other.find("\"version\":2"), 11, "\"version\":7");
  WriteFileAtomically(path, other);
  EXPECT_NE(OpenError(path).find("is an index of version 7, this program has 2"), std::string::npos);
}

}  // namespace
}  // namespace lshformer::testing
