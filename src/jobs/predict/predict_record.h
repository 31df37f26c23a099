// What decides the answers of a run of `predict`.
#pragma once
#include "base/json.h"
#include "jobs/predict/predict.h"

namespace lshformer {

// Settings by the names of their options, and digests of the files that are read: "input digest", "model digest" and
// "tokenizer digest", null where that has no folder of its own. Two runs of equal records give the same lines.
Json PredictRecord(const PredictJob& job);

}  // namespace lshformer
