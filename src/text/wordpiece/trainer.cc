#include "text/wordpiece/trainer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "text/utf8.h"
#include "text/wordpiece/wordpiece.h"

namespace lshformer {
namespace {

class CountingSink final : public WordSink {
 public:
  bool Add(const Word& word) override {
    if (word.too_long) return true;
    ++words;
    if (const auto found = counts.find(word.text); found != counts.end()) {
      ++found->second;
    } else {
      counts.emplace(word.text, 1);
    }
    return true;
  }

  WordCounts counts;
  int64_t words = 0;
};

using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair& pair) const {
    const uint64_t key = static_cast<uint64_t>(pair.first) << 32 | static_cast<uint32_t>(pair.second);
    return (key * 0x9E3779B97F4A7C15) >> 20;  // the golden ratio: neighbouring ids spread over the table
  }
};

// A pair and the words where it was found when this entry was made. As in HF a pair may have several entries, each
// with its own words, and an entry's count may be out of date.
struct Candidate {
  int64_t count;
  Pair pair;
  std::vector<uint32_t> words;

  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class MergeQueue {
 public:
  void Push(Candidate candidate) {
    heap_.push_back(std::move(candidate));
    std::push_heap(heap_.begin(), heap_.end());
  }
  Candidate Pop() {
    std::pop_heap(heap_.begin(), heap_.end());
    Candidate top = std::move(heap_.back());
    heap_.pop_back();
    return top;
  }
  bool empty() const { return heap_.empty(); }

 private:
  std::vector<Candidate> heap_;
};

class Trainer {
 public:
  Trainer(const WordCounts& counts, const WordPieceTraining& training);
  std::vector<std::string> Train();

 private:
  struct TrainingWord {
    std::vector<int32_t> pieces;
    int64_t count;
  };
  using Found = std::unordered_map<Pair, std::vector<uint32_t>, PairHash>;

  void AddAlphabet(const WordCounts& counts);
  void AddWords(const WordCounts& counts);
  int32_t AddToken(const std::string& token);
  void Change(Pair pair, int64_t count, uint32_t word);
  void QueueFound();
  void Merge(uint32_t word, Pair pair, int32_t merged);

  const WordPieceTraining training_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<char32_t, std::pair<int32_t, int32_t>>
      alphabet_;  // ids as the first of a word, and as a later one
  std::vector<TrainingWord> words_;
  std::unordered_map<Pair, int64_t, PairHash> pair_counts_;
  Found found_;  // words where a pair has appeared since the last QueueFound
  MergeQueue queue_;
};

Trainer::Trainer(const WordCounts& counts, const WordPieceTraining& training) : training_(training) {
  if (counts.empty()) Fail("{}: expected text with words, got none", OptionName{"input"});
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) AddToken(token);
  const size_t specials = tokens_.size();
  AddAlphabet(counts);
  if (tokens_.size() > static_cast<size_t>(training.vocab_size)) {
    Fail("{}: expected at least {} ({} special tokens, {} characters with and without \"##\"), got {}",
         OptionName{"vocab_size"}, tokens_.size(), specials, tokens_.size() - specials, training.vocab_size);
  }
  AddWords(counts);
}

int32_t Trainer::AddToken(const std::string& token) {
  const auto [entry, is_new] = ids_.emplace(token, static_cast<int32_t>(tokens_.size()));
  if (is_new) tokens_.push_back(token);
  return entry->second;
}

void Trainer::AddAlphabet(const WordCounts& counts) {
  struct Use {
    int64_t count = 0;
    bool later = false;
  };
  std::map<char32_t, Use> uses;
  for (const auto& [word, count] : counts) {
    for (const char *next = word.data(), *end = next + word.size(), *begin = next; next < end;) {
      const bool later = next != begin;
      Use& use = uses[NextCodePoint(next)];
      use.count += count;
      use.later = use.later || later;
    }
  }
  std::vector<std::pair<int64_t, char32_t>> by_count;  // the most frequent first, then by code point
  for (const auto& [c, use] : uses) by_count.emplace_back(-use.count, c);
  std::sort(by_count.begin(), by_count.end());
  for (size_t i = static_cast<size_t>(training_.limit_alphabet); i < by_count.size(); ++i)
    uses.erase(by_count[i].second);

  const auto name = [](const char* prefix, char32_t c) {
    std::string token = prefix;
    AppendUtf8(c, token);
    return token;
  };
  for (const auto& [c, use] : uses) alphabet_[c].first = AddToken(name("", c));
  for (const auto& [c, use] : uses) {
    if (use.later) alphabet_[c].second = AddToken(name("##", c));
  }
}

