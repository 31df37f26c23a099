// Any bytes as a file of flags, and line by line as the words of a command line: words that CLI11 reads, or an Error of
// one line.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "fuzz/memory_file.h"
#include "fuzz/parses.h"

namespace {

using namespace lshformer;

// A flag of every kind; the program's own, a command's, a command's below another.
struct Program {
  int threads = 0;
  int64_t seed = 0;
  uint64_t size = 0;
  double rate = 0;
  bool verbose = false, wrap = false;
  std::string name;
  std::vector<std::string> files;
  std::vector<int> lengths;
  CLI::App app{"program"};

  Program() {
    app.add_option("--threads", threads, "");
    app.add_flag("--verbose", verbose, "");
    app.require_subcommand(1);
    CLI::App* run = app.add_subcommand("run", "");
    run->add_option("--seed", seed, "");
    run->add_option("--size", size, "");
    run->add_option("--rate", rate, "");
    run->add_option("--name", name, "");
    run->add_option("--wrap", wrap, "");
    run->add_option("--file", files, "");
    run->add_option("--lengths", lengths, "")->delimiter(',');
    CLI::App* bench = app.add_subcommand("bench", "");
    bench->require_subcommand(1);
    bench->add_subcommand("model", "")->add_option("folders", files, "");
  }
};

void CheckWords(const std::vector<std::string>& words) {
  Program program;
  std::vector<std::string> ordered;
  if (!testing::Parses([&] { ordered = cli::OrderArguments(program.app, words); })) return;
  try {
    program.app.parse(std::vector<std::string>(ordered.rbegin(), ordered.rend()));  // CLI11 takes words from the back
  } catch (const CLI::ConversionError&) {  // a number that is too large for its type
  } catch (const CLI::CallForHelp&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 14) return 0;
  const testing::MemoryFile file(data, size, "flags.json");
  CheckWords({"run", file.path()});
  CheckWords({"run", file.path(), "--seed", "5", "--file", "last"});
  std::vector<std::string> words;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (!rest.empty() && words.size() < 100) {
    const std::string_view word = rest.substr(0, rest.find('\n'));
    if (word.ends_with(".json")) return 0;  // no file of the machine is read
    words.emplace_back(word);
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  }
  CheckWords(words);
  return 0;
}
