#include "text/words/skip_gram.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "base/progress.h"
#include "base/signals.h"
#include "kernels/skip_gram.h"
#include "text/utf8.h"
#include "text/words/english_words.h"
#include "text/words/word_tokenizer.h"

namespace lshformer {
namespace {

constexpr int32_t kTextEnd = -1;

// A piece of work that is worth waking a thread: so many rows of `length` numbers.
int64_t RowsPerPiece(int64_t length) { return std::max<int64_t>(16, 16384 / length); }

// The words of a few texts, numbered by themselves.
struct Piece {
  std::vector<std::string> words;
  std::vector<int64_t> counts;
  std::vector<int32_t> tokens;
};

Piece NumberWords(std::span<const std::string> texts, bool lowercase) {
  Piece piece;
  std::unordered_map<std::string, int32_t> numbers;
  std::string spelled;
  for (const std::string& text : texts) {
    SplitEnglish(text, 0, [&](const EnglishWord& word) {
      if (word.text.find(U'\0') != word.text.npos) return true;  // no file of words could hold it
      spelled.clear();
      for (const char32_t c : word.text) AppendUtf8(c, spelled);
      if (lowercase) spelled = CaseVariants(spelled)[0];
      const auto [entry, is_new] = numbers.emplace(spelled, static_cast<int32_t>(piece.words.size()));
      if (is_new) {
        piece.words.push_back(spelled);
        piece.counts.push_back(0);
      }
      piece.tokens.push_back(entry->second);
      ++piece.counts[static_cast<size_t>(entry->second)];
      return true;
    });
    piece.tokens.push_back(kTextEnd);
  }
  return piece;
}

// Draws numbers with given weights in constant time: Walker's alias method (Vose, 1991).
class AliasTable {
 public:
  explicit AliasTable(const std::vector<double>& weights) : entries_(weights.size()) {
    double sum = 0;
    for (const double weight : weights) sum += weight;
    std::vector<double> scaled(weights.size());
    std::vector<int32_t> small, large;
    for (size_t i = 0; i < weights.size(); ++i) {
      scaled[i] = weights[i] / sum * static_cast<double>(weights.size());
      (scaled[i] < 1 ? small : large).push_back(static_cast<int32_t>(i));
    }
    while (!small.empty() && !large.empty()) {
      const int32_t less = small.back(), more = large.back();
      small.pop_back();
      entries_[static_cast<size_t>(less)] = {Threshold(scaled[static_cast<size_t>(less)]), more};
      double& rest = scaled[static_cast<size_t>(more)];
      rest -= 1 - scaled[static_cast<size_t>(less)];
      if (rest >= 1) continue;
      large.pop_back();
      small.push_back(more);
    }
    for (const std::vector<int32_t>* left : {&small, &large})
      for (const int32_t i : *left) entries_[static_cast<size_t>(i)] = {UINT32_MAX, i};
  }

  int32_t Draw(uint32_t place, uint32_t coin) const {
    const auto i = static_cast<int32_t>(uint64_t{place} * entries_.size() >> 32);
    const Entry& entry = entries_[static_cast<size_t>(i)];
    return coin <= entry.threshold ? i : entry.alias;
  }

 private:
  struct Entry {
    uint32_t threshold;
    int32_t alias;
  };
  static uint32_t Threshold(double share) { return static_cast<uint32_t>(std::min(share * 0x1p32, 0x1p32 - 1)); }
  std::vector<Entry> entries_;
};

// The vectors of one table that a batch reads, each with the pairs it is in.
struct Entry {
  int32_t center, slot;  // of the batch; of the center's words around it, or of its targets
  int32_t next;          // the row's next entry; −1: none
};
class TouchedRows {
 public:
  explicit TouchedRows(size_t rows) : place_(rows, -1) {}

