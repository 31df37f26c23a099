#include "convert/head_policy.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/progress.h"
#include "base/signals.h"
#include "convert/quality.h"
#include "models/stored_directions.h"

namespace lshformer {
namespace {

constexpr int kTimedRuns = 5;
constexpr double kOfMean = 3;  // an error that all tokens share reaches the embedding undiminished

struct Shape {
  int cluster, open, window, bundle = 1;
  int groups = 0;                 // 0: as they are
  bool threshold = false;         // whether one chooses in place of `open`
  int above = 0, above_open = 0;  // the level above, if there is one
};
constexpr Shape kShapes[] = {{128, 0, 2}, {128, 0, 6}, {128, 0, 16}, {64, 0, 2}, {32, 0, 2}, {64, 1, 2}, {32, 1, 2},
                             {16, 0, 2},  {16, 1, 2},  {32, 2, 2},   {16, 2, 2}, {16, 3, 2}, {64, 2, 2}, {16, 4, 2},
                             {32, 4, 2},  {16, 6, 2},  {16, 8, 2},   {64, 4, 2}, {16, 12, 2}};
constexpr Shape kMiddle{16, 2, 2}, kBundled{64, 4, 0, 64};
// Queries that open clusters together do so in whole tiles: more pairs for what they keep, and less time.
constexpr Shape kBundledShapes[] = {{128, 1, 0, 64}, {128, 2, 0, 64}, {64, 1, 0, 64}, {64, 2, 0, 64}, {64, 2, 2, 64},
                                    {64, 3, 0, 64},  {32, 4, 0, 64},  {32, 4, 2, 64}, {64, 4, 0, 64}, {64, 4, 2, 64},
                                    {64, 6, 0, 64},  {128, 4, 0, 64}, {32, 8, 0, 64}, {64, 8, 0, 64}, {64, 12, 0, 64}};

// Of texts so long: what stands near counts for more beside all that is far, and more groups of queries cost little.
constexpr int64_t kLongText = 1024, kTextOfLevels = 4096;
constexpr Shape kLongShapes[] = {{128, 0, 64},
                                 {32, 2, 16},
                                 {16, 2, 16, 1, 16},
                                 {16, 4, 16, 1, 16},
                                 {16, 4, 64, 1, 16},
                                 {16, 8, 16, 1, 16},
                                 {16, 10, 32, 1, 16},
                                 {32, 8, 64, 1, 16},
                                 {16, 2, 16, 1, 16, true},
                                 {16, 4, 16, 1, 16, true},
                                 {16, 8, 32, 1, 16, true},
                                 {32, 4, 16, 1, 16, true}};
constexpr Shape kLevelShapes[] = {{16, 8, 16, 1, 16, false, 128, 8},
                                  {16, 16, 64, 1, 16, false, 128, 8},
                                  {16, 8, 64, 1, 16, true, 128, 8},
                                  {32, 8, 16, 1, 16, false, 256, 8}};
constexpr Shape kLongBundledShapes[] = {{64, 2, 16, 64, 32},       {64, 4, 16, 64, 32},  {64, 4, 16, 64, 32, true},
                                        {64, 8, 16, 64, 32, true}, {64, 4, 128, 64, 32}, {64, 8, 64, 64, 32}};
// Of all heads alike.
constexpr Shape kLongAlike[] = {{16, 4, 16, 1, 16, true}};
constexpr Shape kLongestAlike[] = {{16, 16, 64, 1, 16, false, 128, 8}, {64, 8, 64, 64, 32}};

AttentionSpec WithShape(AttentionSpec spec, const Shape& shape) {
  auto& clustered = As<ClusteredAttention>(spec);
  clustered.cluster = {shape.cluster};
  clustered.open = {shape.open};
  if (shape.above > 0) {
    clustered.cluster = {shape.above, shape.cluster};
    clustered.open = {shape.above_open, shape.open};
  }
  clustered.bundle = shape.bundle;
  clustered.threshold.reset();
  if (shape.threshold) clustered.threshold = 0;
  // Groups that were asked for are kept.
  if (shape.groups > 0 && clustered.groups == ClusteredAttention{}.groups) clustered.groups = shape.groups;
  spec.window = shape.window;
  return spec;
}

void AddShapes(const AttentionSpec& base, std::span<const Shape> shapes, std::vector<HeadSetting>& menu) {
  for (const Shape& shape : shapes) {
    const AttentionSpec spec = WithShape(base, shape);
    menu.push_back({ShortName(spec), spec});
  }
}

}  // namespace

std::vector<HeadSetting> HeadMenu(const AttentionSpec& base, HeadCost cost, int64_t longest) {
  std::vector<HeadSetting> menu;
  AddShapes(base, kShapes, menu);
  if (longest >= kLongText) AddShapes(base, kLongShapes, menu);
  if (longest >= kTextOfLevels) AddShapes(base, kLevelShapes, menu);
  if (cost == HeadCost::kTime) AddShapes(base, kBundledShapes, menu);
  if (cost == HeadCost::kTime && longest >= kLongText) AddShapes(base, kLongBundledShapes, menu);
  menu.push_back({"exact", AttentionSpec{}});
  return menu;
}

std::vector<HeadSetting> LongTextSettings(const AttentionSpec& base, int64_t longest) {
  std::vector<HeadSetting> settings;
  if (longest >= kLongText) AddShapes(base, kLongAlike, settings);
  if (longest >= kTextOfLevels) AddShapes(base, kLongestAlike, settings);
  return settings;
}

AttentionSpec BundledSetting(const AttentionSpec& base) { return WithShape(base, kBundled); }

namespace {

// Adds error[layer, :, setting] of one text. delta: [T, H]; products: [heads, d, d], WᵀW of each head.
void AddErrors(const torch::Tensor& delta, const torch::Tensor& products, AnswersFrom from, torch::Tensor error) {
  const int64_t heads = products.size(0), tokens = delta.size(0);
  const torch::Tensor rows = delta.view({tokens, heads, -1}).transpose(0, 1).to(torch::kFloat64);  // [heads, T, d]
  const torch::Tensor mean = rows.mean(1, /*keepdim=*/true);                                       // [heads, 1, d]
  const auto squared = [&](const torch::Tensor& x) {
    return (torch::matmul(x, products) * x).sum(c10::IntArrayRef{1, 2});
  };
  error += squared(rows) / static_cast<double>(tokens);
  if (from == AnswersFrom::kMeanState) error += kOfMean * squared(mean);
}

// [heads, d, d]
torch::Tensor OutputProducts(const AttentionSite& site) {
  const int64_t heads = site.options.heads, head_dim = site.qkv.size(1) / (3 * heads);
  if (!site.output_map.defined()) return torch::eye(head_dim, torch::kFloat64).expand({heads, head_dim, head_dim});
  const torch::Tensor map = site.output_map.detach().to(torch::kFloat64).view({-1, heads, head_dim}).permute({1, 2, 0});
  return torch::matmul(map, map.transpose(1, 2));
}

double Milliseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

class Measurement {
 public:
  Measurement(Model& exact, const CalibrationTexts& texts, const LayerDirections& directions,
              const std::vector<HeadSetting>& menu, AnswersFrom from)
      : exact_(exact), texts_(texts), directions_(directions), menu_(menu), from_(from) {
    const ModelConfig& config = exact.config();
    const auto layers = config.num_hidden_layers, heads = config.num_attention_heads;
    const auto settings = static_cast<int64_t>(menu.size());
    table_.error = torch::zeros({layers, heads, settings}, torch::kFloat64);
    table_.weight = torch::ones({layers}, torch::kFloat64);
    table_.pairs = torch::zeros({layers, settings}, torch::kFloat64);
    table_.time = torch::zeros({layers, settings}, torch::kFloat64);
  }

