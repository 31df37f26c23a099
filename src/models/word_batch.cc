#include "models/word_batch.h"

#include "nn/character_window.h"

namespace lshformer {
namespace {

// What one stream's sequences may be.
struct StreamLimits {
  const char* sequence;   // "context": what a sequence of it is called
  int64_t most;           // ids of a sequence
  const char* most_name;  // and what says so
  int64_t ids;            // they are below it
};

void CheckStream(const TokenStream& stream, const StreamLimits& limits) {
  for (int sequence = 0; sequence < stream.sequences(); ++sequence) {
    const int32_t begin = stream.cu_seqlens[sequence], end = stream.cu_seqlens[sequence + 1];
    if (end <= begin) Fail("{} {} is empty", limits.sequence, sequence);
    if (end - begin > limits.most)
      Fail("{} {} has {} ids, {} is {}", limits.sequence, sequence, end - begin, limits.most_name, limits.most);
    for (int32_t place = begin; place < end; ++place)
      if (stream.ids[place] < 0 || stream.ids[place] >= limits.ids)
        Fail("{} {}, place {}: id {} is out of range, expected 0 to {}", limits.sequence, sequence, place - begin,
             stream.ids[place], limits.ids - 1);
  }
}

}  // namespace

void CheckWordBatch(const PackedBatch& batch, const ModelConfig& config, const WordConfig& words) {
  CheckStreams(batch, FamilyOf(config));
  const WordStreams streams(batch);
  const int64_t distinct = streams.words.size(), longest = config.max_position_embeddings;
  if (streams.question.sequences() != batch.sequences())
    Fail("the batch has {} contexts and {} questions", batch.sequences(), streams.question.sequences());
  if (streams.words.sequences() != 1)
    Fail("the batch has {} lists of distinct words, expected 1", streams.words.sequences());
  if (streams.characters.sequences() != distinct)
    Fail("the batch has {} distinct words and the characters of {}", distinct, streams.characters.sequences());
  CheckStream(streams.context, {"context", longest, "max_position_embeddings", distinct});
  CheckStream(streams.question, {"question", longest, "max_position_embeddings", distinct});
  CheckStream(streams.words, {"list of words", INT32_MAX, "the limit", config.vocab_size});
  CheckStream(streams.characters, {"word", kMostCharacters, "the limit", words.character_vocab_size});
}

}  // namespace lshformer
