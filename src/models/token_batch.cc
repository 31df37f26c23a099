#include "models/token_batch.h"

#include "base/error.h"

namespace lshformer {

void CheckTokens(const PackedBatch& batch, const ModelConfig& config) {
  CheckStreams(batch, FamilyOf(config));
  const TokenStream& stream = batch.tokens;
  for (int sequence = 0; sequence < batch.sequences(); ++sequence) {
    const int32_t begin = stream.cu_seqlens[sequence], end = stream.cu_seqlens[sequence + 1];
    if (end <= begin) Fail("sequence {} is empty", sequence);
    if (end - begin > config.max_position_embeddings)
      Fail("sequence {} has {} tokens, max_position_embeddings is {}", sequence, end - begin,
           config.max_position_embeddings);
    const auto check = [&](const std::vector<int32_t>& values, const char* what, int64_t limit) {
      for (int32_t token = begin; token < end; ++token)
        if (values[token] < 0 || values[token] >= limit)
          Fail("sequence {}, token {}: {} {} is out of range, expected 0 to {}", sequence, token - begin, what,
               values[token], limit - 1);
    };
    check(stream.ids, "id", config.vocab_size);
    check(stream.type_ids, "token type", config.type_vocab_size);
    check(stream.positions, "position", config.max_position_embeddings);
  }
}

}  // namespace lshformer
