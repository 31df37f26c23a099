// The wire format of protocol buffers, as far as SentencePiece's messages have it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace lshformer {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// A field of a message: its number, and what its wire type has of it.
struct Field {
  uint32_t number = 0, type = 0;
  uint64_t value = 0;      // kVarint, kFixed64, kFixed32
  std::string_view bytes;  // kBytes
  std::string_view whole;  // the field with its tag
};

// The fields of a message, one after the other. Error where the bytes are no message.
class MessageReader {
 public:
  // `offset` is where the message begins in the file, for errors.
  MessageReader(std::string_view message, std::string_view file, const std::string& where)
      : rest_(message), file_(file), where_(where) {}

  bool Next(Field& field) {
    if (rest_.empty()) return false;
    const std::string_view begin = rest_;
    const uint64_t tag = Varint();
    field = {};
    field.type = static_cast<uint32_t>(tag & 7);
    if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) FailHere(begin, "no field of a protocol buffer");
    field.number = static_cast<uint32_t>(tag >> 3);
    switch (field.type) {
      case kVarint:
        field.value = Varint();
        break;
      case kFixed64:
        field.value = Fixed(8);
        break;
      case kFixed32:
        field.value = Fixed(4);
        break;
      case kBytes:
        field.bytes = Take(Varint());
        break;
      default:
        FailHere(begin, "no field of a protocol buffer");
    }
    field.whole = begin.substr(0, begin.size() - rest_.size());
    return true;
  }

  // The field has to be of this type; protocol buffers pass over one that is not.
  void Expect(const Field& field, WireType type) const {
    if (field.type != type) FailHere(field.whole, "a field of another type than SentencePiece's");
  }

 private:
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      const auto byte = static_cast<uint8_t>(Take(1)[0]);
      if (shift == 63 && byte > 1) break;
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    FailHere(rest_, "a number of more than 64 bits");
  }
  uint64_t Fixed(size_t size) {
    const std::string_view bytes = Take(size);
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
    return value;
  }
  std::string_view Take(uint64_t size) {
    if (size > rest_.size()) FailHere(rest_, "the file, or a part of it, ends too early");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  [[noreturn]] void FailHere(std::string_view place, const char* what) const {
    Fail("{}: no SentencePiece model: at byte {} {}", where_, place.data() - file_.data(), what);
  }

  std::string_view rest_, file_;
  const std::string& where_;
};

}  // namespace lshformer
