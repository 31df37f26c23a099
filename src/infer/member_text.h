// A member of a JSON object as it was written.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace lshformer {

// The value of the member `key` of the object `json`, its tokens as they stand there, without the blanks between them;
// nullopt where there is none. So a number of any size comes back as it came, where a parser would round it. `json` has
// been parsed before (ParseJson): anything else gives anything, but never reads beyond its end.
std::optional<std::string> MemberText(std::string_view json, std::string_view key);

}  // namespace lshformer
