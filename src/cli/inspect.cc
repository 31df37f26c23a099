// lshformer inspect: the raw numbers of a model on a batch.
#include "jobs/inspect.h"

#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"

namespace lshformer::cli {

void AddInspect(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand("inspect", "raw numbers of a model: hidden states, attention maps, gradients");
  auto options = std::make_shared<InspectOptions>();
  const char* group = "Model";
  command->add_option("--model_name_or_path", options->model_name_or_path, "checkpoint folder")
      ->required()
      ->type_name("DIR")
      ->group(group);
  command->add_option("--task", options->task, "which head; default: from the config's architectures")
      ->check(OneOf({"fill-mask", "pretraining", "text-classification", "multiple-choice", "question-answering"}))
      ->group(group);
  group = "Input and output";
  command
      ->add_option("--input", options->input,
                   "JSONL: input_ids or text, and labels (multiple-choice: a list of input_ids an option); - is stdin")
      ->required()
      ->type_name("FILE")
      ->group(group);
  command->add_option("--output", options->output, "safetensors file; - is stdout")
      ->required()
      ->type_name("FILE")
      ->group(group);
  group = "What to write beside last_hidden_state, pooler_output, logits and loss";
  command->add_flag("--hidden_states", options->hidden_states, "of every layer, embeddings first")->group(group);
  command->add_flag("--attentions", options->attentions, "attention maps of every layer and line")->group(group);
  command->add_flag("--gradients", options->gradients, "of the loss by every parameter; needs labels")->group(group);
  AddAttentionFlags(*command, options->attention);
  command->callback([options] { RunInspect(*options); });
}

}  // namespace lshformer::cli
