// The families there are. Nothing else is defined here: a program that links its own table takes this one's place.
#include <array>

#include "models/albert/family.h"
#include "models/bert/family.h"
#include "models/bidaf/family.h"
#include "models/distilbert/family.h"
#include "models/modernbert/family.h"
#include "models/nomic_bert/family.h"
#include "models/qanet/family.h"
#include "models/roberta/family.h"
#include "models/xlm-roberta/family.h"

namespace lshformer {

std::span<const Family* const> Families() {
  static constexpr std::array<const Family*, 9> kFamilies{&kBertFamily,       &kAlbertFamily,     &kRobertaFamily,
                                                          &kXlmRobertaFamily, &kDistilBertFamily, &kNomicBertFamily,
                                                          &kModernBertFamily, &kBidafFamily,      &kQanetFamily};
  return kFamilies;
}

}  // namespace lshformer
