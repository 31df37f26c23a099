// ModernBERT's row of the table (arXiv:2412.13663): LayerNorms before what is added, GeGLU, rotary positions, and local
// layers between those that see all keys. Formulas and names: HF's modeling_modernbert.
#pragma once
#include "models/family.h"

namespace lshformer {

extern const Family kModernBertFamily;

}  // namespace lshformer
