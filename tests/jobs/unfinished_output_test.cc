#include "jobs/predict/unfinished_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;

const Json kRecord{{"top_k", 5}, {"input digest", "a"}};

TEST(KeptLinesTest, AreTheWholeOnes) {
  const TempFolder folder;
  const std::string good = "{\"id\": \"\\\"}\", \"results\": []}\n", bad = "{\"id\": 2, \"error\": \"in:2: no\"}\n";
  const KeptLines kept = ReadKeptLines(folder.Write("out", good + bad + bad + good + "{\"id\": 5, \"error\": \"ha"));
  EXPECT_EQ(kept.lines, 4);
  EXPECT_EQ(kept.bad, 2);
  EXPECT_EQ(kept.first_error, "in:2: no");
  EXPECT_EQ(kept.last, good);
  EXPECT_FALSE(kept.last_is_bad);
  EXPECT_EQ(kept.bytes, static_cast<int64_t>(2 * good.size() + 2 * bad.size()));
  EXPECT_EQ(ReadKeptLines(folder.Write("out", "")).lines, 0);
  EXPECT_EQ(ReadKeptLines(folder.Write("out", "half")).bytes, 0);
}

// Wherever the pieces in which a file is read end.
TEST(KeptLinesTest, DoNotDependOnPieces) {
  const TempFolder folder;
  const size_t piece = size_t{1} << 20;
  for (size_t first = piece - 4; first <= piece + 1; ++first) {
    const std::string line = "{\"error\": \"" + std::string(first - 14, 'x') + "\"}\n";
    ASSERT_EQ(line.size(), first);
    const KeptLines kept = ReadKeptLines(folder.Write("out", line + "{\"results\": []}\n"));
    EXPECT_EQ(kept.lines, 2) << first;
    EXPECT_EQ(kept.bad, 1) << first;
    EXPECT_EQ(kept.last, "{\"results\": []}\n") << first;
  }
}

class UnfinishedOutputTest : public ::testing::Test {
 protected:
  // What a run leaves that is stopped: its lines in the output; or killed: in the folder beside it.
  void Leave(const std::string& lines, bool killed) const {
    UnfinishedOutput output(out_, PlaceOfOutput(out_));
    output.Begin(kRecord);
    output.Write(lines);
    output.Flush();
    if (killed)
      output.Keep();
    else
      output.Commit(/*whole=*/false);
  }
  bool NothingBeside() const {
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      if (entry.path() != out_) return false;
    return true;
  }

  const TempFolder folder_;
  const std::string out_ = folder_ / "out.jsonl";
};

TEST_F(UnfinishedOutputTest, GoesOnBehindWhatIsThere) {
  for (const bool killed : {false, true}) {
    Leave("{\"results\": [1]}\n{\"results\": [2]}\nhal", killed);
    EXPECT_EQ(fs::exists(out_), !killed);
    UnfinishedOutput output(out_, PlaceOfOutput(out_));
    EXPECT_EQ(output.Resume(kRecord).lines, 2);
    output.Write("{\"results\": [3]}\n");
    output.Commit(/*whole=*/true);
    EXPECT_EQ(folder_.Read("out.jsonl"), "{\"results\": [1]}\n{\"results\": [2]}\n{\"results\": [3]}\n");
    fs::remove(out_);
  }
  EXPECT_TRUE(NothingBeside());
}

TEST_F(UnfinishedOutputTest, AnotherRunIsRefusedAndTakesNothing) {
  for (const bool killed : {false, true}) {
    Leave("{\"results\": [1]}\n", killed);
    const auto resume = [&](const Json& record) {
      UnfinishedOutput output(out_, PlaceOfOutput(out_));
      return output.Resume(record).lines;
    };
    EXPECT_THAT(ErrorOf([&] {
                  resume({{"top_k", 3}, {"input digest", "a"}});
                }),
                HasSubstr("was begun with top_k 5, got 3"));
    EXPECT_THAT(ErrorOf([&] {
                  resume({{"top_k", 5}, {"input digest", "b"}});
                }),
                HasSubstr("was begun with another input"));
    EXPECT_EQ(resume(kRecord), 1);
    // A run that begins anew and never comes to write takes nothing either.
    {
      UnfinishedOutput output(out_, PlaceOfOutput(out_));
      output.Begin(kRecord);
    }
    EXPECT_EQ(resume(kRecord), 1);
    UnfinishedOutput(out_, PlaceOfOutput(out_)).Begin(kRecord);
    fs::remove_all(folder_ / ".lshformer-out.jsonl.predict");
    fs::remove(out_);
  }
}

