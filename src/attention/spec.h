// Which attention a layer computes: the value behind "attention" in config.json. Semantics: docs/attention.md.
//
// What all kinds share is a member here, what is a kind's own a member of its struct. Functions of a kind are overloads
// on its struct, found by std::visit, so that a kind that lacks one does not compile (CONTRIBUTING.md, "Adding an
// attention"). Only what is about one kind, as conversion is, asks which kind a spec is.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "attention/clustered.h"
#include "attention/dense.h"
#include "attention/local.h"
#include "attention/reformer.h"
#include "attention/simhash.h"
#include "base/json.h"

namespace lshformer {

enum class Resample { kCall, kNever };  // new planes or rotations at every training step, or the same for ever

inline constexpr int kAutoLength = -1;          // a min_length "auto": by the lengths that `tune` measured
inline constexpr int kNeverSparse = INT32_MAX;  // a length that no sequence reaches; "never" in tuned_lengths

// What `lshformer tune` measured: from how many tokens on hashing is faster than the kind's exact form. They are
// numbers of the config, so that a model computes the same on every machine.
struct TunedLengths {
  std::optional<int> forward, forward_backward;  // of each direction that was measured; at least one
  std::string machine;                           // where, for people; "" if not said

  bool operator==(const TunedLengths&) const = default;
};

struct AttentionSpec {
  std::variant<DenseAttention, SimHashAttention, ReformerAttention, ClusteredAttention, LocalAttention> kind;
  // Of every kind that hashes; which of them a kind has, and their defaults, says its table.
  int window = 0;  // neighbours on each side that every query sees; of local attention all that it sees
  // [CLS], [SEP]: all queries see them, and they see all keys (clustered: as queries they are like others)
  bool global_first = false, global_last = false;
  Resample resample = Resample::kCall;
  int min_length = 0;  // shorter sequences use the kind's exact form; 0: always hash; kAutoLength
  std::optional<TunedLengths> tuned = std::nullopt;
  uint64_t seed = 0;
  // Of heads that differ one each, clustered or dense, with none of their own; what stands beside is then that of the
  // first that is clustered. Empty: all heads are alike.
  std::vector<AttentionSpec> heads = {};

  bool operator==(const AttentionSpec&) const = default;
};

template <class Kind>
bool Is(const AttentionSpec& spec) {
  return std::holds_alternative<Kind>(spec.kind);
}
template <class Kind>
const Kind& As(const AttentionSpec& spec) {
  return std::get<Kind>(spec.kind);
}
template <class Kind>
Kind& As(AttentionSpec& spec) {
  return std::get<Kind>(spec.kind);
}
inline bool SameKind(const AttentionSpec& a, const AttentionSpec& b) { return a.kind.index() == b.kind.index(); }

// Properties of a kind, from its struct.
const char* Name(const AttentionSpec& spec);  // "dense", "simhash", "reformer", "clustered", "local"
// For people, of what a kind's settings are mostly about: "16 × 4" (clusters of 16 keys, 4 of them opened), "128/16 ×
// 4/3" (two levels), "16 × 4, window 7", "64 × 4, bundles of 64", "exact", "local, window 64"; of other kinds the name.
std::string ShortName(const AttentionSpec& spec);
bool IsSparse(const AttentionSpec& spec);    // whether it has anything but an exact form
bool SharesKeys(const AttentionSpec& spec);  // whether keys are the queries: there is no key projection
double ScaleOfScores(const AttentionSpec& spec, int head_dim);  // what multiplies q·k: 1/√head_dim, or the kind's own

inline const AttentionSpec& OfHead(const AttentionSpec& spec, int head) {
  return spec.heads.empty() ? spec : spec.heads[static_cast<size_t>(head)];
}
// The spec of a layer whose heads these are, at least one: plain where all are the same. Error that names `where`:
// another kind than clustered and dense, heads within heads, another seed or source of directions than the others'.
AttentionSpec OfHeads(std::vector<AttentionSpec> heads, std::string_view where);
// f(spec), and of each of its heads.
template <class F>
void ForEachSpec(AttentionSpec& spec, const F& f) {
  f(spec);
  for (AttentionSpec& head : spec.heads) f(head);
}

template <class Struct>
struct Option;  // base/option_table.h
using AttentionOption = Option<AttentionSpec>;
using AttentionTable = OptionTable<AttentionSpec>;
// The options of the spec's kind.
const AttentionTable& OptionsOf(const AttentionSpec& spec);
// A spec of each kind with its defaults, in the order of the variant.
const std::vector<AttentionSpec>& AttentionKinds();
std::vector<std::string> AttentionNames();

// Strict: an unknown or ill-typed key, or a value out of range, is an Error that names `where` and suggests the
// nearest key. A JSON string is a kind's name alone. Keys that do not belong to the kind are refused. A list has one of
// these for each head.
AttentionSpec ParseAttentionSpec(const Json& value, std::string_view where);
// Of one object, but for what must hold between several of its keys: for whoever goes on to change others.
AttentionSpec ParseUnchecked(const Json& object, std::string_view where);
Json ToJson(const AttentionSpec& spec);  // only the keys that belong to the kind; seed included
// "attention" of a config: one for all layers, or a list with one for each. A list with one is for all, too: so is one
// of heads written.
std::vector<AttentionSpec> ParseAttentionList(const Json& value, std::string_view where);
Json ToJson(const std::vector<AttentionSpec>& layers);
// `object`, which ToJson wrote, with another value at `key`, checked by nothing yet. What suits one value of a key that
// decides over others is no choice for the other: those begin with their own defaults. Keys that lose their meaning, as
// a table size where bands become auto, are left out.
Json WithKeyChanged(const Json& object, const std::string& key, const Json& value, std::string_view where);

// The min_length in force. "auto" is the largest of the tuned lengths: from there on hashing is slower in none of the
// directions measured. One length for training and inference, because it is part of what the model computes: a sequence
// that was hashed in training is hashed when the model is used.
int MinLength(const AttentionSpec& spec);
// The shortest sequence that is hashed: MinLength, and not less than what the kind can hash; of heads the least.
// kNeverSparse where none is.
int ShortestSparse(const AttentionSpec& spec);
bool IsSparseAt(const AttentionSpec& spec, int length);  // length ≥ ShortestSparse
// The shortest sequence that can be planned hashed, whatever min_length says; the same for all longer ones.
int64_t ShortestToPlan(const AttentionSpec& spec);

// Whether lengths tuned for one spec hold for the other: they differ in seed, resample and lengths at most.
bool SameWork(const AttentionSpec& a, const AttentionSpec& b);
bool ChangesWork(std::string_view key);  // false for those

}  // namespace lshformer