  void Add(int32_t row, int32_t center, int32_t slot) {
    const auto entry = static_cast<int32_t>(entries_.size());
    entries_.push_back({center, slot, -1});
    int32_t& place = place_[static_cast<size_t>(row)];
    if (place < 0) {
      place = static_cast<int32_t>(rows_.size());
      rows_.push_back({row, entry, entry});
    } else {
      Row& known = rows_[static_cast<size_t>(place)];
      entries_[static_cast<size_t>(known.last)].next = entry;
      known.last = entry;
    }
  }
  void Clear() {
    for (const Row& row : rows_) place_[static_cast<size_t>(row.row)] = -1;
    rows_.clear();
    entries_.clear();
  }

  struct Row {
    int32_t row, first, last;  // first and last entry
  };
  const std::vector<Row>& rows() const { return rows_; }
  const Entry& entry(int32_t i) const { return entries_[static_cast<size_t>(i)]; }

 private:
  std::vector<int32_t> place_;  // [rows of the table] in rows_; −1: not touched
  std::vector<Row> rows_;
  std::vector<Entry> entries_;
};

struct Table {
  Table(size_t rows, int64_t length) : length(length), values(rows * static_cast<size_t>(length)) {}
  float* Row(int32_t row) { return values.data() + row * length; }
  const float* Row(int32_t row) const { return values.data() + row * length; }
  int64_t length;
  std::vector<float> values;
};

struct Center {
  std::vector<int32_t> around, targets;  // words; the first target is the center itself
  std::vector<float> steps;              // [around, targets] rate · (label − σ(u·v))
};

class Trainer {
 public:
  Trainer(const SkipGramText& text, const SkipGramOptions& options);
  WordVectors Train();

 private:
  std::vector<int32_t> ChooseWords(const SkipGramText& text);  // returns new numbers by old ones
  void DrawOccurrences(int64_t epoch);
  void GatherCenter(int64_t epoch, int64_t place, Center& center) const;
  void ComputeSteps(float rate, Center& center) const;
  void RunBatch(int64_t epoch, int64_t begin, float rate);
  void SumChanges(const TouchedRows& touched, size_t r, bool is_target, float* sum) const;
  void Update();

