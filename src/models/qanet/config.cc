#include "models/qanet/config.h"

#include <algorithm>
#include <utility>

#include "models/word_options.h"

namespace lshformer {
namespace {

constexpr int64_t kMostConvolutions = 64, kMostKernelSize = 255;

using Q = QanetConfig;

double ParameterCount(const ModelConfig& config) {
  const Q& own = config.own<Q>();
  const double width = static_cast<double>(config.hidden_size);
  const auto block = [&](int64_t convolutions, int64_t kernel_size) {
    return static_cast<double>(convolutions) * width * (width + static_cast<double>(kernel_size)) + 5 * width * width;
  };
  const double words = static_cast<double>(config.embedding_size + own.character_filters);
  return WordParameterCount(config, own) + words * width + 4 * width * width +
         block(own.embedding_encoder_convolutions, own.embedding_encoder_kernel_size) + 4 * width * width +
         static_cast<double>(config.num_hidden_layers) *
             block(own.model_encoder_convolutions, own.model_encoder_kernel_size);
}

}  // namespace

std::vector<Option<ModelConfig>> QanetOptions() {
  std::vector<Option<ModelConfig>> options = WordModelOptions<Q>();
  std::erase_if(options, [](const auto& option) { return option.name == "hidden_dropout_prob"; });  // an encoder's key
  const auto add = [&](Option<Q> option) { options.push_back(OwnOption(std::move(option))); };
  add(Integer("embedding_encoder_convolutions", &Q::embedding_encoder_convolutions, 0, kMostConvolutions,
              "convolutions of the block that reads words; even where `reversible`"));
  add(Integer("embedding_encoder_kernel_size", &Q::embedding_encoder_kernel_size, 1, kMostKernelSize,
              "words that each of them sees; odd"));
  add(Integer("model_encoder_convolutions", &Q::model_encoder_convolutions, 0, kMostConvolutions,
              "convolutions of each of the `num_hidden_layers` blocks behind context-query attention; even where "
              "`reversible`"));
  add(Integer("model_encoder_kernel_size", &Q::model_encoder_kernel_size, 1, kMostKernelSize,
              "words that each of them sees; odd"));
  add(Number("layer_dropout", &Q::layer_dropout, {.low = 0, .high = 1, .high_open = true},
             "how likely the last sub-layer of a stack adds nothing in a step; sub-layer l of L: l/L of it"));
  return options;
}

void SetQanetDefaults(ModelConfig& config) {
  SetWordModelDefaults(config);
  config.hidden_size = 128;
  config.num_hidden_layers = 7;
  config.num_attention_heads = 8;
  config.hidden_dropout_prob = 0.1;
  config.attention_probs_dropout_prob = 0.1;
  config.layer_norm_eps = 1e-6;
  config.own<Q>().character_filters = 128;
}

void CheckQanetConfig(const ModelConfig& config, std::string_view where) {
  const Q& own = config.own<Q>();
  CheckWordConfig(config, where);
  for (const auto& [key, size] : {std::pair("embedding_encoder_kernel_size", own.embedding_encoder_kernel_size),
                                  {"model_encoder_kernel_size", own.model_encoder_kernel_size}})
    if (size % 2 == 0) Fail("{}: \"{}\": expected an odd number, got {}", where, key, size);
  for (const auto& [key, count] : {std::pair("embedding_encoder_convolutions", own.embedding_encoder_convolutions),
                                   {"model_encoder_convolutions", own.model_encoder_convolutions}})
    if (config.reversible && count % 2 != 0)
      Fail("{}: \"{}\": expected an even number with \"reversible\", which takes sub-layers in pairs, got {}", where,
           key, count);
  CheckParameterCount(ParameterCount(config), where);
}

}  // namespace lshformer
