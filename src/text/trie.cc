#include "text/trie.h"

#include <algorithm>
#include <deque>

namespace lshformer {

Trie::Trie(std::vector<std::pair<std::string_view, int32_t>> keys) {
  std::sort(keys.begin(), keys.end());
  nodes_.resize(1024);
  nodes_[0].parent = kRoot;
  struct Span {  // keys [begin, end) share the path of `depth` bytes that leads to `node`
    size_t begin, end, depth;
    uint32_t node;
  };
  std::deque<Span> open;
  if (!keys.empty()) open.push_back({0, keys.size(), 0, 0});
  std::vector<uint8_t> bytes;
  std::vector<size_t> starts;
  while (!open.empty()) {
    const Span span = open.front();
    open.pop_front();
    size_t begin = span.begin;
    if (keys[begin].first.size() == span.depth) nodes_[span.node].value = keys[begin++].second;
    if (begin == span.end) continue;
    bytes.clear();
    starts.clear();
    for (size_t i = begin; i < span.end; ++i) {
      const auto byte = static_cast<uint8_t>(keys[i].first[span.depth]);
      if (!bytes.empty() && bytes.back() == byte) continue;
      bytes.push_back(byte);
      starts.push_back(i);
    }
    starts.push_back(span.end);
    const uint32_t base = FindBase(bytes);
    nodes_[span.node].base = base;
    for (size_t i = 0; i < bytes.size(); ++i) {
      nodes_[base + bytes[i]].parent = span.node;
      open.push_back({starts[i], starts[i + 1], span.depth + 1, base + bytes[i]});
    }
  }
}

// The first place where every child finds a free node, or the end of the array after kSteps, so that building takes
// linear time whatever the keys are. An only child takes the first free node, which fills the gaps that others leave.
// `bytes` is sorted.
uint32_t Trie::FindBase(const std::vector<uint8_t>& bytes) {
  constexpr uint32_t kSteps = 256;
  while (nodes_[first_free_].parent != kFree) ++first_free_;
  const bool only_child = bytes.size() == 1;
  const uint32_t begin = only_child ? first_free_ : std::max(first_free_, search_from_);
  const auto fits = [&](uint32_t node) {
    return std::all_of(bytes.begin(), bytes.end(),
                       [&](uint8_t byte) { return nodes_[node - bytes.front() + byte].parent == kFree; });
  };
  uint32_t node = begin;
  while (node < used_end_ && node < begin + kSteps && !fits(node)) ++node;
  if (node == begin + kSteps) {
    search_from_ = only_child ? search_from_ : node;  // what lies before is nearly full
    node = used_end_;
  }
  const uint32_t base = node - bytes.front();
  used_end_ = std::max(used_end_, base + bytes.back() + 1);
  if (used_end_ + 512 > nodes_.size()) nodes_.resize(2 * nodes_.size() + 512);
  return base;
}

}  // namespace lshformer
