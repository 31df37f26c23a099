// lshformer convert: a pretrained model under another attention, and what that keeps and costs.
#include "convert/convert.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "report/table.h"

namespace lshformer::cli {
namespace {

struct ConvertFlags {
  ConvertOptions options;
  bool json = false;
};

std::string Number(const Json& row, const char* key) {
  return row.contains(key) && row[key].is_number() ? FormatNumber(row[key].get<double>()) : FormatNumber(NAN);
}

// "0.52 ± 0.01"
std::string WithSpread(const Json& row, const char* key, const char* spread) {
  std::string text = Number(row, key);
  if (row.contains(spread) && row[spread].is_number()) text += fmt::format(" ± {:.1g}", row[spread].get<double>());
  return text;
}

std::string NameOf(const Json& row) {
  return row["name"].get<std::string>() + (row.contains("setting") ? ", " + row["setting"].get<std::string>() : "");
}

std::string ResultText(const ConvertResult& result) {
  const Json& report = result.report;
  std::string out;
  const bool changed = !report["time_fraction"].is_number() || report["time_fraction"] != 1.0;
  if (changed && report["time_fraction"].get<double>() >= 1)
    out += fmt::format(
        "nothing is gained on texts of these lengths: attention takes {} times the time of exact attention. Longer "
        "texts gain; on the same texts the exact model with --int8 is about twice as fast where the processor has the "
        "instructions, and with --bf16 where bench model shows a gain. lshformer tune finds from which length on "
        "clusters pay, and "
        "writes it into the folder\n\n",
        Number(report, "time_fraction"));
  if (report["texts"]["embedded"].get<bool>())
    out += "measured on texts that come with the program; --calibrate names texts of the kind the model is for\n\n";
  const bool words = report.contains("masked_loss_change");
  Table table{{"", "budget", "pairs", "time", "cosine", "worst", "tokens", "worst"}, {}};
  if (words) table.columns.push_back("masked words");
  for (const Json& row : report["frontier"]) {
    std::vector<std::string> cells{NameOf(row),
                                   row.contains("budget") ? Number(row, "budget") : "",
                                   Number(row, "pairs_fraction"),
                                   WithSpread(row, "time_fraction", "time_spread"),
                                   WithSpread(row, "cosine_mean", "cosine_spread"),
                                   Number(row, "cosine_worst"),
                                   Number(row, "token_cosine_mean"),
                                   Number(row, "token_cosine_worst")};
    if (words) cells.push_back(row.contains("masked_loss_change") ? Number(row, "masked_loss_change") : "");
    table.Row(std::move(cells));
  }
  out += PlainText(table) +
         "\npairs: computed, of all; time: of attention, of exact attention's on this machine (± standard deviation "
         "over runs); cosine: of a text's mean hidden state to the exact model's (± standard error over texts); "
         "tokens: of "
         "its tokens' states, on average\n";
  if (words) out += "masked words: what their loss grows by, in nats\n";
  if (report["chosen"].is_string() && report["chosen"] != "head by head")
    out += fmt::format("{} keeps more than what heads would get one by one, and is within the budget too\n",
                       report["chosen"].get<std::string>());
  if (report.contains("metric"))
    out += fmt::format("{}: {}, exact {}\n", report["metric_name"].get<std::string>(), Number(report, "metric"),
                       Number(report, "metric_exact"));
  return out;
}

void Convert(const ConvertFlags& flags) {
  const ConvertResult result = RunConvert(flags.options);
  const std::string text = flags.json ? result.report.dump(2) + "\n" : ResultText(result);
  std::fputs(text.c_str(), stdout);
  if (!result.refused.empty()) Fail("{}: {}; nothing was written", OptionName{"min_quality"}, result.refused);
  if (flags.json || flags.options.dry_run) return;
  std::fputs(fmt::format("written: {}\n", flags.options.output_dir).c_str(), stdout);
}

}  // namespace

void AddConvert(CLI::App& app, CommonFlags& common) {
  CLI::App* command =
      app.add_subcommand("convert", "a pretrained model to another attention, with what that keeps and costs");
  auto flags = std::make_shared<ConvertFlags>();
  AddTableFlags(*command, ConvertTable(), flags->options);
  AddTableFlags(*command, AnswerTable(), flags->options.answers);
  command->add_flag("--json", flags->json, "the report as JSON on stdout")->group("Output");
  AddAttentionFlags(*command, flags->options.attention);
  command->callback([command, flags, &common] {
    flags->options.seed = common.seed;
    CheckAnswerFlags(*command, flags->options.answers, MeasuresQuestions(flags->options));
    Convert(*flags);
  });
}

}  // namespace lshformer::cli
