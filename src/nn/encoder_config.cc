#include "nn/encoder_config.h"

#include <optional>
#include <utility>

#include "base/error.h"

namespace lshformer {
namespace {

using E = EncoderConfig;

// No encoder comes near these; they keep every product of two sizes far from overflow.
constexpr int64_t kMostLayers = 1024, kMostHeads = int64_t{1} << 16, kMostIntermediate = int64_t{1} << 20;
constexpr int64_t kMostHeadDim = 256;  // what the attention kernels take
constexpr NumberRange kProbability{.low = 0, .high = 1, .high_open = true};

Option<E> HiddenAct(const char* key) {
  return Custom<E>(
      key, "NAME",
      [key](const Json& object, std::string_view where, E& into) {
        into.hidden_act = ParseActivation(GetString(object, key, where), fmt::format("{}: \"{}\"", where, key));
      },
      [](const E& from) { return Json(Name(from.hidden_act)); },
      "`gelu` (erf), `gelu_new` = `gelu_pytorch_tanh` = `gelu_fast`, `relu`, `tanh`, `silu` = `swish`");
}

[[noreturn]] void FailHeads(std::string_view where, size_t layer, int64_t expected, size_t got) {
  Fail("{}: \"attention\"[{}]: expected one object or {} (num_attention_heads), got {}", where, layer, expected, got);
}

AttentionSpec Local(int window) {
  AttentionSpec spec;
  spec.kind = LocalAttention{};
  spec.window = window;
  return spec;
}

// Without the layers that are local by the shape, where the others are alike.
std::vector<AttentionSpec> Written(const E& config) {
  const std::vector<int>& windows = config.shape.windows;
  if (windows.size() != config.attention.size()) return config.attention;
  std::optional<AttentionSpec> others;
  for (size_t layer = 0; layer < windows.size(); ++layer) {
    const AttentionSpec& spec = config.attention[layer];
    if (windows[layer] >= 0 && spec == Local(windows[layer])) continue;
    if (windows[layer] >= 0 || (others && *others != spec)) return config.attention;
    others = spec;
  }
  return {others.value_or(AttentionSpec{})};
}

// One for all layers, or a list with one per layer; of a layer one for all heads, or a list with one per head.
Option<E> Attention(const char* key) {
  const auto read = [](const Json& object, std::string_view where, E& into) {
    const Json& given = object.at("attention");
    into.attention = ParseAttentionList(given, fmt::format("{}: \"attention\"", where));
    // Here, since a list of heads that are alike is one object from then on; their number is read before
    // (EncoderOptions).
    for (size_t layer = 0; given.is_array() && layer < given.size(); ++layer) {
      if (given[layer].is_array() && static_cast<int64_t>(given[layer].size()) != into.num_attention_heads)
        FailHeads(where, layer, into.num_attention_heads, given[layer].size());
    }
  };
  const auto write = [](const E& from) { return ToJson(Written(from)); };
  return Custom<E>(
             key, "TYPE|OBJECT|LIST", read, write,
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

Option<E> AttentionResidual(const char* key) {
  Option<E> option = Boolean(key, &E::attention_residual,
                             "of ours, to compare with code that leaves them out: false takes the residual and the "
                             "LayerNorm around attention away; not with `reversible`");
  option.write = [](const E& from) { return from.attention_residual ? Json() : Json(false); };
  return std::move(option).NullIsAbsent();
}

}  // namespace

void PlaceWindows(E& config, std::string_view where) {
  const std::vector<int>& windows = config.shape.windows;
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  if (windows.size() != layers) return;
  if (config.attention.size() == 1 && layers > 1) {
    const AttentionSpec others = config.attention.front();
    config.attention.assign(layers, others);
    for (size_t layer = 0; layer < layers; ++layer)
      if (windows[layer] >= 0) config.attention[layer] = Local(windows[layer]);
    return;
  }
  if (config.attention.size() != layers) return;  // CheckEncoder says so
  for (size_t layer = 0; layer < layers; ++layer) {
    const AttentionSpec& spec = config.attention[layer];
    if (windows[layer] >= 0 && Is<LocalAttention>(spec) && spec.window != windows[layer])
      Fail("{}: \"attention\"[{}]: the window of this layer is {}, got {}", where, layer, windows[layer], spec.window);
  }
}

void CheckEncoder(const E& config, const EncoderKeys& keys, std::string_view where) {
  if (config.reversible && !config.attention_residual)
    Fail("{}: \"attention_residual\" false takes away what \"reversible\" layers consist of", where);
  if (config.hidden_size % config.num_attention_heads != 0)
    Fail("{}: \"{}\" {} is not a multiple of \"{}\" {}", where, keys.hidden_size, config.hidden_size,
         keys.num_attention_heads, config.num_attention_heads);
  if (config.head_dim() > kMostHeadDim)
    Fail("{}: \"{}\" {} with {} heads gives heads of {}, the limit is {}", where, keys.hidden_size, config.hidden_size,
         config.num_attention_heads, config.head_dim(), kMostHeadDim);
  if (!config.shape.rotary.empty() && config.head_dim() % 2 != 0)
    Fail("{}: \"{}\" {} with {} heads gives heads of {}: rotary positions turn pairs of numbers", where,
         keys.hidden_size, config.hidden_size, config.num_attention_heads, config.head_dim());
  if (config.attention.empty() ||
      (config.attention.size() != 1 && static_cast<int64_t>(config.attention.size()) != config.num_hidden_layers))
    Fail("{}: \"attention\": expected one object or {} ({}), got {}", where, config.num_hidden_layers,
         keys.num_hidden_layers, config.attention.size());
  for (size_t layer = 0; layer < config.attention.size(); ++layer) {
    const size_t heads = config.attention[layer].heads.size();
    if (heads != 0 && static_cast<int64_t>(heads) != config.num_attention_heads)
      FailHeads(where, layer, config.num_attention_heads, heads);
  }
}

std::vector<Option<E>> EncoderOptions(const EncoderKeys& keys) {
  std::vector<Option<E>> options{
      Integer(keys.num_hidden_layers, &E::num_hidden_layers, 1, kMostLayers, "layers"),
      Integer(keys.num_attention_heads, &E::num_attention_heads, 1, kMostHeads,
              fmt::format("heads; they divide `{}`, into 256 a head at most", keys.hidden_size)),
      Integer(keys.intermediate_size, &E::intermediate_size, 1, kMostIntermediate, "width of the feed-forward"),
      WrittenIfSet(Boolean(keys.reversible, &E::reversible,
                           "two-stream layers whose training memory does not grow with depth "
                           "([memory.md](memory.md))"),
                   &E::reversible),
      WrittenIfSet(Integer(keys.chunk_size_feed_forward, &E::chunk_size_feed_forward, 0, INT32_MAX,
                           "tokens that go through the feed-forward at a time, 0: all at once"),
                   &E::chunk_size_feed_forward),
      AttentionResidual(keys.attention_residual),
      HiddenAct(keys.hidden_act),
      Number(keys.hidden_dropout_prob, &E::hidden_dropout_prob, kProbability, "of embeddings and of what layers add"),
      Number(keys.attention_probs_dropout_prob, &E::attention_probs_dropout_prob, kProbability,
             "of the weights of attention"),
      Number(keys.layer_norm_eps, &E::layer_norm_eps, {.low = 0, .high = 1, .low_open = true}, "added to the variance"),
      Attention(keys.attention)};
  std::erase_if(options, [](const Option<E>& option) { return option.name.empty(); });
  return options;
}

}  // namespace lshformer
