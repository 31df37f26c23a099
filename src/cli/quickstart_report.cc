#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/quickstart.h"
#include "report/page.h"

namespace lshformer::cli {
namespace {

double Number(const Json& results, const char* key) {
  return HasValue(results, key) && results[key].is_number() ? results[key].get<double>() : std::nan("");
}

using Metric = double (*)(const QuickstartSide&);

// A line "exact | SimHash | ratio".
class Lines {
 public:
  explicit Lines(const QuickstartResult& result) : result_(result) {
    table_.columns = {"", "exact", "SimHash", "ratio"};
  }
  void Section(const std::string& title) { table_.Section(title); }
  template <class Value>
  void Add(const std::string& name, const Value& value) {
    const double exact = value(result_.exact), hashed = value(result_.simhash);
    table_.Row({name, FormatNumber(exact), FormatNumber(hashed), exact > 0 ? FormatNumber(hashed / exact, 3) : "–"});
  }
  Table Take() { return std::move(table_); }

 private:
  const QuickstartResult& result_;
  Table table_;
};

const AttentionTiming& Shortest(const QuickstartSide& side) { return side.attention.front(); }
const AttentionTiming& Longest(const QuickstartSide& side) { return side.attention.back(); }

void AddAttention(const QuickstartResult& result, Lines& lines) {
  lines.Section(fmt::format("Attention, forward, {} heads x {} (Table 1)", result.heads, result.head_dim));
  const int64_t shortest = Shortest(result.exact).length, longest = Longest(result.exact).length;
  const std::string at = fmt::format(" at {} tokens", shortest), far = fmt::format(" at {} tokens", longest);
  lines.Add("KFLOPs" + at + ", paper's count", [](auto& side) { return Shortest(side).cost.paper_flops() / 1000; });
  lines.Add("KFLOPs" + at + ", full count", [](auto& side) { return Shortest(side).cost.full_flops() / 1000; });
  lines.Add("dot products" + at, [](auto& side) { return std::round(Shortest(side).cost.dot_products); });
  lines.Add("share of pairs" + at + ", %", [](auto& side) { return 100 * Shortest(side).cost.share(); });
  for (size_t i = 0; i < result.exact.attention.size(); ++i) {
    lines.Add(fmt::format("time at {} tokens, ms", result.exact.attention[i].length),
              [i](auto& side) { return side.attention[i].time.median_ms; });
  }
  lines.Add("KFLOPs" + far + ", full count", [](auto& side) { return Longest(side).cost.full_flops() / 1000; });
  lines.Add("share of pairs" + far + ", %", [](auto& side) { return 100 * Longest(side).cost.share(); });
  lines.Add("work memory" + far + ", MB",
            [](auto& side) { return static_cast<double>(Longest(side).work_bytes) / 1e6; });
}

// "training" figures of one job and its evaluation; `percent` keys are shares.
void AddJob(Lines& lines, QuickstartJob QuickstartSide::*job) {
  constexpr auto train = &QuickstartJob::train, eval = &QuickstartJob::eval;
  const auto add = [&](const char* name, Json QuickstartJob::*results, const char* key, double factor = 1) {
    lines.Add(name, [=](auto& side) { return factor * Number(side.*job.*results, key); });
  };
  add("training loss", train, "train_loss");
  add("evaluation loss", eval, "eval_loss");
  if (job == &QuickstartSide::questions) {
    add("exact answers, %", eval, "eval_exact");
    add("evaluation F1, %", eval, "eval_f1");
  } else {
    add("evaluation accuracy, %", eval, "eval_accuracy", 100);
  }
  if (job == &QuickstartSide::pretrain) add("perplexity", eval, "perplexity");
  if (job == &QuickstartSide::sentiment) add("evaluation F1, %", eval, "eval_f1", 100);
  add("training runtime, s", train, "train_runtime");
  add("training samples/s", train, "train_samples_per_second");
  add("training steps/s", train, "train_steps_per_second");
  add("evaluation runtime, s", eval, "eval_runtime");
  add("evaluation samples/s", eval, "eval_samples_per_second");
  lines.Add("peak memory of the process, MB", [=](auto& side) { return (side.*job).peak_mb; });
}

// "2.9 times faster", "1.3 times slower", "as fast".
std::string Speed(double exact_ms, double hashed_ms) {
  const double ratio = exact_ms / hashed_ms;
  // Closer than this, medians of a shared machine do not tell.
  constexpr double kSame = 1.05;
  if (ratio > kSame) return FormatNumber(ratio, 2) + " times faster";
  if (ratio < 1 / kSame) return FormatNumber(1 / ratio, 2) + " times slower";
  return "as fast";
}

// Whether two shares of right answers differ by more than two standard errors.
bool Differ(double a, double b, double samples) {
  const double mean = (a + b) / 2;
  return std::abs(a - b) > 2 * std::sqrt(2 * mean * (1 - mean) / std::max(samples, 1.0));
}

std::string Quality(const QuickstartResult& result) {
  const double exact_loss = Number(result.exact.pretrain.eval, "eval_loss"),
               hashed_loss = Number(result.simhash.pretrain.eval, "eval_loss");
  // The masks are the same for both, so losses compare closely; a hundredth is about what another seed changes.
  bool worse = hashed_loss > 1.01 * exact_loss, better = hashed_loss < 0.99 * exact_loss;
  const auto judge = [&](QuickstartJob QuickstartSide::*job, const char* key, double whole) {
    const double exact = Number((result.exact.*job).eval, key) / whole,
                 hashed = Number((result.simhash.*job).eval, key) / whole;
    const bool differ = Differ(exact, hashed, Number((result.exact.*job).eval, "eval_samples"));
    worse |= differ && hashed < exact;
    better |= differ && hashed > exact;
    return fmt::format("{:.1f} % instead of {:.1f} %", 100 * hashed, 100 * exact);
  };
  const std::string sentiment = judge(&QuickstartSide::sentiment, "eval_accuracy", 1),
                    questions = judge(&QuickstartSide::questions, "eval_exact", 100);
  const std::string figures = fmt::format(
      "masked words were guessed right {:.1f} % of the time instead of {:.1f} %, sentiment {} and questions on long "
      "documents {}",
      100 * Number(result.simhash.pretrain.eval, "eval_accuracy"),
      100 * Number(result.exact.pretrain.eval, "eval_accuracy"), sentiment, questions);
  if (worse) return "in quality it cost something: " + figures;
  if (better) return "in quality it cost nothing here: " + figures;
  return "in quality no difference can be seen: " + figures;
}

std::vector<std::pair<double, double>> Points(const Json& history, const char* key) {
  std::vector<std::pair<double, double>> points;
  for (const Json& entry : history) {
    if (HasValue(entry, key) && HasValue(entry, "step"))
      points.emplace_back(entry["step"].get<double>(), entry[key].get<double>());
  }
  return points;
}

LineChart Curves(const QuickstartResult& result, const std::string& title, const char* key, const std::string& unit,
                 QuickstartJob QuickstartSide::*job) {
  return {
      title,
      {"step"},
      {unit},
      {{"exact", Points((result.exact.*job).history, key)}, {"SimHash", Points((result.simhash.*job).history, key)}}};
}

std::vector<LineChart> AttentionCharts(const QuickstartResult& result) {
  LineChart time{
      "Time of one forward by length", {"tokens", true}, {"milliseconds", true}, {{"exact", {}}, {"SimHash", {}}}};
  LineChart work{
      "Operations by length, full count", {"tokens", true}, {"MFLOP", true}, {{"exact", {}}, {"SimHash", {}}}};
  for (const auto* side : {&result.exact, &result.simhash}) {
    const size_t series = side == &result.exact ? 0 : 1;
    for (const AttentionTiming& timing : side->attention) {
      const auto length = static_cast<double>(timing.length);
      time.series[series].points.emplace_back(length, timing.time.median_ms);
      work.series[series].points.emplace_back(length, timing.cost.full_flops() / 1e6);
      if (series == 0) time.x.ticks.push_back(length);
    }
  }
  work.x.ticks = time.x.ticks;
  return {time, work};
}

std::string Times(double ratio) { return fmt::format("{:.2f} x", ratio); }

}  // namespace

Table QuickstartTable(const QuickstartResult& result) {
  Lines lines(result);
  AddAttention(result, lines);
  lines.Section("Masked-LM pretraining (Table 2)");
  AddJob(lines, &QuickstartSide::pretrain);
  lines.Section("Sentiment fine-tuning (Table 3)");
  AddJob(lines, &QuickstartSide::sentiment);
  lines.Section("Questions on long documents (Table 4)");
  AddJob(lines, &QuickstartSide::questions);
  return lines.Take();
}

std::string QuickstartSummary(const QuickstartResult& result) {
  const AttentionTiming &far_exact = Longest(result.exact), &far_hashed = Longest(result.simhash);
  const std::string far = Speed(far_exact.time.median_ms, far_hashed.time.median_ms);
  const std::string near = Speed(Shortest(result.exact).time.median_ms, Shortest(result.simhash).time.median_ms);
  const double exact_rate = Number(result.exact.pretrain.train, "train_samples_per_second"),
               hashed_rate = Number(result.simhash.pretrain.train, "train_samples_per_second");
  return fmt::format(
      "At {} tokens SimHash attention computed {:.0f} % of the pairs and was {} than exact attention ({} against {} "
      "ms); "
      "at {} tokens it was {}. Pretraining with it was {}, and {}.",
      far_hashed.length, 100 * far_hashed.cost.share(), far == "as fast" ? "no faster" : far,
      FormatNumber(far_hashed.time.median_ms, 3), FormatNumber(far_exact.time.median_ms, 3),
      Shortest(result.exact).length, near, Speed(1 / exact_rate, 1 / hashed_rate), Quality(result));
}

std::string QuickstartPage(const QuickstartResult& result) {
  Page page("lshformer quickstart", "BERT with exact and with SimHash attention, from raw text to this page");
  const AttentionTiming &far_exact = Longest(result.exact), &far_hashed = Longest(result.simhash);
  const double accuracy = Number(result.simhash.sentiment.eval, "eval_accuracy"),
               exact_accuracy = Number(result.exact.sentiment.eval, "eval_accuracy");
  page.Cards({{Times(far_exact.time.median_ms / far_hashed.time.median_ms),
               fmt::format("as fast as exact attention at {} tokens", far_hashed.length)},
              {Times(Shortest(result.exact).time.median_ms / Shortest(result.simhash).time.median_ms),
               fmt::format("as fast as exact attention at {} tokens", Shortest(result.exact).length)},
              {fmt::format("{:.0f} %", 100 * far_hashed.cost.share()),
               fmt::format("of the pairs computed at {} tokens", far_hashed.length)},
              {fmt::format("{:+.1f} points", 100 * (accuracy - exact_accuracy)),
               "sentiment accuracy, SimHash against exact"}});
  page.Paragraph(QuickstartSummary(result));
  page.Heading("The table");
  page.Add(QuickstartTable(result));
  page.Paragraph(
      "Ratio: SimHash divided by exact. The rows follow Tables 1 to 4 of the BERT-LSH paper. Its count of KFLOPs takes "
      "the "
      "hashing alone for SimHash and the products q·k alone for exact attention; the full count takes all of both.");
  page.Heading("Attention");
  page.Add(AttentionCharts(result));
  page.Heading("Pretraining");
  page.Add(
      {Curves(result, "Training loss", "loss", "loss", &QuickstartSide::pretrain),
       Curves(result, "Evaluation accuracy on masked words", "eval_accuracy", "share", &QuickstartSide::pretrain)});
  page.Heading("Sentiment");
  page.Add({Curves(result, "Training loss", "loss", "loss", &QuickstartSide::sentiment),
            Curves(result, "Evaluation accuracy", "eval_accuracy", "share", &QuickstartSide::sentiment)});
  page.Heading("Questions on long documents");
  page.Add({Curves(result, "Training loss", "loss", "loss", &QuickstartSide::questions),
            Curves(result, "Evaluation F1", "eval_f1", "%", &QuickstartSide::questions)});
  page.Heading("Try next");
  page.Commands(result.commands);
  page.Heading("How it was made");
  page.Paragraph(result.data);
  page.Paragraph(result.machine);
  page.Details("SimHash's settings", ToJson(result.simhash.spec).dump(2));
  return page.Html();
}

}  // namespace lshformer::cli
