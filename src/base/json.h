// Strict JSON (RFC 8259): UTF-8 only, duplicate keys refused, depth and size bounded, nothing after the value; and
// Python's NaN and Infinity, for which see base/not_finite.h.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lshformer {

// Keeps the order of keys, so that a config is written back as it was read.
using Json = nlohmann::ordered_json;

// A value takes 16 to 100 bytes of memory, so `values` bounds what a hostile text of a few megabytes can make us
// allocate.
struct JsonLimits {
  int depth = 64;
  size_t bytes = size_t{1} << 30;
  size_t values = size_t{1} << 23;
};

// `where` names the source in errors: a path, or "path:line" for JSONL. Throws Error.
Json ParseJson(std::string_view text, std::string_view where, const JsonLimits& limits = {});
Json ReadJsonFile(const std::string& path, const JsonLimits& limits = {});
Json ReadJsonObject(const std::string& path);  // a file whose value is an object

// Typed access; the error names `where`, the key, the type wanted and the value found.
bool HasValue(const Json& object, std::string_view key);  // present and not null
int64_t GetInt(const Json& object, std::string_view key, std::string_view where, int64_t low = INT64_MIN,
               int64_t high = INT64_MAX);
double GetNumber(const Json& object, std::string_view key, std::string_view where);
bool GetBool(const Json& object, std::string_view key, std::string_view where);
bool GetBoolOr(const Json& object, std::string_view key, std::string_view where, bool absent);
std::string GetString(const Json& object, std::string_view key, std::string_view where);

// Adds a member without the search through all keys that makes building a large ordered object quadratic. `key` is new.
void AppendMember(Json& object, std::string key, Json value);

// A value for an error line: the value itself where it is short, else its kind ("a list of 3 values", "an object").
std::string ShownValue(const Json& value);

// The candidate nearest to `word` by edit distance, or "" when none is near; for "did you mean".
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);
// ` (did you mean "bands"?)`, or "" when no candidate is near.
std::string Suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace lshformer
