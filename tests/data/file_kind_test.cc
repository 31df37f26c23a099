#include "data/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <thread>
#include <utility>

#include "base/files.h"
#include "io/gzip.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;

TEST(FileKind, TheExtensionIsInLowerCaseAndWithoutGz) {
  EXPECT_EQ(DataExtension("runs.d/Train.TSV.gz"), "tsv");
  EXPECT_EQ(DataExtension("runs.d/train"), "");
  for (const char* name : {"A.JSONL.GZ", "a.json", "a.ndjson", "a.NDJSON.gz"}) EXPECT_TRUE(IsJsonLines(name)) << name;
  for (const char* name : {"a.txt", "json", "a.ndjson.txt"}) EXPECT_FALSE(IsJsonLines(name)) << name;
}

TEST(FileKind, ATableIsNoText) {
  for (const char* name : {"a.csv", "b/A.TSV", "a.Csv.gz"})
    EXPECT_THAT(ErrorOf([&] { RefuseTable(name); }), HasSubstr(std::string(name) + ": a table, expected plain text"));
  for (const char* name : {"a.txt", "csv", "-", "a.csv/b"}) EXPECT_NO_THROW(RefuseTable(name)) << name;
}

TEST(FileKind, RowsOfJsonAreToldByWhatTheFileBeginsWith) {
  testing::TempFolder folder;
  int number = 0;
  const auto holds = [&](const std::string& content) {
    return HoldsJson(folder.Write("file" + std::to_string(number++) + ".txt", content));
  };
  for (const char* rows :
       {"{\"text\": \"a\"}\n{\"text\"", "\xEF\xBB\xBF {\"a\": 1}", "[{\"text\": \"a\"}]", "\n [\n  {\n", "[[1, 2]]"})
    EXPECT_TRUE(holds(rows)) << rows;
  for (const char* text : {"", "\n", "a", "{", "{a brace} begins", "{\n  \"text\": \"a\"}", "[edit] a page", "[1]"})
    EXPECT_FALSE(holds(text)) << text;
  EXPECT_TRUE(HoldsJson(folder.Write("a.jsonl", "a")));
  EXPECT_FALSE(HoldsJson(folder / "missing"));
  const std::string long_row = "{\"text\": \"" + std::string(3'000'000, 'a') + "\"}\n";
  EXPECT_TRUE(holds(long_row + "{"));
  EXPECT_TRUE(holds(std::string(100'000, '\n') + "{}"));
}

// What a pipe begins with is looked at, and is there for whoever reads it.
TEST(FileKind, APipeIsLookedAtAndLosesNothing) {
  testing::TempFolder folder;
  const std::string pipe = folder / "pipe", row = "{\"text\": \"" + std::string(300'000, 'a') + "\"}\n";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const auto& [content, json] :
       {std::pair(row + "{\"text\": \"b\"}\n", true), std::pair(std::string("a {\nb\n"), false)}) {
    std::thread writer([&] { WriteFileAtomically(pipe, content); });
    EXPECT_EQ(HoldsJson(pipe), json);
    EXPECT_EQ(HoldsJson(pipe), json) << "asked again";
    LineReader lines(pipe);
    std::string all;
    for (std::string line; lines.Next(line);) all += line + "\n";
    writer.join();
    EXPECT_TRUE(all == content);
  }
}

// Whoever names a file for another program gets no file that it cannot read.
TEST(FileKind, AnOutputIsNotNamedAsAnotherKind) {
  const auto refused = [](const std::string& name) {
    return ErrorOf([&] { RefuseOtherKind(name, {"json", "jsonl"}, "lines of JSON (.jsonl, .json)"); });
  };
  for (const char* name : {"x.npz", "x.NPZ", "a.jsonl/x.csv", "x.parquet", "x.Safetensors", "x.bz2"})
    EXPECT_THAT(refused(name),
                HasSubstr(std::string(name) + ": another kind of file than what is written: lines of JSON"));
  for (const char* name : {"x.jsonl", "x.JSON", "x.txt", "x.out", "x", "-", "/dev/null", "x.2", "a.npy/x", "npy"})
    EXPECT_EQ(refused(name), "(nothing thrown)") << name;
}

}  // namespace
}  // namespace lshformer
