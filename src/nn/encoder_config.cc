#include "nn/encoder_config.h"

#include <utility>

#include "base/error.h"

namespace lshformer {
namespace {

using E = EncoderConfig;

// No encoder comes near these; they keep every product of two sizes far from overflow.
constexpr int64_t kMostLayers = 1024, kMostHeads = int64_t{1} << 16, kMostIntermediate = int64_t{1} << 20;
constexpr int64_t kMostHeadDim = 256;  // what the attention kernels take
constexpr NumberRange kProbability{.low = 0, .high = 1, .high_open = true};

Option<E> HiddenAct() {
  return Custom<E>(
      "hidden_act", "NAME",
      [](const Json& object, std::string_view where, E& into) {
        into.hidden_act =
            ParseActivation(GetString(object, "hidden_act", where), fmt::format("{}: \"hidden_act\"", where));
      },
      [](const E& from) { return Json(Name(from.hidden_act)); },
      "`gelu` (erf), `gelu_new` = `gelu_pytorch_tanh`, `relu`, `tanh`, `silu` = `swish`");
}

[[noreturn]] void FailHeads(std::string_view where, size_t layer, int64_t expected, size_t got) {
  Fail("{}: \"attention\"[{}]: expected one object or {} (num_attention_heads), got {}", where, layer, expected, got);
}

// One for all layers, or a list with one per layer; of a layer one for all heads, or a list with one per head.
Option<E> Attention() {
  const auto read = [](const Json& object, std::string_view where, E& into) {
    const Json& given = object.at("attention");
    into.attention = ParseAttentionList(given, fmt::format("{}: \"attention\"", where));
    // Here, since a list of heads that are alike is one object from then on; their number is read before
    // (EncoderTable).
    for (size_t layer = 0; given.is_array() && layer < given.size(); ++layer) {
      if (given[layer].is_array() && static_cast<int64_t>(given[layer].size()) != into.num_attention_heads)
        FailHeads(where, layer, into.num_attention_heads, given[layer].size());
    }
  };
  const auto write = [](const E& from) { return ToJson(from.attention); };
  return Custom<E>(
             "attention", "TYPE|OBJECT|LIST", read, write,
             "a type name, an object, or a list with one per layer, or with one for all; in it a list has one per head "
             "([attention.md](attention.md))")
      .NullIsAbsent();
}

// Of what ordinary layers have the default, only what differs is written.
template <class Value>
Option<E> WrittenIfSet(Option<E> option, Value E::*member) {
  option.write = [member](const E& from) { return from.*member == Value() ? Json() : Json(from.*member); };
  return std::move(option).NullIsAbsent();
}

Option<E> AttentionResidual() {
  Option<E> option = Boolean("attention_residual", &E::attention_residual,
                             "of ours, to compare with code that leaves them out: false takes the residual and the "
                             "LayerNorm around attention away; not with `reversible`");
  option.write = [](const E& from) { return from.attention_residual ? Json() : Json(false); };
  return std::move(option).NullIsAbsent();
}

void Check(const E& config, std::string_view where) {
  if (config.reversible && !config.attention_residual)
    Fail("{}: \"attention_residual\" false takes away what \"reversible\" layers consist of", where);
  if (config.hidden_size % config.num_attention_heads != 0)
    Fail("{}: \"hidden_size\" {} is not a multiple of \"num_attention_heads\" {}", where, config.hidden_size,
         config.num_attention_heads);
  if (config.head_dim() > kMostHeadDim)
    Fail("{}: \"hidden_size\" {} with {} heads gives heads of {}, the limit is {}", where, config.hidden_size,
         config.num_attention_heads, config.head_dim(), kMostHeadDim);
  if (config.attention.empty() ||
      (config.attention.size() != 1 && static_cast<int64_t>(config.attention.size()) != config.num_hidden_layers))
    Fail("{}: \"attention\": expected one object or {} (num_hidden_layers), got {}", where, config.num_hidden_layers,
         config.attention.size());
  for (size_t layer = 0; layer < config.attention.size(); ++layer) {
    const size_t heads = config.attention[layer].heads.size();
    if (heads != 0 && static_cast<int64_t>(heads) != config.num_attention_heads)
      FailHeads(where, layer, config.num_attention_heads, heads);
  }
}

}  // namespace

const OptionTable<EncoderConfig>& EncoderTable() {
  static const OptionTable<E> table{
      {Integer("num_hidden_layers", &E::num_hidden_layers, 1, kMostLayers, "layers"),
       Integer("num_attention_heads", &E::num_attention_heads, 1, kMostHeads,
               "heads; they divide `hidden_size`, into 256 a head at most"),
       Integer("intermediate_size", &E::intermediate_size, 1, kMostIntermediate, "width of the feed-forward"),
       WrittenIfSet(Boolean("reversible", &E::reversible,
                            "two-stream layers whose training memory does not grow with depth "
                            "([memory.md](memory.md))"),
                    &E::reversible),
       WrittenIfSet(Integer("chunk_size_feed_forward", &E::chunk_size_feed_forward, 0, INT32_MAX,
                            "tokens that go through the feed-forward at a time, 0: all at once"),
                    &E::chunk_size_feed_forward),
       AttentionResidual(), HiddenAct(),
       Number("hidden_dropout_prob", &E::hidden_dropout_prob, kProbability, "of embeddings and of what layers add"),
       Number("attention_probs_dropout_prob", &E::attention_probs_dropout_prob, kProbability,
              "of the weights of attention"),
       Number("layer_norm_eps", &E::layer_norm_eps, {.low = 0, .high = 1, .low_open = true}, "added to the variance"),
       Attention()},
      Check,
      {},
      ""};
  return table;
}

}  // namespace lshformer
