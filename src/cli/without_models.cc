// What the program `lshformer` has in place of all that runs models. libtorch brings 280 libraries, a third of a second
// of work before main; flags, help, errors in flags, tokenizers, reports and the attention operator do without. So
// there are two programs of the same sources: lshformer-models has libtorch, lshformer has this file, linked before the
// libraries. Every function that would run a model goes on in lshformer-models instead, with the same arguments, as if
// it had been called. That is sound because a command does nothing but read its flags before it calls one of these.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "base/signals.h"
#include "infer/pipeline.h"
#include "jobs/bench_attention.h"
#include "jobs/bench_model.h"
#include "jobs/bench_train.h"
#include "jobs/convert.h"
#include "jobs/evaluate.h"
#include "jobs/float32_products.h"
#include "jobs/inspect.h"
#include "jobs/model_info.h"
#include "jobs/predict.h"
#include "jobs/pretrain.h"
#include "jobs/quickstart.h"
#include "jobs/train.h"
#include "jobs/tune.h"
#include "models/family.h"
#include "ops/threads.h"

namespace lshformer {
namespace {

std::vector<std::string> Arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

// The process becomes lshformer-models, which stands where the installation put it beside this program.
[[noreturn]] void ContinueWithModels() {
  HoldStopSignals(true);  // loading libtorch takes a third of a second
  ThrowIfStopped("starting");
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string program = (self.parent_path() / LSHFORMER_MODELS_PROGRAM).lexically_normal().string();
  std::vector<std::string> arguments = Arguments();
  if (!arguments.empty()) arguments[0] = self.string();  // quickstart tells how to call the program
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  Fail("{}: {}; the part of lshformer that runs models belongs there (cmake --install)", program, std::strerror(errno));
}

}  // namespace

void SetAllThreads(int threads) { SetThreads(threads); }
// The table of families has functions that build models; the help needs their names.
std::vector<std::string> ModelTypes() {
  std::istringstream names(LSHFORMER_MODEL_TYPES);
  return {std::istream_iterator<std::string>(names), {}};
}

BenchResult RunBenchAttention(const BenchAttentionOptions&) { ContinueWithModels(); }
BenchResult RunBenchModel(const BenchModelOptions&) { ContinueWithModels(); }
BenchResult RunBenchTrain(const BenchTrainOptions&) { ContinueWithModels(); }
ConvertResult RunConvert(const ConvertOptions&) { ContinueWithModels(); }
bool MeasuresQuestions(const ConvertOptions&) { ContinueWithModels(); }
Task CheckEvaluateJob(const EvaluateJob&) { ContinueWithModels(); }
Json RunEvaluate(const EvaluateJob&) { ContinueWithModels(); }
void RunInspect(const InspectOptions&) { ContinueWithModels(); }
Json ModelInfo(const std::string&, const std::vector<int64_t>&, const AttentionChanges&) { ContinueWithModels(); }
PredictTask ParsePredictTask(const std::string&) { ContinueWithModels(); }
Pooling ParsePooling(const std::string&) { ContinueWithModels(); }
void RunPredict(const PredictJob&) { ContinueWithModels(); }
void UseMatmulPrecision(MatmulPrecision) { ContinueWithModels(); }
JobResult RunPretrain(const PretrainOptions&) { ContinueWithModels(); }
QuickstartResult RunQuickstart(const QuickstartOptions&) { ContinueWithModels(); }
Table QuickstartTable(const QuickstartResult&) { ContinueWithModels(); }
std::string QuickstartSummary(const QuickstartResult&, const QuickstartSide&) { ContinueWithModels(); }
JobResult RunTrain(const TrainOptions&) { ContinueWithModels(); }
TuneResult RunTune(const TuneOptions&) { ContinueWithModels(); }
Json ToJson(const TuneResult&) { ContinueWithModels(); }

}  // namespace lshformer
