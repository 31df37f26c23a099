#include "jobs/recipes/reading.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace lshformer {

void RefuseOtherKeys(const Json& object, const std::vector<std::string>& known, const std::string& where) {
  if (!object.is_object()) Fail("{}: expected an object, got {}", where, ShownValue(object));
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      Fail("{}: unknown key \"{}\"{}", where, Shown(key), Suggestion(key, known));
}

const Json& RequireMember(const Json& object, const char* key, const std::string& where) {
  if (!object.contains(key)) Fail("{}: \"{}\" is missing", where, key);
  return object.at(key);
}

const Json& ListOf(const Json& object, const char* key, const std::string& where) {
  const Json& list = RequireMember(object, key, where);
  if (!list.is_array()) Fail("{}: \"{}\": expected a list, got {}", where, key, ShownValue(list));
  return list;
}

std::string OptionalText(const Json& object, const char* key, const std::string& where, const std::string& absent) {
  return object.contains(key) ? GetString(object, key, where) : absent;
}

double OptionalNumber(const Json& object, const char* key, const std::string& where, double absent) {
  return object.contains(key) ? GetNumber(object, key, where) : absent;
}

std::vector<std::string> OptionalTexts(const Json& object, const char* key, const std::string& where) {
  std::vector<std::string> texts;
  if (!object.contains(key)) return texts;
  for (const Json& text : ListOf(object, key, where)) {
    if (!text.is_string()) Fail("{}: \"{}\": expected texts, got {}", where, key, ShownValue(text));
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

Json OptionalObject(const Json& object, const char* key, const std::string& where) {
  if (!object.contains(key)) return Json::object();
  const Json& value = object.at(key);
  if (!value.is_object()) Fail("{}: \"{}\": expected an object, got {}", where, key, ShownValue(value));
  return value;
}

size_t PlaceOf(const std::vector<std::string>& names, const std::string& name, const char* key,
               const std::string& where) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    Fail("{}: \"{}\": expected {}, got \"{}\"{}", where, key, fmt::join(names, ", "), Shown(name),
         Suggestion(name, names));
  return static_cast<size_t>(found - names.begin());
}

}  // namespace lshformer