// An option that only one of the two runs was given has no value to show.
TEST_F(UnfinishedOutputTest, AnOptionThatWasNotGivenIsSaidSo) {
  const auto refused = [&](const Json& begun, const Json& resumed) {
    {
      UnfinishedOutput output(out_, PlaceOfOutput(out_));
      output.Begin(begun);
      output.Write("{\"results\": [1]}\n");
      output.Keep();
    }
    return ErrorOf([&] { UnfinishedOutput(out_, PlaceOfOutput(out_)).Resume(resumed); });
  };
  EXPECT_THAT(refused({{"attention", ""}}, {{"attention", "simhash"}}),
              HasSubstr("was begun without attention, got \"simhash\"; resume"));
  EXPECT_THAT(refused({{"attention", "simhash"}}, {{"attention", ""}}),
              HasSubstr("was begun with attention \"simhash\", now without attention; resume"));
  EXPECT_THAT(refused({{"top_k", 1}}, {{"top_k", 1}, {"lsh_bands", 4}}),
              HasSubstr("was begun without lsh_bands, got 4;"));
  EXPECT_THAT(refused({{"top_k", 1}, {"lsh_bands", 4}}, {{"top_k", 1}}),
              HasSubstr("was begun with lsh_bands 4, now without lsh_bands;"));
}

TEST_F(UnfinishedOutputTest, WhatNobodyCanGoOnWithIsNotKept) {
  {
    UnfinishedOutput output(out_, PlaceOfOutput(out_));
    output.Begin(nullptr);
    output.Write("{\"results\": [1]}\n");
    EXPECT_FALSE(output.Keep());
  }
  EXPECT_TRUE(NothingBeside());
  UnfinishedOutput output(out_, PlaceOfOutput(out_));
  output.Begin(nullptr);
  output.Write("{\"results\": [1]}\n");
  output.Commit(/*whole=*/false);
  EXPECT_EQ(folder_.Read("out.jsonl"), "{\"results\": [1]}\n");
}

TEST_F(UnfinishedOutputTest, AWholeOutputStaysAsItIs) {
  folder_.Write("out.jsonl", "{\"results\": [1]}\n");
  const auto made = fs::last_write_time(out_);
  {
    UnfinishedOutput output(out_, PlaceOfOutput(out_));
    EXPECT_EQ(output.Resume(kRecord).lines, 1);
    output.Commit(/*whole=*/true);
  }
  EXPECT_EQ(fs::last_write_time(out_), made);
  EXPECT_TRUE(NothingBeside());
}

TEST_F(UnfinishedOutputTest, OneRunAtATime) {
  const UnfinishedOutput first(out_, PlaceOfOutput(out_));
  fs::create_symlink(out_, folder_ / "link.jsonl");
  for (const std::string& name : {out_, folder_ / "link.jsonl"})
    EXPECT_THAT(ErrorOf([&] { UnfinishedOutput(name, PlaceOfOutput(name)); }),
                AllOf(HasSubstr("output: "), HasSubstr("is in use by process")));
}

TEST_F(UnfinishedOutputTest, WhereNothingMayBeWrittenTheOutputIsNamed) {
  const std::string nowhere = folder_ / "none/out.jsonl";
  EXPECT_THAT(ErrorOf([&] { UnfinishedOutput(nowhere, PlaceOfOutput(nowhere)); }),
              HasSubstr("none/out.jsonl: cannot write: No such file"));
  EXPECT_FALSE(fs::exists(folder_ / "none"));
}

}  // namespace
}  // namespace lshformer
