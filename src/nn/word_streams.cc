#include "nn/word_streams.h"

#include <algorithm>
#include <memory>

namespace lshformer {
namespace {

// A step of SplitMix64 (Steele, Lea and Flood 2014): every bit of `value` changes half of the result's.
uint64_t Mixed(uint64_t hash, uint64_t value) {
  uint64_t z = (hash ^ value) + 0x9E3779B97F4A7C15;  // the golden ratio
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// Two unknown words of other letters are two words.
uint64_t IdentityOfWord(const WordStreams& streams, int word) {
  uint64_t hash = Mixed(0, static_cast<uint64_t>(streams.words.ids[word]));
  const TokenStream& characters = streams.characters;
  for (int32_t c = characters.cu_seqlens[word]; c < characters.cu_seqlens[word + 1]; ++c)
    hash = Mixed(hash, static_cast<uint64_t>(characters.ids[c]));
  return hash;
}

// No data set has so many examples that one has this bit itself.
constexpr uint64_t kQuestionBit = uint64_t{1} << 63;

}  // namespace

WordStreams::WordStreams(const PackedBatch& batch)
    : context(batch.tokens),
      question(batch.further_streams[0]),
      words(batch.further_streams[1]),
      characters(batch.further_streams[2]) {}

ForwardContext ContextOfWords(const WordStreams& streams, const ForwardContext& context) {
  ForwardContext over = context.Over(streams.words, {});
  auto rows = std::make_shared<RowIdentities>();
  rows->positions.assign(streams.words.ids.size(), 0);
  for (int word = 0; word < static_cast<int>(streams.words.size()); ++word)
    rows->sequence_ids.push_back(IdentityOfWord(streams, word));
  over.rows = std::move(rows);
  return over;
}

ContextsAndQuestions::ContextsAndQuestions(const WordStreams& streams, const ForwardContext& context)
    : stream(streams.context), sequence_ids(context.sequences->ids) {
  const TokenStream& question = streams.question;
  const auto append = [](std::vector<int32_t>& to, const std::vector<int32_t>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(stream.ids, question.ids);
  append(stream.type_ids, question.type_ids);
  append(stream.positions, question.positions);
  const int32_t contexts = stream.cu_seqlens.back();
  for (int b = 0; b < question.sequences(); ++b) {
    stream.cu_seqlens.push_back(contexts + question.cu_seqlens[b + 1]);
    sequence_ids.push_back(sequence_ids[b] ^ kQuestionBit);
  }
  stream.max_seqlen = std::max(stream.max_seqlen, question.max_seqlen);
}

}  // namespace lshformer
