// Texts that are longer than a model takes, or than max_seq_length allows.
//
//   cut       what is too much is left out, at the end or at the beginning (Tokenizer::truncates_left)
//   windows   the tokens of the text, n of them, in ⌈n / room⌉ pieces, in order, none twice, of lengths that differ by
//             one at most; each with what stands around a text. What a model makes of them is joined:
//             mean: Σ y_w / windows, max: of each number the largest
//   whole     nothing is left out: a longer text is an Error
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace lshformer {

enum class LongText { kCut, kWindows, kWhole };
enum class WindowPooling { kMean, kMax };
inline const std::vector<std::string> kLongTextNames{"cut", "windows", "whole"};  // in order of the values
inline const std::vector<std::string> kWindowPoolingNames{"mean", "max"};

// How a text becomes sequences.
struct TextEncoding {
  int max_seq_length = 0;  // 0: no limit
  bool lower_case = false;
  LongText long_text = LongText::kCut;
  int64_t lead = 0;  // that many of the first tokens, those before the text counted, begin every window: a prompt
};

// One sequence, or the windows of a text. Errors begin with `"text"`: a text or pair that is too long for kWhole, a
// pair that is for kWindows, a lead that leaves no room.
std::vector<Encoding> EncodeLong(const Tokenizer& tokenizer, std::string_view text,
                                 std::optional<std::string_view> pair, const TextEncoding& how);

// What the windows' numbers, as many of each, make together. Sums are float64, in the windows' order.
std::vector<float> JoinWindows(std::span<const std::vector<float>> windows, WindowPooling pooling);

}  // namespace lshformer
