#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quickstart/quickstart.h"
#include "report/page.h"

namespace lshformer {
namespace {

double Number(const Json& results, const char* key) {
  return HasValue(results, key) && results[key].is_number() ? results[key].get<double>() : std::nan("");
}

using Metric = double (*)(const QuickstartSide&);

// A line "exact | SimHash | ratio | Reformer | ratio".
class Lines {
 public:
  explicit Lines(const QuickstartResult& result) : result_(result) {
    table_.columns = {"", result.exact.name};
    for (const QuickstartSide& side : result.sparse) table_.columns.insert(table_.columns.end(), {side.name, "ratio"});
  }
  void Section(const std::string& title) { table_.Section(title); }
  template <class Value>
  void Add(const std::string& name, const Value& value) {
    const double exact = value(result_.exact);
    std::vector<std::string> cells{name, FormatNumber(exact)};
    for (const QuickstartSide& side : result_.sparse) {
      const double sparse = value(side);
      cells.push_back(FormatNumber(sparse));
      cells.push_back(exact > 0 ? FormatNumber(sparse / exact, 3) : "–");
    }
    table_.Row(std::move(cells));
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
  lines.Add("KFLOPs" + at + ", the paper's", [](auto& side) { return Shortest(side).cost.paper_flops() / 1000; });
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
  lines.Add("peak memory of the process, MB", [=](auto& side) {
    const double peak = (side.*job).peak_mb;
    return peak > 0 ? peak : std::nan("");  // nothing was trained, or the system does not tell
  });
}

// "2.9 times faster", "1.3 times slower", "as fast".
std::string Speed(double exact_ms, double sparse_ms) {
  const double ratio = exact_ms / sparse_ms;
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

std::string Quality(const QuickstartSide& exact_side, const QuickstartSide& sparse_side) {
  const double exact_loss = Number(exact_side.pretrain.eval, "eval_loss"),
               sparse_loss = Number(sparse_side.pretrain.eval, "eval_loss");
  // The masks are the same for both, so losses compare closely; a hundredth is about what another seed changes.
  bool worse = sparse_loss > 1.01 * exact_loss, better = sparse_loss < 0.99 * exact_loss;
  const auto judge = [&](QuickstartJob QuickstartSide::*job, const char* key, double whole) {
    const double exact = Number((exact_side.*job).eval, key) / whole,
                 sparse = Number((sparse_side.*job).eval, key) / whole;
    const bool differ = Differ(exact, sparse, Number((exact_side.*job).eval, "eval_samples"));
    worse |= differ && sparse < exact;
    better |= differ && sparse > exact;
    return fmt::format("{:.1f} % instead of {:.1f} %", 100 * sparse, 100 * exact);
  };
  const std::string sentiment = judge(&QuickstartSide::sentiment, "eval_accuracy", 1),
                    questions = judge(&QuickstartSide::questions, "eval_exact", 100);
  const std::string figures = fmt::format(
      "masked words were guessed right {:.1f} % of the time instead of {:.1f} %, sentiment {} and questions on long "
      "documents {}",
      100 * Number(sparse_side.pretrain.eval, "eval_accuracy"), 100 * Number(exact_side.pretrain.eval, "eval_accuracy"),
      sentiment, questions);
  if (worse && better) return "in quality it lost in some and won in others: " + figures;
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

std::vector<const QuickstartSide*> Sides(const QuickstartResult& result) {
  std::vector<const QuickstartSide*> sides{&result.exact};
  for (const QuickstartSide& side : result.sparse) sides.push_back(&side);
  return sides;
}

LineChart Curves(const QuickstartResult& result, const std::string& title, const char* key, const std::string& unit,
                 QuickstartJob QuickstartSide::*job) {
  LineChart chart{title, {"step"}, {unit}, {}};
  for (const QuickstartSide* side : Sides(result))
    if (side->conversion.is_null()) chart.series.push_back({side->name, Points((side->*job).history, key)});
  return chart;
}

std::vector<LineChart> AttentionCharts(const QuickstartResult& result) {
  LineChart time{"Time of one forward by length", {"tokens", true}, {"milliseconds", true}, {}};
  LineChart work{"Operations by length, full count", {"tokens", true}, {"MFLOP", true}, {}};
  for (const QuickstartSide* side : Sides(result)) {
    time.series.push_back({side->name, {}});
    work.series.push_back({side->name, {}});
    for (const AttentionTiming& timing : side->attention) {
      const auto length = static_cast<double>(timing.length);
      time.series.back().points.emplace_back(length, timing.time.median_ms);
      work.series.back().points.emplace_back(length, timing.cost.full_flops() / 1e6);
      if (side == &result.exact) time.x.ticks.push_back(length);
    }
  }
  work.x.ticks = time.x.ticks;
  return {time, work};
}

// What the hashing gained where texts are long, and what it cost.
std::vector<Card> Cards(const QuickstartSide& exact, const QuickstartSide& sparse) {
  const auto faster = [](const AttentionTiming& a, const AttentionTiming& b) {
    return fmt::format("{:.2f} x", a.time.median_ms / b.time.median_ms);
  };
  const auto answered = [](const QuickstartSide& side) {
    return fmt::format("{:.1f} %", Number(side.questions.eval, "eval_exact"));
  };
  return {{faster(Longest(exact), Longest(sparse)),
           fmt::format("as fast as exact attention at {} tokens with {}, {} at {}", Longest(exact).length, sparse.name,
                       faster(Shortest(exact), Shortest(sparse)), Shortest(exact).length)},
          {answered(sparse),
           fmt::format("of the questions answered by {} ({} by {})", sparse.name, answered(exact), exact.name)}};
}

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

namespace {

// Of a side that was not trained.
std::string ConversionSummary(const QuickstartResult& result, const QuickstartSide& converted) {
  const AttentionTiming &far_exact = Longest(result.exact), &far = Longest(converted);
  const std::string speed = Speed(far_exact.time.median_ms, far.time.median_ms);
  return fmt::format(
      "{} attention was not trained: the exact model that answers questions was converted to it. It computed {:.1f} % "
      "of "
      "the pairs of these documents, its hidden states kept a cosine of {:.4f} to the exact model's, and it answered "
      "{:.1f} % of the questions instead of {:.1f} %. At {} tokens {} attention with its defaults is {} than exact "
      "attention.",
      converted.name, 100 * Number(converted.questions.eval, "eval_pairs_fraction"),
      Number(converted.conversion, "cosine_mean"), Number(converted.questions.eval, "eval_exact"),
      Number(result.exact.questions.eval, "eval_exact"), far.length, Name(converted.spec),
      speed == "as fast" ? "no faster" : speed);
}

}  // namespace

std::string QuickstartSummary(const QuickstartResult& result, const QuickstartSide& sparse) {
  if (!sparse.conversion.is_null()) return ConversionSummary(result, sparse);
  const AttentionTiming &far_exact = Longest(result.exact), &far_sparse = Longest(sparse);
  const std::string far = Speed(far_exact.time.median_ms, far_sparse.time.median_ms);
  const std::string near = Speed(Shortest(result.exact).time.median_ms, Shortest(sparse).time.median_ms);
  const double exact_rate = Number(result.exact.pretrain.train, "train_samples_per_second"),
               sparse_rate = Number(sparse.pretrain.train, "train_samples_per_second");
  return fmt::format(
      "At {} tokens {} attention computed {:.1f} % of the pairs and was {} than exact attention ({} against {} "
      "ms); "
      "at {} tokens it was {}. Pretraining with it was {}, and {}.",
      far_sparse.length, sparse.name, 100 * far_sparse.cost.share(), far == "as fast" ? "no faster" : far,
      FormatNumber(far_sparse.time.median_ms, 3), FormatNumber(far_exact.time.median_ms, 3),
      Shortest(result.exact).length, near, Speed(1 / exact_rate, 1 / sparse_rate), Quality(result.exact, sparse));
}

std::string QuickstartPage(const QuickstartResult& result) {
  Page page("lshformer quickstart", "BERT with exact, SimHash and Reformer attention, from raw text to this page");
  std::vector<Card> cards;
  for (const QuickstartSide& side : result.sparse) {
    for (Card& card : Cards(result.exact, side)) cards.push_back(std::move(card));
  }
  page.Cards(cards);
  for (const QuickstartSide& side : result.sparse) page.Paragraph(QuickstartSummary(result, side));
  page.Heading("The table");
  page.Add(QuickstartTable(result));
  page.Paragraph(
      "Ratio: the column before it divided by exact. The rows follow Tables 1 to 4 of the BERT-LSH paper. Its count of "
      "KFLOPs takes the hashing alone where there is any and the products q·k alone for exact attention; the full "
      "count "
      "takes all of both.");
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
  for (const QuickstartSide& side : result.sparse) page.Details(side.name + "'s settings", ToJson(side.spec).dump(2));
  return page.Html();
}

}  // namespace lshformer
