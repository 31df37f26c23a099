#include "nn/character_cnn.h"

#include <algorithm>
#include <memory>

#include "ops/gather_rows.h"
#include "ops/segment_max.h"

namespace lshformer {
namespace {

constexpr int32_t kPadding = 0;  // the row of the table that is 0

// The windows of all words: places of their characters, five a window, and where each word's windows begin.
struct Windows {
  std::vector<int32_t> places, cu_windows{0};
};

// padding: the place of a vector that is 0.
Windows WindowsOf(const TokenStream& characters, int32_t padding) {
  constexpr int kAllWindows = kMostCharacters - kCharacterWindow + 1;
  Windows windows;
  for (int word = 0; word < characters.sequences(); ++word) {
    const int32_t begin = characters.cu_seqlens[word], count = characters.cu_seqlens[word + 1] - begin;
    const int starts = std::min(count + 1, kAllWindows);
    for (int start = 0; start < starts; ++start)
      for (int i = start; i < start + kCharacterWindow; ++i) windows.places.push_back(i < count ? begin + i : padding);
    windows.cu_windows.push_back(windows.cu_windows.back() + starts);
  }
  return windows;
}

// Each character by its word and its place in it, and the padding behind them.
std::shared_ptr<const RowIdentities> Identities(const TokenStream& characters, const RowIdentities& words) {
  auto rows = std::make_shared<RowIdentities>();
  rows->positions = characters.positions;
  for (int word = 0; word < characters.sequences(); ++word)
    rows->sequence_ids.insert(rows->sequence_ids.end(), characters.cu_seqlens[word + 1] - characters.cu_seqlens[word],
                              words.sequence_ids[word]);
  rows->positions.push_back(0);
  rows->sequence_ids.push_back(0);
  return rows;
}

}  // namespace

void CharacterCnn::AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix,
                               const CharacterCnnShape& shape) {
  const std::string width = fmt::format("character_embedding_size {}", shape.width);
  specs.push_back({prefix + ".character_embeddings.weight",
                   {shape.characters, shape.width},
                   Initial::kNormalPaddingRow,
                   prefix,
                   fmt::format("character_vocab_size {}, {}", shape.characters, width),
                   {.embedding = true}});
  AppendUniformLinear(specs, prefix + ".character_convolution", shape.filters, kCharacterWindow * shape.width,
                      Bias::kOne, prefix, fmt::format("character_filters {}, {}", shape.filters, width));
}

CharacterCnn::CharacterCnn(const ParameterMap& parameters, const std::string& prefix, const CharacterCnnShape& shape)
    : table_(parameters.Get(prefix + ".character_embeddings.weight")),
      convolution_(parameters.LinearOf(prefix + ".character_convolution")),
      dropout_(shape.dropout) {}

torch::Tensor CharacterCnn::operator()(const TokenStream& characters, const ForwardContext& context) const {
  std::vector<int32_t> ids = characters.ids;
  ids.push_back(kPadding);  // behind the characters: what windows see beyond a word's end
  torch::Tensor vectors = LookUp(table_, std::move(ids), kPadding);  // [characters + 1, width]
  if (context.train && dropout_ > 0)
    vectors = Dropout(vectors,
                      context.DropoutAt(DropoutSite::kCharacters, 0, dropout_, Identities(characters, *context.rows)));
  const Windows windows = WindowsOf(characters, static_cast<int32_t>(characters.size()));
  const torch::Tensor seen =
      GatherRows(vectors, windows.places).view({-1, kCharacterWindow * table_.size(1)});  // [windows, 5 · width]
  return SegmentMax(convolution_.Then(UnaryFunction::kRelu, seen, context.precision), windows.cu_windows);
}

}  // namespace lshformer
