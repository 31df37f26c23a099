// The table of families with what reads config.json alone: the models need libtorch.
#include "models/albert/config.h"
#include "models/bert/config.h"
#include "models/bidaf/config.h"
#include "models/distilbert/config.h"
#include "models/family.h"
#include "models/modernbert/config.h"
#include "models/nomic_bert/config.h"
#include "models/qanet/config.h"
#include "models/roberta/config.h"

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
  static const Family roberta{.model_type = "roberta",
                              .options = RobertaOptions,
                              .encoder_layers = true,
                              .encoder_keys = kRobertaKeys,
                              .set_defaults = SetRobertaDefaults,
                              .complete = CompleteRobertaConfig,
                              .check = CheckRobertaConfig};
  static const Family xlm_roberta = [] {
    Family family = roberta;
    family.model_type = "xlm-roberta", family.set_defaults = SetXlmRobertaDefaults;
    return family;
  }();
  static const Family distilbert{.model_type = "distilbert",
                                 .options = DistilBertOptions,
                                 .encoder_layers = true,
                                 .encoder_keys = kDistilBertKeys,
                                 .set_defaults = SetDistilBertDefaults,
                                 .complete = CompleteDistilBertConfig,
                                 .check = CheckDistilBertConfig};
  static const Family nomic_bert{.model_type = "nomic_bert",
                                 .options = NomicBertOptions,
                                 .encoder_layers = true,
                                 .encoder_keys = kNomicBertKeys,
                                 .set_defaults = SetNomicBertDefaults,
                                 .complete = CompleteNomicBertConfig,
                                 .in_todays_keys = NomicBertInTodaysKeys,
                                 .check = CheckNomicBertConfig};
  static const Family modernbert{.model_type = "modernbert",
                                 .options = ModernBertOptions,
                                 .encoder_layers = true,
                                 .encoder_keys = kModernBertKeys,
                                 .set_defaults = SetModernBertDefaults,
                                 .complete = CompleteModernBertConfig,
                                 .check = CheckModernBertConfig};
  static const Family* const families[] = {&bert,       &albert,     &roberta, &xlm_roberta, &distilbert,
                                           &nomic_bert, &modernbert, &bidaf,   &qanet};
  return families;
}

}  // namespace lshformer
