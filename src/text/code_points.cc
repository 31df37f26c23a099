#include "text/code_points.h"

#include <algorithm>

#include "text/utf8.h"

namespace lshformer {

int64_t CountCodePoints(std::string_view text) { return std::count_if(text.begin(), text.end(), BeginsCodePoint); }

CodePointIndex::CodePointIndex(std::string_view text)
    : text_(text), ascii_(CountCodePoints(text) == static_cast<int64_t>(text.size())) {
  if (ascii_) return;
  for (size_t i = 0; i < text.size(); ++i) {
    if (BeginsCodePoint(text[i])) starts_.push_back(static_cast<uint32_t>(i));
  }
}

size_t CodePointIndex::Byte(int64_t code_point) const {
  if (ascii_) return static_cast<size_t>(code_point);
  return code_point == size() ? text_.size() : starts_[static_cast<size_t>(code_point)];
}

std::string_view CodePointIndex::Slice(int64_t begin, int64_t end) const {
  return text_.substr(Byte(begin), Byte(end) - Byte(begin));
}

}  // namespace lshformer
