// The table of families with what reads config.json alone: the models need libtorch.
#include "models/bert/config.h"
#include "models/family.h"

namespace lshformer {

std::span<const Family* const> Families() {
  static const Family bert{.model_type = "bert",
                           .keys = kBertKeys,
                           .encoder_layers = true,
                           .parse = ParseBertConfig,
                           .validate = ValidateBertConfig,
                           .write = WriteBertConfig};
  static const Family* const families[] = {&bert};
  return families;
}

}  // namespace lshformer
