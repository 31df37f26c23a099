// lshformer reproduce NAME: published tables and figures, ours beside what was published.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "base/terminal.h"
#include "cli/arguments.h"
#include "cli/built_from.h"
#include "cli/commands.h"
#include "jobs/recipes/names.h"
#include "jobs/recipes/pages.h"
#include "jobs/recipes/plan.h"
#include "jobs/recipes/run.h"
#include "jobs/recipes/tables.h"

namespace lshformer::cli {
namespace {

struct ReproduceFlags {
  std::string name;
  std::vector<std::string> inputs;  // "NAME=VALUE"
  bool list = false, dry_run = false, quick = false;
  ReproduceOptions options;
};

// Where the installation put them, beside the program.
std::string RecipeFolder() {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  return (self.parent_path() / LSHFORMER_RECIPES).lexically_normal().string();
}

// "2 minutes", "3 hours"
std::string MinutesText(const Recipe& recipe, Form form) {
  const auto found = recipe.minutes.find(form);
  if (found == recipe.minutes.end()) return "not said";
  constexpr double kHour = 60;
  const bool hours = found->second >= 2 * kHour;
  const std::string number = FormatNumber(hours ? found->second / kHour : found->second, 2);
  return fmt::format("{} {}", number, hours ? "hours" : number == "1" ? "minute" : "minutes");
}

// What of --data_dir the full form reads.
std::vector<std::string> DataOf(const Recipe& recipe) {
  const std::string place = "{data_dir}/";
  std::vector<std::string> data;
  for (const RecipeInput& input : recipe.inputs)
    for (const Json& value : input.full.is_array() ? input.full : Json::array({input.full}))
      if (value.is_string() && value.get<std::string>().starts_with(place))
        data.push_back(value.get<std::string>().substr(place.size()));
  return data;
}

// Inputs of the full form that only the user has.
std::vector<std::string> GivenInputsOf(const Recipe& recipe) {
  std::vector<std::string> names;
  for (const RecipeInput& input : recipe.inputs)
    if (input.full.is_null()) names.push_back(input.name);
  return names;
}

std::string Listed(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::string ListText(const Recipe& recipe) {
  const std::string source = recipe.name.substr(0, recipe.name.find('/'));
  std::string names = recipe.name;
  for (const std::string& alias : recipe.aliases) names += fmt::format(", {}/{}", source, alias);
  std::string text = fmt::format("{}\n  {}\n  source: {}\n", names, recipe.title, recipe.source);
  text += fmt::format("  on two cores: {} quick, {} full\n", MinutesText(recipe, Form::kQuick),
                      MinutesText(recipe, Form::kFull));
  text += fmt::format("  data of the full form: {}\n", Listed(DataOf(recipe)));
  if (const std::vector<std::string> given = GivenInputsOf(recipe); !given.empty())
    text += fmt::format("  to be given with --input: {}\n", Listed(given));
  return text;
}

void List() {
  const std::string folder = RecipeFolder();
  for (const std::string& name : RecipeNames(folder)) std::cout << ListText(ReadNamedRecipe(name, folder)) << "\n";
  std::cout << "lshformer reproduce NAME --list tells what its inputs and rows are\n";
}

void ListOne(const Recipe& recipe) {
  std::cout << ListText(recipe);
  const auto value = [](const Json& json) {
    return json.is_null() ? "–" : json.is_string() ? json.get<std::string>() : json.dump();
  };
  for (const RecipeInput& input : recipe.inputs)
    std::cout << fmt::format("\n--input {}=VALUE: {}\n  quick: {}\n  full: {}\n", input.name, input.what,
                             value(input.quick), value(input.full));
  std::cout << "\n";
  for (const RecipeRow& row : recipe.rows)
    if (!row.is_published) std::cout << fmt::format("--row {}: {}\n", row.name, row.title);
  for (const RecipeColumn& column : recipe.columns)
    std::cout << fmt::format("--column {}: {}\n", column.name, column.title);
}

std::map<std::string, std::string> Inputs(const std::vector<std::string>& words) {
  std::map<std::string, std::string> inputs;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size())
      FailOption("input", "expected NAME=VALUE, got \"{}\"", Shown(word));
    if (!inputs.emplace(word.substr(0, equals), word.substr(equals + 1)).second)
      FailOption("input", "{} stands there twice", word.substr(0, equals));
  }
  return inputs;
}

// The common flags, which the recipe's commands are given too.
std::vector<std::string> Inherited(const CommonFlags& common) {
  std::vector<std::string> flags{"--log_level", common.log_level, "--log_format", common.log_format};
  if (common.threads > 0) flags.insert(flags.end(), {"--threads", std::to_string(common.threads)});
  if (common.isa != "auto") flags.insert(flags.end(), {"--isa", common.isa});
  if (common.quiet) flags.emplace_back("--quiet");
  if (common.no_progress) flags.emplace_back("--no_progress");
  return flags;
}

std::vector<std::string> WordsOf(const RecipeRun& run) {
  std::vector<std::string> words = run.CommandWords();
  for (const std::string& word : run.Positionals()) words.push_back(word);
  const Json flags = run.Flags();
  for (const auto& [name, value] : flags.items())
    for (const Json& item : value.is_array() ? value : Json::array({value}))
      words.push_back("--" + name + "=" + (item.is_string() ? item.get<std::string>() : item.dump()));
  return words;
}

// A flag that does not exist, or a value of another kind, is found before hours of other runs, not after.
void CheckFlags(const CLI::App& program, const RecipePlan& plan) {
  for (const RecipeRun& run : plan.runs) {
    try {
      OrderArguments(program, WordsOf(run));
    } catch (const Error& error) {
      FailUsage("{}: {}", run.name, error.Spelled(kOptionMark));
    }
  }
}

// What belongs where nothing is: of the input whose value the path begins with.
std::string WhatBelongs(const std::string& path, const std::vector<DataPath>& data) {
  for (const DataPath& known : data)
    if (path.starts_with(known.path) && !known.what.empty()) return fmt::format("; there belongs: {}", known.what);
  return "";
}

// Files and folders that are to be read and are not there, once each.
void AddMissingPaths(const CLI::App& program, const RecipePlan& plan, const std::vector<DataPath>& data,
                     const std::string& runs_folder, std::vector<Missing>& missing) {
  for (const RecipeRun& run : plan.runs) {
    const CLI::App* command = &program;
    for (const std::string& word : run.CommandWords()) command = command->get_subcommand(word);
    for (const auto& [name, value] : run.flags.items()) {
      const CLI::Option* option = command->get_option_no_throw("--" + name);
      if (option == nullptr || !IsPath(*option) || name.starts_with("output") || name == "resume_from_checkpoint")
        continue;
      for (const Json& item : value.is_array() ? value : Json::array({value})) {
        const std::string path = item.is_string() ? item.get<std::string>() : "";
        std::error_code error;
        // What earlier runs make, and what an input that was not given stands in, are not looked for.
        if (path.starts_with(runs_folder + "/") || path.find('{') != path.npos || std::filesystem::exists(path, error))
          continue;
        const std::string text = fmt::format("{} (--{})", Shown(path, 100), name);
        if (std::none_of(missing.begin(), missing.end(), [&](const Missing& other) { return other.name == text; }))
          missing.push_back({text, text + ": no such file or folder" + WhatBelongs(path, data)});
      }
    }
  }
}

// All recipes that were asked for, as one plan.
struct Asked {
  std::vector<Recipe> recipes;
  std::vector<PlannedCells> cells;
  RecipePlan plan;
};

Asked PlanAll(std::vector<Recipe> recipes, const ReproduceOptions& options, const CLI::App& program) {
  CheckInputs(recipes, options);
  Asked asked{std::move(recipes), {}, {}};
  std::vector<Missing> missing;
  std::vector<DataPath> data;
  for (const Recipe& recipe : asked.recipes)
    asked.cells.push_back(PlanRecipe(recipe, options, asked.plan, missing, data));
  const bool planned = missing.empty();
  AddMissingPaths(program, asked.plan, data, RunsFolder(options), missing);
  if (planned) CheckFlags(program, asked.plan);
  Refuse(missing);
  return asked;
}

// Of what there is.
std::vector<ReproducedRecipe> WriteAll(const Asked& asked, const ReproduceOptions& options) {
  std::vector<ReproducedRecipe> all;
  for (size_t i = 0; i < asked.recipes.size(); ++i) {
    all.push_back(Reproduced(asked.recipes[i], asked.cells[i], asked.plan, options));
    WriteRecipe(all.back(), asked.plan, options);
  }
  WriteReport(all, asked.plan, options);
  return all;
}

void Print(const std::vector<ReproducedRecipe>& all, const ReproduceOptions& options) {
  std::vector<Verdict> verdicts;
  for (const ReproducedRecipe& reproduced : all) {
    std::cout << TerminalText(reproduced, options) << "\n";
    verdicts.insert(verdicts.end(), reproduced.results.verdicts.begin(), reproduced.results.verdicts.end());
  }
  if (all.size() > 1) std::cout << VerdictCounts(verdicts) << "\n";
  std::cout << "report: " << options.output_dir << "/" << kReportFile << "\n";
}

void RunAll(const Asked& asked, const ReproduceOptions& options, bool tells) {
  size_t number = 0;
  const auto tell = [&](const RecipeRun& run) {
    number = asked.plan.places.at(run.key) + 1;
    if (tells) WriteStderrLine(fmt::format("[{}/{}] {}: {}\n", number, asked.plan.runs.size(), run.name, run.command));
  };
  try {
    RunPlan(asked.plan, options, BuiltFrom(), tell);
  } catch (const Error&) {
    Print(WriteAll(asked, options), options);
    throw;
  }
  const std::vector<ReproducedRecipe> all = WriteAll(asked, options);
  Print(all, options);
  for (const ReproducedRecipe& reproduced : all)
    for (const std::string& line : reproduced.results.unknown) spdlog::warn("{}: {}", reproduced.recipe.name, line);
}

void CheckForm(ReproduceFlags& flags) {
  ReproduceOptions& options = flags.options;
  if (flags.quick && !options.data_dir.empty())
    FailOption("quick", "makes its own data; {} is for the full form", OptionName{"data_dir"});
  options.form = flags.quick ? Form::kQuick : Form::kFull;
  for (std::string* folder : {&options.output_dir, &options.data_dir})
    while (folder->size() > 1 && folder->ends_with('/')) folder->pop_back();
  // The same data by another name would be another run.
  if (!options.data_dir.empty()) options.data_dir = CanonicalPath(options.data_dir);
}

void RefuseBesideList(const CLI::App& command) {
  for (const char* name : {"quick", "data_dir", "input", "row", "column", "output_dir", "dry_run"})
    if (command.count(fmt::format("--{}", name)) > 0) FailOption(name, "has no effect beside {}", OptionName{"list"});
}

void Reproduce(ReproduceFlags& flags, const CommonFlags& common, const CLI::App& program) {
  if (flags.list) RefuseBesideList(*program.get_subcommand("reproduce"));
  if (flags.list && flags.name.empty()) return List();
  if (flags.name.empty()) FailUsage("reproduce: expected the name of a recipe, or --list");
  CheckForm(flags);
  ReproduceOptions& options = flags.options;
  options.inputs = Inputs(flags.inputs);
  options.common_flags = Inherited(common);
  FoundRecipes found = FindRecipes(flags.name, RecipeFolder());
  if (!found.told.empty()) std::cout << found.told << "\n\n";
  if (flags.list) {
    for (const Recipe& recipe : found.recipes) ListOne(recipe);
    return;
  }
  if (found.recipes.size() > 1 && (!options.rows.empty() || !options.columns.empty()))
    FailUsage("{}: are of one recipe, and {} are {}", OptionName{options.rows.empty() ? "column" : "row"}, flags.name,
              found.recipes.size());
  const Asked asked = PlanAll(std::move(found.recipes), options, program);
  if (flags.dry_run) {
    for (const RecipeRun& run : asked.plan.runs) std::cout << TypedLines(run);
    return;
  }
  CheckPages(asked.recipes, options);
  CheckEntries(asked.plan, options);
  MakeFolder(options.output_dir);
  RunAll(asked, options, !common.quiet && !common.no_progress);
}

}  // namespace

