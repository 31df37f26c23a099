#include "text/words.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

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

// The normaliser for text that is not plain ASCII; characters go in one by one, words come out.
class Normalizer {
 public:
  Normalizer(const NormalizerOptions& options, WordSink& sink) : options_(options), sink_(sink) {
    text_.reserve(4 * kMaxWordCharacters);
    origins_.reserve(4 * kMaxWordCharacters);
  }

  bool Push(char32_t c, int32_t origin) {
    const uint8_t flags = CharFlags(c);
    if (flags & kDropped) return true;
    if (flags & kSpace) return EndRun() && EndWord();
    if (options_.ideographs && (flags & kIdeograph)) {
      return EndRun() && EndWord() && Decomposed(c, origin, flags) && EndRun() && EndWord();
    }
    return Decomposed(c, origin, flags);
  }

  bool Finish() { return EndRun() && EndWord(); }

 private:
  struct Mark {
    int combining_class;
    char32_t c;
    bool replaces;  // the first character of a decomposition stands for the original one, the others are added
  };

  bool Decomposed(char32_t c, int32_t origin, uint8_t flags) {
    if (!options_.strip_accents) return Cased(c, origin, flags);
    if (!(flags & kMapped)) {
      if (!EndRun()) return false;
      last_origin_ = origin;
      if (flags & kMark) return true;
      return Cased(c, origin, flags);
    }
    char32_t parts[kMaxMapping];
    const int count = Decompose(c, parts);
    for (int i = 0; i < count; ++i) {
      const int combining_class = CombiningClass(parts[i]);
      if (combining_class == 0 && !EndRun()) return false;
      if (i == 0) run_origins_.push_back(origin);
      run_.push_back({combining_class, parts[i], i == 0});
    }
    return true;
  }

  // Canonical order. HF aligns what comes out with what went in one by one, even where marks change places: the k-th
  // replacing character gets the k-th place, an added one the place of the last replacing one.
  bool EndRun() {
    if (run_.empty()) return true;
    if (run_.size() > 1) {
      std::stable_sort(run_.begin(), run_.end(),
                       [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
    }
    size_t next = 0;
    bool more = true;
    for (const Mark& mark : run_) {
      if (mark.replaces) last_origin_ = run_origins_[next++];
      const uint8_t flags = CharFlags(mark.c);
      if (!(flags & kMark)) more = more && Cased(mark.c, last_origin_, flags);
    }
    run_.clear();
    run_origins_.clear();
    return more;
  }

  bool Cased(char32_t c, int32_t origin, uint8_t flags) {
    if (!options_.lowercase || !(flags & kMapped)) return Append(c, origin, flags);
    char32_t lower[kMaxMapping];
    const int count = Lowercase(c, lower);
    for (int i = 0; i < count; ++i) {
      if (!Append(lower[i], origin, CharFlags(lower[i]))) return false;
    }
    return true;
  }

  bool Append(char32_t c, int32_t origin, uint8_t flags) {
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

  bool EndWord() {
    if (characters_ == 0) return true;
    const bool more = sink_.Add({text_, origins_.data(), begin_, end_, characters_ > kMaxWordCharacters});
    text_.clear();
    origins_.clear();
    characters_ = 0;
    return more;
  }

  const NormalizerOptions options_;
  WordSink& sink_;
  std::vector<Mark> run_;  // a starter and the marks after it
  std::vector<int32_t> run_origins_;
  int32_t last_origin_ = 0;
  std::string text_;  // the word so far
  std::vector<int32_t> origins_;
  int64_t characters_ = 0;
  int32_t begin_ = 0, end_ = 0;
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
  std::optional<Normalizer> normalizer;  // most texts do without
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
      if (!normalizer) normalizer.emplace(options, sink);
      const char* next = text.data() + at;
      for (const char* const end = text.data() + stretch.end; next < end; ++index) {
        if (!normalizer->Push(NextCodePoint(next), index)) return -1;
      }
      if (!normalizer->Finish()) return -1;
    }
    at = stretch.end;
  }
  return index;
}

}  // namespace lshformer
