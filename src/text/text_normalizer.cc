#include "text/text_normalizer.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "text/base64.h"
#include "text/combining_run.h"
#include "text/graphemes.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

using Place = std::pair<int32_t, int32_t>;

// A character that a step makes, with the library's way to say what it stands for: 0 replaces the next of the text, −n
// that and the n after it, 1 is added and has the place of the character before.
struct Made {
  char32_t c;
  int change = 0;
};

// Where characters at the beginning are replaced by nothing, nothing says so, and those after them move up: places may
// be left over.
NormalizedText Aligned(const NormalizedText& text, const std::vector<Made>& made) {
  NormalizedText out;
  out.reserve(made.size());
  size_t at = 0;
  for (const Made& character : made) {
    const size_t place = character.change > 0 ? std::max<size_t>(at, 1) - 1 : at;
    const NormalizedCharacter& from = text[std::min(place, text.size() - 1)];
    out.push_back({character.c, from.begin, from.end});
    if (character.change <= 0) at += static_cast<size_t>(1 - character.change);
  }
  return out;
}

std::u32string CodePoints(std::string_view text) {
  std::u32string characters;
  const char* next = text.data();
  for (const char* const end = next + text.size(); next < end;) characters += NextCodePoint(next);
  return characters;
}

// Marks in canonical order behind the character that they combine with, and then, one by one, composed with it where
// there is a character for both and no mark of the same or a higher class stands between.
class Composer {
 public:
  void Add(const Made& part) {
    const int combining_class = CombiningClass(part.c);
    if (combining_class == 0) EndRun();
    run_.push_back({part, combining_class});
  }
  std::vector<Made> Take() {
    EndRun();
    End();
    return std::move(made_);
  }

 private:
  struct Mark {
    Made part;
    int combining_class;
  };

