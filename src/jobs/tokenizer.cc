#include "jobs/tokenizer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/folder_lock.h"
#include "base/json.h"
#include "base/logging.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/writing.h"
#include "data/corpus.h"
#include "data/file_kind.h"
#include "data/json_rows.h"
#include "data/squad.h"
#include "data/word_vectors.h"
#include "io/gzip.h"
#include "io/lines_ahead.h"
#include "jobs/tokenizer_encode.h"
#include "text/sentence_piece/trainer.h"
#include "text/words/word_vocabulary.h"

namespace lshformer {
namespace {

using AddTexts = std::function<void(const std::vector<std::string>&)>;
constexpr size_t kBlock = size_t{1} << 24;  // bytes of text that are worked on together

void WarnReplaced(const std::string& path, int64_t replaced) {
  if (replaced > 0) spdlog::warn("{}: {} invalid UTF-8 sequences were replaced by U+FFFD", InputName(path), replaced);
}

// Questions and contexts, SQuAD's or of its form, not rows with a text. A pipe goes by its name.
bool HoldsQuestions(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return DataExtension(path) == "json";
  Json row;
  if (!HoldsJson(path) || !JsonRows(path, {}).Next(row)) return false;
  return row.contains("paragraphs") || row.contains("data") ||
         (row.contains("question") && row.contains("context") && !row.contains("text"));
}

void ReadTexts(const std::string& path, const AddTexts& add);

// Hands the lines of a file, or the texts of its rows of JSON, to `add` in blocks of bounded size.
void ReadBlocks(const std::string& path, const char* what, const AddTexts& add) {
  if (HoldsJson(path)) return ReadTexts(path, add);
  LineReader lines(path);
  Progress progress(what + InputName(path), lines.bytes_total(), "bytes");
  std::vector<std::string> block;
  int64_t replaced = 0;
  for (bool more = true; more;) {
    ThrowIfStopped("tokenizer train");
    std::string line;
    for (size_t bytes = 0; bytes < kBlock && (more = lines.Next(line)); bytes += line.size() + 1) {
      block.push_back(IsValidUtf8(line) ? line : CleanUtf8(line, &replaced));
    }
    add(block);
    block.clear();
    progress.Update(lines.bytes_read());
  }
  progress.Finish();
  WarnReplaced(path, replaced);
}

// Hands the paragraphs of a text, the rows of JSON, or the contexts and questions of SQuAD's files to `add`, in blocks
// of bounded size. Invalid UTF-8 in a text is replaced, which a warning counts.
void ReadTexts(const std::string& path, const AddTexts& add) {
  if (HoldsQuestions(path)) {
    SquadData squad = ReadSquad(path, SquadUse::kQuestionsOnly);
    add(squad.contexts);
    std::vector<std::string> questions;
    for (SquadQuestion& question : squad.questions) questions.push_back(std::move(question.text));
    return add(questions);
  }
  RowReader rows(path, /*line_by_line=*/false);
  Progress progress("reading " + InputName(path), rows.bytes_total(), "bytes");
  std::vector<std::string> block;
  for (bool more = true; more;) {
    ThrowIfStopped("reading text");
    std::string row;
    for (size_t bytes = 0; bytes < kBlock && (more = rows.Next(row)); bytes += row.size() + 1) block.push_back(row);
    add(block);
    block.clear();
    progress.Update(rows.bytes_read());
  }
  progress.Finish();
  WarnReplaced(path, rows.replaced());
}

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

// The text of a line of ids. Error names the line.
std::string Decoded(const Tokenizer& tokenizer, const LineAhead& line, bool skip_special_tokens) {
  if (!line.error.empty()) throw Error(line.error);
  const std::vector<int32_t> ids = ParseIds(ParseJson(line.text, line.where), line.where);
  try {
    return tokenizer.Decode(ids, skip_special_tokens);
  } catch (const Error& error) {
    Fail("{}: {}", line.where, error.Spelled(kOptionMark));
  }
}

void TrainUnigram(const TokenizerTrainOptions& options) {
  const bool lowercase = options.training.normalizer.lowercase;
  const AlbertTextOptions text{.lowercase = lowercase, .keep_accents = !lowercase};
  SentencePieceSample sample(text);
  for (const std::string& path : options.input)
    ReadBlocks(path, "reading ", [&](const std::vector<std::string>& lines) { sample.Add(lines); });
  if (const auto kept = static_cast<int64_t>(sample.stretches().size()); kept < sample.seen())
    spdlog::warn("the text is large: trained on {} of its {} stretches of up to 4 KiB", kept, sample.seen());
  SaveSentencePiece(options.output_dir, TrainSentencePiece(sample, options.training.vocab_size), text);
}

void TrainWords(const TokenizerTrainOptions& options) {
  WordVocabularyBuilder builder;
  for (const std::string& path : options.input)
    ReadTexts(path, [&](const std::vector<std::string>& texts) { builder.Add(texts); });
  builder.Build(options.training.min_frequency, options.training.vocab_size)
      ->Save(options.output_dir, /*max_length=*/0);
}

}  // namespace

void RunTokenizerVectors(const WordVectorOptions& options) {
  const HeldLog warnings;
  for (const std::string& input : options.input) RefuseInputAsOutput("input", input, options.output);
  RefuseOtherKind(options.output, {}, "vectors as text (.txt, .vec)");
  AtomicFile file(options.output);  // before hours of work, not after
  SkipGramText text(options.lowercase);
  for (const std::string& path : options.input)
    ReadTexts(path, [&](const std::vector<std::string>& texts) { text.Add(texts); });
  const WordVectors vectors = TrainSkipGram(text, options.training);
  if (!std::all_of(vectors.values.begin(), vectors.values.end(), [](float value) { return std::isfinite(value); }))
    Fail("the vectors grew without bound: expected a lower {} than {} or fewer {} than {}", OptionName{"learning_rate"},
         options.training.learning_rate, OptionName{"negative"}, options.training.negative);
  WriteWordVectors(file, vectors);
  file.Commit();
}

void RunTokenizerTrain(const TokenizerTrainOptions& options) {
  const HeldLog warnings;
  const FolderLock lock(options.output_dir, Marked("output_dir"));
  if (!options.overwrite_output_dir && !IsEmptyButForLock(options.output_dir)) {
    Fail("{}: the folder is not empty; {} replaces its tokenizer", InputName(options.output_dir),
         OptionName{"overwrite_output_dir"});
  }
  if (options.type == TokenizerType::kUnigram) return TrainUnigram(options);
  if (options.type == TokenizerType::kWords) return TrainWords(options);
  WordPieceTraining training = options.training;
  training.normalizer.strip_accents = training.normalizer.lowercase;
  WordCounter counter(training.normalizer);
  for (const std::string& path : options.input) {
    ReadBlocks(path, "counting words of ", [&](const std::vector<std::string>& lines) { counter.Add(lines); });
  }
  const std::vector<std::string> vocabulary = TrainWordPiece(counter.counts(), training);
  SaveWordPiece(options.output_dir, vocabulary, training.normalizer);
  if (static_cast<int64_t>(vocabulary.size()) < training.vocab_size) {
    Warn("the text gives {} tokens, {} asked for {}", vocabulary.size(), OptionName{"vocab_size"}, training.vocab_size);
  }
}

void RunTokenizerEncode(const TokenizerEncodeOptions& options) {
  const HeldLog warnings;
  RefuseInputAsOutput("input", options.input, options.output);
  RefuseOtherKind(options.output, {"json", "jsonl"}, "lines of JSON (.jsonl, .json)");
  if (options.encode.add_special_tokens && options.encode.max_length != 0)
    CheckMaxSeqLength(options.encode.max_length, /*texts=*/1, /*tokenizer=*/nullptr);
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Load(options.tokenizer);
  if (!options.jsonl && IsJsonLines(options.input))
    Warn("{}: each line is read as a text as it stands; {} reads lines of JSON", Shown(options.input, 120),
         OptionName{"jsonl"});
  LineReader lines(options.input);
  AtomicFile output(options.output);
  const EncodeStatistics statistics = EncodeLines(
      *tokenizer, lines, options.jsonl, options.encode, [&](std::string_view json) { output.Write(json); },
      [&] { output.Flush(); });
  output.Commit();
  WarnReplaced(options.input, statistics.replaced);
  if (statistics.bad > 0) {
    Fail("{} of {} lines could not be encoded, the first: {}", statistics.bad, statistics.lines,
         statistics.first_error);
  }
  if (statistics.truncated > 0) {
    spdlog::warn("{}: {} of {} texts were cut to {} tokens", InputName(options.input), statistics.truncated,
                 statistics.lines, options.encode.max_length);
  }
}

void RunTokenizerDecode(const TokenizerDecodeOptions& options) {
  constexpr size_t kLinesAtOnce = 4096, kBytesAtOnce = size_t{1} << 20;
  RefuseInputAsOutput("input", options.input, options.output);
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Load(options.tokenizer);
  LineReader lines(options.input);
  AtomicFile output(options.output);
  int64_t count = 0, bad = 0;
  std::string first_error;
  for (bool more = true; more; output.Flush()) {
    ThrowIfStopped("tokenizer decode");
    std::vector<LineAhead> ahead;
    more = ReadLinesAhead(lines, kLinesAtOnce, kBytesAtOnce, ahead);
    count += static_cast<int64_t>(ahead.size());
    for (const LineAhead& line : ahead) {
      std::string text;
      try {
        text = Decoded(*tokenizer, line, options.skip_special_tokens);
      } catch (const Error& error) {
        if (++bad == 1) first_error = error.what();
        text = Json{{"error", error.what()}}.dump(-1, ' ', false, Json::error_handler_t::replace);
      }
      output.Write(text + "\n");
    }
  }
  output.Commit();
  if (bad > 0) Fail("{} of {} lines could not be decoded, the first: {}", bad, count, first_error);
}

}  // namespace lshformer
