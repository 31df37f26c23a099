// Packed batches: what every model takes. No padding anywhere.
#pragma once
#include <cstdint>
#include <vector>

namespace lshformer {

// Ids of one kind, sequence behind sequence: sequence b is cu_seqlens[b] … cu_seqlens[b + 1] − 1.
struct TokenStream {
  std::vector<int32_t> ids;            // [T]
  std::vector<int32_t> type_ids;       // [T]
  std::vector<int32_t> positions;      // [T], from 0 in every sequence
  std::vector<int32_t> cu_seqlens{0};  // [sequences + 1]
  int max_seqlen = 0;

  int sequences() const { return static_cast<int>(cu_seqlens.size()) - 1; }
  int64_t size() const { return cu_seqlens.back(); }  // T
};

// Each is empty where the task has none.
struct Labels {
  std::vector<int32_t> tokens;                          // [T], −100 = ignored (masked LM)
  std::vector<int32_t> classes;                         // [B]; multiple choice: [examples], the right option
  std::vector<int32_t> cu_choices;                      // [examples + 1], multiple choice: the options of example e are
                                                        // the sequences cu_choices[e] … cu_choices[e + 1] − 1
  std::vector<float> values;                            // [B], regression
  std::vector<float> flags;                             // [B, labels], multi-label: 1 where the label is there, else 0
  std::vector<int32_t> start_positions, end_positions;  // [B] token in its sequence, question answering; at or past the
                                                        // sequence's end: ignored
};

// B sequences, each an example, but in multiple choice an option of one. A model reads `tokens`, and some read further
// streams beside it, in the order that their family tells (models/family.h): a question apart from its context,
// characters beside words (data/words.h). Such a stream may have sequences of its own (a word's characters).
struct PackedBatch {
  TokenStream tokens;
  std::vector<TokenStream> further_streams;
  std::vector<uint64_t> sequence_ids;  // [B]: identity of the sequence in its data set; keys dropout and masking
  Labels labels;

  int sequences() const { return tokens.sequences(); }  // B
  int examples() const {
    return labels.cu_choices.empty() ? sequences() : static_cast<int>(labels.cu_choices.size()) - 1;
  }
};

// Appends one sequence (positions and offsets are filled in). type_ids may be empty: all 0. Error where the stream
// would have 2^31 ids.
void AppendSequence(TokenStream& stream, const std::vector<int32_t>& ids, const std::vector<int32_t>& type_ids = {});
// The same to `tokens`, as one more sequence of the batch.
void AppendSequence(PackedBatch& batch, const std::vector<int32_t>& ids, const std::vector<int32_t>& type_ids,
                    uint64_t sequence_id);

}  // namespace lshformer
