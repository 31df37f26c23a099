#include "models/attended_padding.h"

#include <algorithm>

#include "data/masking.h"

namespace lshformer {
namespace {

int32_t Length(const PackedBatch& batch, int sequence) {
  return batch.tokens.cu_seqlens[static_cast<size_t>(sequence) + 1] -
         batch.tokens.cu_seqlens[static_cast<size_t>(sequence)];
}

// The text's rows among those of the filled batch: [T].
torch::Tensor RowsOfText(const PackedBatch& batch, const PackedBatch& filled) {
  std::vector<int64_t> rows;
  for (int s = 0; s < batch.sequences(); ++s)
    for (int32_t i = 0; i < Length(batch, s); ++i) rows.push_back(filled.tokens.cu_seqlens[static_cast<size_t>(s)] + i);
  return torch::tensor(rows);
}

}  // namespace

PackedBatch FilledUp(const PackedBatch& batch, const ModelConfig& config) {
  PackedBatch filled;
  filled.further_streams = batch.further_streams;
  filled.sequence_ids = batch.sequence_ids;
  filled.labels = batch.labels;
  filled.labels.tokens.clear();
  for (int s = 0; s < batch.sequences(); ++s) {
    const auto place = static_cast<size_t>(s);
    const int32_t begin = batch.tokens.cu_seqlens[place], end = begin + Length(batch, s);
    const auto size = static_cast<size_t>(std::max<int64_t>(Length(batch, s), config.attended_padding));
    const auto copy = [&](const std::vector<int32_t>& from, int64_t fill) {
      std::vector<int32_t> values(from.begin() + begin, from.begin() + end);
      values.resize(size, static_cast<int32_t>(fill));
      return values;
    };
    AppendSequence(filled.tokens, copy(batch.tokens.ids, config.pad_token_id), copy(batch.tokens.type_ids, 0));
    if (!batch.labels.tokens.empty()) {
      const std::vector<int32_t> labels = copy(batch.labels.tokens, kIgnoredLabel);
      filled.labels.tokens.insert(filled.labels.tokens.end(), labels.begin(), labels.end());
    }
    for (std::vector<int32_t>* positions : {&filled.labels.start_positions, &filled.labels.end_positions})
      if (!positions->empty() && (*positions)[place] >= Length(batch, s))
        (*positions)[place] = static_cast<int32_t>(size);  // ignored before, and after
  }
  return filled;
}

void CutPadding(const PackedBatch& batch, const PackedBatch& filled, ModelOutput& output) {
  const torch::Tensor rows = RowsOfText(batch, filled);
  const auto cut = [&](torch::Tensor& tensor) {
    if (tensor.defined() && tensor.size(0) == filled.tokens.size()) tensor = tensor.index_select(0, rows);
  };
  cut(output.last_hidden_state);
  cut(output.start_logits);
  cut(output.end_logits);
  cut(output.logits);
  for (torch::Tensor& states : output.hidden_states) cut(states);
  for (std::vector<torch::Tensor>& layer : output.attentions)
    for (int s = 0; s < batch.sequences(); ++s) {
      torch::Tensor& map = layer[static_cast<size_t>(s)];  // [heads, n, n]
      map = map.narrow(1, 0, Length(batch, s)).narrow(2, 0, Length(batch, s));
    }
}

}  // namespace lshformer
