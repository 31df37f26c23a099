// lshformer search: passages of a corpus for a query.
#include "jobs/search/search.h"

#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/precision_flags.h"
#include "jobs/shared_options.h"

namespace lshformer::cli {
namespace {

struct SearchFlags {
  SearchJob job;
  PrecisionFlags precision;
  std::string long_text = kLongTextNames[static_cast<size_t>(PassageOptions{}.long_text)];
  bool json = false;
};

void AddModelFlags(CLI::App& command, SearchFlags& flags) {
  ModelSource& model = flags.job.model;
  command.add_option("--model_name_or_path", model.model_name_or_path, "checkpoint folder")
      ->required()
      ->type_name("DIR")
      ->group(kModelOptions);
  command.add_option("--tokenizer_name", model.tokenizer_name, "tokenizer folder, if not the checkpoint")
      ->type_name("DIR")
      ->group(kModelOptions);
}

void AddReading(CLI::App& command, SearchFlags& flags) {
  PassageOptions& passages = flags.job.passages;
  const char* group = "Limits";
  command
      .add_option(
          "--long_text", flags.long_text,
          "windows: each passage is read alone; whole: documents are read whole, beyond the positions in passes "
          "that overlap, and a passage's vector is made of its own tokens in there (late chunking)")
      ->check(OneOf({"windows", "whole"}))
      ->group("Passages");
  command.add_option("--max_seq_length", passages.max_seq_length, "tokens the model reads; 0: the position table")
      ->check(IntegerIn(0, INT32_MAX))
      ->group(group);
  command.add_option("--batch_tokens", passages.batch_tokens, "tokens a forward call; vectors do not depend on it")
      ->check(IntegerIn(1, int64_t{1} << 24))
      ->group(group);
}

}  // namespace

void AddSearch(CLI::App& app, CommonFlags&) {
  CLI::App* command = app.add_subcommand("search", "passages of a corpus for a query, by their vectors");
  auto flags = std::make_shared<SearchFlags>();
  AddModelFlags(*command, *flags);
  AddTableFlags(*command, SearchTable(), flags->job);
  AddTableFlags(*command, PassageTable(), flags->job.passages);
  AddReading(*command, *flags);
  command->add_flag("--json", flags->json, "a line of JSON a query")->group("Output");
  AddPrecisionFlags(*command, flags->precision, /*inference=*/true);
  AddAttentionFlags(*command, flags->job.model.attention);
  command->callback([command, flags] {
    flags->job.progress = true;
    if (command->count("--query") > 0 && flags->job.query.empty()) FailOption("query", "is blank");
    flags->job.model.precision = flags->precision.Chosen();
    flags->job.model.matmul_precision = flags->precision.ChosenMatmulPrecision();
    PassageOptions& passages = flags->job.passages;
    passages.long_text = command->count("--long_text") == 0 ? LongTextFor(passages.chunking)
                         : flags->long_text == "whole"      ? LongText::kWhole
                                                            : LongText::kWindows;
    RefuseMeaningless(*command, PassageTable(), flags->job.passages);
    AtomicFile output("-");
    bool first = true;
    RunSearch(flags->job, [&](const SearchAnswer& answer) {
      output.Write(flags->json ? ToJson(answer).dump() + "\n" : (first ? "" : "\n") + ToText(answer));
      output.Flush();
      first = false;
    });
    output.Commit();
  });
}

}  // namespace lshformer::cli
