#include "bench/tuned_lengths.h"

#include <algorithm>

#include "base/error.h"
#include "jobs/measure.h"
#include "models/family.h"
#include "report/table.h"

namespace lshformer {
namespace {

// Exact attention over more takes minutes a length; --max_length asks for it.
constexpr int64_t kLongest = 16384;

}  // namespace

const char* DirectionName(bool backward) { return backward ? "forward_backward" : "forward"; }

std::vector<Tuned> SpecsToTune(const ModelConfig& config, const std::string& path) {
  if (!FamilyOf(config).encoder_layers)
    Fail("{}: a model of type \"{}\" has no self-attention to tune", Shown(path, 160), config.model_type);
  std::vector<Tuned> all;
  std::vector<AttentionSpec> specs;
  for (const AttentionSpec& spec : config.attention) {
    const bool known = std::any_of(specs.begin(), specs.end(), [&](auto& other) { return SameWork(spec, other); });
    if (!IsSparse(spec) || known) continue;
    specs.push_back(spec);
    ForEachSpec(specs.back(), [](AttentionSpec& one) {
      one.seed = 0;  // names tell apart what matters
      one.min_length = 0;
    });
  }
  if (specs.empty())
    Fail("{}: its attention is dense, which has no lengths to tune; {} names another type", Shown(path, 160),
         OptionName{"attention"});
  const std::vector<std::string> names = VariantNames(specs);
  for (size_t i = 0; i < specs.size(); ++i) all.push_back({names[i], specs[i], {}});
  return all;
}

void FindCrossings(const ModelConfig& config, const std::string& path, const std::string& direction, int max_length,
                   const MeasureForms& measure, std::vector<Tuned>& all) {
  const int64_t positions = config.max_position_embeddings;
  if (max_length > positions) FailOption("max_length", "{} exceeds max_position_embeddings {}", max_length, positions);
  const int64_t longest = max_length > 0 ? max_length : std::min(positions, kLongest);
  for (const Tuned& tuned : all) {
    if (ShortestToMeasure(tuned.spec) > longest)
      Fail("{}: {} hashes from {} tokens on, but only lengths up to {} are to be measured", Shown(path, 120),
           tuned.name, ShortestToMeasure(tuned.spec), longest);
  }
  for (Tuned& tuned : all) {
    for (const bool backward : {false, true}) {
      if (direction == DirectionName(!backward)) continue;
      const Crossing crossing = FindCrossing(static_cast<int>(ShortestToMeasure(tuned.spec)), static_cast<int>(longest),
                                             [&](int length) { return measure(tuned, backward, length); });
      tuned.directions.emplace_back(DirectionName(backward), crossing);
      if (!crossing.cannot_tell) continue;
      const auto& [length, times] = crossing.points.back();
      Fail(
          "{}, {}, {} tokens: too noisy to tell (sparse / exact {} to {}), nothing was written; run it again while the "
          "machine is quiet, or with more {}",
          tuned.name, DirectionName(backward), length, FormatNumber(times.ratio_low, 3),
          FormatNumber(times.ratio_high, 3), OptionName{"runs"});
    }
  }
}

void SetLengths(const std::vector<Tuned>& all, const std::string& machine, std::vector<AttentionSpec>& specs) {
  for (AttentionSpec& spec : specs) {
    for (const Tuned& tuned : all) {
      if (!SameWork(spec, tuned.spec)) continue;
      TunedLengths lengths;
      for (const auto& [direction, crossing] : tuned.directions)
        (direction == "forward" ? lengths.forward : lengths.forward_backward) = crossing.length;
      lengths.machine = machine;
      ForEachSpec(spec, [&](AttentionSpec& one) {
        one.tuned = lengths;
        one.min_length = kAutoLength;
      });
    }
  }
}

}  // namespace lshformer