void Trainer::AddWords(const WordCounts& counts) {
  std::vector<const WordCounts::value_type*> sorted;
  for (const auto& entry : counts) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  for (const auto* entry : sorted) {
    TrainingWord word{{}, entry->second};
    const char* const begin = entry->first.data();
    for (const char *next = begin, *end = begin + entry->first.size(); next < end;) {
      const bool first = next == begin;
      const auto found = alphabet_.find(NextCodePoint(next));
      if (found != alphabet_.end()) word.pieces.push_back(first ? found->second.first : found->second.second);
    }
    const auto index = static_cast<uint32_t>(words_.size());
    for (size_t i = 1; i < word.pieces.size(); ++i) {
      Change({word.pieces[i - 1], word.pieces[i]}, word.count, index);
    }
    words_.push_back(std::move(word));
  }
  QueueFound();
}

void Trainer::Change(Pair pair, int64_t count, uint32_t word) {
  pair_counts_[pair] += count;
  if (count <= 0) return;
  std::vector<uint32_t>& words = found_[pair];
  if (words.empty() || words.back() != word) words.push_back(word);
}

void Trainer::QueueFound() {
  for (auto& [pair, words] : found_) {
    const int64_t count = pair_counts_[pair];
    if (count > 0) queue_.Push({count, pair, std::move(words)});
  }
  found_.clear();
}

void Trainer::Merge(uint32_t index, Pair pair, int32_t merged) {
  TrainingWord& word = words_[index];
  std::vector<int32_t>& pieces = word.pieces;
  for (size_t i = 0; i + 1 < pieces.size(); ++i) {
    if (pieces[i] != pair.first || pieces[i + 1] != pair.second) continue;
    pieces[i] = merged;
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    if (i > 0) {
      Change({pieces[i - 1], pair.first}, -word.count, index);
      Change({pieces[i - 1], merged}, word.count, index);
    }
    if (i + 1 < pieces.size()) {
      Change({pair.second, pieces[i + 1]}, -word.count, index);
      Change({merged, pieces[i + 1]}, word.count, index);
    }
  }
}

std::vector<std::string> Trainer::Train() {
  while (tokens_.size() < static_cast<size_t>(training_.vocab_size) && !queue_.empty()) {
    Candidate top = queue_.Pop();
    const int64_t count = pair_counts_[top.pair];
    if (count != top.count) {
      top.count = count;
      queue_.Push(std::move(top));
      continue;
    }
    if (count < std::max<int64_t>(1, training_.min_frequency)) break;
    const std::string& second = tokens_[static_cast<size_t>(top.pair.second)];
    const std::string_view tail = std::string_view(second).substr(second.starts_with("##") ? 2 : 0);
    const int32_t merged = AddToken(tokens_[static_cast<size_t>(top.pair.first)] + std::string(tail));
    for (const uint32_t word : top.words) Merge(word, top.pair, merged);
    QueueFound();
  }
  return tokens_;
}

}  // namespace

void WordCounter::Add(const std::vector<std::string>& texts) {
  const auto count = static_cast<int64_t>(texts.size());
  const int64_t grain = std::max<int64_t>(1, count / (4 * Threads()));
  std::vector<CountingSink> pieces(static_cast<size_t>((count + grain - 1) / grain));
  ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
    CountingSink& sink = pieces[static_cast<size_t>(begin / grain)];
    for (int64_t i = begin; i < end; ++i) SplitWords(texts[static_cast<size_t>(i)], 0, options_, sink);
  });
  for (const CountingSink& piece : pieces) {
    words_ += piece.words;
    for (const auto& [word, times] : piece.counts) counts_[word] += times;
  }
  if (counts_.size() > max_words_) DropRareWords();
}

void WordCounter::DropRareWords() {
  std::vector<int64_t> times;
  times.reserve(counts_.size());
  for (const auto& [word, count] : counts_) times.push_back(count);
  const auto middle = times.end() - static_cast<std::ptrdiff_t>(max_words_ / 2) - 1;
  std::nth_element(times.begin(), middle, times.end());
  const int64_t rare = *middle;
  std::erase_if(counts_, [rare](const auto& entry) { return entry.second <= rare; });
}

std::vector<std::string> TrainWordPiece(const WordCounts& counts, const WordPieceTraining& training) {
  return Trainer(counts, training).Train();
}

void SaveWordPiece(const std::string& folder, const std::vector<std::string>& vocabulary,
                   const NormalizerOptions& options) {
  WordPieceOptions settings;
  settings.normalizer = options;
  settings.clean_up_spaces = true;  // as the published BERT models
  WordPieceTokenizer(Vocabulary({vocabulary.begin(), vocabulary.end()}), "the trained vocabulary", settings)
      .Save(folder, 0);
}

}  // namespace lshformer
