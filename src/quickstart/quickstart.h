// `quickstart` and its pieces: what is measured, the folder it goes to, and how it is told.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "attention/spec.h"
#include "base/folder_lock.h"
#include "base/json.h"
#include "jobs/measure.h"
#include "kernels/cost.h"
#include "report/table.h"

namespace lshformer {

struct AttentionTiming {
  int64_t length = 0;
  Timing time;             // one forward: hashing, plan and execution
  AttentionCost cost;      // with the share of pairs that was measured
  int64_t work_bytes = 0;  // what the operator allocates
};

// One forward of each spec on the same random sequence, for each length. The specs take turns run by run, so that
// whatever else the machine does meets all of them. [specs][lengths]
std::vector<std::vector<AttentionTiming>> TimeAttention(const std::vector<AttentionSpec>& specs,
                                                        const std::vector<int64_t>& lengths, int heads, int head_dim,
                                                        uint64_t seed);

struct QuickstartJob {
  Json train, eval;              // as in train_results.json and eval_results.json; null: none
  Json history = Json::array();  // log_history
  double peak_mb = 0;            // of the whole process, while training
};

// One attention's way through the quickstart.
struct QuickstartSide {
  std::string name;  // for people; in lower case that of its folders
  AttentionSpec spec;
  std::vector<AttentionTiming> attention{};  // by length, ascending
  QuickstartJob pretrain{}, sentiment{}, questions{};
  Json conversion = nullptr;  // of one that was not trained but converted from the exact model: convert's report
};

struct QuickstartResult {
  QuickstartSide exact;
  std::vector<QuickstartSide> sparse;
  int heads = 2, head_dim = 64;
  std::string data, machine;          // one line each: what was trained on, and where
  std::vector<std::string> commands;  // to try next
  std::string report;                 // the page
};

struct QuickstartOptions {
  std::string output_dir = "quickstart";
  uint64_t seed = 42;
  bool progress = false;  // of its runs, as in PretrainOptions
  std::function<void(int stage, int stages, const std::string& what)> stage_begins = {};  // told each, from 1
};

// The main job on data made here: a BERT with exact, SimHash and Reformer attention from raw text to answers, side by
// side, and what clustered attention keeps of the exact one without training. Six to ten minutes on two cores. The
// folder gets models, data and report.html, in place of an older quickstart's; stopped or failed, it is left as it was.
// Error if it holds anything else.
QuickstartResult RunQuickstart(const QuickstartOptions& options);

// The BERT-LSH paper's Tables 1 to 4 in one: exact | SimHash | ratio | Reformer | ratio | …
Table QuickstartTable(const QuickstartResult& result);
// Two sentences, from the numbers alone: what this hashing gained, and what it cost.
std::string QuickstartSummary(const QuickstartResult& result, const QuickstartSide& sparse);
std::string QuickstartPage(const QuickstartResult& result);

// The output folder. Work goes to Work(name), inside the folder; Publish() puts it in place of what an older run left.
// Without Publish (a failure, a signal) the destructor removes the new work and leaves the older one untouched.
class QuickstartFolder {
 public:
  // Error if another process works in the folder, or if it holds anything while quickstart did not make it.
  explicit QuickstartFolder(const std::string& path);
  ~QuickstartFolder();
  QuickstartFolder(const QuickstartFolder&) = delete;
  QuickstartFolder& operator=(const QuickstartFolder&) = delete;
  std::string Work(const std::string& name) const;
  std::string Final(const std::string& name) const;
  void Publish();

 private:
  std::string path_, work_;
  FolderLock lock_;
};

// The largest resident set between construction and Megabytes(), looked at every few milliseconds: unlike the kernel's
// own maximum it can be taken for one piece of work.
class PeakMemory {
 public:
  PeakMemory();
  ~PeakMemory();
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;
  double Megabytes() const;  // 0 where /proc does not tell

 private:
  struct Watch;
  Watch* watch_;
};

}  // namespace lshformer
