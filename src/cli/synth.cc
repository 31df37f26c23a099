// lshformer synth: synthetic data of any size.
#include "jobs/synth.h"

#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"

namespace lshformer::cli {

void AddSynth(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand("synth", "write synthetic data of any size");
  auto options = std::make_shared<SynthOptions>();
  command
      ->add_option(
          "--task", options->task,
          "text for pretraining, reviews with a sentiment (TSV: sentence, label), questions with options (JSONL), "
          "questions on long documents (SQuAD JSON), sequences of numbers said twice (a line each), or a SQuAD file's "
          "questions with the labels of BERT-LSH's script (SQuAD JSON)")
      ->check(OneOf({"text", "classification", "multiple-choice", "qa", "duplication", "mislabelled-qa"}))
      ->required()
      ->group("Data");
  command->add_option("--output", options->output, "file to write; - is stdout")
      ->type_name("FILE")
      ->required()
      ->group("Data");
  command->add_option("--input", options->input, "mislabelled-qa: the SQuAD file")->type_name("FILE")->group("Data");
  command->add_option("--words", options->words, "of text, at least; the last document is whole")
      ->check(IntegerIn(1, INT64_MAX))
      ->group("Data");
  command
      ->add_option("--examples", options->examples,
                   "reviews, questions with options, documents with a question, or sequences")
      ->check(IntegerIn(1, INT64_MAX))
      ->group("Data");
  command->add_option("--length", options->length, "qa, duplication: words of a document or sequence, about")
      ->check(IntegerIn(1, 10'000'000))
      ->group("Data");
  command
      ->add_option("--unanswerable", options->unanswerable,
                   "qa: share of the questions that their document does not answer, as in SQuAD 2.0")
      ->check(NumberIn({.low = 0, .high = 1}))
      ->group("Data");
  command->footer("The same seed writes the same data; a larger file begins with the smaller one.");
  command->callback([options, command, &common] {
    const std::string foreign = "does not belong to --task " + options->task;
    RefuseFlags(*command, {options->task == "text" ? "--examples" : "--words"}, foreign.c_str());
    if (options->task != "mislabelled-qa") RefuseFlags(*command, {"--input"}, foreign.c_str());
    if (options->task == "mislabelled-qa") RefuseFlags(*command, {"--examples"}, foreign.c_str());
    if (options->task != "qa") RefuseFlags(*command, {"--unanswerable"}, foreign.c_str());
    if (options->task != "qa" && options->task != "duplication") RefuseFlags(*command, {"--length"}, foreign.c_str());
    options->seed = common.seed;
    RunSynth(*options);
  });
}

}  // namespace lshformer::cli
