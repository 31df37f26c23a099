// How far a model of words looks into a word.
#pragma once

namespace lshformer {

// The published models cut and fill every word to 16 characters and convolve over 5.
inline constexpr int kMostCharacters = 16, kCharacterWindow = 5;

}  // namespace lshformer
