// Words of English that are no words of the rules of english_words.h: contractions in their parts (do n't),
// abbreviations and faces as one (U.S., e.g., :-)). The list of spaCy's English tokenizer
// (spacy/lang/en/tokenizer_exceptions.py and spacy/lang/tokenizer_exceptions.py, MIT licence), which goes by exact
// spelling, case included.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lshformer {

class EnglishExceptions {
 public:
  using Parts = std::vector<uint8_t>;  // characters of each, in order

  static const EnglishExceptions& Get();
  // The parts of `word`, or nullptr if the rules hold for it.
  const Parts* Find(std::u32string_view word) const {
    if (word.size() > longest_) return nullptr;
    const auto found = parts_.find(word);
    return found == parts_.end() ? nullptr : &found->second;
  }
  size_t longest() const { return longest_; }  // characters

 private:
  EnglishExceptions();
  // The parts are parted by a space: "do n't".
  void Add(std::string_view parts);
  void AddSpelling(std::string_view parts);
  void AddContractions();

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::u32string_view word) const { return std::hash<std::u32string_view>{}(word); }
  };
  std::unordered_map<std::u32string, Parts, Hash, std::equal_to<>> parts_;
  size_t longest_ = 0;
};

}  // namespace lshformer
