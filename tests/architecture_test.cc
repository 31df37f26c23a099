// The map of the house is true: every path that docs/architecture.md names under "Where things are" is there. A path is
// named below src/ or below the root, with its ending or without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What stands between `backquotes` and has a slash, but for patterns such as `models/<family>/` and
// `recipes/NAME.json`.
std::vector<std::string> NamedPaths(const std::string& text) {
  std::vector<std::string> paths;
  for (size_t begin = text.find('`'); begin != std::string::npos; begin = text.find('`', begin)) {
    const size_t end = text.find('`', ++begin);
    if (end == std::string::npos) break;
    const std::string word = text.substr(begin, end - begin);
    if (word.find('/') != std::string::npos && word.find_first_of("<> ") == std::string::npos &&
        word.find("NAME") == std::string::npos)
      paths.push_back(word);
    begin = end + 1;
  }
  return paths;
}

bool IsThere(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) return true;
  const std::string stem = path.filename().string() + ".";
  for (const fs::directory_entry& entry : fs::directory_iterator(path.parent_path(), ignored))
    if (entry.path().filename().string().starts_with(stem)) return true;
  return false;
}

TEST(ArchitecturePage, NamesPathsBetweenBackquotes) {
  EXPECT_THAT(NamedPaths("`a/b` and `c`, `d/<e>/f`\n- **x**: `g/h.cc` (`I/J k`), `recipes/NAME.json`, `l/`"),
              ElementsAre("a/b", "g/h.cc", "l/"));
}

TEST(ArchitecturePage, NamesPathsThatAreThere) {
  const fs::path root(LSHFORMER_SOURCE_DIR);
  std::ifstream file(root / "docs/architecture.md");
  std::ostringstream page;
  page << file.rdbuf();
  const std::string text = page.str();
  const size_t begin = text.find("\n## Where things are\n");
  ASSERT_NE(begin, std::string::npos);
  const std::vector<std::string> paths = NamedPaths(text.substr(begin, text.find("\n## ", begin + 1) - begin));
  EXPECT_GT(paths.size(), 100U);
  std::vector<std::string> missing;
  for (const std::string& path : paths)
    if (!IsThere(root / "src" / path) && !IsThere(root / path)) missing.push_back(path);
  EXPECT_THAT(missing, IsEmpty());
}

}  // namespace
