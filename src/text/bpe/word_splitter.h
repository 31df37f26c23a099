// "pre_tokenizer" of a tokenizer.json whose model is BPE: how a text is cut into the words that are merged each by
// itself.
//
//   Split      at a string, or at one of the regular expressions of word_pattern.h
//   Digits     digits from other characters, each by itself ("individual_digits") or in runs
//   ByteLevel  at GPT-2's expression ("use_regex"); it is the last
//   Sequence   several, each cutting what those before it left
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/bpe/word_pattern.h"

namespace lshformer {

class WordSplitter {
 public:
  WordSplitter() = default;  // leaves a text whole
  // As RobertaTokenizer has it.
  static WordSplitter ByteLevel(bool adds_space);
  // `json` is the object "pre_tokenizer", or null. Error, which begins with `path`, names what is not supported.
  WordSplitter(const Json& json, const std::string& path);

  bool byte_level() const { return byte_level_; }
  bool adds_space() const { return adds_space_; }  // before a text that does not begin with one
  bool cuts() const { return !steps_.empty(); }
  bool cuts_at_spaces() const;  // wherever one is behind a letter or digit

  // Calls action(word) for each word, none empty, until it returns false. Returns whether it did not.
  using Action = std::function<bool(std::string_view)>;
  bool ForEachWord(std::string_view text, const Action& action) const { return Walk(0, text, action); }

 private:
  enum class Behavior : uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  enum class At : uint8_t { kPattern, kString, kDigits };
  struct Step {
    At at = At::kPattern;
    WordPattern pattern{};
    std::string string{};
    Behavior behavior = Behavior::kIsolated;
    bool inverted = false;  // what lies between matches is the match
  };
  using Range = std::pair<size_t, size_t>;

  void Add(const Json& json, const std::string& where, bool inside);
  void AddSplit(const Json& json, const std::string& where);
  bool Walk(size_t step, std::string_view text, const Action& action) const;
  static std::vector<std::pair<Range, bool>> Matches(const Step& step, std::string_view text);
  static std::vector<Range> Cut(const Step& step, std::string_view text);

  std::vector<Step> steps_;
  bool byte_level_ = false, adds_space_ = false;
};

}  // namespace lshformer
