// The properties of characters that BERT's normaliser and pre-tokeniser ask for.
//
// Hugging Face's `tokenizers` mixes three versions of Unicode, and so do we, whatever ICU's own version is: general
// categories as of 8.0, canonical decompositions as of 9.0, lower case as of 17.0. A character that is newer than
// that is unassigned there: no mark, no punctuation, no decomposition.
#pragma once
#include <cstdint>
#include <string_view>

namespace lshformer {

enum CharFlag : uint8_t {
  kDropped = 1,         // NUL, U+FFFD, controls, format characters and private use
  kSpace = 2,           // White_Space, if not dropped
  kPunctuation = 4,     // ASCII punctuation and symbols, categories P*
  kIdeograph = 8,       // gets spaces around it
  kMark = 16,           // category Mn, removed with accents
  kMapped = 32,         // has a decomposition, a combining class or a lower case: the slow path
  kWordCharacter = 64,  // what \w means in HF's rule of "single_word", as of Unicode 16.0
};
uint8_t CharFlags(char32_t c);
// What \p{L}, \p{N} and \s are in the regular expressions of HF's library: as of Unicode 16.0.
enum class LetterClass : uint8_t { kOther, kLetter, kNumber, kSpace };
LetterClass LetterClassOf(char32_t c);
bool IsAnySpace(char32_t c);  // White_Space, dropped or not (form feed, next line)
// Where the white space begins that ends at `at`, not before `floor`; `at` where there is none. `text` is valid UTF-8.
size_t SkipSpaceBack(std::string_view text, size_t floor, size_t at);

int CombiningClass(char32_t c);

inline constexpr int kMaxMapping = 4;
// Full canonical decomposition; writes at most kMaxMapping characters, returns their number (1: `c` itself).
int Decompose(char32_t c, char32_t* out);
inline constexpr int kMaxCompatibleMapping = 18;
// The same of the full compatibility decomposition, at most kMaxCompatibleMapping characters.
int DecomposeCompatibly(char32_t c, char32_t* out);
// The character that canonical composition puts in the place of two, 0 if none.
char32_t Compose(char32_t first, char32_t second);
bool IsComposed(char32_t c);       // canonical composition leaves it as it is, whatever stands around it
bool IsCombiningMark(char32_t c);  // categories M*
// Full lower case of one character without context (Σ → σ everywhere, İ → i + U+0307), as Rust's char::to_lowercase.
int Lowercase(char32_t c, char32_t* out);

}  // namespace lshformer
