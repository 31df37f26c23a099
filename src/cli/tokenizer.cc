// lshformer tokenizer train | encode | decode.
#include "text/tokenizer.h"

#include <spdlog/spdlog.h>

#include <climits>
#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/signals.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "io/gzip.h"
#include "jobs/tokenizer_encode.h"
#include "text/wordpiece_trainer.h"

namespace lshformer::cli {
namespace {

std::string Shown(const std::string& path) { return path == "-" ? "stdin" : lshformer::Shown(path, 120); }

void WarnReplaced(const std::string& path, int64_t replaced) {
  if (replaced > 0) spdlog::warn("{}: {} invalid UTF-8 sequences were replaced by U+FFFD", Shown(path), replaced);
}

struct TrainFlags {
  std::string type = "wordpiece", output_dir;
  std::vector<std::string> input;
  WordPieceTraining training;
  bool overwrite_output_dir = false;
};

// Hands the file to the counter in blocks of bounded size.
void CountFile(const std::string& path, WordCounter& counter) {
  constexpr size_t kBlock = size_t{1} << 24;
  LineReader lines(path);
  Progress progress("counting words of " + Shown(path), lines.bytes_total(), "bytes");
  std::vector<std::string> block;
  int64_t replaced = 0;
  for (bool more = true; more;) {
    ThrowIfStopped("tokenizer train");
    std::string line;
    for (size_t bytes = 0; bytes < kBlock && (more = lines.Next(line)); bytes += line.size() + 1) {
      block.push_back(IsValidUtf8(line) ? line : CleanUtf8(line, &replaced));
    }
    counter.Add(block);
    block.clear();
    progress.Update(lines.bytes_read());
  }
  progress.Finish();
  WarnReplaced(path, replaced);
}

void Train(const TrainFlags& flags) {
  if (!flags.overwrite_output_dir && !IsEmptyFolder(flags.output_dir)) {
    Fail("{}: the folder is not empty; --overwrite_output_dir replaces its tokenizer", Shown(flags.output_dir));
  }
  WordPieceTraining training = flags.training;
  training.normalizer.strip_accents = training.normalizer.lowercase;
  WordCounter counter(training.normalizer);
  for (const std::string& path : flags.input) CountFile(path, counter);
  const std::vector<std::string> vocabulary = TrainWordPiece(counter.counts(), training);
  SaveWordPiece(flags.output_dir, vocabulary, training.normalizer);
  if (static_cast<int64_t>(vocabulary.size()) < training.vocab_size) {
    spdlog::warn("the text gives {} tokens, --vocab_size asked for {}", vocabulary.size(), training.vocab_size);
  }
}

void AddTrain(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "learn a vocabulary from text");
  auto flags = std::make_shared<TrainFlags>();
  command->add_option("--type", flags->type, "kind of tokenizer")->check(OneOf({"wordpiece"}))->group("Tokenizer");
  command->add_option("--vocab_size", flags->training.vocab_size, "tokens, the special ones included")
      ->check(IntegerIn(1, 1 << 24))
      ->group("Tokenizer");
  command->add_option("--min_frequency", flags->training.min_frequency, "of a pair of pieces that becomes one")
      ->check(IntegerIn(1, INT64_MAX))
      ->group("Tokenizer");
  command->add_option("--limit_alphabet", flags->training.limit_alphabet, "characters kept, the most frequent ones")
      ->check(IntegerIn(1, 1 << 21))
      ->group("Tokenizer");
  command
      ->add_flag("--do_lower_case", flags->training.normalizer.lowercase, "fold case and strip accents; false: neither")
      ->group("Tokenizer");
  command->add_option("--input", flags->input, "text files, plain or .gz; - is stdin")
      ->required()
      ->expected(1, INT_MAX)
      ->type_name("FILE")
      ->group("Files");
  command->add_option("--output_dir", flags->output_dir, "folder for vocab.txt and its settings")
      ->required()
      ->type_name("DIR")
      ->group("Files");
  command->add_flag("--overwrite_output_dir", flags->overwrite_output_dir, "write into a folder that is not empty")
      ->group("Files");
  command->callback([flags] { Train(*flags); });
}

struct EncodeFlags {
  std::string tokenizer, input, output = "-";
  bool jsonl = false;
  EncodeOptions options;
};

void Encode(const EncodeFlags& flags) {
  if (flags.options.add_special_tokens && (flags.options.max_length == 1 || flags.options.max_length == 2)) {
    FailUsage("--max_seq_length: expected at least 3, two special tokens and one of the text, got {}",
              flags.options.max_length);
  }
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Load(flags.tokenizer);
  LineReader lines(flags.input);
  AtomicFile output(flags.output);
  const EncodeStatistics statistics = EncodeLines(
      *tokenizer, lines, flags.jsonl, flags.options, [&](std::string_view json) { output.Write(json); },
      [&] { output.Flush(); });
  output.Commit();
  WarnReplaced(flags.input, statistics.replaced);
  if (statistics.bad > 0) {
    Fail("{} of {} lines could not be encoded, the first: {}", statistics.bad, statistics.lines,
         statistics.first_error);
  }
  if (statistics.truncated > 0) {
    spdlog::warn("{}: {} of {} texts were cut to {} tokens", Shown(flags.input), statistics.truncated, statistics.lines,
                 flags.options.max_length);
  }
}

void AddEncode(CLI::App& app) {
  CLI::App* command = app.add_subcommand("encode", "text lines in; ids, tokens and offsets out, one JSON a line");
  auto flags = std::make_shared<EncodeFlags>();
  command->add_option("--tokenizer", flags->tokenizer, "its folder; vocab.txt alone is an uncased WordPiece")
      ->required()
      ->type_name("DIR")
      ->group("Files");
  command->add_option("--input", flags->input, "text lines, plain or .gz; - is stdin")
      ->required()
      ->type_name("FILE")
      ->group("Files");
  command->add_option("--output", flags->output, "JSON lines; - is stdout")->type_name("FILE")->group("Files");
  command->add_flag("--jsonl", flags->jsonl, "lines are {\"text\", \"text_pair\"}")->group("Files");
  command
      ->add_flag("--add_special_tokens", flags->options.add_special_tokens,
                 "[CLS] text [SEP] pair [SEP] (default true)")
      ->group("Tokens");
  command
      ->add_option("--max_seq_length", flags->options.max_length, "longer texts are cut, the longest first; 0: never")
      ->check(IntegerIn(0, INT32_MAX))
      ->group("Tokens");
  command->callback([flags] { Encode(*flags); });
}

struct DecodeFlags {
  std::string tokenizer, input, output = "-";
  bool skip_special_tokens = false;
};

// A list of ids, or {"input_ids"} or {"ids"}.
std::vector<int32_t> ParseIds(const Json& line, const std::string& where) {
  const char* const key = line.is_object() && line.contains("input_ids") ? "input_ids" : "ids";
  const Json& list = line.is_object() && line.contains(key) ? line[key] : line;
  if (!list.is_array()) Fail("{}: expected a list of ids, or an object with \"input_ids\" or \"ids\"", where);
  std::vector<int32_t> ids;
  for (const Json& id : list) {
    const bool fits = id.is_number_integer() && id >= INT32_MIN && id <= INT32_MAX;
    if (!fits) Fail("{}: expected an id, got {}", where, ShownValue(id));
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

void Decode(const DecodeFlags& flags) {
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Load(flags.tokenizer);
  LineReader lines(flags.input);
  AtomicFile output(flags.output);
  for (std::string line; lines.Next(line);) {
    ThrowIfStopped("tokenizer decode");
    const std::string where = lines.where();
    const std::vector<int32_t> ids = ParseIds(ParseJson(line, where), where);
    try {
      output.Write(tokenizer->Decode(ids, flags.skip_special_tokens));
    } catch (const Error& error) {
      Fail("{}: {}", where, error.what());
    }
    output.Write("\n");
    if (!lines.Ready()) output.Flush();
  }
  output.Commit();
}

void AddDecode(CLI::App& app) {
  CLI::App* command = app.add_subcommand("decode", "ids in, one JSON list or object a line; text out");
  auto flags = std::make_shared<DecodeFlags>();
  command->add_option("--tokenizer", flags->tokenizer, "its folder")->required()->type_name("DIR")->group("Files");
  command->add_option("--input", flags->input, "[1, 2] or {\"input_ids\": [1, 2]} a line, plain or .gz; - is stdin")
      ->required()
      ->type_name("FILE")
      ->group("Files");
  command->add_option("--output", flags->output, "text lines; - is stdout")->type_name("FILE")->group("Files");
  command->add_flag("--skip_special_tokens", flags->skip_special_tokens, "leave out [CLS], [SEP] and their like")
      ->group("Tokens");
  command->callback([flags] { Decode(*flags); });
}

}  // namespace

void AddTokenizer(CLI::App& app, CommonFlags&) {
  CLI::App* command = app.add_subcommand("tokenizer", "learn a vocabulary; text to ids; ids to text");
  command->require_subcommand(1);
  AddTrain(*command);
  AddEncode(*command);
  AddDecode(*command);
}

}  // namespace lshformer::cli
