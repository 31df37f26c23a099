#include "nn/word_config.h"

namespace lshformer {

std::vector<Option<WordConfig>> WordOptions() {
  using W = WordConfig;
  constexpr int64_t kMostCharacterIds = int64_t{1} << 24, kMostWidth = int64_t{1} << 16;
  constexpr NumberRange kProbability{.low = 0, .high = 1, .high_open = true};
  return {Boolean("fixed_word_embeddings", &W::fixed_word_embeddings,
                  "the word vectors were given: training leaves them as they are, but that of `[UNK]`, which is a "
                  "tensor of its own"),
          Number("word_dropout", &W::word_dropout, kProbability, "of word vectors"),
          Integer("character_vocab_size", &W::character_vocab_size, 2, kMostCharacterIds, "characters that there are"),
          Integer("character_embedding_size", &W::character_embedding_size, 1, kMostWidth,
                  "width of the characters' vectors"),
          Integer("character_filters", &W::character_filters, 0, kMostWidth,
                  "width of a word's second vector, a convolution over its first 16 characters; 0: there is none"),
          Number("character_dropout", &W::character_dropout, kProbability, "of the characters' vectors")};
}

}  // namespace lshformer
