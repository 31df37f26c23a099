// Members of a recipe's JSON, with errors that name the file and the key.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace lshformer {

void RefuseOtherKeys(const Json& object, const std::vector<std::string>& known, const std::string& where);
const Json& RequireMember(const Json& object, const char* key, const std::string& where);
const Json& ListOf(const Json& object, const char* key, const std::string& where);  // required
std::string OptionalText(const Json& object, const char* key, const std::string& where, const std::string& absent);
double OptionalNumber(const Json& object, const char* key, const std::string& where, double absent);
std::vector<std::string> OptionalTexts(const Json& object, const char* key, const std::string& where);  // absent: none
Json OptionalObject(const Json& object, const char* key, const std::string& where);                     // absent: empty
// The place of `name` in `names`; Error "\"key\": expected a, b, got …".
size_t PlaceOf(const std::vector<std::string>& names, const std::string& name, const char* key,
               const std::string& where);

}  // namespace lshformer
