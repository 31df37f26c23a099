// What a model is and costs, from its folder; weights are looked at, not loaded.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "attention/spec_changes.h"
#include "base/json.h"

namespace lshformer {

// {"config", "hashed_from" (of each attention object: tokens or "never"), "parameters" (by block), "parameters_total",
// "weights": {"file", "tensors", "elements", "bytes", "dtype"}, {"unreadable": name} where the weights are in a format
// that is not read, null where the folder has a config alone, "costs": per length and attention (the model's own beside
// exact attention) FLOPs and bytes of one sequence, "layers" (LayerKinds), "uses" (ModelUses) and "sentence_folder" of
// jobs/info/model_uses.h, "estimates" of jobs/info/text_estimate.h: one text of 512, 8,192 and 32,768 tokens here}.
// `attention` changes the model's own first. The folder may be Sentence-Transformers', with its encoder in another.
Json ModelInfo(const std::string& folder, const std::vector<int64_t>& lengths, const AttentionChanges& attention);

// The same of a model that is not made yet: the defaults of its type, with the changes of config_overrides
// ("hidden_size=128,num_hidden_layers=2"). "weights" is null.
Json NewModelInfo(const std::string& model_type, const std::string& config_overrides,
                  const std::vector<int64_t>& lengths, const AttentionChanges& attention);

}  // namespace lshformer