  void EndRun() {
    std::stable_sort(run_.begin(), run_.end(),
                     [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
    for (const Mark& mark : run_) Put(mark);
    run_.clear();
  }

  void Put(const Mark& mark) {
    if (!starter_) {
      if (mark.combining_class == 0) {
        starter_ = mark.part;
      } else {
        made_.push_back(mark.part);
      }
      return;
    }
    const bool blocked = !marks_.empty() && last_class_ >= mark.combining_class;
    if (const char32_t both = blocked ? 0 : lshformer::Compose(starter_->c, mark.part.c); both != 0) {
      starter_ = Made{both, starter_->change + mark.part.change - 1};
    } else if (mark.combining_class == 0) {
      End();
      starter_ = mark.part;
    } else {
      marks_.push_back(mark.part);
      last_class_ = mark.combining_class;
    }
  }

  void End() {
    if (starter_) made_.push_back(*starter_);
    made_.insert(made_.end(), marks_.begin(), marks_.end());
    starter_.reset();
    marks_.clear();
  }

  std::vector<Mark> run_;        // not yet in order
  std::optional<Made> starter_;  // what marks combine with
  std::vector<Made> marks_;      // behind it, that did not
  int last_class_ = 0;           // of the last of them
  std::vector<Made> made_;
};

const Json& Member(const Json& json, const char* key, const std::string& where) {
  if (!json.contains(key)) Fail("{}: expected \"{}\"", where, key);
  return json[key];
}

}  // namespace

TextNormalizer::TextNormalizer(const Json& json, const std::string& where) { Add(json, where + ": \"normalizer\""); }

void TextNormalizer::Add(const Json& json, const std::string& where) {
  constexpr size_t kMostSteps = 64;
  if (json.is_null()) return;
  if (!json.is_object()) Fail("{}: expected an object, got {}", where, json.type_name());
  if (steps_.size() == kMostSteps) Fail("{}: expected at most {} steps", where, kMostSteps);
  const std::string type = GetString(json, "type", where);
  if (type == "Sequence") {
    const Json& steps = Member(json, "normalizers", where);
    if (!steps.is_array()) Fail("{}: \"normalizers\": expected a list, got {}", where, steps.type_name());
    for (const Json& step : steps) Add(step, where);
  } else if (type == "Replace") {
    const Json& pattern = Member(json, "pattern", where);
    const std::string content = GetString(json, "content", where);
    const bool is_string = pattern.is_object() && pattern.contains("String") && pattern["String"].is_string() &&
                           !pattern["String"].get_ref<const std::string&>().empty();
    const bool is_spaces = pattern.is_object() && pattern.contains("Regex") && pattern["Regex"] == " {2,}";
    if (!is_string && !is_spaces)
      Fail("{}: Replace: the pattern {} is not supported, only strings and \" {{2,}}\" are", where,
           Shown(pattern.dump(-1, ' ', false, Json::error_handler_t::replace), 80));
    steps_.push_back(Replace{is_string ? CodePoints(pattern["String"].get<std::string>()) : U"", CodePoints(content)});
  } else if (type == "NFD" || type == "NFKD") {
    steps_.push_back(Decompose{.compatible = type == "NFKD"});
  } else if (type == "NFC" || type == "NFKC") {
    steps_.push_back(Decompose{.compatible = type == "NFKC", .composes = true});
  } else if (type == "Strip") {
    steps_.push_back(Strip{GetBool(json, "strip_left", where), GetBool(json, "strip_right", where)});
  } else if (type == "StripAccents") {
    steps_.push_back(StripAccents{});
  } else if (type == "Lowercase") {
    steps_.push_back(Lowercase{});
  } else if (type == "Precompiled") {
    const std::string place = where + ": precompiled_charsmap";
    const std::optional<std::string> table = DecodeBase64(GetString(json, "precompiled_charsmap", where));
    if (!table) Fail("{}: expected base64", place);
    steps_.push_back(Precompiled{std::make_shared<const CharsMap>(*table, place)});
  } else {
    Fail("{}: the type \"{}\" is not supported", where, Shown(type));
  }
}

void TextNormalizer::Normalize(NormalizedText& text) const {
  for (const Step& step : steps_) {
    if (text.empty()) return;
    std::visit([&](const auto& kind) { Apply(kind, text); }, step);
  }
}

// All that is put in the place of a match came from its last character.
void TextNormalizer::Apply(const Replace& step, NormalizedText& text) {
  const char32_t first = step.pattern.empty() ? U' ' : step.pattern[0];
  const auto match_end = [&](size_t at) {
    size_t end = at;
    if (step.pattern.empty()) {
      while (end < text.size() && text[end].c == ' ') ++end;
      return end - at >= 2 ? end : at;
    }
    while (end < text.size() && end - at < step.pattern.size() && text[end].c == step.pattern[end - at]) ++end;
    return end - at == step.pattern.size() ? end : at;
  };
  const auto starts = [&](const NormalizedCharacter& character) { return character.c == first; };
  if (std::none_of(text.begin(), text.end(), starts)) return;
  NormalizedText out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t end = starts(text[at]) ? match_end(at) : at;
    if (end == at) {
      out.push_back(text[at++]);
      continue;
    }
    for (const char32_t c : step.content) out.push_back({c, text[end - 1].begin, text[end - 1].end});
    at = end;
  }
  text = std::move(out);
}

void TextNormalizer::Apply(const Decompose& step, NormalizedText& text) {
  if (step.composes) return Compose(step, text);
  NormalizedText out;
  out.reserve(text.size());
  CombiningRun<Place> run;
  const auto put = [&](char32_t c, const Place& place) {
    out.push_back({c, place.first, place.second});
    return true;
  };
  for (const NormalizedCharacter& character : text) {
    const Place place{character.begin, character.end};
    if (character.c < 0x80) {
      run.End(put);
      run.Pass(place);
      put(character.c, place);
      continue;
    }
    char32_t parts[kMaxCompatibleMapping] = {character.c};
    const int count =
        step.compatible ? DecomposeCompatibly(character.c, parts) : lshformer::Decompose(character.c, parts);
    for (int i = 0; i < count; ++i) {
      const int combining_class = CombiningClass(parts[i]);
      if (combining_class == 0) run.End(put);
      run.Add(parts[i], combining_class, i, place);
    }
  }
  run.End(put);
  text = std::move(out);
}

void TextNormalizer::Compose(const Decompose& step, NormalizedText& text) {
  Composer composer;
  for (const NormalizedCharacter& character : text) {
    char32_t parts[kMaxCompatibleMapping] = {character.c};
    const int count = character.c < 0x80 ? 1
                      : step.compatible  ? DecomposeCompatibly(character.c, parts)
                                         : lshformer::Decompose(character.c, parts);
    for (int i = 0; i < count; ++i) composer.Add({parts[i], i == 0 ? 0 : 1});
  }
  text = Aligned(text, composer.Take());
}

