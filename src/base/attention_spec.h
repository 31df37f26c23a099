// Which attention a layer computes: the value behind "attention" in config.json. Semantics: docs/attention.md.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace lshformer {

enum class AttentionType { kDense, kSimHash };
enum class Fill { kZero, kMean, kNone };  // what a query does with keys it does not collide with
enum class Pairs {
  kFull,
  kReference
};  // every colliding (query, key), or the BERT-LSH authors' mirrored upper triangle
enum class Resample { kCall, kNever };  // new planes at every training step, or the same for ever

struct AttentionSpec {
  AttentionType type = AttentionType::kDense;
  int bands = 2;        // hyperplanes per hash function, 1 … 62
  int hashes = 1;       // hash functions; a pair that collides under several counts once
  int table_size = 64;  // buckets per hash function
  Fill fill = Fill::kZero;
  Pairs pairs = Pairs::kFull;
  Resample resample = Resample::kCall;
  bool center_keys = false;  // hash key − mean key
  int min_length = 0;        // shorter sequences use exact attention; 0: always hash
  uint64_t seed = 0;

  bool operator==(const AttentionSpec&) const = default;
};

// Strict: an unknown or ill-typed key, or a value out of range, is an Error that names `where` and suggests the
// nearest key. A JSON string is a type name alone. Keys that do not belong to the type are refused.
AttentionSpec ParseAttentionSpec(const Json& value, std::string_view where);
Json ToJson(const AttentionSpec& spec);  // only the keys that belong to the type; seed included
const char* Name(AttentionType type);    // "dense", "simhash"

bool UsesHash(const AttentionSpec& spec, int length);  // type is hashed and length ≥ min_length

}  // namespace lshformer
