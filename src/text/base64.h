#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace lshformer {

// The bytes that `text` is base64 of (RFC 4648, padded); none if it is not.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace lshformer
