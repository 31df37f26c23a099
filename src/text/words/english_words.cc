#include "text/words/english_words.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "text/utf8.h"
#include "text/words/english_affixes.h"
#include "text/words/english_exceptions.h"

namespace lshformer {
namespace {

using Text = std::u32string_view;

// The words of one chunk of text between white space.
class ChunkSplitter {
 public:
  ChunkSplitter() : exceptions_(EnglishExceptions::Get()) {}

  const std::vector<Text>& Split(Text chunk) {
    words_.clear();
    suffixes_.clear();
    const Text middle = TakeAffixes(chunk);
    if (!middle.empty()) AddMiddle(middle);
    words_.insert(words_.end(), suffixes_.rbegin(), suffixes_.rend());
    if (words_.size() > 1) JoinExceptions();
    return words_;
  }

 private:
  // Prefixes go to words_, suffixes to suffixes_; returns what is between them.
  Text TakeAffixes(Text text) {
    while (!text.empty() && exceptions_.Find(text) == nullptr) {
      const size_t prefix = EnglishPrefix(text);
      const Text rest = text.substr(prefix);
      if (prefix > 0 && exceptions_.Find(rest) != nullptr) {
        words_.push_back(text.substr(0, prefix));
        return rest;
      }
      const size_t suffix = EnglishSuffix(rest);
      const Text front = text.substr(0, text.size() - suffix);
      if (suffix > 0 && exceptions_.Find(front) != nullptr) {
        suffixes_.push_back(text.substr(front.size()));
        return front;
      }
      if (prefix + suffix == 0) break;
      if (prefix > 0) words_.push_back(text.substr(0, prefix));
      if (suffix > 0) suffixes_.push_back(text.substr(front.size()));
      text = rest.substr(0, rest.size() - suffix);
    }
    return text;
  }

  void AddMiddle(Text text) {
    if (const auto* parts = exceptions_.Find(text); parts != nullptr) return AddParts(text, *parts, words_);
    if (IsEnglishAddress(text)) return words_.push_back(text);
    size_t begin = 0;
    for (size_t at = 1; at < text.size();) {
      const size_t infix = EnglishInfix(text, at);
      if (infix == 0) {
        ++at;
        continue;
      }
      if (at > begin) words_.push_back(text.substr(begin, at - begin));
      words_.push_back(text.substr(at, infix));
      begin = at += infix;
    }
    if (begin < text.size()) words_.push_back(text.substr(begin));
  }

  static void AddParts(Text text, const EnglishExceptions::Parts& parts, std::vector<Text>& words) {
    for (const uint8_t size : parts) {
      words.push_back(text.substr(0, size));
      text.remove_prefix(size);
    }
  }

  // Neighbours that together are an exception become its parts, the longest first.
  void JoinExceptions() {
    std::vector<std::pair<size_t, size_t>> found;  // [first word, last word]
    for (size_t i = 0; i < words_.size(); ++i) {
      size_t size = words_[i].size();
      for (size_t last = i + 1; last < words_.size() && (size += words_[last].size()) <= exceptions_.longest(); ++last)
        if (exceptions_.Find({words_[i].data(), size}) != nullptr) found.emplace_back(i, last);
    }
    if (found.empty()) return;
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.second - a.first > b.second - b.first; });
    std::vector<size_t> joined(words_.size(), 0);  // last word + 1 of the exception that begins here
    std::vector<bool> taken(words_.size(), false);
    for (const auto& [begin, last] : found) {
      if (!taken[begin] && !taken[last]) joined[begin] = last + 1;
      for (size_t i = begin; i <= last; ++i) taken[i] = true;
    }
    std::vector<Text> words;
    for (size_t i = 0; i < words_.size();) {
      if (joined[i] == 0) {
        words.push_back(words_[i++]);
        continue;
      }
      const Text& last = words_[joined[i] - 1];
      const Text whole(words_[i].data(), static_cast<size_t>(last.data() + last.size() - words_[i].data()));
      AddParts(whole, *exceptions_.Find(whole), words);
      i = joined[i];
    }
    words_ = std::move(words);
  }

  const EnglishExceptions& exceptions_;
  std::vector<Text> words_, suffixes_;
};

}  // namespace

bool IsEnglishSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 ||
         (c >= 0xA0 && u_isUWhiteSpace(static_cast<UChar32>(c)));
}

bool SplitEnglish(std::string_view text, int32_t first, const EnglishWordSink& sink) {
  ChunkSplitter splitter;
  std::u32string chunk;
  int32_t begin = first, index = first;
  // Only the last character of a chunk may stand for two of the text.
  const auto hand_over = [&](int32_t end) {
    if (chunk.empty()) return true;
    for (const Text& word : splitter.Split(chunk)) {
      const auto from = static_cast<size_t>(word.data() - chunk.data()), to = from + word.size();
      const int32_t word_end = to == chunk.size() ? end : begin + static_cast<int32_t>(to);
      if (!sink({word, begin + static_cast<int32_t>(from), word_end})) return false;
    }
    chunk.clear();
    return true;
  };
  const char* const text_end = text.data() + text.size();
  for (const char* at = text.data(); at != text_end;) {
    const char32_t c = NextCodePoint(at);
    const bool is_quote = (c == '\'' || c == '`') && at != text_end && *at == static_cast<char>(c);
    const bool is_space = IsEnglishSpace(c);
    if (is_space && !hand_over(index)) return false;
    if (!is_space && chunk.empty()) begin = index;
    if (!is_space) chunk += is_quote ? U'"' : c;
    index += is_quote ? 2 : 1;
    if (!is_quote) continue;
    ++at;
    if (!hand_over(index)) return false;
  }
  return hand_over(index);
}

}  // namespace lshformer
