// lshformer report RUN...: one HTML file that compares run folders.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/files.h"
#include "cli/commands.h"
#include "data/file_kind.h"
#include "report/runs.h"

namespace lshformer::cli {
namespace {

struct ReportFlags {
  std::vector<std::string> runs;
  std::string output = "report.html";
  std::string title = "lshformer report";
};

void Report(const ReportFlags& flags) {
  RefuseOtherKind(flags.output, {"html", "htm"}, "a page (.html)");
  const std::vector<RunRecord> runs = ReadRuns(flags.runs);
  WriteFileAtomically(flags.output, RunsPage(runs, flags.title));
  if (flags.output == "-") return;  // on stdout the page stands alone
  bool first = true;
  for (const Table& table : SummaryTables(runs)) {
    std::cout << (first ? "" : "\n") << PlainText(table);
    first = false;
  }
}

}  // namespace

void AddReport(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand("report", "one HTML file comparing run folders and timings");
  auto flags = std::make_shared<ReportFlags>();
  command
      ->add_option("RUN", flags->runs,
                   "folders that pretrain, train or evaluate made, or that hold bench*.json; or timings: the JSON of "
                   "bench or of "
                   "peers' scripts")
      ->required()
      ->type_name("RUN")
      ->group("Input and output");
  command->add_option("--output", flags->output, "the HTML file; - is stdout")
      ->type_name("FILE")
      ->group("Input and output");
  command->add_option("--title", flags->title, "its heading")->type_name("TEXT")->group("Input and output");
  command->callback([flags] { Report(*flags); });
}

}  // namespace lshformer::cli