  const SkipGramOptions options_;
  const size_t size_;  // words that have a vector
  std::vector<std::string> words_;
  std::vector<int64_t> counts_;
  std::vector<int32_t> tokens_;  // words that have a vector; kTextEnd
  std::vector<int32_t> kept_;    // of tokens_, in this epoch
  std::vector<double> stay_;     // [words] probability
  Table inputs_, outputs_;
  std::vector<Center> centers_;
  TouchedRows touched_inputs_, touched_outputs_;
  std::vector<float> changes_;  // rows of the touched inputs, then of the touched outputs
  AliasTable targets_;
};

void CheckOptions(const SkipGramOptions& options) {
  const auto check = [](const char* name, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most) FailOption(name, "expected {} to {}, got {}", least, most, value);
  };
  check("vector_size", options.vector_size, 1, WordVectors::kWidest);
  check("window", options.window, 1, SkipGramOptions::kWidestWindow);
  check("min_count", options.min_count, 1, INT64_MAX);
  check("epochs", options.epochs, 1, 1'000'000);
  check("negative", options.negative, 1, SkipGramOptions::kMostNegative);
  if (!(options.sample >= 0 && options.sample <= 1)) FailOption("sample", "expected 0 to 1, got {}", options.sample);
  if (!(options.learning_rate > 0 && options.learning_rate <= 1))
    FailOption("learning_rate", "expected above 0 and at most 1, got {}", options.learning_rate);
}

int64_t RowLength(int64_t vector_size) { return (vector_size + kRowMultiple - 1) / kRowMultiple * kRowMultiple; }

size_t CountFrequent(const SkipGramText& text, int64_t min_count) {
  const auto& counts = text.counts();
  const auto frequent = std::count_if(counts.begin(), counts.end(), [&](int64_t count) { return count >= min_count; });
  if (frequent < 2)
    Fail("{}: expected two words that occur {} times ({}) or more, got {}", OptionName{"input"}, min_count,
         OptionName{"min_count"}, frequent);
  return static_cast<size_t>(frequent);
}

std::vector<double> TargetWeights(const SkipGramText& text, int64_t min_count) {
  std::vector<int64_t> counts;
  for (const int64_t count : text.counts())
    if (count >= min_count) counts.push_back(count);
  std::sort(counts.begin(), counts.end(), std::greater<>());
  std::vector<double> weights;
  for (const int64_t count : counts) weights.push_back(std::pow(static_cast<double>(count), 0.75));
  return weights;
}

Trainer::Trainer(const SkipGramText& text, const SkipGramOptions& options)
    : options_(options),
      size_(CountFrequent(text, options.min_count)),
      inputs_(size_, RowLength(options.vector_size)),
      outputs_(size_, RowLength(options.vector_size)),
      centers_(kSkipGramBatch),
      touched_inputs_(size_),
      touched_outputs_(size_),
      targets_(TargetWeights(text, options.min_count)) {
  const std::vector<int32_t> numbers = ChooseWords(text);
  int64_t occurrences = 0;
  for (const int32_t token : text.tokens()) {
    const int32_t number = token == kTextEnd ? kTextEnd : numbers[static_cast<size_t>(token)];
    if (token != kTextEnd && number < 0) continue;  // a rare word
    tokens_.push_back(number);
    occurrences += number >= 0;
  }
  for (const int64_t count : counts_) {
    const double ratio = options_.sample * static_cast<double>(occurrences) / static_cast<double>(count);
    stay_.push_back(options_.sample > 0 ? std::sqrt(ratio) + ratio : 1);
  }
  ParallelFor(static_cast<int64_t>(words_.size()), 1024, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      PhiloxStream random(StreamKey(options_.seed, 0, 0, 0, Purpose::kInitialization), static_cast<uint64_t>(row));
      const auto width = static_cast<double>(options_.vector_size);
      for (int64_t i = 0; i < options_.vector_size; ++i)
        inputs_.Row(static_cast<int32_t>(row))[i] = static_cast<float>((random.Uniform() - 0.5) / width);
    }
  });
}

std::vector<int32_t> Trainer::ChooseWords(const SkipGramText& text) {
  std::vector<size_t> order;
  for (size_t i = 0; i < text.counts().size(); ++i)
    if (text.counts()[i] >= options_.min_count) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return text.counts()[a] > text.counts()[b]; });
  std::vector<int32_t> numbers(text.counts().size(), -1);
  for (const size_t old : order) {
    numbers[old] = static_cast<int32_t>(words_.size());
    words_.push_back(text.words()[old]);
    counts_.push_back(text.counts()[old]);
  }
  return numbers;
}

void Trainer::DrawOccurrences(int64_t epoch) {
  const uint64_t key = StreamKey(options_.seed, static_cast<uint64_t>(epoch), 0, 0, Purpose::kMasking);
  kept_.clear();
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const int32_t word = tokens_[i];
    if (word != kTextEnd && stay_[static_cast<size_t>(word)] < 1 &&
        Philox(key, i, 0)[0] * 0x1p-32 >= stay_[static_cast<size_t>(word)])
      continue;
    kept_.push_back(word);
  }
}

