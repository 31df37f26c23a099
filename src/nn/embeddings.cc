#include "nn/embeddings.h"

#include <memory>

namespace lshformer {

void Embeddings::AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix,
                             const EmbeddingSizes& sizes) {
  const auto table = [&](const char* name, int64_t rows, const char* key, Initial initial) {
    specs.push_back({fmt::format("{}.{}_embeddings.weight", prefix, name),
                     {rows, sizes.width},
                     initial,
                     "embeddings",
                     fmt::format("{} {}, {} {}", key, rows, sizes.width_key, sizes.width),
                     {.embedding = true}});
  };
  table("word", sizes.words, "vocab_size", Initial::kNormalPaddingRow);
  table("position", sizes.positions, "max_position_embeddings", Initial::kNormal);
  table("token_type", sizes.types, "type_vocab_size", Initial::kNormal);
  AppendLayerNorm(specs, prefix + ".LayerNorm", sizes.width, "embeddings", sizes.width_key);
}

Embeddings::Embeddings(const ParameterMap& parameters, const std::string& prefix, double eps, double dropout,
                       int64_t padding_word)
    : words_(parameters.Get(prefix + ".word_embeddings.weight")),
      positions_(parameters.Get(prefix + ".position_embeddings.weight")),
      types_(parameters.Get(prefix + ".token_type_embeddings.weight")),
      norm_(parameters, prefix + ".LayerNorm", eps),
      dropout_(dropout),
      padding_word_(static_cast<int32_t>(padding_word)) {}

torch::Tensor Embeddings::operator()(const TokenStream& tokens, const ForwardContext& context) const {
  auto indices = std::make_shared<EmbeddingIndices>();
  indices->words = tokens.ids;
  indices->positions = tokens.positions;
  indices->types = tokens.type_ids;
  indices->padding_word = padding_word_;
  const torch::Tensor sum = EmbeddingSum(words_, positions_, types_, std::move(indices));  // [T, width]
  const torch::Tensor normal = norm_(sum, {}, {});
  return Dropout(normal, context.DropoutAt(DropoutSite::kEmbeddings, 0, dropout_, context.rows));
}

}  // namespace lshformer
