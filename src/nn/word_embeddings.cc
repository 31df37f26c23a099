#include "nn/word_embeddings.h"

namespace lshformer {
namespace {

constexpr const char* kBlock = "embeddings";
constexpr const char *kUnknownWordRow = "embeddings.unknown_word.weight", *kMap = "embeddings.map",
                     *kHighway = "embeddings.highway";
constexpr int32_t kPaddingWord = 0;

CharacterCnnShape CharacterShape(const WordConfig& config) {
  return {.characters = config.character_vocab_size,
          .width = config.character_embedding_size,
          .filters = config.character_filters,
          .dropout = config.character_dropout};
}

HighwayShape HighwayOf(const WordEmbeddingsShape& shape) {
  HighwayShape highway = shape.highway;
  highway.width = shape.output();
  return highway;
}

}  // namespace

void WordEmbeddings::AppendSpecs(std::vector<ParameterSpec>& specs, const WordEmbeddingsShape& shape) {
  const WordConfig& config = shape.words_config;
  const std::string width = fmt::format("embedding_size {}", shape.width);
  specs.push_back({std::string(kWordTable),
                   {shape.words, shape.width},
                   Initial::kNormalPaddingRow,
                   kBlock,
                   fmt::format("vocab_size {}, {}", shape.words, width),
                   {.embedding = true, .trained = !config.fixed_word_embeddings}});
  if (config.fixed_word_embeddings)
    specs.push_back({kUnknownWordRow, {1, shape.width}, Initial::kNormal, kBlock, width, {.embedding = true}});
  if (config.character_filters > 0) CharacterCnn::AppendSpecs(specs, kBlock, CharacterShape(config));
  const int64_t both = shape.width + config.character_filters;
  const std::string sizes = fmt::format("{}, character_filters {}", width, config.character_filters);
  if (shape.map)
    AppendUniformLinear(specs, kMap, *shape.map, both, Bias::kNone, kBlock,
                        fmt::format("hidden_size {}, {}", *shape.map, sizes));
  Highway::AppendSpecs(specs, kHighway, HighwayOf(shape), kBlock,
                       shape.map ? fmt::format("hidden_size {}", *shape.map) : sizes);
}

WordEmbeddings::WordEmbeddings(const ParameterMap& parameters, const WordEmbeddingsShape& shape)
    : table_(parameters.Get(std::string(kWordTable))),
      word_dropout_(shape.words_config.word_dropout),
      highway_(parameters, kHighway, HighwayOf(shape)) {
  if (shape.words_config.fixed_word_embeddings) unknown_word_ = parameters.Get(kUnknownWordRow);
  if (shape.words_config.character_filters > 0)
    characters_.emplace(parameters, kBlock, CharacterShape(shape.words_config));
  if (shape.map) map_ = parameters.LinearOf(kMap);
}

torch::Tensor WordEmbeddings::WordVectors(const std::vector<int32_t>& ids) const {
  const torch::Tensor vectors = LookUp(table_, ids, kPaddingWord);  // [W, width]
  if (!unknown_word_.defined()) return vectors;
  torch::Tensor unknown = torch::empty({vectors.size(0), 1}, torch::kBool);
  for (size_t w = 0; w < ids.size(); ++w) unknown.data_ptr<bool>()[w] = ids[w] == kUnknownWord;
  return torch::where(unknown, unknown_word_, vectors);
}

torch::Tensor WordEmbeddings::operator()(const WordStreams& streams, const ForwardContext& context) const {
  torch::Tensor x = Dropout(WordVectors(streams.words.ids),
                            context.DropoutAt(DropoutSite::kWords, 0, word_dropout_, context.rows));  // [W, width]
  if (characters_) x = torch::cat({x, (*characters_)(streams.characters, context)}, 1);  // [W, width + filters]
  if (map_) x = (*map_)(x, context.precision);                                           // [W, map]
  return highway_(x, context);                                                           // [W, output]
}

}  // namespace lshformer
