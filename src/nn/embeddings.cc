#include "nn/embeddings.h"

#include <memory>

namespace lshformer {

EmbeddingForm EmbeddingForm::Of(const std::string& prefix) {
  EmbeddingForm form;
  form.words = prefix + ".word_embeddings.weight";
  form.positions = prefix + ".position_embeddings.weight";
  form.types = prefix + ".token_type_embeddings.weight";
  form.norm = prefix + ".LayerNorm";
  return form;
}

void Embeddings::AppendSpecs(std::vector<ParameterSpec>& specs, const EmbeddingForm& form) {
  const auto table = [&](const std::string& name, int64_t rows, const char* key, Initial initial) {
    if (name.empty()) return;
    specs.push_back({name,
                     {rows, form.width},
                     initial,
                     "embeddings",
                     fmt::format("{} {}, {} {}", key, rows, form.width_key, form.width),
                     {.embedding = true}});
  };
  table(form.words, form.word_rows, "vocab_size", Initial::kNormalPaddingRow);
  table(form.positions, form.position_rows, "max_position_embeddings",
        form.rows == PositionRows::kBehindPadding ? Initial::kNormalPaddingRow : Initial::kNormal);
  table(form.types, form.type_rows, "type_vocab_size", Initial::kNormal);
  AppendLayerNorm(specs, form.norm, form.width, "embeddings", form.width_key, form.norm_bias);
}

namespace {

torch::Tensor TableOf(const ParameterMap& parameters, const std::string& name) {
  return name.empty() ? torch::Tensor() : parameters.Get(name);
}

std::vector<int32_t> RowsBehindPadding(const TokenStream& tokens, int32_t padding) {
  std::vector<int32_t> rows;
  for (int b = 0; b < tokens.sequences(); ++b) {
    int32_t row = padding;
    for (int32_t token = tokens.cu_seqlens[b]; token < tokens.cu_seqlens[b + 1]; ++token)
      rows.push_back(tokens.ids[token] == padding ? padding : ++row);
  }
  return rows;
}

}  // namespace

Embeddings::Embeddings(const ParameterMap& parameters, const EmbeddingForm& form)
    : words_(parameters.Get(form.words)),
      positions_(TableOf(parameters, form.positions)),
      types_(TableOf(parameters, form.types)),
      norm_(parameters, form.norm, form.eps),
      rows_(form.rows),
      dropout_(form.dropout),
      padding_word_(static_cast<int32_t>(form.padding_word)) {}

torch::Tensor Embeddings::operator()(const TokenStream& tokens, const ForwardContext& context) const {
  auto indices = std::make_shared<EmbeddingIndices>();
  indices->words = tokens.ids;
  indices->types = tokens.type_ids;
  indices->padding_word = padding_word_;
  if (rows_ == PositionRows::kBehindPadding) {
    indices->positions = RowsBehindPadding(tokens, padding_word_);
    indices->padding_position = padding_word_;
  } else {
    indices->positions = tokens.positions;
  }
  std::shared_ptr<const RowIdentities> identities = context.rows;
  if (context.OwnEmbeddingsAlone()) {
    const TokenSplit& split = *context.split;
    const auto first = split.FirstToken(split.rank()), end = first + split.own_tokens();
    for (std::vector<int32_t>* each : {&indices->words, &indices->positions, &indices->types})
      *each = {each->begin() + first, each->begin() + end};
    identities = context.OfOwnTokens().rows;
  }
  const torch::Tensor normal = norm_(EmbeddingSum(words_, positions_, types_, std::move(indices)), {}, {});
  return Dropout(normal, context.DropoutAt(DropoutSite::kEmbeddings, 0, dropout_, std::move(identities)));
}

}  // namespace lshformer
