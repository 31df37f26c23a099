// Packed batches: what every encoder takes. No padding anywhere.
#pragma once
#include <cstdint>
#include <vector>

namespace lshformer {

struct PackedBatch {
  std::vector<int32_t> ids;            // [T]
  std::vector<int32_t> type_ids;       // [T]
  std::vector<int32_t> positions;      // [T], from 0 in every sequence
  std::vector<int32_t> cu_seqlens{0};  // [B + 1]
  int max_seqlen = 0;
  std::vector<uint64_t> sequence_ids;  // [B]: identity of the example in its data set; keys dropout and masking

  // Labels; each is empty where the task has none.
  std::vector<int32_t> token_labels;                    // [T], −100 = ignored (masked LM)
  std::vector<int32_t> class_labels;                    // [B]
  std::vector<float> float_labels;                      // [B], regression
  std::vector<int32_t> start_positions, end_positions;  // [B] token in its sequence, question answering; at or past the
                                                        // sequence's end: ignored

  int sequences() const { return static_cast<int>(cu_seqlens.size()) - 1; }
  int64_t tokens() const { return cu_seqlens.back(); }
};

// Appends one sequence (positions and borders are filled in). type_ids may be empty: all 0.
void AppendSequence(PackedBatch& batch, const std::vector<int32_t>& ids, const std::vector<int32_t>& type_ids,
                    uint64_t sequence_id);

}  // namespace lshformer
