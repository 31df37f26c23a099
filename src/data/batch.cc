#include "data/batch.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace lshformer {

void AppendSequence(PackedBatch& batch, const std::vector<int32_t>& ids, const std::vector<int32_t>& type_ids,
                    uint64_t sequence_id) {
  if (!type_ids.empty() && type_ids.size() != ids.size()) {
    Fail("sequence {}: {} type ids for {} token ids, expected as many", sequence_id, type_ids.size(), ids.size());
  }
  const int64_t end = batch.tokens() + static_cast<int64_t>(ids.size());
  if (end > std::numeric_limits<int32_t>::max())
    Fail("sequence {}: a batch holds at most 2^31 - 1 tokens", sequence_id);
  batch.ids.insert(batch.ids.end(), ids.begin(), ids.end());
  if (type_ids.empty()) {
    batch.type_ids.resize(end, 0);
  } else {
    batch.type_ids.insert(batch.type_ids.end(), type_ids.begin(), type_ids.end());
  }
  for (size_t i = 0; i < ids.size(); ++i) batch.positions.push_back(static_cast<int32_t>(i));
  batch.cu_seqlens.push_back(static_cast<int32_t>(end));
  batch.max_seqlen = std::max(batch.max_seqlen, static_cast<int>(ids.size()));
  batch.sequence_ids.push_back(sequence_id);
}

}  // namespace lshformer
