// lshformer serve: a server of one or several models.
#include "serve/serve.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/precision_flags.h"
#include "jobs/use_matmul_precision.h"

namespace lshformer::cli {
namespace {

struct ServeFlags {
  ServeOptions options = ServeTable().defaults;
  std::vector<std::string> model_ids;
  PrecisionFlags precision;
};

// What a variable of the environment says and no flag does.
void ReadVariables(const CLI::App& command, ServeOptions& options) {
  const auto list = [](const char* variable, std::vector<std::string>& values) {
    const char* value = std::getenv(variable);
    if (values.empty() && value != nullptr && *value != '\0') values.emplace_back(value);
  };
  list("MODEL_ID", options.folders);
  list("SERVED_MODEL_NAME", options.names);
  for (const auto& [variable, name] : ServeVariables()) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0' || command.count(std::string("--") + name) > 0) continue;
    const Option<ServeOptions>& option = *FindOption(ServeTable(), name);
    if (const std::string wrong = TextError(ServeTable(), option, value); !wrong.empty())
      FailUsage("{}: {}", variable, wrong);
    option.read(Json{{option.name, option.from_text(value)}}, variable, options);
  }
}

}  // namespace

void AddServe(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand("serve", "a server: models behind an address, over HTTP");
  auto flags = std::make_shared<ServeFlags>();
  ServeOptions& options = flags->options;
  command->add_option("DIR", options.folders, "checkpoint folders, a model each; else what MODEL_ID says")
      ->type_name("DIR");
  // Text Embeddings Inference's name of DIR; not in the help.
  command->add_option("--model_id", flags->model_ids)->type_name("DIR")->group("");
  const char* group = "Models";
  command->add_option("--task", options.tasks, "what each model is asked, or all; else what its folder is for")
      ->check(
          OneOf({"fill-mask", "text-classification", "multiple-choice", "question-answering", "feature-extraction"}))
      ->group(group);
  command->add_option("--served_model_name", options.names, "a name for each model in place of its folder's")
      ->type_name("NAME")
      ->group(group);
  AddTableFlags(*command, ServeTable(), options);
  AddPrecisionFlags(*command, flags->precision, /*inference=*/true);
  AddAttentionFlags(*command, options.attention);
  command->callback([command, flags, &common] {
    ServeOptions& options = flags->options;
    if (command->count("--api_key") > 0 && options.api_key.empty())
      FailOption("api_key", "expected a key, got \"\"; without the flag none is asked for");
    if (!flags->model_ids.empty() && !options.folders.empty())
      FailUsage("--model_id: is another name of DIR, which is there too");
    if (!flags->model_ids.empty()) options.folders = flags->model_ids;
    ReadVariables(*command, options);
    options.precision = flags->precision.Chosen();
    UseMatmulPrecision(flags->precision.ChosenMatmulPrecision());
    options.json_log = common.log_format == "json" && !common.quiet;
    RunServe(options);
  });
}

}  // namespace lshformer::cli
