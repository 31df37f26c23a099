// The program's table with one more row: linked in place of models/families.cc.
#include "models/bert/family.h"
#include "models/toy_family/bag_of_words.h"

namespace lshformer {

std::span<const Family* const> Families() {
  static const Family* const families[] = {&kBertFamily, &kBagOfWordsFamily};
  return families;
}

}  // namespace lshformer
