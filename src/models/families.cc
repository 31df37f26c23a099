// The families there are. Nothing else is defined here: a program that links its own table takes this one's place.
#include <array>

#include "models/albert/family.h"
#include "models/bert/family.h"

namespace lshformer {

std::span<const Family* const> Families() {
  static constexpr std::array<const Family*, 2> kFamilies{&kBertFamily, &kAlbertFamily};
  return kFamilies;
}

}  // namespace lshformer
