#include "cli/program.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "base/logging.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/thread_limit.h"
#include "base/writing.h"
#include "cli/arguments.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/report_error.h"
#include "dist/place.h"
#include "kernels/isa.h"
#include "lshformer/version.h"
#include "ops/memory.h"
#include "ops/threads.h"

namespace lshformer::cli {
namespace {

constexpr const char *kThreadsVariable = "LSHFORMER_THREADS", *kIsaVariable = "LSHFORMER_ISA";
constexpr int kMostThreads = 1024;  // more than any machine has; guards against a typo that would exhaust memory

void AddCommonFlags(CLI::App& program, CommonFlags& common) {
  const char* group = "Common flags, before or after the command";
  program.set_help_flag("-h,--help", "this help")->group(group);
  program.set_version_flag("--version", "lshformer " LSHFORMER_VERSION, "the version")->group(group);
  program.add_option("--threads", common.threads, fmt::format("threads of all work; else ${}", kThreadsVariable))
      ->check(IntegerIn(1, kMostThreads))
      ->default_str("cores")
      ->group(group);
  program.add_option("--seed", common.seed, "of weights, order, masking and dropout")->group(group);
  program.add_flag("--quiet", common.quiet, "no progress, only errors on stderr")->group(group);
  program.add_flag("--no_progress", common.no_progress, "no progress on stderr")->group(group);
  program.add_option("--log_level", common.log_level, "what is logged on stderr")
      ->check(OneOf({"trace", "debug", "info", "warn", "error", "off"}))
      ->group(group);
  program.add_option("--log_format", common.log_format, "log lines as text or as JSON")
      ->check(OneOf({"text", "json"}))
      ->group(group);
  program
      .add_option("--isa", common.isa,
                  fmt::format("instruction set of the kernels: auto, avx512, avx2, … (see info --build); else ${}",
                              kIsaVariable))
      ->group(group);
}

// What stands for a flag that was not given: CLI11's own would not name the variable in an error.
std::string FromEnvironment(const CLI::App& program, const char* flag, const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr || program.count(flag) > 0 ? "" : value;
}

// Where a thread cannot be had, libgomp ends the program with a line of its own, and libtorch waits for ever.
void CheckThreads(int threads) {
  const int wanted = MostOtherThreads(threads), started = ThreadsThatStart(wanted);
  if (started < wanted)
    Fail(
        "{}: {} are wanted, with those of the libraries {}, and the system gives this process {} (ulimit -u, ulimit "
        "-v, "
        "the memory)",
        OptionName{"threads"}, threads, 1 + wanted, 1 + started);
}

// Commands that several processes may share have this flag.
Place PlaceOf(const CLI::App& program) {
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  return command->get_option_no_throw("--dist_timeout") != nullptr ? PlaceFrom(ProcessEnvironment()) : Place();
}

void TakeEffect(const CLI::App& program, CommonFlags& common) {
  const Place place = PlaceOf(program);
  const bool quiet = common.quiet || place.rank > 0;  // rank 0 says what all would
  SetUpLogging(quiet ? "error" : common.log_level, common.log_format == "json" ? LogFormat::kJson : LogFormat::kText,
               /*before_options=*/"--");
  SetProgressStyle(quiet || common.no_progress ? ProgressStyle::kOff : ProgressStyle::kAuto);
  KeepFreedMemory();
  if (const std::string threads = FromEnvironment(program, "--threads", kThreadsVariable); !threads.empty()) {
    const std::string wrong = IntegerIn(1, kMostThreads)(threads);
    if (!wrong.empty()) FailUsage("{}: {}", kThreadsVariable, wrong);
    common.threads = std::stoi(threads);
  }
  if (common.threads == 0) common.threads = ThreadsHereOf(place);
  CheckThreads(common.threads);
  SetAllThreads(common.threads);
  SleepSoonWhenWaiting();
  const std::string isa = FromEnvironment(program, "--isa", kIsaVariable);
  if (!isa.empty()) common.isa = isa;
  if (common.isa == "auto") return;
  try {
    ForceIsa(common.isa);
  } catch (const Error& error) {
    FailUsage("{}: {}", isa.empty() ? "--isa" : kIsaVariable, error.what());
  }
}

constexpr const char* kHelpAttention = "--help_attention";

std::vector<CLI::Option*> LshOptions(CLI::App& command) {
  return command.get_options([](const CLI::Option* option) {
    return !option->get_lnames().empty() && option->get_lnames().front().starts_with("lsh_");
  });
}

// Two dozen flags that few need would stand between a reader and the others. Options without a group are not listed.
std::string HelpText(CLI::App& program) {
  CLI::App* command = &program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  if (const CLI::Option* flag = command->get_option_no_throw(kHelpAttention); flag != nullptr && flag->count() == 0)
    for (CLI::Option* option : LshOptions(*command)) option->group("");
  return program.help();
}

// Commands under one heading; a command's own --help is listed among the common flags.
void ArrangeHelp(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    command->group("Commands");
    if (command->get_help_ptr() != nullptr) command->get_option("--help")->group("");
    if (const CLI::Option* attention = command->get_option_no_throw("--attention"); !LshOptions(*command).empty()) {
      command
          ->add_flag_callback(
              kHelpAttention, [] { throw CLI::CallForHelp(); }, "this help with the --lsh_ flags, the options of LSH")
          ->group(attention != nullptr ? attention->get_group() : "Attention");
    }
    ArrangeHelp(*command);
  }
}

// Why output failed: now, or at an earlier write, whose errno is gone.
int OutputError() {
  if (errno != 0) return errno;
  pollfd output{STDOUT_FILENO, 0, 0};
  return poll(&output, 1, /*timeout=*/0) > 0 && (output.revents & POLLERR) != 0 ? EPIPE : EIO;
}

// A full disk behind "> file" is a failure, not a success with half the output.
void FlushOutput() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) != 0 || !std::cout || std::ferror(stdout)) FailWrite(OutputName("-"), OutputError());
}

}  // namespace

