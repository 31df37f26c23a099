// XLM-R's row of the table.
#pragma once
#include "models/family.h"

namespace lshformer {

extern const Family kXlmRobertaFamily;

}  // namespace lshformer
