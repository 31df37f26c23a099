#include "text/trie.h"

#include <algorithm>
#include <deque>

namespace lshformer {

Trie::Trie(std::vector<std::pair<std::string_view, int32_t>> keys) {
  std::sort(keys.begin(), keys.end());
  nodes_.resize(512);
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

// The first place where every child finds a free node; after kTries failures the end of the array, so that the time
// is linear whatever the keys are. `bytes` is sorted.
uint32_t Trie::FindBase(const std::vector<uint8_t>& bytes) {
  constexpr int kTries = 2000;
  while (nodes_[first_free_].parent != kFree) {
    ++first_free_;
    if (first_free_ + 256 >= nodes_.size()) nodes_.resize(2 * nodes_.size());
  }
  const uint32_t end = static_cast<uint32_t>(nodes_.size()) - 256;
  uint32_t base = end;
  int tries = 0;
  for (uint32_t node = std::max<uint32_t>(first_free_, bytes.front() + 1); node < end && tries < kTries; ++node) {
    if (nodes_[node].parent != kFree) continue;
    ++tries;
    const uint32_t candidate = node - bytes.front();
    if (std::all_of(bytes.begin(), bytes.end(),
                    [&](uint8_t byte) { return nodes_[candidate + byte].parent == kFree; })) {
      base = candidate;
      break;
    }
  }
  if (base + 512 >= nodes_.size()) nodes_.resize(2 * nodes_.size());
  return base;
}

}  // namespace lshformer
