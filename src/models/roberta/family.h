// RoBERTa's row of the table.
#pragma once
#include "models/family.h"

namespace lshformer {

extern const Family kRobertaFamily;

}  // namespace lshformer
