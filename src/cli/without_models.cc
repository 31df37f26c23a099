// What the program `lshformer` has in place of all that runs models. libtorch brings 280 libraries, a third of a second
// of work before main; flags, help, errors in flags, tokenizers, reports and the attention operator do without. So
// there are two programs of the same sources: lshformer-models has libtorch, lshformer has this file, linked before the
// libraries. Every function that would run a model goes on in lshformer-models instead, with the same arguments, as if
// it had been called. That is sound because a command does nothing but read its flags before it calls one of these.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "base/signals.h"
#include "bench/attention.h"
#include "bench/dist.h"
#include "bench/model.h"
#include "bench/train.h"
#include "bench/tune.h"
#include "convert/convert.h"
#include "infer/pipeline.h"
#include "jobs/evaluate.h"
#include "jobs/inspect.h"
#include "jobs/model_info.h"
#include "jobs/predict/predict.h"
#include "jobs/pretrain.h"
#include "jobs/search/retrieval.h"
#include "jobs/search/search.h"
#include "jobs/train.h"
#include "jobs/use_matmul_precision.h"
#include "models/family.h"
#include "ops/threads.h"
#include "quickstart/quickstart.h"
#include "serve/serve.h"

namespace lshformer {
namespace {

std::vector<std::string> Arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// What a program writes on both its streams; "" where it cannot be started. A signal ends it.
std::string OutputOf(const std::string& program, std::vector<std::string> arguments,
                     std::vector<std::string> environment) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) posix_spawn_file_actions_adddup2(&streams, ends[1], stream);
  pid_t child = 0;
  const bool runs = posix_spawn(&child, program.c_str(), &streams, nullptr, Pointers(arguments).data(),
                                Pointers(environment).data()) == 0;
  posix_spawn_file_actions_destroy(&streams);
  close(ends[1]);
  std::string text;
  char some[4096];
  for (ssize_t got = 1; runs && got != 0;) {
    got = read(ends[0], some, sizeof(some));
    if (got > 0) text.append(some, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) break;
    if (StopSignal() != 0) kill(child, SIGKILL);
  }
  close(ends[0]);
  while (runs && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return text;
}

// Why the loader cannot bring the libraries of `program` together, in its own words; "" where it can. Asked in a
// fiftieth of a second to list them, where in earnest it would end the process with a line and a status of its own.
std::string LoaderError(const std::string& program) {
  std::vector<std::string> environment{"LD_TRACE_LOADED_OBJECTS=1"};
  for (char** variable = environ; *variable != nullptr; ++variable) environment.emplace_back(*variable);
  // An argument that does no harm where a loader does not know the variable.
  std::istringstream lines(OutputOf(program, {program, "--version"}, std::move(environment)));
  const std::string_view failed = "error while loading shared libraries: ", missing = " => not found";
  for (std::string line; std::getline(lines, line);) {
    if (const size_t at = line.find(failed); at != line.npos) return line.substr(at + failed.size());
    const size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
    if (line.ends_with(missing)) return line.substr(begin, line.size() - begin - missing.size()) + ": not found";
    if (line.find(" not found (required by ") != line.npos) return line.substr(begin);
  }
  return "";
}

// The process becomes lshformer-models, which stands where the installation put it beside this program.
[[noreturn]] void ContinueWithModels() {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string program = (self.parent_path() / LSHFORMER_MODELS_PROGRAM).lexically_normal().string();
  std::vector<std::string> arguments = Arguments();
  if (!arguments.empty()) arguments[0] = self.string();  // quickstart tells how to call the program
  if (const std::string error = LoaderError(program); !error.empty()) {
    rlimit space{};
    const bool limited = getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY;
    Fail(
        "{}: {}{}", program, error,
        limited ? fmt::format(" (ulimit -v leaves its libraries {} KiB of address space)", space.rlim_cur / 1024) : "");
  }
  // libtorch's own lines about connections that are tried; what matters of them becomes an error of ours.
  setenv("GLOG_minloglevel", "3", /*overwrite=*/0);
  setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);
  HoldStopSignals(true);  // until that program handles them
  ThrowIfStopped("starting");
  execv(program.c_str(), Pointers(arguments).data());
  Fail("{}: {}; the part of lshformer that runs models belongs there (cmake --install)", program, std::strerror(errno));
}

}  // namespace

void SetAllThreads(int threads) { SetThreads(threads); }
int MostOtherThreads(int threads) { return threads - 1; }
// The table of families has functions that build models; the help needs their names.
std::vector<std::string> ModelTypes() {
  std::istringstream names(LSHFORMER_MODEL_TYPES);
  return {std::istream_iterator<std::string>(names), {}};
}

BenchResult RunBenchAttention(const BenchAttentionOptions&) { ContinueWithModels(); }
Json RunBenchDist(const BenchDistOptions&) { ContinueWithModels(); }
BenchResult RunBenchModel(const BenchModelOptions&) { ContinueWithModels(); }
BenchResult RunBenchTrain(const BenchTrainOptions&) { ContinueWithModels(); }
ConvertResult RunConvert(const ConvertOptions&) { ContinueWithModels(); }
bool MeasuresQuestions(const ConvertOptions&) { ContinueWithModels(); }
Task CheckEvaluateJob(const EvaluateJob&) { ContinueWithModels(); }
Figures RunEvaluate(const EvaluateJob&) { ContinueWithModels(); }
void RunInspect(const InspectOptions&) { ContinueWithModels(); }
Json ModelInfo(const std::string&, const std::vector<int64_t>&, const AttentionChanges&) { ContinueWithModels(); }
Json NewModelInfo(const std::string&, const std::string&, const std::vector<int64_t>&, const AttentionChanges&) {
  ContinueWithModels();
}
PredictTask ParsePredictTask(const std::string&) { ContinueWithModels(); }
Pooling ParsePooling(const std::string&) { ContinueWithModels(); }
void RunPredict(const PredictJob&) { ContinueWithModels(); }
void CheckRetrievalJob(const RetrievalJob&) { ContinueWithModels(); }
Figures RunRetrieval(const RetrievalJob&) { ContinueWithModels(); }
void RunSearch(const SearchJob&, const std::function<void(const SearchAnswer&)>&) { ContinueWithModels(); }
void UseMatmulPrecision(MatmulPrecision) { ContinueWithModels(); }
JobResult RunPretrain(const PretrainOptions&) { ContinueWithModels(); }
QuickstartResult RunQuickstart(const QuickstartOptions&) { ContinueWithModels(); }
Table QuickstartTable(const QuickstartResult&) { ContinueWithModels(); }
std::string QuickstartSummary(const QuickstartResult&, const QuickstartSide&) { ContinueWithModels(); }
void RunServe(const ServeOptions&) { ContinueWithModels(); }
JobResult RunTrain(const TrainOptions&) { ContinueWithModels(); }
TuneResult RunTune(const TuneOptions&) { ContinueWithModels(); }
Json ToJson(const TuneResult&) { ContinueWithModels(); }

}  // namespace lshformer