std::unique_ptr<CLI::App> MakeProgram(CommonFlags& common) {
  auto program =
      std::make_unique<CLI::App>("Text encoders with exact and LSH attention: train, measure, use.", "lshformer");
  program->formatter(std::make_shared<HelpFormatter>());
  program->option_defaults()->always_capture_default();
  AddCommonFlags(*program, common);
  AddQuickstart(*program, common);
  AddInfo(*program, common);
  AddTokenizer(*program, common);
  AddPretrain(*program, common);
  AddTrain(*program, common);
  AddEvaluate(*program, common);
  AddPredict(*program, common);
  AddSearch(*program, common);
  AddServe(*program, common);
  AddInspect(*program, common);
  AddAttention(*program, common);
  AddBench(*program, common);
  AddTune(*program, common);
  AddConvert(*program, common);
  AddSynth(*program, common);
  AddReproduce(*program, common);
  AddReport(*program, common);
  ArrangeHelp(*program);
  program->require_subcommand(1);
  program->parse_complete_callback([&common, &app = *program] { TakeEffect(app, common); });
  return program;
}

namespace {

int StatusOf(int argc, char** argv) {
  OpenStandardDescriptors();
  InstallSignalHandlers();
  CommonFlags common;
  try {
    const std::unique_ptr<CLI::App> program = MakeProgram(common);
    try {
      std::vector<std::string> words = OrderArguments(*program, {argv + 1, argv + argc});
      std::reverse(words.begin(), words.end());  // CLI11 wants the last word first
      program->parse(std::move(words));
    } catch (const CLI::CallForHelp&) {
      std::cout << HelpText(*program);
    } catch (const CLI::CallForVersion& version) {
      std::cout << version.what() << "\n";
    }
    FlushOutput();
    return kSuccess;
  } catch (...) {
    return ReportError(std::current_exception());
  }
}

}  // namespace

void RunProgram(int argc, char** argv) {
  const int status = StatusOf(argc, argv);
  std::cout.flush();
  std::fflush(nullptr);
  // Not through the destructors of static objects: libtorch would take its thousands of operators out of their tables
  // one by one, a tenth of the time of a short command.
  std::_Exit(status);
}

}  // namespace lshformer::cli
