// A set of byte strings with values, as a double array (Aoe, "An efficient digital search algorithm by using a
// double-array structure", 1989): one dependent load a byte, and the longest match comes out of a single walk.
#pragma once
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace lshformer {

class Trie {
 public:
  struct Match {
    int32_t value = -1;  // −1: no key is a prefix of the text
    size_t length = 0;   // bytes
  };

  Trie() : Trie(std::vector<std::pair<std::string_view, int32_t>>{}) {}
  // Keys are non-empty and unique, values ≥ 0. O(total bytes); the keys are not kept.
  explicit Trie(std::vector<std::pair<std::string_view, int32_t>> keys);

  // The longest key that `text` begins with.
  Match LongestPrefix(std::string_view text) const {
    Match match;
    uint32_t node = 0;
    for (size_t at = 0; at < text.size(); ++at) {
      const uint32_t next = nodes_[node].base + static_cast<uint8_t>(text[at]);
      if (nodes_[next].parent != node) break;
      node = next;
      if (nodes_[node].value >= 0) match = {nodes_[node].value, at + 1};
    }
    return match;
  }

  // Calls action(match) for every key that `text` begins with, the shortest first.
  template <class Action>
  void ForEachPrefix(std::string_view text, const Action& action) const {
    uint32_t node = 0;
    for (size_t at = 0; at < text.size(); ++at) {
      const uint32_t next = nodes_[node].base + static_cast<uint8_t>(text[at]);
      if (nodes_[next].parent != node) return;
      node = next;
      if (nodes_[node].value >= 0) action(Match{nodes_[node].value, at + 1});
    }
  }

 private:
  struct Node {
    uint32_t base = 0;        // the child by byte b is node base + b
    uint32_t parent = kFree;  // whose child this is
    int32_t value = -1;
  };
  static constexpr uint32_t kFree = UINT32_MAX, kRoot = UINT32_MAX - 1;
  static constexpr uint32_t kFirst = 257;  // children begin here, so that base = child − byte is at least 1

  uint32_t FindBase(const std::vector<uint8_t>& bytes);

  std::vector<Node> nodes_;  // 256 more than used, so that a walk needs no bounds check
  uint32_t first_free_ = kFirst, search_from_ = kFirst;
  uint32_t used_end_ = kFirst;  // all nodes from here on are free
};

}  // namespace lshformer
