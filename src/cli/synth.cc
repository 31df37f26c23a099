// lshformer synth: synthetic data of any size.
#include "data/synth.h"

#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "base/progress.h"
#include "base/signals.h"
#include "cli/commands.h"
#include "cli/flags.h"

namespace lshformer::cli {
namespace {

struct SynthFlags {
  std::string task, output;
  int64_t words = 1'000'000, examples = 10'000, length = 1000;
};

void Run(const SynthFlags& flags, const CLI::App& app, uint64_t seed) {
  const bool text = flags.task == "text";
  const bool questions = flags.task == "qa";
  const auto refuse = [&](const char* foreign) {
    if (app.count(foreign) > 0) FailUsage("{}: does not belong to --task {}", foreign, flags.task);
  };
  refuse(text ? "--examples" : "--words");
  if (!questions) refuse("--length");
  AtomicFile file(flags.output);
  Progress progress("writing " + flags.task, text ? flags.words : flags.examples, text ? "words" : "examples");
  const TextSink sink = [&](std::string_view piece, int64_t done) {
    ThrowIfStopped("synth");
    file.Write(piece);
    progress.Update(done);
  };
  if (text) {
    WriteSyntheticText(sink, flags.words, seed);
  } else if (questions) {
    WriteSyntheticQuestions(sink, flags.examples, flags.length, seed);
  } else {
    WriteSyntheticClassification(sink, flags.examples, seed);
  }
  progress.Finish();
  file.Commit();
}

}  // namespace

void AddSynth(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand("synth", "write synthetic data of any size");
  auto flags = std::make_shared<SynthFlags>();
  command
      ->add_option("--task", flags->task,
                   "text for pretraining, reviews with a sentiment (TSV: sentence, label), or questions on long "
                   "documents (SQuAD JSON)")
      ->check(OneOf({"text", "classification", "qa"}))
      ->required()
      ->group("Data");
  command->add_option("--output", flags->output, "file to write; - is stdout")->required()->group("Data");
  command->add_option("--words", flags->words, "of text, at least; the last document is whole")
      ->check(IntegerIn(1, INT64_MAX))
      ->group("Data");
  command->add_option("--examples", flags->examples, "reviews, or documents with a question")
      ->check(IntegerIn(1, INT64_MAX))
      ->group("Data");
  command->add_option("--length", flags->length, "qa: words of a document, about")
      ->check(IntegerIn(1, 10'000'000))
      ->group("Data");
  command->footer("The same seed writes the same data; a larger file begins with the smaller one.");
  command->callback([flags, command, &common] { Run(*flags, *command, common.seed); });
}

}  // namespace lshformer::cli
