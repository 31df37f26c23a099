// Passages of English of many kinds, written for this program: text on which an attention is calibrated where its user
// names no files.
#pragma once
#include <span>
#include <string_view>

namespace lshformer {

std::span<const std::string_view> SampleTexts();  // a paragraph of some 300 words each, ASCII

}  // namespace lshformer
