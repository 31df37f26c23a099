#include "models/modernbert/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/rotary_options.h"

namespace lshformer {
namespace {

using B = ModernBertConfig;

constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";

// Whether layer i is local where layer_types says nothing.
std::vector<bool> UsualLayers(const B& own, int64_t layers) {
  std::vector<bool> local;
  for (int64_t layer = 0; layer < layers; ++layer) local.push_back(layer % own.global_attn_every_n_layers != 0);
  return local;
}

Option<B> EveryLayers() {
  return Integer("global_attn_every_n_layers", &B::global_attn_every_n_layers, 1, 1 << 16,
                 "where `layer_types` says nothing: layer 0 and every n-th one see all keys")
      .NullIsAbsent();
}

Option<ModelConfig> LayerTypes() {
  const auto read = [](const Json& object, std::string_view where, ModelConfig& into) {
    const Json& list = object.at("layer_types");
    if (!list.is_array()) Fail("{}: \"layer_types\": expected a list, got {}", where, ShownValue(list));
    const auto layers = static_cast<size_t>(into.num_hidden_layers);
    if (list.size() != layers)
      Fail("{}: \"layer_types\": expected {} (num_hidden_layers), got {}", where, layers, list.size());
    std::vector<bool>& local = into.own<B>().local_layers;
    local.clear();
    for (const Json& type : list) {
      if (type != kFull && type != kSliding)
        Fail("{}: \"layer_types\"[{}]: expected \"{}\" or \"{}\", got {}", where, local.size(), kFull, kSliding,
             ShownValue(type));
      local.push_back(type == kSliding);
    }
  };
  const auto write = [](const ModelConfig& from) {
    Json list = Json::array();
    for (const bool local : from.own<B>().local_layers) list.push_back(local ? kSliding : kFull);
    return list.empty() ? Json() : list;
  };
  return Custom<ModelConfig>(
             "layer_types", "LIST", read, write,
             "of each layer `full_attention`, all keys, or `sliding_attention`, those of a window; written where "
             "`global_attn_every_n_layers` does not say the same")
      .NullIsAbsent();
}

// Whether two bases say all there is: then they are written as transformers 4 and 5 both read them.
bool TwoBases(const B& own) {
  return own.global_rotary.scaling == RotaryScaling::kNone && own.local_rotary.scaling == RotaryScaling::kNone;
}

// {"full_attention": …, "sliding_attention": …}
Option<B> RopeParameters() {
  const auto read = [](const Json& object, std::string_view where, B& into) {
    const std::string inside = fmt::format("{}: \"rope_parameters\"", where);
    const Json& kinds = object.at("rope_parameters");
    if (!kinds.is_object()) Fail("{}: expected an object, got {}", inside, ShownValue(kinds));
    for (const auto& [kind, value] : kinds.items()) {
      if (kind != kFull && kind != kSliding)
        Fail("{}: expected \"{}\" and \"{}\", got \"{}\"", inside, kFull, kSliding, Shown(kind));
      if (!value.is_null())
        ReadRotary(value, fmt::format("{}: \"{}\"", inside, kind),
                   kind == kFull ? into.global_rotary : into.local_rotary);
    }
  };
  const auto write = [](const B& from) {
    if (TwoBases(from)) return Json();
    return Json{{kFull, WriteRotary(from.global_rotary)}, {kSliding, WriteRotary(from.local_rotary)}};
  };
  return Custom<B>(
             "rope_parameters", "OBJECT", read, write,
             "the same and more, under `full_attention` and `sliding_attention`: `rope_type` (`default`, `linear`, "
             "`dynamic`), `rope_theta` and `factor`; written where one is not `default`")
      .NullIsAbsent();
}

// For one kind of layers.
Option<B> RopeTheta(const char* key, Rotary B::*rotary, std::string help) {
  return Custom<B>(
             key, "NUMBER",
             [key, rotary](const Json& object, std::string_view where, B& into) {
               try {
                 ReadRotary(Json{{"rope_theta", object.at(key)}}, where, into.*rotary);
               } catch (const Error&) {
                 Fail("{}: \"{}\": expected a number above 0 and at most 1e12, got {}", where, key,
                      ShownValue(object.at(key)));
               }
             },
             [rotary](const B& from) { return TwoBases(from) ? Json((from.*rotary).theta) : Json(); }, std::move(help))
      .Decides()
      .NullIsAbsent();
}

// For both kinds, over what they have.
Option<B> RopeScaling() {
  return Custom<B>(
             "rope_scaling", "OBJECT",
             [](const Json& object, std::string_view where, B& into) {
               const std::string inside = fmt::format("{}: \"rope_scaling\"", where);
               for (Rotary B::*rotary : {&B::global_rotary, &B::local_rotary})
                 ReadRotary(object.at("rope_scaling"), inside, into.*rotary);
             },
             [](const B&) { return Json(); }, "of older files, for both kinds of layers")
      .NullIsAbsent();
}

Option<B> ClassifierPooling() {
  return Custom<B>(
      "classifier_pooling", "cls|mean",
      [](const Json& object, std::string_view where, B& into) {
        into.mean_pooling = GetName(object, "classifier_pooling", where, {"cls", "mean"}) == 1;
      },
      [](const B& from) { return Json(from.mean_pooling ? "mean" : "cls"); },
      "what the classifier looks at: the first token's state, `cls`, or the `mean` of all");
}

Option<B> ClassifierActivation() {
  static constexpr const char* kKey = "classifier_activation";
  return Custom<B>(
      kKey, "NAME",
      [](const Json& object, std::string_view where, B& into) {
        into.classifier_activation =
            ParseActivation(GetString(object, kKey, where), fmt::format("{}: \"{}\"", where, kKey));
      },
      [](const B& from) { return Json(Name(from.classifier_activation)); }, "of the heads' first map");
}

double ParameterCount(const ModelConfig& config) {
  const double hidden = static_cast<double>(config.hidden_size), inner = static_cast<double>(config.intermediate_size);
  return static_cast<double>(config.vocab_size + config.num_labels) * hidden +
         static_cast<double>(config.num_hidden_layers) * (4 * hidden * hidden + 3 * hidden * inner) + hidden * hidden;
}

}  // namespace

std::vector<Option<ModelConfig>> ModernBertOptions() {
  constexpr NumberRange kProbability{.low = 0, .high = 1, .high_open = true};
  std::vector<Option<ModelConfig>> options;
  const auto add = [&](Option<B> option) { options.push_back(OwnOption(std::move(option))); };
  add(Number("embedding_dropout", &B::embedding_dropout, kProbability, "of embeddings"));
  add(Number("mlp_dropout", &B::mlp_dropout, kProbability, "of what the feed-forward's second map reads"));
  add(Number("initializer_cutoff_factor", &B::initializer_cutoff_factor, {.low = 0.1, .high = 100},
             "new weights lie within so many standard deviations")
          .NullIsAbsent());
  add(Boolean("norm_bias", &B::norm_bias, "LayerNorms have biases"));
  add(Boolean("attention_bias", &B::attention_bias, "the maps around attention have biases"));
  add(Boolean("mlp_bias", &B::mlp_bias, "the feed-forward's maps have biases"));
  add(Boolean("decoder_bias", &B::decoder_bias, "the decoder of masked words has biases"));
  add(ClassifierPooling());
  add(Number("classifier_dropout", &B::classifier_dropout, kProbability,
             "before the classifier and the map of answers"));
  add(Boolean("classifier_bias", &B::classifier_bias, "the heads' first map has biases"));
  add(ClassifierActivation());
  add(Integer("local_attention", &B::local_attention, 2, 1 << 24,
              "keys that queries of `sliding_attention` layers see, half of them on each side"));
  add(EveryLayers());
  options.push_back(LayerTypes());
  add(RopeTheta("global_rope_theta", &B::global_rotary, "the base of rotary positions where all keys are seen"));
  add(RopeTheta("local_rope_theta", &B::local_rotary, "the same of local layers"));
  add(RopeParameters());
  add(RopeScaling());
  options.push_back(
      PositionsOption(&B::max_position_embeddings, "tokens of the longest sequence; there is no table of positions"));
  for (Option<ModelConfig>& option : TokenOptions())
    if (option.name == "attended_padding") options.push_back(std::move(option));
  return options;
}

void SetModernBertDefaults(ModelConfig& config) {
  config.vocab_size = 50368;
  config.num_hidden_layers = 22;
  config.intermediate_size = 1152;
  config.attention_probs_dropout_prob = 0;
  config.layer_norm_eps = 1e-5;
  config.pad_token_id = 50283;
}

void CompleteModernBertConfig(ModelConfig& config, std::string_view where) {
  B& own = config.own<B>();
  LongestRotary(own.max_position_embeddings, own.local_rotary);
  config.max_position_embeddings = LongestRotary(own.max_position_embeddings, own.global_rotary);
  config.type_vocab_size = 2;  // a second text has types as BERT's; there is no table for them
  config.hidden_dropout_prob = 0;
  config.shape = {.norm = NormPlace::kBefore,
                  .norm_biases = own.norm_bias,
                  .attention_biases = own.attention_bias,
                  .feed_forward_biases = own.mlp_bias,
                  .gated = true,
                  .attention_output_dropout = config.attention_probs_dropout_prob,
                  .inner_dropout = own.mlp_dropout};
  const std::vector<bool> usual = UsualLayers(own, config.num_hidden_layers);
  if (own.local_layers == usual) own.local_layers.clear();  // it need not be said, and layers can become others
  for (const bool is_local : own.local_layers.empty() ? usual : own.local_layers) {
    config.shape.rotary.push_back(is_local ? own.local_rotary : own.global_rotary);
    config.shape.windows.push_back(is_local ? static_cast<int>(own.local_attention / 2) : -1);
  }
  PlaceWindows(config, where);
}

void ExtendModernBert(ModelConfig& config, int64_t positions, std::string_view where) {
  B& own = config.own<B>();
  GrowRotary(own.max_position_embeddings, positions, where, own.global_rotary);
}

void CheckModernBertConfig(const ModelConfig& config, std::string_view where) {
  RefuseOtherVariants(config.other, where);
  CheckParameterCount(ParameterCount(config), where);
}

}  // namespace lshformer
