// The table of families with what reads config.json alone: the models need libtorch.
#include "models/albert/config.h"
#include "models/bert/config.h"
#include "models/bidaf/config.h"
#include "models/family.h"
#include "models/qanet/config.h"

namespace lshformer {

std::span<const Family* const> Families() {
  static const Family bert{
      .model_type = "bert", .options = BertOptions, .encoder_layers = true, .check = CheckBertConfig};
  static const Family albert{.model_type = "albert",
                             .options = AlbertOptions,
                             .encoder_layers = true,
                             .set_defaults = SetAlbertDefaults,
                             .check = CheckAlbertConfig};
  static const Family bidaf{
      .model_type = "bidaf", .options = BidafOptions, .set_defaults = SetBidafDefaults, .check = CheckBidafConfig};
  static const Family qanet{.model_type = "qanet",
                            .options = QanetOptions,
                            .encoder_layers = true,
                            .without_encoder_keys = kNotOfQanet,
                            .set_defaults = SetQanetDefaults,
                            .check = CheckQanetConfig};
  static const Family* const families[] = {&bert, &albert, &bidaf, &qanet};
  return families;
}

}  // namespace lshformer
