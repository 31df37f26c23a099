// What a command asks to be changed in a model's attention: another kind, single keys.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attention/spec.h"
#include "base/json.h"

namespace lshformer {

// A key of the "attention" object that is a flag, --lsh_NAME, once for all kinds that have it.
struct LshKey {
  const AttentionTable* table;  // of the first kind whose table has a line of help for it
  const AttentionOption* option;
};
const std::vector<LshKey>& LshKeys();

// --attention and --lsh_*; laid over a model's own specs with Apply.
struct AttentionChanges {
  std::string attention;             // kind's name or JSON object
  std::map<std::string, Json> keys;  // that were given, without the prefix

  // Every key there is, with the value given or null; first those that decide which of the others have a meaning.
  std::vector<std::pair<std::string, Json>> Keys() const;
  // What was given for a key, as a flag or in the object of --attention; null: nothing.
  Json Given(const std::string& key) const;
  std::string FirstThatChangesWork() const;  // the first key given that changes what is computed; "" if none
  // The specs in force: --attention replaces each, --lsh_* then change single keys (an Error where the kind has no such
  // key). A key that changes what `tune` measured drops its lengths.
  void Apply(std::vector<AttentionSpec>& specs) const;
};

// The value of one --attention: a kind's name or a JSON object. UsageError.
AttentionSpec ParseAttentionFlag(std::string_view value);

}  // namespace lshformer
