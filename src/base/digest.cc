#include "base/digest.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/files.h"
#include "base/signals.h"

namespace lshformer {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;  // a multiple of a round of the lanes

// Four lanes of xor, rotation and multiplication by odd constants (digits of √2, √3, √5 and √7): each word changes its
// lane by a bijection, so that two inputs that differ in one word always differ.
class Lanes {
 public:
  void Add(std::string_view bytes) {
    for (; bytes.size() >= sizeof(Words); bytes.remove_prefix(sizeof(Words))) AddWords(bytes.data());
    if (bytes.empty()) return;
    char rest[sizeof(Words)] = {};
    std::memcpy(rest, bytes.data(), bytes.size());
    AddWords(rest);
  }
  void Add(uint64_t number) { Add({reinterpret_cast<const char*>(&number), sizeof(number)}); }
  std::string Hex() const {
    std::array<uint64_t, 2> mixed{};
    for (size_t i = 0; i < lanes_.size(); ++i)
      for (size_t half = 0; half < mixed.size(); ++half)
        mixed[half] = Step(mixed[half] ^ lanes_[(i + 2 * half) % lanes_.size()], kFactors[(i + half) % lanes_.size()]);
    return fmt::format("{:016x}{:016x}", mixed[0], mixed[1]);
  }

 private:
  using Words = std::array<uint64_t, 4>;
  static constexpr Words kFactors{0x6A09E667F3BCC909, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1};

  static uint64_t Step(uint64_t lane, uint64_t factor) {
    lane *= factor;
    lane ^= lane >> 32;
    return std::rotl(lane, 29);
  }
  void AddWords(const char* bytes) {
    Words words;
    std::memcpy(words.data(), bytes, sizeof(words));
    for (size_t i = 0; i < words.size(); ++i) lanes_[i] = Step(lanes_[i] ^ words[i], kFactors[i]);
  }

  Words lanes_ = kFactors;
};

void AddFile(const std::string& path, Lanes& lanes) {
  const int file = OpenInput(path);
  std::string piece(kPieceBytes, '\0');
  uint64_t size = 0;
  try {
    for (size_t got = kPieceBytes; got == kPieceBytes;) {
      ThrowIfStopped("reading");
      got = 0;
      for (size_t more = 1; more > 0 && got < kPieceBytes; got += more)
        more = ReadSome(file, piece.data() + got, kPieceBytes - got, path);
      lanes.Add({piece.data(), got});
      size += got;
    }
  } catch (...) {
    CloseInput(file);
    throw;
  }
  CloseInput(file);
  lanes.Add(size);
}

}  // namespace

std::string DigestOfFiles(const std::vector<std::string>& paths) {
  Lanes lanes;
  for (const std::string& path : paths) AddFile(path, lanes);
  return lanes.Hex();
}

std::string DigestOfText(std::string_view text) {
  Lanes lanes;
  lanes.Add(text);
  lanes.Add(uint64_t{text.size()});
  return lanes.Hex();
}

}  // namespace lshformer
