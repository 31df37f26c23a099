#include "text/bpe/bpe_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "text/bpe/byte_level.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

constexpr size_t kLongestKnown = 64;  // bytes of a word in the table

// FNV-1a, eight bytes at a time; the upper bits are the good ones.
uint64_t HashOf(std::string_view word) {
  uint64_t hash = 0xCBF29CE484222325 ^ word.size();
  size_t at = 0;
  for (; at + 8 <= word.size(); at += 8) {
    uint64_t eight;
    std::memcpy(&eight, word.data() + at, 8);
    hash = (hash ^ eight) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 32;
  }
  for (; at < word.size(); ++at) hash = (hash ^ static_cast<uint8_t>(word[at])) * 0x100000001B3;
  return hash ^ hash >> 29;
}

// Of a min-heap: by rank, then by place.
bool ComesLater(const BpeModel::Scratch::Pair& a, const BpeModel::Scratch::Pair& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
}

}  // namespace

BpeMerges::BpeMerges(size_t count) : entries_(std::bit_ceil(std::max<size_t>(2 * count, 16))) {
  mask_ = entries_.size() - 1;
  shift_ = 64 - std::countr_zero(entries_.size());
}

void BpeMerges::Set(int32_t left, int32_t right, Merge merge) {
  size_t at = Slot(Key(left, right));
  while (entries_[at].merge.id >= 0 && entries_[at].key != Key(left, right)) at = (at + 1) & mask_;
  entries_[at] = {Key(left, right), merge};
}

BpeModel::BpeModel(const Vocabulary& vocabulary, BpeMerges merges, const BpeOptions& options)
    : vocabulary_(vocabulary), merges_(std::move(merges)), options_(options) {
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    std::string token = fmt::format("<0x{:02X}>", byte);
    if (options_.byte_level) {
      token.clear();
      AppendUtf8(CharacterOfByte(static_cast<uint8_t>(byte)), token);
    }
    byte_ids_[byte] = vocabulary_.Id(token);
  }
}

const std::vector<BpePiece>& BpeModel::Split(std::string_view word, Scratch& scratch) const {
  scratch.pieces.clear();
  if (options_.ignore_merges) {
    const int32_t id = vocabulary_.Id(options_.byte_level ? InByteCharacters(word) : std::string(word));
    if (id >= 0) {
      scratch.pieces.push_back({id, static_cast<uint32_t>(word.size())});
      return scratch.pieces;
    }
  }
  AddSymbols(word, scratch);
  MergeAll(scratch);
  for (const Scratch::Symbol& symbol : scratch.symbols)
    if (symbol.bytes > 0) scratch.pieces.push_back({symbol.id, symbol.bytes});
  return scratch.pieces;
}

void BpeModel::AddSymbols(std::string_view word, Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  symbols.clear();
  std::optional<BpePiece> unknown;  // the last one, which may grow
  const auto put = [&](int32_t id, size_t bytes) {
    const auto number = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, static_cast<uint32_t>(bytes), number - 1, number + 1});
  };
  const auto put_unknown = [&] {
    if (unknown) put(unknown->id, unknown->bytes);
    unknown.reset();
  };
  for (size_t at = 0; at < word.size();) {
    const char* next = word.data() + at;
    int32_t id = -1;
    if (options_.byte_level) {
      id = byte_ids_[static_cast<uint8_t>(*next++)];
    } else {
      NextCodePoint(next);
      scratch.token.assign(word.data() + at, next);
      id = vocabulary_.Id(scratch.token);
    }
    const size_t bytes = static_cast<size_t>(next - word.data()) - at;
    const std::string_view character = word.substr(at, bytes);
    at += bytes;
    const bool falls_back = id < 0 && options_.byte_fallback && !options_.byte_level &&
                            std::all_of(character.begin(), character.end(),
                                        [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)] >= 0; });
    if (id >= 0) {
      put_unknown();
      put(id, bytes);
    } else if (falls_back) {  // what was unknown before comes behind it, as in the library
      for (const char byte : character) put(byte_ids_[static_cast<uint8_t>(byte)], 1);
    } else if (options_.unk_id >= 0) {
      if (unknown && !options_.fuse_unk) put_unknown();
      unknown = {options_.unk_id, (unknown ? unknown->bytes : 0) + static_cast<uint32_t>(bytes)};
    }
  }
  put_unknown();
  if (!symbols.empty()) symbols.back().behind = -1;
}

