// Words for models that read words and their characters (BiDAF, QANet), and the streams of their batches:
//
//   tokens                [T]  a context behind the start word, as places in `words`
//   further_streams[0]    question: as many sequences, each a question behind the start word, as places in `words`
//   further_streams[1]    words: one sequence of the W distinct words of the batch, as ids of the vocabulary
//   further_streams[2]    characters: W sequences, the characters of each of these words
//
// So a model computes what concerns one word alone once for each distinct word. The start word, out of the vocabulary
// and with an unknown character, is where an answer that is not in the context begins and ends (CS224N's SQuAD code).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/batch.h"
#include "text/tokenizer.h"

namespace lshformer {

// Distinct words, numbered from 0 in the order in which they come: a vocabulary's id and characters each. Number 0 is
// the start word. Two words that the vocabulary lacks are two words where their characters differ.
class DistinctWords {
 public:
  static constexpr int32_t kStart = 0;

  DistinctWords();
  int32_t Number(int32_t id, std::span<const int32_t> characters);
  // Of every token of a tokenizer with characters.
  std::vector<int32_t> Numbers(const Encoding& encoding);

  int32_t size() const { return static_cast<int32_t>(ids_.size()); }
  int32_t id(int32_t number) const { return ids_[static_cast<size_t>(number)]; }
  std::span<const int32_t> characters(int32_t number) const;

 private:
  std::vector<int32_t> ids_, characters_;
  std::vector<size_t> ends_;                        // [size] of each word's characters
  std::unordered_map<std::string, int32_t> known_;  // by the bytes of id and characters
};

// The streams of one batch, sequence by sequence.
class WordBatch {
 public:
  // Context and question are numbers in `table`, their start words included.
  void Append(PackedBatch& batch, const DistinctWords& table, std::span<const int32_t> context,
              std::span<const int32_t> question, uint64_t sequence_id);
  // Adds the streams of words and characters: the batch is whole.
  void Finish(PackedBatch& batch) const;

 private:
  std::vector<int32_t> Places(const DistinctWords& table, std::span<const int32_t> numbers);
  DistinctWords distinct_;
};

}  // namespace lshformer
