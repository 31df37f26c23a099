// Any bytes as the input of inspect: a packed batch whose parts fit together, or an Error of one line.
#include <cstdint>

#include "data/small_tokenizer.h"
#include "fuzz/memory_file.h"
#include "fuzz/parses.h"
#include "jobs/inspect_batch.h"

namespace {

using namespace lshformer;
using testing::Check;

void CheckBatch(const PackedBatch& batch, const ModelConfig& config) {
  const size_t tokens = batch.tokens.ids.size(), sequences = batch.tokens.cu_seqlens.size() - 1;
  Check(sequences > 0 && batch.tokens.cu_seqlens.front() == 0, "at least one sequence");
  Check(static_cast<size_t>(batch.tokens.cu_seqlens.back()) == tokens, "the borders end with the tokens");
  for (size_t b = 0; b < sequences; ++b) {
    const int32_t length = batch.tokens.cu_seqlens[b + 1] - batch.tokens.cu_seqlens[b];
    Check(length >= 1 && length <= config.max_position_embeddings, "each sequence fits the position table");
  }
  Check(batch.tokens.type_ids.size() == tokens && batch.tokens.positions.size() == tokens, "one number each a token");
  for (size_t i = 0; i < tokens; ++i) {
    Check(batch.tokens.ids[i] >= 0 && batch.tokens.ids[i] < config.vocab_size, "ids are in the vocabulary");
    Check(batch.tokens.type_ids[i] >= 0 && batch.tokens.type_ids[i] < config.type_vocab_size,
          "types have an embedding");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::shared_ptr<const Tokenizer> tokenizer = testing::SmallTokenizer();
  ModelConfig config;
  config.vocab_size = tokenizer->vocab_size() - 1;  // its last id is one too many
  config.max_position_embeddings = 8, config.num_labels = 3;
  const testing::MemoryFile file(data, size, "batch.jsonl");
  for (const auto labels : {LabelKind::kNone, LabelKind::kToken, LabelKind::kClass, LabelKind::kValue, LabelKind::kSpan,
                            LabelKind::kChoice}) {
    InspectBatch result;
    const auto read = [&] { result = ReadInspectBatch(file.path(), config, labels, [] { return tokenizer; }); };
    if (!testing::Parses(read)) continue;
    const PackedBatch& batch = result.batch;
    CheckBatch(batch, config);
    const size_t labelled = result.labelled ? 1 : 0, sequences = batch.tokens.cu_seqlens.size() - 1;
    const auto expected = [&](LabelKind kind, size_t count) { return labels == kind ? labelled * count : 0; };
    Check(batch.labels.tokens.size() == expected(LabelKind::kToken, batch.tokens.ids.size()),
          "a label a token or none");
    const std::vector<int32_t>& choices = batch.labels.cu_choices;
    Check(choices.empty() == (labels != LabelKind::kChoice), "borders of options where there are options");
    Check(choices.empty() || static_cast<size_t>(choices.back()) == sequences, "they end with the sequences");
    Check(batch.labels.classes.size() == expected(LabelKind::kClass, sequences) +
                                             expected(LabelKind::kChoice, choices.empty() ? 0 : choices.size() - 1),
          "a class a sequence or example, or none");
    Check(batch.labels.values.size() == expected(LabelKind::kValue, sequences), "a value a sequence or none");
    const size_t spans = expected(LabelKind::kSpan, sequences);
    Check(batch.labels.start_positions.size() == spans && batch.labels.end_positions.size() == spans,
          "a span a sequence or none");
  }
  return 0;
}
