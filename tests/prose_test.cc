// Prose in README, CONTRIBUTING and docs stays within 120 columns, so that it can be read in a terminal and in a diff.
// Tables and code may be wider: a table's row cannot be broken, and a command is copied as it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <istream>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kColumns = 120;

// Characters, not bytes: bytes of UTF-8 that go on with a character do not count.
size_t Columns(const std::string& line) {
  size_t count = 0;
  for (const char c : line) count += (static_cast<unsigned char>(c) & 0xC0U) != 0x80;
  return count;
}

// The numbers of the lines of prose that are too long, from 1.
std::vector<int> TooLong(std::istream& page) {
  std::vector<int> found;
  bool fenced = false;
  std::string line;
  for (int number = 1; std::getline(page, line); ++number) {
    const size_t text = line.find_first_not_of(' ');
    if (text != std::string::npos && line.compare(text, 3, "```") == 0) {
      fenced = !fenced;
    } else if (!fenced && text != std::string::npos && text < 4 && line[text] != '|' && Columns(line) > kColumns) {
      found.push_back(number);
    }
  }
  return found;
}

TEST(Prose, TooLongIsProseAlone) {
  const std::string wide(kColumns + 1, 'x'), accented = [] {
    std::string e;
    for (size_t i = 0; i < kColumns; ++i) e += "é";
    return e;
  }();
  std::istringstream page(wide + "\n" + wide.substr(1) + "\n" + accented + "\n- " + wide + "\n| " + wide + " |\n    " +
                          wide + "\n```\n" + wide + "\n```\n" + wide + "\n");
  EXPECT_THAT(TooLong(page), ElementsAre(1, 4, 10));
}

TEST(Prose, StaysWithinTheColumns) {
  const fs::path root(LSHFORMER_SOURCE_DIR);
  std::vector<fs::path> pages{root / "README.md", root / "CONTRIBUTING.md"};
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  ASSERT_GT(pages.size(), 10U);
  std::vector<std::string> found;
  for (const fs::path& path : pages) {
    std::ifstream page(path);
    for (const int line : TooLong(page)) found.push_back(path.string() + ":" + std::to_string(line));
  }
  EXPECT_THAT(found, IsEmpty()) << "lines of prose of more than " << kColumns << " columns";
}

}  // namespace