void Trainer::GatherCenter(int64_t epoch, int64_t place, Center& center) const {
  center.around.clear();
  center.targets.clear();
  const int32_t word = kept_[static_cast<size_t>(place)];
  if (word == kTextEnd) return;
  const uint64_t key = StreamKey(options_.seed, static_cast<uint64_t>(epoch), 0, 0, Purpose::kSynthetic);
  const uint32_t draw = Philox(key, static_cast<uint64_t>(place), 0)[0];
  const int64_t reach = 1 + static_cast<int64_t>(uint64_t{draw} * static_cast<uint64_t>(options_.window) >> 32);
  for (const int64_t direction : {-1, 1}) {
    for (int64_t i = 1; i <= reach; ++i) {
      const int64_t other = place + direction * i;
      if (other < 0 || other >= static_cast<int64_t>(kept_.size())) break;
      if (kept_[static_cast<size_t>(other)] == kTextEnd) break;
      center.around.push_back(kept_[static_cast<size_t>(other)]);
    }
  }
  if (center.around.empty()) return;
  center.targets.push_back(word);
  for (int64_t n = 0; n < options_.negative; ++n) {
    const auto bits = Philox(key, static_cast<uint64_t>(place), static_cast<uint64_t>(1 + n / 2));
    const int32_t target =
        targets_.Draw(bits[static_cast<size_t>(n % 2 * 2)], bits[static_cast<size_t>(n % 2 * 2 + 1)]);
    if (target != word) center.targets.push_back(target);
  }
}

void Trainer::ComputeSteps(float rate, Center& center) const {
  const size_t targets = center.targets.size();
  center.steps.resize(center.around.size() * targets);
  std::vector<const float*> rows;
  for (const int32_t target : center.targets) rows.push_back(outputs_.Row(target));
  for (size_t i = 0; i < center.around.size(); ++i) {
    float* const steps = center.steps.data() + i * targets;
    RowProducts(inputs_.Row(center.around[i]), rows.data(), static_cast<int64_t>(targets), inputs_.length, steps);
    LogisticSteps(rate, static_cast<int64_t>(targets), steps);
  }
}

// What the batch adds to the row: to the vector of a word around centers Σ steps · targets, to a target's the other way
// round.
void Trainer::SumChanges(const TouchedRows& touched, size_t r, bool is_target, float* sum) const {
  const int64_t length = inputs_.length;
  std::fill_n(sum, length, 0.0f);
  std::vector<const float*> rows;
  for (int32_t e = touched.rows()[r].first; e >= 0; e = touched.entry(e).next) {
    const Entry& entry = touched.entry(e);
    const Center& center = centers_[static_cast<size_t>(entry.center)];
    const auto targets = static_cast<int64_t>(center.targets.size());
    rows.clear();
    for (const int32_t word : is_target ? center.around : center.targets)
      rows.push_back(is_target ? inputs_.Row(word) : outputs_.Row(word));
    const float* const factors = center.steps.data() + (is_target ? entry.slot : entry.slot * targets);
    AddWeightedRows(rows.data(), factors, is_target ? targets : 1, static_cast<int64_t>(rows.size()), length, sum);
  }
}

// First all sums, of the vectors before the batch; then they are added.
void Trainer::Update() {
  const size_t inputs = touched_inputs_.rows().size(), all = inputs + touched_outputs_.rows().size();
  const auto length = static_cast<size_t>(inputs_.length);
  changes_.resize(std::max(changes_.size(), all * length));
  ParallelFor(static_cast<int64_t>(all), RowsPerPiece(inputs_.length), [&](int64_t begin, int64_t end) {
    for (auto r = static_cast<size_t>(begin); r < static_cast<size_t>(end); ++r) {
      float* const sum = changes_.data() + r * length;
      if (r < inputs) {
        SumChanges(touched_inputs_, r, /*is_target=*/false, sum);
      } else {
        SumChanges(touched_outputs_, r - inputs, /*is_target=*/true, sum);
      }
    }
  });
  ParallelFor(static_cast<int64_t>(all), 4 * RowsPerPiece(inputs_.length), [&](int64_t begin, int64_t end) {
    for (auto r = static_cast<size_t>(begin); r < static_cast<size_t>(end); ++r) {
      float* const row = r < inputs ? inputs_.Row(touched_inputs_.rows()[r].row)
                                    : outputs_.Row(touched_outputs_.rows()[r - inputs].row);
      AddToRow(changes_.data() + r * length, inputs_.length, row);
    }
  });
}

