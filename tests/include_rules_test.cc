// The house keeps its floors: a folder of src/ includes only folders of lower levels, never a sibling, and the layers
// below ops/ know nothing of libtorch and oneDNN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::map<std::string, int> kLevels{{"base", 0},  {"kernels", 1}, {"text", 1}, {"io", 1},     {"report", 1},
                                         {"data", 2},  {"ops", 2},     {"nn", 3},   {"models", 4}, {"eval", 5},
                                         {"infer", 5}, {"train", 5},   {"jobs", 6}, {"cli", 8}};

bool MayUseTorch(const std::string& layer) { return layer == "ops" || kLevels.at(layer) > kLevels.at("ops"); }

// What breaks the rules in one file of src/<layer>/, a line of text each.
std::vector<std::string> Violations(const std::string& layer, const std::string& text, const fs::path& source_folder) {
  std::vector<std::string> found;
  const std::regex include(R"re(^\s*#\s*include\s*([<"])([^">]+)[">])re");
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::smatch match;
    if (!std::regex_search(line, match, include)) continue;
    const std::string path = match[2], where = "line " + std::to_string(number) + ": " + path;
    const std::string folder = path.substr(0, path.find('/'));
    if (match[1] == "<") {
      const bool torch = folder == "torch" || folder == "ATen" || folder == "c10" || folder == "oneapi";
      if (torch && !MayUseTorch(layer)) found.push_back(where + " is libtorch's or oneDNN's, which begin at ops/");
      continue;
    }
    if (!fs::exists(source_folder / path)) {
      found.push_back(where + " is not a path below src/");
    } else if (folder != layer && (!kLevels.contains(folder) || kLevels.at(folder) >= kLevels.at(layer))) {
      found.push_back(where + " is not below " + layer);
    }
  }
  return found;
}

const fs::path kSource = fs::path(LSHFORMER_SOURCE_DIR) / "src";

TEST(IncludeRules, FindWhatBreaksThem) {
  EXPECT_THAT(Violations("io", "#include \"base/json.h\"\n#include <vector>\n", kSource), IsEmpty());
  EXPECT_THAT(Violations("io", "\n#include \"kernels/attention.h\"\n", kSource),
              ElementsAre("line 2: kernels/attention.h is not below io"));
  EXPECT_THAT(Violations("base", "#  include \"cli/commands.h\"", kSource), ElementsAre(HasSubstr("not below base")));
  EXPECT_THAT(Violations("base", "#include \"json.h\"", kSource), ElementsAre(HasSubstr("not a path below src/")));
  EXPECT_THAT(Violations("data", "#include <torch/torch.h>", kSource), ElementsAre(HasSubstr("begin at ops/")));
  EXPECT_THAT(Violations("nn", "#include <torch/torch.h>", kSource), IsEmpty());
}

TEST(IncludeRules, HoldInEverySource) {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kSource)) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cc") continue;
    const std::string layer = fs::relative(entry.path(), kSource).begin()->string();
    ASSERT_TRUE(kLevels.contains(layer)) << layer << " has no level";
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    for (const std::string& violation : Violations(layer, text.str(), kSource))
      ADD_FAILURE() << fs::relative(entry.path(), kSource).string() << ": " << violation;
    ++files;
  }
  EXPECT_GT(files, 50);  // the sources were found
}

}  // namespace