  HeadTable Run(bool timed) {
    Errors();
    Weights();
    if (timed) Times();
    return table_;
  }

 private:
  void Errors() {
    double total = 0;
    VisitAttention(exact_, texts_, FirstOf(texts_, texts_.fitted, kMostErrorTexts, kPartPairs), "errors of heads",
                   [&](const AttentionSite& site) {
                     if (!IsConverted(*site.options.spec)) return torch::Tensor();
                     AttentionCounts all;
                     const torch::Tensor exact = AttendAs(site, AttentionSpec{}, {}, &all);
                     total += static_cast<double>(all.pairs_total);
                     const torch::Tensor products = OutputProducts(site);
                     for (size_t s = 0; s < menu_.size(); ++s) {
                       const auto setting = static_cast<int64_t>(s);
                       AttentionCounts counts;
                       const torch::Tensor other = AttendAs(site, menu_[s].spec, directions_, &counts);
                       AddErrors(other - exact, products, from_, table_.error[site.layer].select(1, setting));
                       table_.pairs[site.layer][setting] +=
                           static_cast<double>(counts.pairs_computed) / site.options.heads;
                     }
                     return exact;
                   });
    table_.pairs /= total;
  }

  // What answers are made of: rows of all texts, or of each.
  std::vector<torch::Tensor> States(Model& model, const std::vector<int64_t>& numbers) {
    constexpr const char* kTitle = "weights of layers";
    if (from_ == AnswersFrom::kMeanState) return {MeanStates(model, texts_, numbers, kTitle)};
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> states;
    Progress progress(kTitle, static_cast<int64_t>(numbers.size()), "texts");
    for (const int64_t number : numbers) {
      ThrowIfStopped(kTitle);
      states.push_back(
          model.Forward(TextBatch(texts_, number), {.stop = &StopOnSignal()}).last_hidden_state);  // [T, H]
      progress.Update(static_cast<int64_t>(states.size()));
    }
    return states;
  }

