// lshformer quickstart: the main job in one command, on data made here.
#include "quickstart/quickstart.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/terminal.h"
#include "cli/commands.h"

namespace lshformer::cli {
namespace {

void TellStage(int stage, int stages, const std::string& what) {
  WriteStderrLine(fmt::format("[{}/{}] {}\n", stage, stages, what));
}

void Print(const QuickstartResult& result) {
  std::cout << PlainText(QuickstartTable(result))
            << "ratio: to exact, of the column before it; the tables are those of the BERT-LSH paper\n\n";
  for (const QuickstartSide& side : result.sparse) std::cout << QuickstartSummary(result, side) << "\n\n";
  std::cout << "Try next:\n";
  for (const std::string& command : result.commands) std::cout << "  " << command << "\n";
  std::cout << "\nCurves: " << result.report << "\n";
}

}  // namespace

void AddQuickstart(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand(
      "quickstart", "the main job on data made here: BERT with exact, SimHash and Reformer attention, side by side");
  auto options = std::make_shared<QuickstartOptions>();
  command
      ->add_option("--output_dir", options->output_dir,
                   "models, data and report.html; an older quickstart there is replaced")
      ->type_name("DIR")
      ->group("Output");
  command->footer("Takes six to ten minutes on two cores. The table goes to stdout, progress to stderr.");
  command->callback([options, &common] {
    options->seed = common.seed;
    options->progress = true;
    if (!common.quiet && !common.no_progress) options->stage_begins = TellStage;
    Print(RunQuickstart(*options));
  });
}

}  // namespace lshformer::cli
