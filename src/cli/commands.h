// One function per subcommand: declares its flags in groups and sets the callback that does the work.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attention/spec_changes.h"
#include "base/json.h"

namespace CLI {
class App;  // CLI/CLI.hpp takes seconds to compile; only files that declare flags need it
}

namespace lshformer::cli {

// Flags of every command, before or after its name.
struct CommonFlags {
  int threads = 0;  // 0: not given → cores
  uint64_t seed = 42;
  bool quiet = false, no_progress = false;
  std::string log_level = "warn", log_format = "text", isa = "auto";
};

void AddAttention(CLI::App& app, CommonFlags& common);
void AddBench(CLI::App& app, CommonFlags& common);
void AddConvert(CLI::App& app, CommonFlags& common);
void AddEvaluate(CLI::App& app, CommonFlags& common);
void AddInfo(CLI::App& app, CommonFlags& common);
void AddInspect(CLI::App& app, CommonFlags& common);
void AddPredict(CLI::App& app, CommonFlags& common);
void AddPretrain(CLI::App& app, CommonFlags& common);
void AddQuickstart(CLI::App& app, CommonFlags& common);
void AddReport(CLI::App& app, CommonFlags& common);
void AddReproduce(CLI::App& app, CommonFlags& common);
void AddSearch(CLI::App& app, CommonFlags& common);
void AddServe(CLI::App& app, CommonFlags& common);
void AddSynth(CLI::App& app, CommonFlags& common);
void AddTokenizer(CLI::App& app, CommonFlags& common);
void AddTrain(CLI::App& app, CommonFlags& common);
void AddTune(CLI::App& app, CommonFlags& common);

// --attention and --lsh_*.
void AddAttentionFlags(CLI::App& app, AttentionChanges& flags);

}  // namespace lshformer::cli