  void Weights() {
    const AttentionSpec middle = WithShape(menu_.front().spec, kMiddle);
    const auto setting =
        std::find_if(menu_.begin(), menu_.end(), [&](auto& s) { return s.spec == middle; }) - menu_.begin();
    const std::vector<int64_t> numbers = FirstOf(texts_, texts_.fitted, kMostWeightTexts, kPartPairs);
    const std::vector<torch::Tensor> whole = States(exact_, numbers);
    for (int64_t layer = 0; layer < exact_.config().num_hidden_layers; ++layer) {
      if (!IsConverted(exact_.config().layer_attention(layer))) continue;
      std::vector<AttentionSpec> specs = PerLayer(AttentionSpec{}, exact_.config());
      specs[static_cast<size_t>(layer)] = middle;
      const ModelPtr one = WithAttention(exact_, specs, DirectionTensors(directions_));
      const std::vector<torch::Tensor> states = States(*one, numbers);
      double lost = 0;
      for (size_t i = 0; i < states.size(); ++i)
        lost += 1 - Compare(whole[i].to(torch::kFloat64), states[i].to(torch::kFloat64)).mean;
      lost /= static_cast<double>(states.size());
      const double error = table_.error[layer].select(1, setting).sum().item<double>();
      table_.weight[layer] = std::max(lost, 1e-9) / std::max(error, 1e-30);
    }
  }

  // A head takes what its setting and the length say, whatever its layer: in the first one that is converted all are
  // measured.
  void Times() {
    double total = 0;
    const ModelConfig& config = exact_.config();
    int64_t layers = 0, first = -1;  // that are converted
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      if (!IsConverted(config.layer_attention(layer))) continue;
      if (first < 0) first = layer;
      ++layers;
    }
    torch::Tensor times = torch::zeros({static_cast<int64_t>(menu_.size())}, torch::kFloat64);
    VisitAttention(exact_, texts_, FirstOf(texts_, texts_.fitted, kMostTimedTexts, kPartPairs), "times of heads",
                   [&](const AttentionSite& site) {
                     if (static_cast<int64_t>(site.visit) != first) return torch::Tensor();
                     const size_t last = menu_.size() - 1;
                     std::vector<double> best(menu_.size(), std::numeric_limits<double>::infinity());
                     torch::Tensor exact;
                     for (int run = 0; run < kTimedRuns; ++run) {
                       for (size_t s = 0; s <= last; ++s) {
                         const auto attend = [&] { exact = AttendAs(site, menu_[s].spec, directions_); };
                         best[s] = std::min(best[s], Milliseconds(attend));
                       }
                     }
                     for (size_t s = 0; s <= last; ++s) times[static_cast<int64_t>(s)] += best[s] / site.options.heads;
                     total += best[last];
                     return exact;  // the last setting's
                   });
    table_.time = (times / (total * static_cast<double>(layers))).expand_as(table_.pairs).contiguous();
  }

  Model& exact_;
  const CalibrationTexts& texts_;
  const LayerDirections& directions_;
  const std::vector<HeadSetting>& menu_;
  AnswersFrom from_;
  HeadTable table_;
};

}  // namespace

HeadTable MeasureHeads(Model& exact, const CalibrationTexts& texts, const LayerDirections& directions,
                       const std::vector<HeadSetting>& menu, AnswersFrom from, bool timed) {
  return Measurement(exact, texts, directions, menu, from).Run(timed);
}

