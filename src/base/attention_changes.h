// What a command asks to be changed in a model's attention: another type, single keys.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/attention_spec.h"
#include "base/json.h"

namespace lshformer {

// --attention and --lsh_* as text; laid over a model's own specs with Apply.
struct AttentionChanges {
  std::string attention;                         // type name or JSON object
  std::optional<std::string> bands, min_length;  // auto or N
  std::optional<int> hashes, table_size, window;
  std::optional<std::string> global;  // cls, sep, both or none
  std::optional<std::string> fill, pairs, resample;
  std::optional<bool> center_keys;
  std::optional<int> rounds, chunk, look_back, look_ahead;
  std::optional<std::string> buckets, scale;  // buckets: auto, N or N,M
  std::optional<bool> cross_bucket, wrap, causal, count_pairs_once;
  // Every --lsh_* without its prefix, with the value given or null: the one list of them.
  std::vector<std::pair<std::string, Json>> Keys() const;
  std::string FirstThatChangesWork() const;  // the first key given that changes what is computed; "" if none
  // The specs in force: --attention replaces each, --lsh_* then change single keys (an Error where the type has no such
  // key). A key that changes what `tune` measured drops its lengths.
  void Apply(std::vector<AttentionSpec>& specs) const;
};

// The value of one --attention: a type name or a JSON object. UsageError.
AttentionSpec ParseAttentionFlag(std::string_view value);
// A flag's text as the value of a key of the "attention" object: N, or the text as it stands ("auto"); for "buckets"
// also N,M. What is no number stays as it is, for the parser to refuse.
Json NumberOrText(const std::string& text);
Json BucketsOf(const std::string& text);

}  // namespace lshformer
