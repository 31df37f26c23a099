#pragma once

namespace lshformer {

// Heads; kEncoder has none. kPretraining: masked LM and, where a family has one, the loss of its sentence pairs.
enum class Task { kEncoder, kMaskedLm, kPretraining, kSequenceClassification, kMultipleChoice, kQuestionAnswering };

}  // namespace lshformer
