#include "text/bpe/byte_level.h"

#include <array>

#include "text/utf8.h"

namespace lshformer {
namespace {

struct ByteAlphabet {
  std::array<char32_t, 256> characters{};
  std::array<int16_t, 512> bytes{};
};

constexpr bool IsPrintableByte(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr ByteAlphabet MakeByteAlphabet() {
  ByteAlphabet alphabet;
  alphabet.bytes.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t c = IsPrintableByte(byte) ? static_cast<char32_t>(byte) : next++;
    alphabet.characters[static_cast<size_t>(byte)] = c;
    alphabet.bytes[c] = static_cast<int16_t>(byte);
  }
  return alphabet;
}
constexpr ByteAlphabet kByteAlphabet = MakeByteAlphabet();

}  // namespace

char32_t CharacterOfByte(uint8_t byte) { return kByteAlphabet.characters[byte]; }

std::string InByteCharacters(std::string_view bytes) {
  std::string characters;
  for (const char byte : bytes) AppendUtf8(CharacterOfByte(static_cast<uint8_t>(byte)), characters);
  return characters;
}

std::optional<std::string> BytesOfCharacters(std::string_view token) {
  std::string bytes;
  const char* next = token.data();
  for (const char* const end = next + token.size(); next < end;) {
    const char32_t c = NextCodePoint(next);
    const int byte = c < kByteAlphabet.bytes.size() ? kByteAlphabet.bytes[c] : -1;
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace lshformer
