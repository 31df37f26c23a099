// Places in a text counted in Unicode code points, as SQuAD, tokenizers and Python count, to bytes and back.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace lshformer {

// An index over valid UTF-8, which must outlive it: four bytes a code point, nothing where all is ASCII.
class CodePointIndex {
 public:
  explicit CodePointIndex(std::string_view text);
  int64_t size() const { return ascii_ ? static_cast<int64_t>(text_.size()) : static_cast<int64_t>(starts_.size()); }
  // The code points [begin, end); 0 ≤ begin ≤ end ≤ size().
  std::string_view Slice(int64_t begin, int64_t end) const;

 private:
  size_t Byte(int64_t code_point) const;
  std::string_view text_;
  bool ascii_;
  std::vector<uint32_t> starts_;  // [size] first byte of each code point
};

int64_t CountCodePoints(std::string_view text);

}  // namespace lshformer
