// lshformer reproduce NAME: a published table or figure, ours beside what was published.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "jobs/recipes/recipe.h"
#include "report/page.h"

namespace lshformer::cli {
namespace {

struct ReproduceFlags {
  std::string recipe;
  std::vector<std::string> inputs;  // "NAME=VALUE"
  bool list = false, dry_run = false;
  ReproduceOptions options;
};

// Where the installation put them, beside the program.
std::string RecipeFolder() {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  return (self.parent_path() / LSHFORMER_RECIPES).lexically_normal().string();
}

void List() {
  const std::string folder = RecipeFolder();
  for (const std::string& name : RecipeNames(folder)) {
    const Recipe recipe = ReadRecipe(name, folder);
    std::vector<std::string> inputs;
    for (const auto& [input, what] : recipe.inputs) inputs.push_back(input);
    std::cout << fmt::format("{}\n  {}\n  hours on two cores: {}\n  inputs: {}\n\n", name, recipe.title,
                             recipe.hours.empty() ? "–" : recipe.hours,
                             inputs.empty() ? "none" : fmt::format("{}", fmt::join(inputs, ", ")));
  }
  std::cout << "lshformer reproduce NAME --list tells what its inputs are\n";
}

void ListInputs(const Recipe& recipe) {
  std::cout << fmt::format("{}\n{}\nhours on two cores: {}\n", recipe.title, recipe.source,
                           recipe.hours.empty() ? "–" : recipe.hours);
  if (!recipe.inputs.empty()) std::cout << "\n";
  for (const auto& [name, what] : recipe.inputs) std::cout << fmt::format("--input {}=VALUE: {}\n", name, what);
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
  for (const auto& [name, value] : run.flags.items())
    for (const Json& item : value.is_array() ? value : Json::array({value}))
      words.push_back("--" + name + "=" + (item.is_string() ? item.get<std::string>() : item.dump()));
  return words;
}

// A flag that does not exist, or a value of another kind, is found before hours of other runs, not after.
void CheckFlags(const CLI::App& program, const std::vector<RecipeRun>& runs) {
  for (const RecipeRun& run : runs) {
    try {
      OrderArguments(program, WordsOf(run));
    } catch (const Error& error) {
      FailUsage("{}: {}", run.name, error.Spelled(kOptionMark));
    }
  }
}

// Files and folders that are to be read and are not there, once each.
void AddMissingPaths(const CLI::App& program, const std::vector<RecipeRun>& runs, const std::string& output_dir,
                     std::vector<Missing>& missing) {
  for (const RecipeRun& run : runs) {
    const CLI::App* command = &program;
    for (const std::string& word : run.CommandWords()) command = command->get_subcommand(word);
    for (const auto& [name, value] : run.flags.items()) {
      const CLI::Option* option = command->get_option_no_throw("--" + name);
      if (option == nullptr || !IsPath(*option) || name == "output_dir" || name == "resume_from_checkpoint") continue;
      for (const Json& item : value.is_array() ? value : Json::array({value})) {
        const std::string path = item.is_string() ? item.get<std::string>() : "";
        std::error_code error;
        // What earlier runs of the recipe make, and what an input that was not given stands in, are not looked for.
        if (path.starts_with(output_dir + "/") || path.find('{') != path.npos || std::filesystem::exists(path, error))
          continue;
        const std::string text = fmt::format("{} (--{})", Shown(path, 100), name);
        if (std::none_of(missing.begin(), missing.end(), [&](const Missing& other) { return other.name == text; }))
          missing.push_back({text, text + ": no such file or folder"});
      }
    }
  }
}

constexpr const char* kPage = "/report.html";

// A page of somebody else's under the name of ours stays.
void CheckPage(const std::string& folder) {
  const std::string path = folder + kPage;
  std::error_code error;
  if (std::filesystem::exists(path, error) && !IsOurPage(ReadFile(path)))
    FailOption("output_dir", "{} is no page of this program; remove it or name another folder", Shown(path, 160));
}

void PrintTable(const Recipe& recipe, const ReproduceOptions& options) {
  WriteFileAtomically(options.output_dir + kPage, RecipePage(recipe, options));
  std::cout << recipe.title << "\n" << recipe.source << "\n\n" << PlainText(RecipeTable(recipe, options));
  for (const std::string& note : recipe.notes) std::cout << "\n" << note << "\n";
}

void Reproduce(ReproduceFlags& flags, const CommonFlags& common, const CLI::App& program) {
  if (flags.list && flags.recipe.empty()) return List();
  if (flags.recipe.empty()) FailUsage("reproduce: expected the name of a recipe, or --list");
  ReproduceOptions& options = flags.options;
  while (options.output_dir.size() > 1 && options.output_dir.ends_with('/')) options.output_dir.pop_back();
  options.inputs = Inputs(flags.inputs);
  options.common_flags = Inherited(common);
  const Recipe recipe = ReadRecipe(flags.recipe, RecipeFolder());
  if (flags.list) return ListInputs(recipe);
  const bool somewhere = !options.output_dir.empty();
  if (!somewhere) options.output_dir = "OUTPUT";
  std::vector<Missing> missing;
  const std::vector<RecipeRun> runs = PlanRecipe(recipe, options, &missing);
  const bool planned = missing.empty();
  if (!somewhere) missing.push_back({Marked("output_dir"), Marked("output_dir") + ": required"});
  AddMissingPaths(program, runs, options.output_dir, missing);
  if (planned) CheckFlags(program, runs);
  Refuse(missing);
  if (flags.dry_run) {
    for (const RecipeRun& run : runs) std::cout << CommandLine(run) << "\n";
    return;
  }
  CheckPage(options.output_dir);
  MakeFolder(options.output_dir);
  try {
    RunRecipe(runs, options);
  } catch (const Error&) {
    PrintTable(recipe, options);  // of what there is
    throw;
  }
  PrintTable(recipe, options);
  for (const std::string& line : UnknownMetrics(recipe, options)) spdlog::warn("{}: {}", flags.recipe, line);
}

}  // namespace

void AddReproduce(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand("reproduce", "a published table or figure, ours beside theirs");
  auto flags = std::make_shared<ReproduceFlags>();
  command->add_option("NAME", flags->recipe, "a recipe of --list, or a file of one's own (docs/formats.md)")
      ->type_name("NAME")
      ->group("Recipe");
  command->add_flag("--list", flags->list, "the recipes that there are, or the inputs of the one named")
      ->group("Recipe");
  command
      ->add_option("--input", flags->inputs, "what the recipe is to be run on; without it the error says what it needs")
      ->type_name("NAME=VALUE")
      ->group("Recipe")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--row", flags->options.rows, "these rows only")
      ->type_name("NAME")
      ->group("Recipe")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--column", flags->options.columns, "these columns only")
      ->type_name("NAME")
      ->group("Recipe")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--output_dir", flags->options.output_dir,
                   "folder for a run a cell, and report.html; finished runs in it are kept, a stopped one goes on")
      ->type_name("DIR")
      ->group("Output");
  command->add_flag("--dry_run", flags->dry_run, "only print the commands")->group("Output");
  command->callback([command, flags, &common] {
    if (command->get_parent()->count("--seed") > 0) FailOption("seed", "a recipe says its own");
    Reproduce(*flags, common, *command->get_parent());
  });
}

}  // namespace lshformer::cli
