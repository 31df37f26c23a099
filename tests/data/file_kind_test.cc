#include "data/file_kind.h"

#include <gtest/gtest.h>

#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;

TEST(FileKind, TheExtensionIsInLowerCaseAndWithoutGz) {
  EXPECT_EQ(DataExtension("runs.d/Train.TSV.gz"), "tsv");
  EXPECT_EQ(DataExtension("runs.d/train"), "");
  EXPECT_TRUE(IsJsonLines("A.JSONL.GZ"));
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
