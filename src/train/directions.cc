#include "train/directions.h"

#include "models/stored_directions.h"

namespace lshformer {

void RefreshDirections(Model& model, const std::function<PackedBatch(int64_t number)>& next) {
  const torch::NoGradGuard no_grad;
  MainDirections found;
  const AttentionHook add = [&](const AttentionSite& site) {
    const AttentionSpec& layer = *site.options.spec;
    if (StoresDirections(layer))
      found.Add(site, [&](int head, int length) {
        const AttentionSpec& spec = OfHead(layer, head);
        return Is<ClusteredAttention>(spec) && IsSparseAt(spec, length);
      });
    return torch::Tensor();  // what it computes stays its own
  };
  ForwardOptions options;
  options.attention_hook = &add;
  options.stop = &StopOnSignal();
  int64_t examples = 0;
  for (int64_t number = 0; found.sequences() < kDirectionSequences && examples < kMostDirectionExamples; ++number) {
    PackedBatch batch = next(number);
    examples += batch.examples();
    batch.labels = {};
    model.Forward(batch, options);
  }
  SetDirections(model, found.Directions(DirectionsOf(model)));
}

}  // namespace lshformer
