#include "text/words/words.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "text/combining_run.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

enum AsciiClass : uint8_t { kLetter, kUpper, kPunct, kControl };

constexpr std::array<uint8_t, 128> AsciiClasses() {
  std::array<uint8_t, 128> classes{};
  for (int c = 0; c < 128; ++c) {
    const bool digit = c >= '0' && c <= '9', upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
    classes[static_cast<size_t>(c)] = c < 32 || c == 127 ? kControl
                                      : upper            ? kUpper
                                      : digit || lower   ? kLetter
                                                         : kPunct;
  }
  return classes;
}
constexpr std::array<uint8_t, 128> kAsciiClass = AsciiClasses();

bool IsAsciiSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The normaliser, character by character. `Out` is told what comes out, until it returns false: bool Add(char32_t c,
// int32_t origin, uint8_t flags), and bool Space(int32_t origin) for white space.
template <class Out>
class Normalizer {
 public:
  Normalizer(const NormalizerOptions& options, Out& out) : options_(options), out_(out) {}

  bool Push(char32_t c, int32_t origin) {
    const uint8_t flags = CharFlags(c);
    if (flags & kDropped) return true;
    if (flags & kSpace) return EndRun() && out_.Space(origin);
    if (options_.ideographs && (flags & kIdeograph)) {
      return EndRun() && out_.Space(origin) && Decomposed(c, origin, flags) && EndRun() && out_.Space(origin);
    }
    return Decomposed(c, origin, flags);
  }

  bool EndRun() {
    if (run_.empty()) return true;
    return run_.End([&](char32_t c, int32_t origin) {
      const uint8_t flags = CharFlags(c);
      return (flags & kMark) != 0 || Cased(c, origin, flags);
    });
  }

 private:
  bool Decomposed(char32_t c, int32_t origin, uint8_t flags) {
    if (!options_.strip_accents) return Cased(c, origin, flags);
    if (!(flags & kMapped)) {
      if (!EndRun()) return false;
      run_.Pass(origin);
      if (flags & kMark) return true;
      return Cased(c, origin, flags);
    }
    char32_t parts[kMaxMapping];
    const int count = Decompose(c, parts);
    for (int i = 0; i < count; ++i) {
      const int combining_class = CombiningClass(parts[i]);
      if (combining_class == 0 && !EndRun()) return false;
      run_.Add(parts[i], combining_class, i, origin);
    }
    return true;
  }

  bool Cased(char32_t c, int32_t origin, uint8_t flags) {
    if (!options_.lowercase || !(flags & kMapped)) return out_.Add(c, origin, flags);
    char32_t lower[kMaxMapping];
    const int count = Lowercase(c, lower);
    for (int i = 0; i < count; ++i) {
      if (!out_.Add(lower[i], origin, CharFlags(lower[i]))) return false;
    }
    return true;
  }

  const NormalizerOptions options_;
  Out& out_;
  CombiningRun<int32_t> run_;
};

// Words from normalised characters.
class WordBuilder {
 public:
  explicit WordBuilder(WordSink& sink) : sink_(sink) {
    text_.reserve(4 * kMaxWordCharacters);
    origins_.reserve(4 * kMaxWordCharacters);
  }

  bool Add(char32_t c, int32_t origin, uint8_t flags) {
    const bool punctuation = flags & kPunctuation;
    if (punctuation && !EndWord()) return false;
    if (characters_++ == 0) begin_ = origin;
    end_ = origin + 1;
    if (characters_ <= kMaxWordCharacters) {
      AppendUtf8(c, text_);
      origins_.resize(text_.size(), origin);
    }
    return !punctuation || EndWord();
  }

  bool Space(int32_t) { return EndWord(); }

  bool EndWord() {
    if (characters_ == 0) return true;
    const bool more = sink_.Add({text_, origins_.data(), begin_, end_, characters_ > kMaxWordCharacters});
    text_.clear();
    origins_.clear();
    characters_ = 0;
    return more;
  }

 private:
  WordSink& sink_;
  std::string text_;  // the word so far
  std::vector<int32_t> origins_;
  int64_t characters_ = 0;
  int32_t begin_ = 0, end_ = 0;
};

// A text of normalised characters.
struct TextBuilder {
  NormalizedText text;
  bool Add(char32_t c, int32_t origin, uint8_t) {
    text.push_back({c, origin, origin + 1});
    return true;
  }
  bool Space(int32_t origin) { return Add(' ', origin, kSpace); }
};

// What text that is not plain ASCII goes through.
struct NormalizedWords {
  WordBuilder words;
  Normalizer<WordBuilder> normalizer;
  NormalizedWords(const NormalizerOptions& options, WordSink& sink) : words(sink), normalizer(options, words) {}
};

// One stretch of ASCII without white space or control characters: most of English text.
bool SplitAscii(std::string_view text, int32_t first, bool lowercase, WordSink& sink) {
  char word[kMaxWordCharacters];
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    for (; end < text.size(); ++end) {
      const char c = text[end];
      const uint8_t kind = kAsciiClass[static_cast<uint8_t>(c)];
      if (kind == kPunct) break;
      if (end - at < sizeof(word)) word[end - at] = lowercase && kind == kUpper ? static_cast<char>(c + 32) : c;
    }
    const bool punctuation = end == at;
    if (punctuation) word[0] = text[end++];
    const size_t length = end - at;
    const int32_t begin = first + static_cast<int32_t>(at);
    if (!sink.Add({{word, std::min(length, sizeof(word))},
                   nullptr,
                   begin,
                   begin + static_cast<int32_t>(length),
                   length > sizeof(word)})) {
      return false;
    }
    at = end;
  }
  return true;
}

