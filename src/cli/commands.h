// One function per subcommand: declares its flags in groups and sets the callback that does the work.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/attention_spec.h"
#include "base/json.h"

namespace CLI {
class App;  // CLI/CLI.hpp takes seconds to compile; only files that declare flags need it
}

namespace lshformer::cli {

// Flags of every command, before or after its name.
struct CommonFlags {
  int threads = 0;  // 0: not given → cores
  std::string device = "cpu";
  uint64_t seed = 42;
  bool quiet = false, no_progress = false;
  std::string log_level = "warn", log_format = "text", isa = "auto";
};

void AddAttention(CLI::App& app, CommonFlags& common);
void AddBench(CLI::App& app, CommonFlags& common);
void AddEvaluate(CLI::App& app, CommonFlags& common);
void AddInfo(CLI::App& app, CommonFlags& common);
void AddInspect(CLI::App& app, CommonFlags& common);
void AddPredict(CLI::App& app, CommonFlags& common);
void AddPretrain(CLI::App& app, CommonFlags& common);
void AddQuickstart(CLI::App& app, CommonFlags& common);
void AddReport(CLI::App& app, CommonFlags& common);
void AddSynth(CLI::App& app, CommonFlags& common);
void AddTokenizer(CLI::App& app, CommonFlags& common);
void AddTrain(CLI::App& app, CommonFlags& common);
void AddTune(CLI::App& app, CommonFlags& common);

// --attention, --lsh_*: declared with AddAttentionFlags, laid over a model's own specs with Apply.
struct AttentionFlags {
  std::string attention;                         // type name or JSON object
  std::optional<std::string> bands, min_length;  // auto or N
  std::optional<int> hashes, table_size, window;
  std::optional<std::string> global;  // cls, sep, both or none
  std::optional<std::string> fill, pairs, resample;
  std::optional<bool> center_keys;
  std::optional<int> rounds, chunk, look_back, look_ahead;
  std::optional<std::string> buckets, scale;  // buckets: auto, N or N,M
  std::optional<bool> cross_bucket, wrap, causal, count_pairs_once;
  // Every --lsh_* without its prefix, with the value given or null: the one list of them.
  std::vector<std::pair<std::string, Json>> Keys() const;
  std::string FirstThatChangesWork() const;  // the first key given that changes what is computed; "" if none
  // The specs in force: --attention replaces each, --lsh_* then change single keys (an Error where the type has no such
  // key). A key that changes what `tune` measured drops its lengths.
  void Apply(std::vector<AttentionSpec>& specs) const;
};
void AddAttentionFlags(CLI::App& app, AttentionFlags& flags);

}  // namespace lshformer::cli
