#include "data/batch.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace lshformer {
namespace {

void Append(TokenStream& stream, const std::vector<int32_t>& ids, const std::vector<int32_t>& type_ids,
            uint64_t sequence_id) {
  if (!type_ids.empty() && type_ids.size() != ids.size()) {
    Fail("sequence {}: {} type ids for {} token ids, expected as many", sequence_id, type_ids.size(), ids.size());
  }
  const int64_t end = stream.size() + static_cast<int64_t>(ids.size());
  if (end > std::numeric_limits<int32_t>::max())
    Fail("sequence {}: a batch holds at most 2^31 - 1 tokens", sequence_id);
  stream.ids.insert(stream.ids.end(), ids.begin(), ids.end());
  if (type_ids.empty()) {
    stream.type_ids.resize(end, 0);
  } else {
    stream.type_ids.insert(stream.type_ids.end(), type_ids.begin(), type_ids.end());
  }
  for (size_t i = 0; i < ids.size(); ++i) stream.positions.push_back(static_cast<int32_t>(i));
  stream.cu_seqlens.push_back(static_cast<int32_t>(end));
  stream.max_seqlen = std::max(stream.max_seqlen, static_cast<int>(ids.size()));
}

}  // namespace

void AppendSequence(TokenStream& stream, const std::vector<int32_t>& ids, const std::vector<int32_t>& type_ids) {
  Append(stream, ids, type_ids, static_cast<uint64_t>(stream.sequences()));
}

void AppendSequence(PackedBatch& batch, const std::vector<int32_t>& ids, const std::vector<int32_t>& type_ids,
                    uint64_t sequence_id) {
  Append(batch.tokens, ids, type_ids, sequence_id);
  batch.sequence_ids.push_back(sequence_id);
}

}  // namespace lshformer
