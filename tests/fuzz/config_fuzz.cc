// Any bytes as config.json, then as overrides: what is accepted is a model that can be built, and reads back as itself.
#include <cstdint>
#include <string_view>

#include "fuzz/parses.h"
#include "models/config.h"

namespace {

using namespace lshformer;

void CheckConfig(const ModelConfig& config) {
  testing::Check(config.hidden_size % config.num_attention_heads == 0 && config.head_dim() <= 256,
                 "heads divide hidden");
  testing::Check(config.vocab_size >= 1 && config.pad_token_id >= 0 && config.pad_token_id < config.vocab_size,
                 "ids fit");
  testing::Check(
      config.attention.size() == 1 || config.attention.size() == static_cast<size_t>(config.num_hidden_layers),
      "one attention for all layers or each");
  const Json written = ToJson(config);
  testing::Check(ToJson(ParseModelConfig(written, "again")) == written, "a config reads back as itself");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 16) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ModelConfig config;
  if (testing::Parses([&] { config = ParseModelConfig(ParseJson(text, "config.json"), "config.json"); }))
    CheckConfig(config);
  ModelConfig changed;
  if (testing::Parses([&] { ApplyOverrides(changed, text, "--config_overrides"); })) CheckConfig(changed);
  return 0;
}
