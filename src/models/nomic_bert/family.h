// Nomic BERT's row of the table (arXiv:2402.01613): BERT with rotary positions, SwiGLU and no biases in its layers'
// maps. Formulas and names: HF's modeling_nomic_bert; folders of its first, remote code are read too.
#pragma once
#include "models/family.h"

namespace lshformer {

extern const Family kNomicBertFamily;

}  // namespace lshformer
