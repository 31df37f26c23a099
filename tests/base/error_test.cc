#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

namespace lshformer {
namespace {

namespace fs = std::filesystem;

TEST(Errors, NameOptionsAsTheirUserSpellsThem) {
  try {
    FailOption("save_steps", "expected a multiple of {}, got {}", OptionName{"eval_steps"}, 3);
  } catch (const OptionError& error) {
    EXPECT_EQ(error.name(), "save_steps");
    EXPECT_STREQ(error.what(), "save_steps: expected a multiple of eval_steps, got 3");
    EXPECT_EQ(error.Spelled("--"), "--save_steps: expected a multiple of --eval_steps, got 3");
    EXPECT_EQ(error.Spelled(""), error.what());
  }
  const Error plain("dev.json: no answer -- at all");
  EXPECT_EQ(plain.Spelled("--"), plain.what());
  EXPECT_THROW(FailOption("seed", "expected a number"), UsageError);
  const Interrupted stopped(2, fmt::format("{} goes on", OptionName{"resume"}));
  EXPECT_STREQ(stopped.what(), "resume goes on");
  EXPECT_EQ(stopped.Spelled("--"), "--resume goes on");
}

// A line of source with a text that spells a flag. (Comments may; a page's style spells its own names so:
// "--ink: #111;", "var(--ink)".)
bool SpellsAFlag(std::string line) {
  line = line.substr(0, line.find("//"));
  if (line.find("--") == line.npos) return false;  // regular expressions take their time
  line = std::regex_replace(line, std::regex(R"re(var\(--|--[^ :]+: [^ ;]+;)re"), "");
  static const std::regex flag(R"re("[^"]*--([a-z_]{2}|\{))re");
  return std::regex_search(line, flag);
}

// Only the command line has flags; a server's users and those of the library have fields. quickstart tells commands to
// try next, and warnings of the jobs, which are logged as they stand, are for those who gave the flags.
TEST(Errors, BelowTheCommandLineNobodySpellsAFlag) {
  EXPECT_TRUE(SpellsAFlag("  FailUsage(\"--seed: expected {}\", x);"));
  EXPECT_TRUE(SpellsAFlag("  FailUsage(\"--{}: expected\", x);"));
  EXPECT_TRUE(SpellsAFlag("\"so give --seed\""));
  EXPECT_FALSE(SpellsAFlag("\"fill: var(--paper); --ink: {};\""));
  EXPECT_FALSE(SpellsAFlag("  --count;  // \"--seed\""));
  const fs::path source = fs::path(LSHFORMER_SOURCE_DIR) / "src";
  const std::set<std::string> of_the_command_line{"cli"};
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    const fs::path path = fs::relative(entry.path(), source);
    if (path.extension() != ".h" && path.extension() != ".cc") continue;
    if (of_the_command_line.contains(path.begin()->string()) || path.stem() == "quickstart") continue;
    std::ifstream lines(entry.path());
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      if (line.find("spdlog::warn(") != line.npos) continue;
      EXPECT_FALSE(SpellsAFlag(line)) << path.string() << ":" << number << ": " << line;
    }
    ++files;
  }
  EXPECT_GT(files, 50);
}

}  // namespace
}  // namespace lshformer
