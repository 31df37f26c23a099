// The house stays one in which things are found: no room of src/ has more files than a reader takes in at a glance, and
// no file more lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kMostFiles = 45;
constexpr int64_t kMostLines = 500;

// Folders of `root`, itself included, with more than `most` files of their own, a line of text each.
std::vector<std::string> CrowdedFolders(const std::vector<fs::path>& files, size_t most) {
  std::map<fs::path, size_t> counts;
  for (const fs::path& file : files) ++counts[file.parent_path()];
  std::vector<std::string> found;
  for (const auto& [folder, count] : counts)
    if (count > most) found.push_back(folder.string() + " has " + std::to_string(count) + " files");
  return found;
}

int64_t LinesOf(std::istream& text) {
  return std::count(std::istreambuf_iterator<char>(text), std::istreambuf_iterator<char>(), '\n');
}

// Paths below the project's folder of all files in `folder` and below it.
std::vector<fs::path> FilesBelow(const char* folder) {
  const fs::path project = LSHFORMER_SOURCE_DIR;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(project / folder))
    if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), project));
  return files;
}

TEST(SourceSizes, FindWhatIsTooLarge) {
  EXPECT_THAT(CrowdedFolders({"a/x", "a/y", "a/b/x", "a/b/y", "a/b/z"}, 2), ElementsAre("a/b has 3 files"));
  EXPECT_THAT(CrowdedFolders({"a/x", "a/y", "b/x"}, 2), IsEmpty());
  std::istringstream text("one\ntwo\nthree");
  EXPECT_EQ(LinesOf(text), 2);
}

TEST(SourceSizes, NoFolderIsCrowded) {
  const std::vector<fs::path> files = FilesBelow("src");
  EXPECT_THAT(files, Contains(fs::path("src/base/error.h"))) << "the sources were not read";
  EXPECT_THAT(CrowdedFolders(files, kMostFiles), IsEmpty());
}

TEST(SourceSizes, NoFileIsLong) {
  for (const char* folder : {"src", "tests", "examples"}) {
    for (const fs::path& file : FilesBelow(folder)) {
      if (file.extension() != ".h" && file.extension() != ".cc") continue;
      std::ifstream text(fs::path(LSHFORMER_SOURCE_DIR) / file);
      EXPECT_LE(LinesOf(text), kMostLines) << file.string();
    }
  }
}

}  // namespace
