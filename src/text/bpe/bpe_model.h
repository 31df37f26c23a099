// Byte-pair encoding (Sennrich et al., "Neural machine translation of rare words with subword units", 2016) of one
// word: its characters are symbols, and of all pairs of neighbours that the table has, the one of the lowest rank (of
// equal ones the first) becomes one symbol, until none is left.
//
// A heap of the pairs makes it O(n log n) in the word's n characters. A pair that is no longer there when its turn
// comes counts nevertheless where what stands there now merges to the same token, as in HF's `tokenizers`.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace lshformer {

struct BpeOptions {
  bool byte_level = false;  // the vocabulary is written in byte_level.h's alphabet, a word's symbols are its bytes
  bool byte_fallback =
      false;  // a character that is no token becomes the tokens <0x00> … of its bytes, if they are all there
  bool fuse_unk = false;       // unknown characters in a row are one
  bool ignore_merges = false;  // a word that is a token is that
  int32_t unk_id = -1;         // −1: unknown characters are left out
};

// Pairs of tokens by what they merge to: a hash table with open addressing, 16 bytes an entry, at most half full.
class BpeMerges {
 public:
  struct Merge {
    uint32_t rank = 0;
    int32_t id = -1;  // −1: the pair does not merge
  };
  explicit BpeMerges(size_t count);
  void Set(int32_t left, int32_t right, Merge merge);  // at most `count` different pairs
  Merge Find(int32_t left, int32_t right) const {
    for (size_t at = Slot(Key(left, right));; at = (at + 1) & mask_) {
      if (entries_[at].merge.id < 0) return {};
      if (entries_[at].key == Key(left, right)) return entries_[at].merge;
    }
  }

 private:
  struct Entry {
    uint64_t key = 0;
    Merge merge;
  };
  static uint64_t Key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t Slot(uint64_t key) const { return static_cast<size_t>(key * 0x9E3779B97F4A7C15 >> shift_) & mask_; }

  std::vector<Entry> entries_;
  size_t mask_ = 0;
  int shift_ = 0;
};

struct BpePiece {
  int32_t id = 0;
  uint32_t bytes = 0;  // of the word
};

class BpeModel {
 public:
  // `vocabulary` must outlive it.
  BpeModel(const Vocabulary& vocabulary, BpeMerges merges, const BpeOptions& options);

  const BpeOptions& options() const { return options_; }

  // Room for one thread's work.
  struct Scratch {
    struct Symbol {
      int32_t id;
      uint32_t bytes;  // 0: merged into the one before
      int32_t before, behind;
    };
    struct Pair {
      uint32_t rank, at;
      int32_t id;
    };
    std::vector<Symbol> symbols;
    std::vector<Pair> heap;
    std::vector<BpePiece> pieces;
    std::string token;
  };
  // The pieces of a word that is not empty, in `scratch`. Their bytes are those of the word unless some were left out.
  const std::vector<BpePiece>& Split(std::string_view word, Scratch& scratch) const;
  // The token that the word is, −1 of a word that takes merging. A hash table of all words that are a token by their
  // merges; it is empty until KnowWords().
  int32_t TokenOf(std::string_view word) const;
  void KnowWords();

 private:
  void AddSymbols(std::string_view word, Scratch& scratch) const;
  void MergeAll(Scratch& scratch) const;

  const Vocabulary& vocabulary_;
  BpeMerges merges_;
  BpeOptions options_;
  std::array<int32_t, 256> byte_ids_{};  // of byte_level: the token of a byte; of byte_fallback <0x00> …; −1: none
  struct Known {
    uint32_t begin = 0, size = 0;  // in known_bytes_
    int32_t id = -1;
  };
  std::vector<Known> known_;  // open addressing, a power of two, or empty
  std::string known_bytes_;
};

}  // namespace lshformer
