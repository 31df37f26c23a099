#include "nn/pass.h"

#include "base/philox.h"

namespace lshformer {

Pass MakePass(const PackedBatch& batch) {
  auto rows = std::make_shared<RowIdentities>();
  rows->positions = batch.positions;
  rows->sequence_ids.resize(batch.tokens());
  for (int sequence = 0; sequence < batch.sequences(); ++sequence) {
    // A batch without identities is one whose examples nobody numbers: their place in it stands in.
    const uint64_t id = batch.sequence_ids.empty() ? static_cast<uint64_t>(sequence) : batch.sequence_ids[sequence];
    for (int32_t token = batch.cu_seqlens[sequence]; token < batch.cu_seqlens[sequence + 1]; ++token)
      rows->sequence_ids[token] = id;
  }
  Pass pass;
  pass.batch = &batch;
  pass.tokens = std::move(rows);
  return pass;
}

Pass ReplayPass(const Pass& pass) {
  auto batch = std::make_shared<PackedBatch>();
  batch->cu_seqlens = pass.batch->cu_seqlens;
  batch->sequence_ids = pass.batch->sequence_ids;
  Pass replay = pass;
  replay.batch = batch.get();
  replay.own_batch = std::move(batch);
  replay.counts = nullptr;
  replay.attentions = nullptr;
  return replay;
}

DropoutSpec PassDropout(const Pass& pass, double probability, uint32_t layer, DropoutSite site,
                        std::shared_ptr<const RowIdentities> rows) {
  if (!pass.train || probability <= 0) return {};
  const uint64_t key =
      StreamKey(pass.seed, pass.dropout_step, layer, static_cast<uint32_t>(site), Purpose::kHiddenDropout);
  return {probability, key, std::move(rows)};
}

}  // namespace lshformer