void AddReproduce(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand("reproduce", "published tables and figures, ours beside theirs");
  auto flags = std::make_shared<ReproduceFlags>();
  flags->options.output_dir = "reproduce";
  const char* group = "Recipe";
  command
      ->add_option("NAME", flags->name,
                   "SOURCE/NAME of --list, SOURCE for all of a source, all; or a file of one's own (docs/formats.md)")
      ->type_name("NAME")
      ->group(group);
  command->add_flag("--list", flags->list, "the recipes that there are, or the inputs of those named")->group(group);
  command->add_flag("--quick", flags->quick, "small, on data that the program makes itself: minutes")->group(group);
  command
      ->add_option("--data_dir", flags->options.data_dir,
                   "in full, on the data in this folder (docs/recipes.md says which)")
      ->type_name("DIR")
      ->group(group);
  command->add_option("--input", flags->inputs, "in place of what the recipe has for this input")
      ->type_name("NAME=VALUE")
      ->group(group)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--row", flags->options.rows, "these rows only")
      ->type_name("NAME")
      ->group(group)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--column", flags->options.columns, "these columns only")
      ->type_name("NAME")
      ->group(group)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  group = "Output";
  command
      ->add_option("--output_dir", flags->options.output_dir,
                   "folder for the runs, and a page of each recipe and of all; finished runs in it are kept, a stopped "
                   "one goes on")
      ->type_name("DIR")
      ->group(group);
  command->add_flag("--dry_run", flags->dry_run, "only print the commands")->group(group);
  command->callback([command, flags, &common] {
    if (command->get_parent()->count("--seed") > 0) FailOption("seed", "a recipe says its own");
    Reproduce(*flags, common, *command->get_parent());
  });
}

}  // namespace lshformer::cli
