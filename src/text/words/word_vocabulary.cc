#include "text/words/word_vocabulary.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "text/utf8.h"
#include "text/words/english_words.h"

namespace lshformer {
namespace {

constexpr const char* kSpecialLines = "[PAD]\n[UNK]\n";

bool IsSpecialSpelling(std::string_view word) { return word == "[PAD]" || word == "[UNK]"; }

}  // namespace

void WordVocabularyBuilder::Add(const std::vector<std::string>& texts) {
  std::mutex mutex;
  ParallelFor(static_cast<int64_t>(texts.size()), 256, [&](int64_t begin, int64_t end) {
    Counts counts;
    int64_t words = 0;
    std::string spelled;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      SplitEnglish(texts[i], 0, [&](const EnglishWord& word) {
        ++words;
        if (word.text.size() > kLongestWord || word.text.find(U'\0') != word.text.npos) return true;
        spelled.clear();
        for (const char32_t c : word.text) AppendUtf8(c, spelled);
        if (spelled.size() > kLongestWord || IsSpecialSpelling(spelled)) return true;
        const auto found = counts.find(spelled);
        if (found != counts.end()) {
          ++found->second;
        } else {
          counts.emplace(spelled, 1);
        }
        return true;
      });
    }
    const std::lock_guard lock(mutex);
    words_ += words;
    for (const auto& [word, count] : counts) counts_[word] += count;
  });
  DropRareWords();
}

void WordVocabularyBuilder::DropRareWords() {
  if (counts_.size() <= max_words_) return;
  std::vector<int64_t> sorted;
  sorted.reserve(counts_.size());
  for (const auto& [word, count] : counts_) sorted.push_back(count);
  const auto middle = sorted.end() - static_cast<ptrdiff_t>(max_words_ / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  std::erase_if(counts_, [least = *middle](const auto& entry) { return entry.second <= least; });
}

int64_t WordVocabularyBuilder::Count(std::string_view word) const {
  const auto found = counts_.find(word);
  return found == counts_.end() ? 0 : found->second;
}

std::shared_ptr<const WordTokenizer> WordVocabularyBuilder::Build(int64_t min_count, int64_t vocab_size) const {
  if (counts_.empty()) Fail("{}: expected text with words, got none", OptionName{"input"});
  if (vocab_size < 3) FailOption("vocab_size", "expected at least 3 ([PAD], [UNK] and one word), got {}", vocab_size);
  std::vector<std::pair<int64_t, std::string_view>> by_count;
  for (const auto& [word, count] : counts_)
    if (count >= min_count) by_count.emplace_back(-count, word);
  if (by_count.empty()) Fail("{}: no word of the text occurs {} times", OptionName{"min_frequency"}, min_count);
  std::sort(by_count.begin(), by_count.end());
  by_count.resize(std::min(by_count.size(), static_cast<size_t>(vocab_size) - 2));
  std::string text = kSpecialLines;
  for (const auto& [count, word] : by_count) text.append(word) += '\n';
  return std::make_shared<WordTokenizer>(text, kWordsFile, CharactersText(), kCharactersFile);
}

std::shared_ptr<const WordTokenizer> WordVocabularyBuilder::Build(const std::vector<std::string>& words) const {
  std::string text = kSpecialLines;
  for (const std::string& word : words) text.append(word) += '\n';
  return std::make_shared<WordTokenizer>(text, kWordsFile, CharactersText(), kCharactersFile);
}

std::string WordVocabularyBuilder::CharactersText() const {
  std::map<char32_t, int64_t> counts;
  for (const auto& [word, count] : counts_)
    for (const char *at = word.data(), *end = at + word.size(); at < end;) counts[NextCodePoint(at)] += count;
  std::vector<std::pair<int64_t, char32_t>> by_count;
  for (const auto& [c, count] : counts)
    if (!u_iscntrl(static_cast<UChar32>(c))) by_count.emplace_back(-count, c);
  std::sort(by_count.begin(), by_count.end());
  std::string text = kSpecialLines;
  for (const auto& [count, c] : by_count) {
    AppendUtf8(c, text);
    text += '\n';
  }
  return text;
}

Spellings WordVocabularyBuilder::AllSpellings() const {
  Spellings spellings;
  for (const auto& [word, count] : counts_) {
    spellings.insert(word);
    for (std::string& variant : CaseVariants(word)) spellings.insert(std::move(variant));
  }
  return spellings;
}

}  // namespace lshformer
