#include "base/growing_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/digest.h"
#include "base/files.h"
#include "base/writing.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;

TEST(GrowingFileTest, AnotherProcessGoesOnBehindWhatWasFlushed) {
  const TempFolder folder;
  {
    GrowingFile file(folder / "lines", "out", 0);
    file.Write("one\ntwo\nha");
    file.Flush();
    file.Write("never seen");
  }
  EXPECT_EQ(folder.Read("lines"), "one\ntwo\nha");
  const std::string large(size_t{1} << 19, 'x');  // more than is held back
  GrowingFile file(folder / "lines", "out", 8);
  file.Write("three\n");
  file.Write(large);
  file.WriteBeginning("ONE");
  file.Write("\nend");
  file.MoveTo(folder / "out");
  EXPECT_EQ(folder.Read("out"), "ONE\ntwo\nthree\n" + large + "\nend");
  EXPECT_FALSE(fs::exists(folder / "lines"));
}

TEST(GrowingFileTest, TakesOverThePermissionsOfWhatItReplaces) {
  const TempFolder folder;
  folder.Write("out", "old");
  chmod((folder / "out").c_str(), 0640);
  GrowingFile file(folder / "lines", "out", 0);
  file.Write("new");
  file.MoveTo(folder / "out");
  EXPECT_EQ(folder.Read("out"), "new");
  EXPECT_EQ(fs::status(folder / "out").permissions(), static_cast<fs::perms>(0640));
}

TEST(GrowingFileTest, ErrorsNameWhatItIsToBecome) {
  const TempFolder folder;
  EXPECT_THAT(ErrorOf([&] { GrowingFile(folder / "none/lines", "answers.jsonl", 0); }),
              HasSubstr("answers.jsonl: cannot write: No such file"));
  // A link that somebody left there is not followed.
  fs::create_symlink(folder / "elsewhere", folder / "lines");
  EXPECT_THAT(ErrorOf([&] { GrowingFile(folder / "lines", "answers.jsonl", 0); }), HasSubstr("answers.jsonl"));
  EXPECT_FALSE(fs::exists(folder / "elsewhere"));
}

TEST(InputAsOutputTest, IsRefusedWhateverItsNamesAre) {
  const auto same = [](const std::string& input, const std::string& output) {
    return ErrorOf([&] { RefuseInputAsOutput("input", input, output); }).find("is the file of input too") !=
           std::string::npos;
  };
  const TempFolder folder;
  const std::string file = folder.Write("a", "text"), equal = folder.Write("b", "text");
  fs::create_symlink(file, folder / "link");
  fs::create_hard_link(file, folder / "hard");
  for (const std::string& name :
       {file, folder / "link", folder / "hard", folder / "../" + fs::path(folder.path()).filename().string() + "/a"}) {
    EXPECT_TRUE(same(file, name)) << name;
    EXPECT_TRUE(same(name, file)) << name;
  }
  EXPECT_FALSE(same(file, equal));
  EXPECT_FALSE(same(file, folder / "none"));
  EXPECT_FALSE(same("/dev/null", "/dev/null"));
}

// Any byte that differs, at the borders of words and pieces too, and the same bytes over other files.
TEST(DigestTest, TellsFilesApart) {
  const TempFolder folder;
  std::set<std::string> digests;
  size_t files = 0;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{31}, size_t{32}, size_t{33}, (size_t{1} << 20) - 1,
                            size_t{1} << 20, (size_t{1} << 20) + 1}) {
    std::string bytes(size, 'a');
    digests.insert(DigestOfFiles({folder.Write("a", bytes)}));
    EXPECT_EQ(DigestOfFiles({folder.Write("b", bytes)}), DigestOfFiles({folder / "a"}));
    ++files;
    for (const size_t place : {size_t{0}, size / 2, size - 1}) {
      if (size < 3) continue;
      std::string other = bytes;
      other[place] = 'b';
      digests.insert(DigestOfFiles({folder.Write("a", other)}));
      ++files;
    }
  }
  EXPECT_EQ(digests.size(), files);
  const std::string one = folder.Write("one", "ab"), two = folder.Write("two", "c");
  const std::string left = folder.Write("left", "a"), right = folder.Write("right", "bc");
  EXPECT_NE(DigestOfFiles({one, two}), DigestOfFiles({left, right}));
  EXPECT_NE(DigestOfFiles({one, two}), DigestOfFiles({two, one}));
  EXPECT_EQ(DigestOfFiles({one}).size(), 32u);
  EXPECT_THAT(ErrorOf([&] { DigestOfFiles({folder / "none"}); }), HasSubstr("none: cannot open"));
}

}  // namespace
}  // namespace lshformer
