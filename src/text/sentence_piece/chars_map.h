// SentencePiece's table of the characters that its normaliser replaces (precompiled_charsmap):
//
//   uint32 bytes of the trie | the trie, a double array of uint32 (Darts-clone) | replacements, each ending in NUL
//
// all little-endian. At each place of a text the longest key that it begins with is replaced; a key's value is where
// its replacement begins.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lshformer {

class CharsMap {
 public:
  static constexpr size_t kMaxKeyBytes = 256;
  static constexpr int kMaxNestedKeys = 32;  // keys that begin one another: the library has room for no more

  CharsMap() = default;  // replaces nothing
  // Error, which begins with `where`, if any text could lead the walk out of the trie, or to more keys than the library
  // has room for, or to a replacement that is not text within the table.
  CharsMap(std::string_view table, const std::string& where);

  struct Match {
    size_t length = 0;  // bytes of the text; 0: nothing is replaced here
    std::string_view replacement;
  };
  Match LongestPrefix(std::string_view text) const;
  // The shortest key that the text begins with; none has a NUL.
  Match ShortestPrefix(std::string_view text) const;

 private:
  class Checker;
  // Calls action(match) for each key that the text begins with, the shortest first, until it returns false.
  template <class Action>
  void ForEachPrefix(std::string_view text, const Action& action) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace lshformer
