#include "convert/kept_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "jobs/model_digest.h"
#include "jobs/model_source.h"
#include "kernels/matmul_precision.h"

namespace lshformer {
namespace {

std::string ChoicePath(const std::string& folder) { return folder + "/choice.json"; }

// The figures of a candidate, by name.
std::array<std::pair<const char*, double*>, 11> FiguresOf(Candidate& candidate) {
  return {{{"budget", &candidate.budget},
           {"cosine_mean", &candidate.cosine.mean},
           {"cosine_worst", &candidate.cosine.worst},
           {"cosine_spread", &candidate.cosine.spread},
           {"token_cosine_mean", &candidate.token_cosine.mean},
           {"token_cosine_worst", &candidate.token_cosine.worst},
           {"token_cosine_spread", &candidate.token_cosine.spread},
           {"masked_loss_change", &candidate.masked_loss_change},
           {"pairs_fraction", &candidate.pairs_fraction},
           {"time_fraction", &candidate.time_fraction},
           {"time_spread", &candidate.time_spread}}};
}

Json KeptJson(Candidate candidate) {
  Json layers = Json::array();
  for (const AttentionSpec& layer : candidate.attention) layers.push_back(ToJson(layer));
  Json json{{"name", candidate.name},
            {"setting", candidate.setting},
            {"attention", std::move(layers)},
            {"other_kind", candidate.other_kind},
            {"comparison", candidate.comparison}};
  for (const auto& [name, figure] : FiguresOf(candidate)) json[name] = *figure;  // one that is not a number: null
  return json;
}

Candidate KeptCandidate(const Json& json, std::string_view where) {
  Candidate candidate;
  candidate.name = GetString(json, "name", where);
  candidate.setting = GetString(json, "setting", where);
  for (const Json& layer : json.at("attention")) candidate.attention.push_back(ParseAttentionSpec(layer, where));
  candidate.other_kind = GetBool(json, "other_kind", where);
  candidate.comparison = GetBool(json, "comparison", where);
  for (const auto& [name, figure] : FiguresOf(candidate))
    *figure = json.at(name).is_null() ? std::numeric_limits<double>::quiet_NaN() : GetNumber(json, name, where);
  return candidate;
}

}  // namespace

Json ConversionRecord(const ConvertOptions& options, const CalibrationTexts& texts) {
  constexpr std::array<std::string_view, 3> kOfTheOutput{"output_dir", "dry_run", "min_quality"};
  Json record = AttentionSettings(options.attention);
  for (const Option<ConvertOptions>& option : ConvertTable().options)
    if (std::find(kOfTheOutput.begin(), kOfTheOutput.end(), option.name) == kOfTheOutput.end())
      record[option.name] = option.write(options);
  record["seed"] = options.seed;
  record["float32_matmul_precision"] = Name(ActiveMatmulPrecision());
  record["model digest"] = DigestOfModel(options.model_name_or_path);
  record["texts"] = fmt::format("{:016x}", texts.set.Fingerprint());
  return record;
}

void KeepChoice(const std::string& folder, const Json& record, const std::vector<Candidate>& rows) {
  MakeFolder(folder);
  Json choice{{"record", record}, {"rows", Json::array()}};
  for (const Candidate& row : rows) choice["rows"].push_back(KeptJson(row));
  WriteFileAtomically(ChoicePath(folder), choice.dump(2) + "\n");
}

std::optional<std::vector<Candidate>> KeptChoice(const std::string& folder, const Json& record) {
  const std::string path = ChoicePath(folder);
  if (folder.empty() || !std::filesystem::exists(path)) return {};
  try {
    const Json choice = ReadJsonFile(path);
    if (choice.at("record") != record) return {};
    std::vector<Candidate> rows;
    for (const Json& row : choice.at("rows")) rows.push_back(KeptCandidate(row, path));
    return rows;
  } catch (const Error&) {  // damaged: as if it were not there
  } catch (const Json::exception&) {
  }
  return {};
}

}  // namespace lshformer
