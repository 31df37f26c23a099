#include "jobs/synth.h"

#include "base/error.h"
#include "base/files.h"
#include "base/progress.h"
#include "base/signals.h"
#include "data/file_kind.h"
#include "jobs/mislabelled_questions.h"
#include "synth/synth.h"

namespace lshformer {

void RunSynth(const SynthOptions& options) {
  const bool text = options.task == "text", questions = options.task == "qa",
             choices = options.task == "multiple-choice", duplicates = options.task == "duplication",
             mislabelled = options.task == "mislabelled-qa";
  if (!text && !questions && !choices && !duplicates && !mislabelled && options.task != "classification")
    FailOption("task", "expected text, classification, multiple-choice, qa, duplication or mislabelled-qa, got \"{}\"",
               Shown(options.task));
  if (mislabelled != !options.input.empty())
    FailOption("input", "{}", mislabelled ? "required: a SQuAD file" : "is for mislabelled-qa");
  const SquadData squad = mislabelled ? ReadSquad(options.input, SquadUse::kMayHaveNone) : SquadData();
  if (questions || choices || mislabelled)
    RefuseOtherKind(options.output, {"json", "jsonl"}, "rows of JSON (.json, .jsonl)");
  else
    RefuseOtherKind(options.output, {"tsv"}, text || duplicates ? "text (.txt)" : "a table with tabs (.tsv)");
  AtomicFile file(options.output);
  Progress progress("writing " + options.task,
                    text          ? options.words
                    : mislabelled ? static_cast<int64_t>(squad.questions.size())
                                  : options.examples,
                    text ? "words" : "examples");
  const TextSink sink = [&](std::string_view piece, int64_t done) {
    ThrowIfStopped("synth");
    file.Write(piece);
    progress.Update(done);
  };
  if (text) {
    WriteSyntheticText(sink, options.words, options.seed);
  } else if (questions) {
    WriteSyntheticQuestions(sink, options.examples, options.length, options.seed, /*look=*/{}, options.unanswerable);
  } else if (mislabelled) {
    WriteMislabelledQuestions(sink, squad);
  } else if (choices) {
    WriteSyntheticChoices(sink, options.examples, options.seed);
  } else if (duplicates) {
    WriteSyntheticDuplicates(sink, options.examples, options.length, options.seed);
  } else {
    WriteSyntheticClassification(sink, options.examples, options.seed);
  }
  progress.Finish();
  file.Commit();
}

}  // namespace lshformer
