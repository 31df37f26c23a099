// The map of the house is true: docs/architecture.md has the layers of src/CMakeLists.txt with their levels and what
// they depend on, its picture has their names, and every path that it names under "Where things are" is there. A path
// is named below src/ or below the root, with its ending or without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

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

std::string Read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The table's row of one layer, though the page may have several layers of one level in a row: "| 4 | `data` | `io` |".
std::vector<std::string> RowsOfPage(const std::string& page) {
  std::vector<std::string> rows;
  const std::regex row("\\n\\| (\\d+) \\| ([^|]+) \\| ([^|]+) \\|"), name("`[a-z]+`");
  for (std::sregex_iterator found(page.begin(), page.end(), row), end; found != end; ++found) {
    const std::string layers = (*found)[2];
    for (std::sregex_iterator layer(layers.begin(), layers.end(), name); layer != end; ++layer)
      rows.push_back("| " + (*found)[1].str() + " | " + layer->str() + " | " + (*found)[3].str() + " |");
  }
  return rows;
}

// The same from calls such as lshformer_layer(data LEVEL 4 DEPENDS text io USES zlib); base depends on nothing.
std::vector<std::string> RowsOfLayers(const std::string& cmake) {
  std::vector<std::string> rows;
  const std::regex call("lshformer_layer\\(([a-z]+) LEVEL (\\d+) DEPENDS ([a-z ]*[a-z])(?=[ \\n]+[A-Z]|\\))"),
      word("[a-z]+");
  for (std::sregex_iterator found(cmake.begin(), cmake.end(), call), end; found != end; ++found) {
    const std::string below = (*found)[3];
    std::string names;
    for (std::sregex_iterator one(below.begin(), below.end(), word); one != end; ++one)
      names += (names.empty() ? "`" : ", `") + one->str() + "`";
    rows.push_back("| " + (*found)[2].str() + " | `" + (*found)[1].str() + "` | " + names + " |");
  }
  return rows;
}

TEST(ArchitecturePage, HasTheLayers) {
  EXPECT_THAT(RowsOfLayers("lshformer_layer(a LEVEL 0)\nlshformer_layer(b LEVEL 1 DEPENDS a USES C)\n"
                           "lshformer_layer(d LEVEL 2 DEPENDS a b)"),
              ElementsAre("| 1 | `b` | `a` |", "| 2 | `d` | `a`, `b` |"));
  const fs::path root(LSHFORMER_SOURCE_DIR);
  const std::string cmake = Read(root / "src/CMakeLists.txt"), picture = Read(root / "docs/pictures/layers.svg");
  const std::vector<std::string> layers = RowsOfLayers(cmake);
  EXPECT_GT(layers.size(), 15U);
  EXPECT_THAT(RowsOfPage(Read(root / "docs/architecture.md")), UnorderedElementsAreArray(layers));
  const std::regex name("lshformer_layer\\(([a-z]+) LEVEL");
  for (std::sregex_iterator found(cmake.begin(), cmake.end(), name), end; found != end; ++found)
    EXPECT_THAT(picture, HasSubstr(">" + (*found)[1].str() + "</text>"));
}

TEST(ArchitecturePage, NamesPathsBetweenBackquotes) {
  EXPECT_THAT(NamedPaths("`a/b` and `c`, `d/<e>/f`\n- **x**: `g/h.cc` (`I/J k`), `recipes/NAME.json`, `l/`"),
              ElementsAre("a/b", "g/h.cc", "l/"));
}

TEST(ArchitecturePage, NamesPathsThatAreThere) {
  const fs::path root(LSHFORMER_SOURCE_DIR);
  const std::string text = Read(root / "docs/architecture.md");
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
