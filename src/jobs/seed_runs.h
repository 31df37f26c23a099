// One job with several seeds: as many runs, and a summary of their figures.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jobs/run_folder.h"

namespace lshformer {

// UsageError of the option where a file is stdin, a pipe or a device, which can be read only once, and `reader`, an
// option, would read it again. Others, also what is not there, pass.
using OptionFile = std::pair<std::string_view, std::string>;
void RequireReadAgain(const std::vector<OptionFile>& files, std::string_view reader);

// Calls run(folder, seed) once for each of folder.seeds, with an ordinary run folder, SeedFolder, then writes the
// summary and training_args.json, which makes them all again. With resume_from_checkpoint "auto" runs that are finished
// are left as they are and one that was stopped goes on; a summary of older runs goes once one of them is replaced.
// output_dir is locked meanwhile. With dry_run the plan of the first run and their number, "runs". Errors: those of
// OpenRunFolder; output_dir holds a single run, or nothing of such runs; resume_from_checkpoint names a folder.
using RunSeed = std::function<JobResult(const RunFolder& folder, uint64_t seed)>;
JobResult RunSeeds(const RunFolder& folder, const std::string& metric, bool dry_run, const RunSeed& run);

// The same of a job whose options have `folder`, `training` and `dry_run`; `files` is what each run reads.
template <class Options>
JobResult RunEachSeed(const Options& options, const std::vector<OptionFile>& files, JobResult (*run)(const Options&)) {
  RequireReadAgain(files, "seeds");
  const auto& training = options.training;
  const std::string metric = training.load_best_model_at_end ? training.metric_for_best_model : "";
  return RunSeeds(options.folder, metric, options.dry_run, [&](const RunFolder& folder, uint64_t seed) {
    Options one = options;
    one.folder = folder;
    one.training.seed = seed;
    return run(one);
  });
}

}  // namespace lshformer
