#include "text/sentence_piece/trainer.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <unordered_map>

#include "base/error.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "base/signals.h"
#include "text/sentence_piece/library.h"
#include "text/sentence_piece/sentence_piece.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

// The trainer leaves out longer sentences. Pieces do not cross spaces, so a cut there changes nothing.
constexpr size_t kStretchLimit = 4096;
constexpr const char* kTrainerParts = "16";  // its own default

// Whether the trainer's normaliser leaves any of it: the trainer aborts where nothing is left of all text. It makes
// U+2581 and U+FFFD spaces, and reserves U+2585.
bool IsVisible(std::string_view text) {
  for (const char* next = text.data(); next < text.data() + text.size();) {
    const char32_t c = NextCodePoint(next);
    if (c != 0x2581 && c != 0x2585 && c != 0xFFFD && u_isgraph(static_cast<UChar32>(c))) return true;
  }
  return false;
}

// Cuts a text into stretches and calls `action` with each.
template <class Action>
void ForStretches(std::string_view text, const Action& action) {
  while (text.size() > kStretchLimit) {
    size_t end = text.rfind(' ', kStretchLimit);
    if (end == std::string_view::npos || end == 0) {
      end = kStretchLimit;
      while (!BeginsCodePoint(text[end])) --end;
    }
    action(text.substr(0, end));
    text.remove_prefix(end);
  }
  action(text);
}

// The number that follows `words` in a message; −1 if it does not have them.
int64_t NumberAfter(std::string_view message, std::string_view words) {
  const size_t at = message.find(words);
  int64_t number = -1;
  if (at != std::string_view::npos)
    std::from_chars(message.data() + at + words.size(), message.data() + message.size(), number);
  return number;
}

[[noreturn]] void FailTraining(std::string_view message, int32_t vocab_size) {
  if (const int64_t most = NumberAfter(message, "set it to a value <= "); most >= 0)
    Fail("{}: expected at most {}, which is what the text gives, got {}", OptionName{"vocab_size"}, most, vocab_size);
  if (message.find("smaller than required_chars") != std::string_view::npos) {
    Fail("{}: expected at least {}, the special tokens and characters of the text, got {}", OptionName{"vocab_size"},
         NumberAfter(message, " vs "), vocab_size);
  }
  Fail("the SentencePiece library could not train: {}", Shown(message, 160));
}

}  // namespace

void SentencePieceSample::Add(const std::vector<std::string>& texts) {
  std::vector<std::string> prepared(texts.size());
  ParallelFor(static_cast<int64_t>(texts.size()), 16, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      prepared[i] = AlbertText(texts[i], 0, options_).text();
  });
  const uint64_t key = StreamKey(/*seed=*/0, 0, 0, 0, Purpose::kShuffle);
  for (const std::string& text : prepared) {
    ForStretches(text, [&](std::string_view stretch) {
      if (!IsVisible(stretch)) return;
      const uint32_t number = Philox(key, static_cast<uint64_t>(seen_++), 0)[0];
      if (number > limit_) return;
      stretches_.emplace_back(stretch);
      numbers_.push_back(number);
      bytes_ += stretch.size();
      while (bytes_ > max_bytes_) DropSome();
    });
  }
}

void SentencePieceSample::DropSome() {
  limit_ /= 2;
  bytes_ = 0;
  size_t kept = 0;
  for (size_t i = 0; i < stretches_.size(); ++i) {
    if (numbers_[i] > limit_) continue;
    bytes_ += stretches_[i].size();
    if (kept != i) stretches_[kept] = std::move(stretches_[i]);
    numbers_[kept++] = numbers_[i];
  }
  stretches_.resize(kept);
  numbers_.resize(kept);
}

std::string TrainSentencePiece(const SentencePieceSample& sample, int32_t vocab_size) {
  if (sample.stretches().empty()) Fail("{}: expected text with words, got none", OptionName{"input"});
  // <pad>, <unk>, [CLS], [SEP], [MASK]; the library does not bear less.
  constexpr int32_t kSpecials = 5;
  if (vocab_size <= kSpecials)
    Fail("{}: expected more than the {} special tokens, got {}", OptionName{"vocab_size"}, kSpecials, vocab_size);
  const std::unordered_map<std::string, std::string> settings = {
      {"model_type", "unigram"},
      {"vocab_size", std::to_string(vocab_size)},
      {"character_coverage", "0.99995"},
      {"normalization_rule_name", "nmt_nfkc"},
      {"pad_id", "0"},
      {"unk_id", "1"},
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"control_symbols", "[CLS],[SEP],[MASK]"},
      {"user_defined_symbols", "(,),\"\"\"\",-,.,–,£,€"},  // comma-separated, the quote quoted
      {"max_sentence_length", std::to_string(4 * kStretchLimit)},
      {"num_threads", kTrainerParts},
      {"minloglevel", "3"}};                          // of four: the library says nothing by itself
  const StopAtOnce stops("learning the vocabulary");  // the library works for minutes on long text without spaces
  try {
    return TrainWithSentencePieceLibrary(settings, sample.stretches());
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    FailTraining(error.what(), vocab_size);
  }
}

void SaveSentencePiece(const std::string& folder, const std::string& model, const AlbertTextOptions& options) {
  SentencePieceOptions settings;
  settings.text = options;
  SentencePieceTokenizer(model, "the trained model", settings, {{kSentencePieceFile, model}}).Save(folder, 0);
}

}  // namespace lshformer
