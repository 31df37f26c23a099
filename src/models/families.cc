// The families there are. Nothing else is defined here: a program that links its own table takes this one's place.
#include <array>

#include "models/albert/family.h"
#include "models/bert/family.h"
#include "models/bidaf/family.h"
#include "models/qanet/family.h"

namespace lshformer {

std::span<const Family* const> Families() {
  static constexpr std::array<const Family*, 4> kFamilies{&kBertFamily, &kAlbertFamily, &kBidafFamily, &kQanetFamily};
  return kFamilies;
}

}  // namespace lshformer