void TextNormalizer::Apply(const Strip& step, NormalizedText& text) {
  const auto is_space = [](const NormalizedCharacter& character) { return IsAnySpace(character.c); };
  if (step.right) {
    while (!text.empty() && is_space(text.back())) text.pop_back();
  }
  if (step.left) text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), is_space));
}

bool TextNormalizer::Leaves(std::string_view text) const {
  const auto composes = [](const Step& step) {
    const auto* decompose = std::get_if<Decompose>(&step);
    return decompose != nullptr && decompose->composes && !decompose->compatible;
  };
  if (!std::all_of(steps_.begin(), steps_.end(), composes)) return false;
  if (steps_.empty()) return true;
  const char* next = text.data();
  for (const char* const end = next + text.size(); next < end;) {
    if (static_cast<uint8_t>(*next) < 0xCC) {  // below U+0300 all are composed
      ++next;
    } else if (!IsComposed(NextCodePoint(next))) {
      return false;
    }
  }
  return true;
}

void TextNormalizer::KeepPrecompiled() {
  std::erase_if(steps_, [](const Step& step) { return !std::holds_alternative<Precompiled>(step); });
}

void TextNormalizer::UseAlbertSteps(bool lowercase, bool strip_accents) {
  KeepPrecompiled();
  std::vector<Step> steps{Replace{U"``", U"\""}, Replace{U"''", U"\""}};
  if (strip_accents) steps.insert(steps.end(), {Decompose{.compatible = true}, StripAccents{}});
  if (lowercase) steps.emplace_back(Lowercase{});
  steps_.insert(steps_.begin(), steps.begin(), steps.end());
}

void TextNormalizer::Apply(const StripAccents&, NormalizedText& text) {
  std::erase_if(text, [](const NormalizedCharacter& character) { return IsCombiningMark(character.c); });
}

void TextNormalizer::Apply(const Lowercase&, NormalizedText& text) {
  NormalizedText out;
  out.reserve(text.size());
  for (const NormalizedCharacter& character : text) {
    char32_t lower[kMaxMapping];
    const int count = lshformer::Lowercase(character.c, lower);
    for (int i = 0; i < count; ++i) out.push_back({lower[i], character.begin, character.end});
  }
  text = std::move(out);
}

// The library looks a cluster of less than six bytes up as a whole, and takes the shortest key that it begins with for
// all of it; what is not found so, and longer clusters, it looks up character by character.
void TextNormalizer::Apply(const Precompiled& step, NormalizedText& text) {
  constexpr size_t kLookedUpWhole = 6;
  std::vector<Made> made;
  made.reserve(text.size());
  const auto replace = [&](size_t characters, const std::string& bytes) {
    const CharsMap::Match match = step.map->ShortestPrefix(bytes);
    if (match.length == 0) return false;
    const std::u32string by = CodePoints(match.replacement);
    for (const char32_t c : by) made.push_back({c});
    for (size_t extra = characters; extra < by.size(); ++extra) made[made.size() - 1 - (extra - characters)].change = 1;
    if (by.size() < characters && !made.empty()) made.back().change -= static_cast<int>(characters - by.size());
    return true;
  };
  bool modified = false;
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const size_t end = GraphemeEnd(text, at);
    bytes.clear();
    for (size_t i = at; i < end && bytes.size() < kLookedUpWhole; ++i) AppendUtf8(text[i].c, bytes);
    if (bytes.size() < kLookedUpWhole && replace(end - at, bytes)) {
      modified = true;
    } else {
      for (size_t i = at; i < end; ++i) {
        bytes.clear();
        AppendUtf8(text[i].c, bytes);
        if (replace(1, bytes)) {
          modified = true;
        } else {
          made.push_back({text[i].c});
        }
      }
    }
    at = end;
  }
  if (modified) text = Aligned(text, made);
}

bool TextNormalizer::lowercases() const { return Has<Lowercase>(); }
bool TextNormalizer::strips_accents() const { return Has<StripAccents>(); }

}  // namespace lshformer
