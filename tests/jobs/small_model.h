// A small encoder whose attention is not flat, random texts for it, and their directions.
#pragma once
#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "convert/calibration.h"
#include "models/model.h"

namespace lshformer {

struct SmallModel {
  ModelPtr exact;
  CalibrationTexts texts;
  LayerDirections directions;

  // Of every `held_out_every` texts the last is held out; 0: none is.
  SmallModel(int positions, const std::vector<int>& lengths, size_t held_out_every = 0) {
    ModelConfig config;
    config.architectures = {"BertModel"};
    config.vocab_size = 60;
    config.hidden_size = 16;
    config.num_hidden_layers = 2;
    config.num_attention_heads = 2;
    config.intermediate_size = 24;
    config.max_position_embeddings = positions;
    config.initializer_range = 0.5;
    exact = CreateModel(config, Task::kEncoder, 7);
    PhiloxStream stream(StreamKey(3, 0, 0, 0, Purpose::kSynthetic));
    for (size_t number = 0; number < lengths.size(); ++number) {
      std::vector<int32_t> ids(static_cast<size_t>(lengths[number]));
      for (int32_t& id : ids) id = static_cast<int32_t>(5 + stream.Below(55));
      texts.set.Add(ids, std::vector<int32_t>(ids.size(), 0));
      const bool held_out = held_out_every > 0 && (number + 1) % held_out_every == 0;
      (held_out ? texts.held_out : texts.fitted).push_back(static_cast<int64_t>(number));
    }
    directions = CalibrateDirections(*exact, texts);
  }

  // Clustered attention by these directions.
  static AttentionSpec Base() {
    AttentionSpec base = ParseAttentionSpec("clustered", "test");
    As<ClusteredAttention>(base).directions = Directions::kStored;
    return base;
  }
};

}  // namespace lshformer
