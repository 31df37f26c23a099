// What a model folder is, in words, and what this program runs it with.
#pragma once
#include <string>

#include "base/json.h"
#include "models/config.h"

namespace lshformer {

// The tasks of each command that takes the model: {"predict": ["fill-mask", …], "evaluate": […], "train": […]}, and
// true for those that take a model without a task, as it is: "pretrain", "convert", "tune", "search", "serve",
// "inspect".
Json ModelUses(const ModelConfig& config);

// Which layers are alike: [{"layers": [0, 3], "attention": "dense", "rotary": {…}}], the attention by its short name
// (local: with its window), "rotary" null where nothing is turned. Empty of a model without encoder layers.
Json LayerKinds(const ModelConfig& config);

// {"folder": of the encoder, "pooling": …} as far as a Sentence-Transformers folder says it; null of others.
Json SentenceFolder(const std::string& folder);

}  // namespace lshformer
