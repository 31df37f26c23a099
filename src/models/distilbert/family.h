// DistilBERT's row of the table (arXiv:1910.01108): BERT's layers without types and pooler, under other names. Formulas
// and names: HF's modeling_distilbert.
#pragma once
#include "models/family.h"

namespace lshformer {

extern const Family kDistilBertFamily;

}  // namespace lshformer
