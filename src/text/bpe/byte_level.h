// The alphabet of byte-level BPE (Radford et al., "Language models are unsupervised multitask learners", 2019): each
// byte is a character that can be seen. Bytes that are printable in Latin-1 are themselves, the others, in their order,
// the characters from U+0100 on: a space is Ġ.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lshformer {

char32_t CharacterOfByte(uint8_t byte);
std::string InByteCharacters(std::string_view bytes);
// The bytes that a token's characters stand for; none where one is not of the alphabet. `token` is valid UTF-8.
std::optional<std::string> BytesOfCharacters(std::string_view token);

}  // namespace lshformer
