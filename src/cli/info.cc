// lshformer info DIR: what a model is and costs.   lshformer info --build: what this program is made of.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "jobs/build_info.h"
#include "jobs/model_info.h"
#include "models/family.h"
#include "report/table.h"

namespace lshformer::cli {
namespace {

struct InfoFlags {
  std::string folder, model_type, config_overrides;
  bool build = false, json = false;
  std::vector<int64_t> lengths{128, 512, 2048, 8192};
  AttentionChanges attention;
};

std::string Joined(const Json& values) {
  std::string out;
  for (const Json& value : values)
    out += (out.empty() ? "" : ", ") + (value.is_string() ? value.get<std::string>() : value.dump());
  return out;
}

// "attention" of a config; of layers whose heads differ how many have which setting.
std::string AttentionText(const Json& config) {
  const Json& attention = config["attention"];
  const auto by_head = [](const Json& layer) { return layer.is_array(); };
  if (!attention.is_array() || std::none_of(attention.begin(), attention.end(), by_head)) return attention.dump();
  std::map<std::string, int> heads;
  for (const AttentionSpec& layer : ParseAttentionList(attention, "attention"))
    for (int head = 0; head < config["num_attention_heads"].get<int>(); ++head) ++heads[ShortName(OfHead(layer, head))];
  std::string text;
  for (const auto& [name, count] : heads) text += fmt::format("{}{} of {}", text.empty() ? "" : "; ", count, name);
  return "heads " + text + " (--json shows them layer by layer)";
}

// What a model with encoder layers is, and of one without what all models have.
std::string Shape(const Json& info) {
  const Json& config = info["config"];
  const std::string type = config["model_type"].get<std::string>(), width = config["hidden_size"].dump(),
                    vocabulary = config["vocab_size"].dump();
  if (!config.contains("num_hidden_layers") || !config.contains("attention"))
    return fmt::format("{}, {} wide, {} words in the vocabulary\n", type, width, vocabulary);
  const std::string layers = config["num_hidden_layers"].dump();
  std::string out = fmt::format("{} with {} {}, {} wide, {} heads, {}\n", type, layers,
                                layers == "1" ? "layer" : "layers", width, config["num_attention_heads"].dump(),
                                config.contains("character_vocab_size")  // it reads words, and no table of positions
                                    ? vocabulary + " words in the vocabulary"
                                    : fmt::format("{} tokens in the vocabulary, {} positions", vocabulary,
                                                  config["max_position_embeddings"].dump()));
  out += "attention: " + AttentionText(config) + "\n";
  if (config.contains("reversible")) out += "reversible: training memory does not grow with the layers\n";
  if (config["attention"].is_array() || config["attention"]["type"] != "dense")
    out +=
        "Hugging Face's library does not know this attention and computes exact attention instead\nhashed from this "
        "many tokens on (0: every sequence)" +
        std::string(config["attention"].is_array() ? ", by layer: " : ": ") + Joined(info["hashed_from"]) + "\n";
  return out;
}

// "0 to 3, 7", of numbers in order.
std::string Ranges(const Json& numbers) {
  std::string out;
  for (size_t begin = 0; begin < numbers.size();) {
    size_t end = begin + 1;
    while (end < numbers.size() && numbers[end].get<int64_t>() == numbers[end - 1].get<int64_t>() + 1) ++end;
    out += (out.empty() ? "" : ", ") + numbers[begin].dump();
    if (end - begin > 1) out += (end - begin == 2 ? ", " : " to ") + numbers[end - 1].dump();
    begin = end;
  }
  return out;
}

// Layers that differ from others, or turn queries and keys; of a model of equal layers that do not, nothing.
std::string Layers(const Json& info) {
  const Json& kinds = info["layers"];
  if (kinds.empty() || (kinds.size() == 1 && kinds[0]["rotary"].is_null())) return "";
  std::string out;
  for (const Json& kind : kinds) {
    out += kinds.size() == 1
               ? std::string("all layers: ")
               : fmt::format("layer{} {}: ", kind["layers"].size() > 1 ? "s" : "", Ranges(kind["layers"]));
    out += kind["attention"].get<std::string>();
    const Json& rotary = kind["rotary"];
    if (rotary.is_object()) {
      out += fmt::format(", rotary positions with base {}", FormatNumber(rotary["rope_theta"].get<double>()));
      if (rotary["rope_type"] != "default")
        out += fmt::format(", {} by {}", rotary["rope_type"].get<std::string>(),
                           FormatNumber(rotary["factor"].get<double>()));
    }
    out += "\n";
  }
  return out;
}

std::string Uses(const Json& info) {
  const Json& uses = info["uses"];
  std::string out;
  for (const char* command : {"predict", "evaluate", "train"})
    if (!uses[command].empty())
      out += fmt::format("{}{} --task {}", out.empty() ? "" : "; ", command, Joined(uses[command]));
  for (const char* command : {"pretrain", "convert", "tune", "search", "serve", "inspect"})
    if (uses[command].get<bool>()) out += fmt::format("; {}", command);
  return "runs in: " + out + "\n";
}

std::string Sentences(const Json& info) {
  if (!info.contains("sentence_folder") || info["sentence_folder"].is_null()) return "";
  const Json& folder = info["sentence_folder"];
  std::string out = "Sentence-Transformers folder: " + Joined(folder["modules"]) +
                    "; similarity: " + folder["similarity"].get<std::string>();
  if (!folder["prompts"].empty()) out += "; prompts: " + Joined(folder["prompts"]);
  return out + "\n";
}

std::string Estimates(const Json& estimates, const Json& config) {
  if (estimates.is_null()) return "";
  Table table{{"one text here, estimated", "tokens", "time", "memory of the process MB"}, {}};
  bool beyond = false;
  for (const Json& row : estimates["texts"]) {
    const bool too_long = row["beyond_positions"].get<bool>();
    beyond |= too_long;
    const double seconds = row["seconds"].get<double>();
    table.Row({"", row["length"].dump() + (too_long ? " *" : ""),
               seconds < 1 ? FormatNumber(1e3 * seconds, 2) + " ms" : FormatNumber(seconds, 2) + " s",
               FormatNumber(row["bytes"].get<double>() / 1e6, 2)});
  }
  std::string out = "\n" + PlainText(table);
  out += fmt::format(
      "from {} GFLOP/s of products and {} of attention, measured now on {} threads; an estimate, and too "
      "long where the machine has other work\n",
      FormatNumber(estimates["gemm_gflops"].get<double>(), 3),
      FormatNumber(estimates["attention_gflops"].begin()->get<double>(), 3), estimates["threads"].dump());
  if (beyond)
    out += fmt::format("* longer than the {} positions of this model\n", config["max_position_embeddings"].dump());
  return out;
}

void PrintModel(const Json& info) {
  const Json& config = info["config"];
  std::string out = Shape(info) + Layers(info) + Sentences(info) + Uses(info);
  const Json& weights = info["weights"];
  if (weights.is_object() && weights.contains("unreadable"))
    out += fmt::format("weights: {}, a format that is not read; save the model with safetensors first\n",
                       weights["unreadable"].get<std::string>());
  else if (weights.is_object())
    out += fmt::format("weights: {}, {} tensors, {}, {} MB\n", info["weights"]["file"].get<std::string>(),
                       info["weights"]["tensors"].dump(), info["weights"]["dtype"].get<std::string>(),
                       FormatNumber(info["weights"]["bytes"].get<double>() / 1e6));
  Table parameters{{"block", "parameters"}, {}};
  for (const auto& [name, count] : info["parameters"].items()) parameters.Row({name, count.dump()});
  parameters.Row({"total", info["parameters_total"].dump()});
  Table costs{{"one sequence, forward", "length", "attention MFLOP", "linear MFLOP", "activations MB", "in training MB",
               "training work MB"},
              {}};
  bool beyond = false;
  for (const Json& row : info["costs"]) {
    const bool too_long = row["beyond_positions"].get<bool>();
    beyond |= too_long;
    const auto mega = [&](const char* key) { return FormatNumber(row[key].get<double>() / 1e6); };
    costs.Row({row["attention"].get<std::string>(), row["length"].dump() + (too_long ? " *" : ""),
               mega("attention_flops"), mega("linear_flops"), mega("activation_bytes"), mega("training_bytes"),
               mega("attention_work_bytes")});
  }
  out += "\n" + PlainText(parameters);
  if (!info["costs"].empty()) out += "\n" + PlainText(costs);
  if (beyond)
    out += fmt::format("* beyond the {} positions of this model: what it would cost with a longer table\n",
                       config["max_position_embeddings"].dump());
  out += Estimates(info["estimates"], config);
  std::fputs(out.c_str(), stdout);
}

void PrintBuild(const Json& info) {
  const auto text = [](const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); };
  std::string out =
      fmt::format("lshformer {}, {}, {}\n", text(info["version"]), text(info["compiler"]), text(info["build"]));
  out += fmt::format("CPU: {}, {} cores, {} threads used\n", text(info["cpu"]["name"]), text(info["cpu"]["cores"]),
                     text(info["cpu"]["threads"]));
  out += fmt::format("instruction sets: {} in use; this machine runs {}; compiled {}\n", text(info["isa"]["active"]),
                     Joined(info["isa"]["available"]), Joined(info["isa"]["compiled"]));
  if (!info["isa"]["no_amx"].is_null()) out += fmt::format("no amx: {}\n", text(info["isa"]["no_amx"]));
  out += fmt::format("devices: {}\nlibraries:\n", Joined(info["devices"]));
  for (const auto& [name, version] : info["libraries"].items()) out += fmt::format("  {:<14}{}\n", name, text(version));
  std::fputs(out.c_str(), stdout);
}

// Of the library and of the command line.
Json ProgramBuildInfo() {
  Json info = BuildInfo(), libraries = Json::object();
  for (const auto& [name, version] : info["libraries"].items()) {
    libraries[name] = version;
    if (name == "ICU") libraries["CLI11"] = CLI11_VERSION;
  }
  info["libraries"] = libraries;
  return info;
}

void Run(const InfoFlags& flags) {
  const int subjects = (flags.build ? 1 : 0) + (flags.folder.empty() ? 0 : 1) + (flags.model_type.empty() ? 0 : 1);
  if (subjects != 1) FailUsage("info: expected a model folder, --model_type or --build, one of the three");
  if (flags.model_type.empty() && !flags.config_overrides.empty())
    FailOption("config_overrides", "is for {}", OptionName{"model_type"});
  const Json info = flags.build ? ProgramBuildInfo()
                    : flags.folder.empty()
                        ? NewModelInfo(flags.model_type, flags.config_overrides, flags.lengths, flags.attention)
                        : ModelInfo(flags.folder, flags.lengths, flags.attention);
  if (flags.json) {
    std::fputs((info.dump(2) + "\n").c_str(), stdout);
  } else if (flags.build) {
    PrintBuild(info);
  } else {
    PrintModel(info);
  }
}

}  // namespace

void AddInfo(CLI::App& app, CommonFlags&) {
  auto flags = std::make_shared<InfoFlags>();
  CLI::App* command = app.add_subcommand("info", "what a model is and costs; or what this program is made of");
  command->add_option("DIR", flags->folder, "model folder");
  command->add_option("--model_type", flags->model_type, "a model that is not made yet, of this type")
      ->check(OneOf(ModelTypes()))
      ->group("Info");
  command->add_option("--config_overrides", flags->config_overrides, "changes to its config")
      ->type_name("KEY=VALUE,…")
      ->group("Info");
  command->add_flag("--build", flags->build, "version, instruction sets, libraries, devices")->group("Info");
  command->add_flag("--json", flags->json, "JSON instead of text")->group("Info");
  command->add_option("--lengths", flags->lengths, "tokens of the sequences whose costs are shown")
      ->delimiter(',')
      ->check(IntegerIn(1, int64_t{1} << 24))
      ->group("Info");
  AddAttentionFlags(*command, flags->attention);
  command->callback([flags] { Run(*flags); });
}

}  // namespace lshformer::cli
