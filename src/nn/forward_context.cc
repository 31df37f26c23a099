#include "nn/forward_context.h"

#include "base/philox.h"

namespace lshformer {

ForwardContext::ForwardContext(const TokenStream& stream, const std::vector<uint64_t>& sequence_ids) {
  auto all = std::make_shared<PackedSequences>();
  auto identities = std::make_shared<RowIdentities>();
  all->cu_seqlens = stream.cu_seqlens;
  identities->positions = stream.positions;
  identities->sequence_ids.resize(stream.size());
  for (int sequence = 0; sequence < stream.sequences(); ++sequence) {
    const uint64_t id = sequence_ids.empty() ? static_cast<uint64_t>(sequence) : sequence_ids[sequence];
    all->ids.push_back(id);
    for (int32_t row = stream.cu_seqlens[sequence]; row < stream.cu_seqlens[sequence + 1]; ++row)
      identities->sequence_ids[row] = id;
  }
  sequences = std::move(all);
  rows = std::move(identities);
}

ForwardContext ForwardContext::Over(const TokenStream& stream, const std::vector<uint64_t>& sequence_ids) const {
  const ForwardContext other(stream, sequence_ids);
  ForwardContext over = *this;
  over.sequences = other.sequences;
  over.rows = other.rows;
  return over;
}

ForwardContext ForwardContext::OfOwnTokens() const {
  ForwardContext own = *this;
  const int64_t begin = split->FirstToken(split->rank()), end = begin + split->own_tokens();
  auto identities = std::make_shared<RowIdentities>();
  identities->positions.assign(rows->positions.begin() + begin, rows->positions.begin() + end);
  identities->sequence_ids.assign(rows->sequence_ids.begin() + begin, rows->sequence_ids.begin() + end);
  own.rows = std::move(identities);
  return own;
}

bool ForwardContext::OwnEmbeddingsAlone() const { return SharesTokens(split) && !torch::GradMode::is_enabled(); }

ForwardContext ForwardContext::Replay() const {
  ForwardContext replay = *this;
  replay.counts = nullptr;
  replay.attentions = nullptr;
  replay.attention_hook = nullptr;
  return replay;
}

DropoutSpec ForwardContext::DropoutAt(DropoutSite site, uint32_t layer, double probability,
                                      std::shared_ptr<const RowIdentities> which) const {
  if (!train || probability <= 0) return {};
  const uint64_t key = StreamKey(seed, dropout_step, layer, static_cast<uint32_t>(site), Purpose::kHiddenDropout);
  return {probability, key, std::move(which)};
}

DropoutSpec ForwardContext::DropoutPerSequence(DropoutSite site, uint32_t layer, double probability) const {
  auto firsts = std::make_shared<RowIdentities>();
  firsts->sequence_ids = sequences->ids;
  firsts->positions.assign(firsts->sequence_ids.size(), 0);
  return DropoutAt(site, layer, probability, std::move(firsts));
}

}  // namespace lshformer