void Trainer::RunBatch(int64_t epoch, int64_t begin, float rate) {
  const int64_t count = std::min(kSkipGramBatch, static_cast<int64_t>(kept_.size()) - begin);
  ParallelFor(count, RowsPerPiece(inputs_.length) / 2, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      Center& center = centers_[static_cast<size_t>(c)];
      GatherCenter(epoch, begin + c, center);
      ComputeSteps(rate, center);
    }
  });
  for (int32_t c = 0; c < count; ++c) {
    const Center& center = centers_[static_cast<size_t>(c)];
    if (center.targets.empty()) continue;
    for (size_t i = 0; i < center.around.size(); ++i) touched_inputs_.Add(center.around[i], c, static_cast<int32_t>(i));
    for (size_t j = 0; j < center.targets.size(); ++j)
      touched_outputs_.Add(center.targets[j], c, static_cast<int32_t>(j));
  }
  Update();
  touched_inputs_.Clear();
  touched_outputs_.Clear();
}

WordVectors Trainer::Train() {
  const auto size = static_cast<int64_t>(tokens_.size());
  Progress progress(fmt::format("vectors of {} words", words_.size()), size * options_.epochs, "words");
  for (int64_t epoch = 0; epoch < options_.epochs; ++epoch) {
    DrawOccurrences(epoch);
    for (int64_t begin = 0; begin < static_cast<int64_t>(kept_.size()); begin += kSkipGramBatch) {
      ThrowIfStopped("tokenizer vectors");
      const double part = static_cast<double>(begin) / static_cast<double>(kept_.size());
      const double done = (static_cast<double>(epoch) + part) / static_cast<double>(options_.epochs);
      RunBatch(epoch, begin, static_cast<float>(options_.learning_rate * std::max(1 - done, 1e-4)));
      progress.Update(static_cast<int64_t>((static_cast<double>(epoch) + part) * static_cast<double>(size)));
    }
  }
  progress.Finish();
  WordVectors vectors;
  vectors.width = options_.vector_size;
  for (size_t row = 0; row < words_.size(); ++row) {
    const float* const values = inputs_.Row(static_cast<int32_t>(row));
    vectors.values.insert(vectors.values.end(), values, values + options_.vector_size);
  }
  vectors.words = std::move(words_);
  return vectors;
}

}  // namespace

void SkipGramText::Add(const std::vector<std::string>& texts) {
  constexpr int64_t kTextsPerPiece = 64;
  const auto count = static_cast<int64_t>(texts.size());
  std::vector<Piece> pieces(static_cast<size_t>((count + kTextsPerPiece - 1) / kTextsPerPiece));
  ParallelFor(count, kTextsPerPiece, [&](int64_t begin, int64_t end) {
    pieces[static_cast<size_t>(begin / kTextsPerPiece)] =
        NumberWords({texts.begin() + begin, texts.begin() + end}, lowercase_);
  });
  std::vector<int32_t> numbers;
  for (const Piece& piece : pieces) {
    numbers.clear();
    for (size_t i = 0; i < piece.words.size(); ++i) {
      const auto [entry, is_new] = numbers_.emplace(piece.words[i], static_cast<int32_t>(words_.size()));
      if (is_new) {
        words_.push_back(piece.words[i]);
        counts_.push_back(0);
      }
      counts_[static_cast<size_t>(entry->second)] += piece.counts[i];
      numbers.push_back(entry->second);
    }
    for (const int32_t token : piece.tokens)
      tokens_.push_back(token == kTextEnd ? kTextEnd : numbers[static_cast<size_t>(token)]);
  }
  texts_ += count;
}

WordVectors TrainSkipGram(const SkipGramText& text, const SkipGramOptions& options) {
  CheckOptions(options);
  return Trainer(text, options).Train();
}

}  // namespace lshformer