struct Stretch {
  size_t end;
  bool plain;  // ASCII without controls
};

Stretch NextStretch(std::string_view text, size_t begin) {
  Stretch stretch{begin, true};
  for (; stretch.end < text.size() && !IsAsciiSpace(text[stretch.end]); ++stretch.end) {
    const auto byte = static_cast<uint8_t>(text[stretch.end]);
    if (byte >= 128 || kAsciiClass[byte] == kControl) stretch.plain = false;
  }
  return stretch;
}

}  // namespace

int32_t SplitWords(std::string_view text, int32_t first, const NormalizerOptions& options, WordSink& sink) {
  std::optional<NormalizedWords> slow;  // most texts do without
  int32_t index = first;
  for (size_t at = 0; at < text.size();) {
    if (IsAsciiSpace(text[at])) {
      ++at;
      ++index;
      continue;
    }
    // White space in ASCII ends words and runs of marks, so what lies between is normalised on its own.
    const Stretch stretch = NextStretch(text, at);
    if (stretch.plain) {
      if (!SplitAscii(text.substr(at, stretch.end - at), index, options.lowercase, sink)) return -1;
      index += static_cast<int32_t>(stretch.end - at);
    } else {
      if (!slow) slow.emplace(options, sink);
      const char* next = text.data() + at;
      for (const char* const end = text.data() + stretch.end; next < end; ++index) {
        if (!slow->normalizer.Push(NextCodePoint(next), index)) return -1;
      }
      if (!slow->normalizer.EndRun() || !slow->words.EndWord()) return -1;
    }
    at = stretch.end;
  }
  return index;
}

NormalizedText NormalizeForBert(std::string_view text, int32_t first, const NormalizerOptions& options) {
  TextBuilder out;
  out.text.reserve(text.size());
  Normalizer normalizer(options, out);
  const char* next = text.data();
  for (const char* const end = next + text.size(); next < end; ++first) normalizer.Push(NextCodePoint(next), first);
  normalizer.EndRun();
  return std::move(out.text);
}

bool SplitNormalized(NormalizedSpan text, WordSink& sink) {
  WordBuilder words(sink);
  for (const NormalizedCharacter& character : text) {
    const uint8_t flags = CharFlags(character.c);
    const bool more = flags & kSpace ? words.Space(character.begin) : words.Add(character.c, character.begin, flags);
    if (!more) return false;
  }
  return words.EndWord();
}

}  // namespace lshformer
