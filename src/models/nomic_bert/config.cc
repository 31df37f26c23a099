#include "models/nomic_bert/config.h"

#include <fmt/format.h>

#include <utility>

#include "models/rotary_options.h"

namespace lshformer {
namespace {

using N = NomicBertConfig;

// An object as ReadRotary takes it; read, and written where it is today's key.
Option<N> RotaryObject(const char* key, bool written, std::string help) {
  return Custom<N>(
             key, "OBJECT",
             [key](const Json& object, std::string_view where, N& into) {
               ReadRotary(object.at(key), fmt::format("{}: \"{}\"", where, key), into.rotary);
             },
             [written](const N& from) { return written ? WriteRotary(from.rotary) : Json(); }, std::move(help))
      .NullIsAbsent();
}

Option<N> RotaryTheta() {
  return Custom<N>(
             "rope_theta", "NUMBER",
             [](const Json& object, std::string_view where, N& into) {
               ReadRotary(Json{{"rope_theta", object.at("rope_theta")}}, where, into.rotary);
             },
             [](const N&) { return Json(); }, "the base of rotary positions, of older files")
      .Decides()
      .NullIsAbsent();
}

Option<N> Positions() {
  Option<N> option = Integer("n_positions", &N::n_positions, 0, kMostPositions,
                             "tokens of the longest sequence where rotary positions are `dynamic`; 0: the factor "
                             "times `max_position_embeddings`");
  option.write = [](const N& from) { return from.n_positions == 0 ? Json() : Json(from.n_positions); };
  return std::move(option).NullIsAbsent();
}

double ParameterCount(const ModelConfig& config) {
  const double hidden = static_cast<double>(config.hidden_size), inner = static_cast<double>(config.intermediate_size);
  return static_cast<double>(config.vocab_size + config.type_vocab_size + config.num_labels) * hidden +
         static_cast<double>(config.num_hidden_layers) * (4 * hidden * hidden + 3 * hidden * inner) + hidden * hidden;
}

struct Renamed {
  const char *old, *current;
};
constexpr Renamed kRenamed[] = {{"n_embd", "hidden_size"},
                                {"n_layer", "num_hidden_layers"},
                                {"n_head", "num_attention_heads"},
                                {"layer_norm_epsilon", "layer_norm_eps"},
                                {"resid_pdrop", "hidden_dropout_prob"},
                                {"attn_pdrop", "attention_probs_dropout_prob"}};

// What the first code could be told and transformers' cannot: `value` is what it has to say, `unsaid` what it means to
// say nothing.
struct Required {
  const char* key;
  Json value, unsaid;
};

void CheckOldVariant(const Json& config, std::string_view where) {
  const Required required[] = {{"prenorm", false, false},
                               {"parallel_block", false, false},
                               {"use_rms_norm", false, false},
                               {"causal", false, false},
                               {"qkv_proj_bias", false, true},
                               {"mlp_fc1_bias", false, true},
                               {"mlp_fc2_bias", false, true},
                               {"rotary_emb_fraction", 1.0, 0.0},
                               {"rotary_emb_interleaved", false, false},
                               {"scale_attn_by_inverse_layer_idx", false, false}};
  for (const auto& [key, value, unsaid] : required) {
    const Json given = HasValue(config, key) ? config[key] : unsaid;
    if (given != value)
      Fail("{}: \"{}\": expected {}, got {}", where, key, value.dump(),
           HasValue(config, key) ? ShownValue(config[key]) : "nothing, which means " + unsaid.dump());
  }
  if (HasValue(config, "rotary_emb_scale_base"))
    Fail("{}: \"rotary_emb_scale_base\": expected null, got {}", where, ShownValue(config["rotary_emb_scale_base"]));
  const auto dropout = [&](const char* key) { return HasValue(config, key) ? GetNumber(config, key, where) : 0.1; };
  if (dropout("embd_pdrop") != dropout("resid_pdrop"))
    Fail("{}: \"embd_pdrop\" {} is not \"resid_pdrop\" {}", where, dropout("embd_pdrop"), dropout("resid_pdrop"));
}

// Its feed-forward is as wide as the next multiple of 256.
int64_t OldIntermediateSize(const Json& config, std::string_view where) {
  constexpr int64_t kMultiple = 256, kMost = int64_t{1} << 20;
  const int64_t inner = HasValue(config, "n_inner") ? GetInt(config, "n_inner", where, 1, kMost)
                                                    : 8 * GetInt(config, "n_embd", where, 1, kMost) / 3;
  return (inner + kMultiple - 1) / kMultiple * kMultiple;
}

const char* OldActivation(const Json& config, std::string_view where) {
  if (!HasValue(config, "activation_function")) Fail("{}: \"activation_function\" is missing", where);
  const std::string name = GetString(config, "activation_function", where);
  if (name == "swiglu") return "silu";
  if (name == "geglu") return "gelu";
  Fail("{}: \"activation_function\": expected \"swiglu\" or \"geglu\", got \"{}\"", where, Shown(name));
}

}  // namespace

std::vector<Option<ModelConfig>> NomicBertOptions() {
  std::vector<Option<ModelConfig>> options{
      ClassifierDropout(&N::classifier_dropout),
      OwnOption(RotaryTheta()),
      OwnOption(RotaryObject("rope_parameters", /*written=*/true,
                             "rotary positions: `rope_type` (`default`, `linear`, `dynamic`), `rope_theta`, `factor`")),
      OwnOption(RotaryObject("rope_scaling", /*written=*/false, "the same in older files")),
      PositionsOption(&N::max_position_embeddings, "tokens of the longest sequence; there is no table of positions"),
      OwnOption(Positions())};
  for (Option<ModelConfig>& option : TokenOptions())
    if (option.name != "max_position_embeddings") options.push_back(std::move(option));
  return options;
}

void SetNomicBertDefaults(ModelConfig& config) {
  config.vocab_size = 30528;
  config.hidden_act = Activation::kSilu;
  config.hidden_dropout_prob = 0;
  config.attention_probs_dropout_prob = 0;
}

void CompleteNomicBertConfig(ModelConfig& config, std::string_view) {
  N& own = config.own<N>();
  config.max_position_embeddings = LongestRotary(own.max_position_embeddings, own.rotary);
  if (own.rotary.scaling == RotaryScaling::kDynamic && own.n_positions > 0)
    config.max_position_embeddings = own.n_positions;
  config.shape = {.attention_biases = false, .feed_forward_biases = false, .gated = true, .rotary = {own.rotary}};
}

Json NomicBertInTodaysKeys(const Json& old, std::string_view where) {
  if (!HasValue(old, "n_embd")) return old;
  CheckOldVariant(old, where);
  Json config = old;
  for (const auto& [name, current] : kRenamed) {
    if (config.contains(name)) config[current] = config[name];
    config.erase(name);
  }
  config["intermediate_size"] = OldIntermediateSize(old, where);
  config["hidden_act"] = OldActivation(old, where);
  Json rotary{{"rope_theta", HasValue(old, "rotary_emb_base") ? old["rotary_emb_base"] : Json(10000)}};
  const int64_t positions = HasValue(old, "n_positions") ? GetInt(old, "n_positions", where, 1, kMostPositions) : 1024;
  const bool grows = HasValue(old, "rotary_scaling_factor");
  if (grows) {
    rotary["rope_type"] = "dynamic";
    rotary["factor"] = old["rotary_scaling_factor"];
  }
  const char* trained = "max_trained_positions";
  config["max_position_embeddings"] = !grows                   ? positions
                                      : HasValue(old, trained) ? GetInt(old, trained, where, 1, kMostPositions)
                                                               : 2048;
  config["rope_parameters"] = rotary;
  for (const char* done : {"n_inner", "activation_function", "embd_pdrop", "rotary_emb_base", "rotary_scaling_factor",
                           "max_trained_positions", "auto_map"})
    config.erase(done);
  if (!grows) config.erase("n_positions");
  return config;
}

void ExtendNomicBert(ModelConfig& config, int64_t positions, std::string_view where) {
  N& own = config.own<N>();
  GrowRotary(own.max_position_embeddings, positions, where, own.rotary);
  own.n_positions = 0;
}

void CheckNomicBertConfig(const ModelConfig& config, std::string_view where) {
  RefuseOtherVariants(config.other, where);
  if (HasValue(config.other, "head_dim") && GetInt(config.other, "head_dim", where, 1, INT32_MAX) != config.head_dim())
    Fail("{}: \"head_dim\": expected {} (hidden_size / num_attention_heads), got {}", where, config.head_dim(),
         ShownValue(config.other["head_dim"]));
  CheckParameterCount(ParameterCount(config), where);
}

}  // namespace lshformer