HeadCosts MeasureCosts(Model& exact, const CalibrationTexts& texts, const LayerDirections& directions,
                       const std::vector<AttentionSpec>& attention) {
  const auto layers = attention.size(), heads = static_cast<size_t>(exact.config().num_attention_heads);
  const std::vector<std::vector<double>> zeros(layers, std::vector<double>(heads, 0.0));
  HeadCosts costs{zeros, zeros};
  std::vector<std::vector<double>> wholes = zeros, totals = zeros;
  VisitAttention(
      exact, texts, FirstOf(texts, texts.held_out, kMostWeightTexts, kPartPairs), "heads",
      [&](const AttentionSite& site) {
        if (!IsConverted(*site.options.spec)) return torch::Tensor();
        const auto layer = static_cast<size_t>(site.layer);
        const torch::Tensor products = OutputProducts(site), exact_result = AttendAs(site, AttentionSpec{}, {});
        const torch::Tensor whole = torch::zeros({site.options.heads}, torch::kFloat64);
        AddErrors(exact_result, products, AnswersFrom::kMeanState, whole);
        std::map<std::string, std::pair<torch::Tensor, double>>
            known;  // of a setting: errors of heads, pairs of one head
        for (size_t head = 0; head < heads; ++head) {
          const AttentionSpec& spec = OfHead(attention[layer], static_cast<int>(head));
          const auto [found, fresh] = known.try_emplace(ToJson(spec).dump());
          if (fresh && SlicesOf(spec) == 3) {
            AttentionCounts counts;
            const torch::Tensor other = AttendAs(site, spec, directions, &counts);
            found->second.first = torch::zeros({site.options.heads}, torch::kFloat64);
            AddErrors(other - exact_result, products, AnswersFrom::kMeanState, found->second.first);
            found->second.second = static_cast<double>(counts.pairs_computed) / static_cast<double>(counts.pairs_total);
          }
          if (!found->second.first.defined()) continue;
          const auto i = static_cast<int64_t>(head);
          costs.error[layer][head] += found->second.first[i].item<double>();
          costs.pairs[layer][head] += found->second.second;
          wholes[layer][head] += whole[i].item<double>();
          ++totals[layer][head];
        }
        return exact_result;
      });
  for (size_t layer = 0; layer < layers; ++layer) {
    for (size_t head = 0; head < heads; ++head) {
      costs.error[layer][head] /= std::max(wholes[layer][head], std::numeric_limits<double>::min());
      costs.pairs[layer][head] /= std::max(1.0, totals[layer][head]);
    }
  }
  return costs;
}

namespace {

// The best settings under one λ, and what they cost.
std::pair<HeadChoice, double> Cheapest(const HeadTable& table, const torch::Tensor& cost, double lambda) {
  const int64_t layers = table.error.size(0), heads = table.error.size(1), settings = table.error.size(2);
  const auto error = table.error.accessor<double, 3>();
  const auto weight = table.weight.accessor<double, 1>();
  const auto costs = cost.accessor<double, 2>();
  HeadChoice choice(static_cast<size_t>(layers), std::vector<int>(static_cast<size_t>(heads), 0));
  double total = 0;
  for (int64_t layer = 0; layer < layers; ++layer) {
    for (int64_t head = 0; head < heads; ++head) {
      const auto value = [&](int64_t s) { return weight[layer] * error[layer][head][s] + lambda * costs[layer][s]; };
      int64_t best = 0;
      for (int64_t s = 1; s < settings; ++s)
        if (value(s) < value(best)) best = s;
      choice[static_cast<size_t>(layer)][static_cast<size_t>(head)] = static_cast<int>(best);
      total += costs[layer][best];
    }
  }
  return {choice, total};
}

}  // namespace

HeadChoice ChooseSettings(const HeadTable& table, const torch::Tensor& cost, double budget, const char* budget_option) {
  constexpr double kLeast = 1e-15, kMost = 1e15;
  const auto [choice, least] = Cheapest(table, cost, kMost);
  if (least > budget)
    throw BudgetTooSmall(
        fmt::format("{}: no setting of the heads comes down to {:.4g} on these texts; the least is {:.4g}",
                    OptionName{budget_option}, budget, least));
  double low = std::log(kLeast), high = std::log(kMost);
  HeadChoice within = choice;
  for (int step = 0; step < 100; ++step) {
    const double middle = (low + high) / 2;
    auto [settings, total] = Cheapest(table, cost, std::exp(middle));
    if (total <= budget) {
      high = middle;
      within = std::move(settings);
    } else {
      low = middle;
    }
  }
  return within;
}

std::vector<AttentionSpec> SpecsOf(const HeadChoice& choice, const std::vector<HeadSetting>& menu) {
  std::vector<AttentionSpec> layers;
  for (const std::vector<int>& heads : choice) {
    std::vector<AttentionSpec> specs;
    for (const int setting : heads) specs.push_back(menu[static_cast<size_t>(setting)].spec);
    layers.push_back(OfHeads(std::move(specs), "attention"));
  }
  return layers;
}

}  // namespace lshformer
