#include "text/sentence_piece/chars_map.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

// A unit of the double array. The children of a node at place p are at (p ^ Offset) ^ byte; a child is one if its label
// is the byte. The value of a key that ends at the node is at p ^ Offset.
uint32_t Offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }
uint32_t Label(uint32_t unit) { return unit & 0x800000FF; }  // the top bit marks values, which are nobody's child
bool EndsKey(uint32_t unit) { return (unit & 0x100) != 0; }
uint32_t Value(uint32_t unit) { return unit & 0x7FFFFFFF; }

}  // namespace

// Visits all that a walk can reach. A trie shares equal ends, so a place may be reached in several ways.
class CharsMap::Checker {
 public:
  Checker(const CharsMap& map, const std::string& where)
      : units_(map.units_), replacements_(map.replacements_), where_(where), nested_(units_.size(), kNew) {}

  // The most keys on a walk on from a node whose children are around `base`.
  int Visit(uint32_t base, size_t depth) {
    if ((base | 0xFF) >= units_.size()) Fail("{}: the trie leads out of its {} units", where_, units_.size());
    if (depth > kMaxKeyBytes) Fail("{}: the trie has a circle, or a key of more than {} bytes", where_, kMaxKeyBytes);
    uint8_t& known = nested_[base];
    if (known != kNew) return known;
    int most = 0;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t unit = units_[base ^ byte];
      if (Label(unit) != byte) continue;
      const uint32_t next = base ^ byte ^ Offset(unit);
      int keys = Visit(next, depth + 1);
      if (EndsKey(unit)) {
        CheckReplacement(Value(units_[next]));
        ++keys;
      }
      most = std::max(most, keys);
    }
    if (most > kMaxNestedKeys) Fail("{}: more than {} keys of the trie begin one another", where_, kMaxNestedKeys);
    known = static_cast<uint8_t>(most);
    return most;
  }

 private:
  static constexpr uint8_t kNew = 255;

  void CheckReplacement(uint32_t at) const {
    if (at >= replacements_.size() || !BeginsCodePoint(replacements_[at])) {
      Fail("{}: a replacement is at byte {}, where none of the {} bytes of replacements begins", where_, at,
           replacements_.size());
    }
  }

  const std::vector<uint32_t>& units_;
  const std::string& replacements_;
  const std::string& where_;
  std::vector<uint8_t> nested_;  // by base: what Visit has returned
};

CharsMap::CharsMap(std::string_view table, const std::string& where) {
  if (table.empty()) return;
  uint32_t bytes = 0;
  if (table.size() > sizeof(bytes)) {
    for (size_t i = 0; i < sizeof(bytes); ++i) bytes |= uint32_t{static_cast<uint8_t>(table[i])} << (8 * i);
  }
  if (bytes == 0 || bytes % sizeof(uint32_t) != 0 || bytes >= table.size() - sizeof(bytes)) {
    Fail("{}: the size of the trie is {}, which does not fit a table of {} bytes", where, bytes, table.size());
  }
  table.remove_prefix(sizeof(bytes));
  units_.resize(bytes / sizeof(uint32_t));
  std::memcpy(units_.data(), table.data(), bytes);
  replacements_ = table.substr(bytes);
  if (replacements_.back() != '\0' || !IsValidUtf8(replacements_))
    Fail("{}: expected replacements in UTF-8, each ending in NUL", where);
  Checker(*this, where).Visit(Offset(units_[0]), 0);
}

template <class Action>
void CharsMap::ForEachPrefix(std::string_view text, const Action& action) const {
  if (units_.empty()) return;
  uint32_t base = Offset(units_[0]);
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<uint8_t>(text[at]);
    const uint32_t unit = units_[base ^ byte];
    if (Label(unit) != byte) return;
    base ^= byte ^ Offset(unit);
    if (EndsKey(unit) && !action(Match{at + 1, replacements_.data() + Value(units_[base])})) return;
  }
}

CharsMap::Match CharsMap::LongestPrefix(std::string_view text) const {
  Match longest;
  ForEachPrefix(text, [&](const Match& match) {
    longest = match;
    return true;
  });
  return longest;
}

CharsMap::Match CharsMap::ShortestPrefix(std::string_view text) const {
  Match shortest;
  ForEachPrefix(text.substr(0, text.find('\0')), [&](const Match& match) {
    shortest = match;
    return false;
  });
  return shortest;
}

}  // namespace lshformer