void BpeModel::MergeAll(Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  std::vector<Scratch::Pair>& heap = scratch.heap;
  heap.clear();
  const auto pair_at = [&](int32_t at) {
    const Scratch::Symbol& left = symbols[static_cast<size_t>(at)];
    return merges_.Find(left.id, symbols[static_cast<size_t>(left.behind)].id);
  };
  for (size_t at = 0; at + 1 < symbols.size(); ++at)
    if (const BpeMerges::Merge merge = pair_at(static_cast<int32_t>(at)); merge.id >= 0)
      heap.push_back({merge.rank, static_cast<uint32_t>(at), merge.id});
  std::make_heap(heap.begin(), heap.end(), ComesLater);
  const auto push = [&](int32_t at) {
    const BpeMerges::Merge merge = pair_at(at);
    if (merge.id < 0) return;
    heap.push_back({merge.rank, static_cast<uint32_t>(at), merge.id});
    std::push_heap(heap.begin(), heap.end(), ComesLater);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), ComesLater);
    const Scratch::Pair top = heap.back();
    heap.pop_back();
    Scratch::Symbol& left = symbols[top.at];
    if (left.bytes == 0 || left.behind < 0) continue;
    Scratch::Symbol& right = symbols[static_cast<size_t>(left.behind)];
    if (merges_.Find(left.id, right.id).id != top.id) continue;  // what stood here has merged with something else
    left.id = top.id;
    left.bytes += right.bytes;
    right.bytes = 0;
    left.behind = right.behind;
    if (left.behind >= 0) symbols[static_cast<size_t>(left.behind)].before = static_cast<int32_t>(top.at);
    if (left.before >= 0) push(left.before);
    if (left.behind >= 0) push(static_cast<int32_t>(top.at));
  }
}

void BpeModel::KnowWords() {
  Scratch scratch;
  std::vector<Known> words;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string& token = vocabulary_.Token(id);
    if (token.empty() || vocabulary_.Id(token) != id) continue;
    const std::optional<std::string> bytes = options_.byte_level ? BytesOfCharacters(token) : token;
    if (!bytes || bytes->size() > kLongestKnown) continue;
    const std::vector<BpePiece>& pieces = Split(*bytes, scratch);
    if (pieces.size() != 1 || pieces[0].id != id || pieces[0].bytes != bytes->size()) continue;
    words.push_back({static_cast<uint32_t>(known_bytes_.size()), static_cast<uint32_t>(bytes->size()), id});
    known_bytes_ += *bytes;
  }
  known_.resize(std::bit_ceil(std::max<size_t>(2 * words.size(), 16)));
  for (const Known& word : words) {
    size_t at = HashOf(std::string_view(known_bytes_).substr(word.begin, word.size)) & (known_.size() - 1);
    while (known_[at].id >= 0) at = (at + 1) & (known_.size() - 1);
    known_[at] = word;
  }
}

int32_t BpeModel::TokenOf(std::string_view word) const {
  if (known_.empty() || word.size() > kLongestKnown) return -1;
  for (size_t at = HashOf(word) & (known_.size() - 1); known_[at].id >= 0; at = (at + 1) & (known_.size() - 1))
    if (std::string_view(known_bytes_).substr(known_[at].begin, known_[at].size) == word) return known_[at].id;
  return -1;
}

}  // namespace lshformer
