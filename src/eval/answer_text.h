// When two answers are the same text, as the official SQuAD scripts see it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace lshformer {

// Lower case (Python's str.lower: full mappings, final sigma), the 32 ASCII punctuation characters deleted, then every
// whole word "a", "an" or "the" replaced by a space (words of Python's re: letters, numbers and "_"), then the words
// between white space, as Python's str.split finds them. Source: the normalize_answer of evaluate-v1.1.py and
// evaluate-v2.0.py. `text` is valid UTF-8.
std::vector<std::string> AnswerWords(std::string_view text);

// 2PR / (P + R) over the bags of words; 0 without a common word.
double BagF1(const std::vector<std::string>& predicted, const std::vector<std::string>& gold);

}  // namespace lshformer
