// What becomes of a classifier's outputs.
#pragma once

namespace lshformer {

// What ClassScore says of the model, the outputs as they are, a softmax over all, the sigmoid of each.
enum class ScoreFunction { kModels, kNone, kSoftmax, kSigmoid };

}  // namespace lshformer
