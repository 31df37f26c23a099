#include "text/bpe/word_splitter.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lshformer {

WordSplitter WordSplitter::ByteLevel(bool adds_space) {
  WordSplitter splitter;
  splitter.steps_.emplace_back();
  splitter.byte_level_ = true;
  splitter.adds_space_ = adds_space;
  return splitter;
}

WordSplitter::WordSplitter(const Json& json, const std::string& path) {
  if (!json.is_null()) Add(json, path + ": \"pre_tokenizer\"", /*inside=*/false);
}

void WordSplitter::Add(const Json& json, const std::string& where, bool inside) {
  constexpr size_t kMostSteps = 16;
  if (!json.is_object()) Fail("{}: expected an object, got {}", where, json.type_name());
  const std::string type = GetString(json, "type", where);
  if (byte_level_) Fail("{}: expected nothing behind ByteLevel, got \"{}\"", where, Shown(type));
  if (type == "Sequence" && !inside) {
    if (!json.contains("pretokenizers") || !json["pretokenizers"].is_array() ||
        json["pretokenizers"].size() > kMostSteps)
      Fail("{}: expected a list \"pretokenizers\" of at most {}", where, kMostSteps);
    for (const Json& step : json["pretokenizers"]) Add(step, where, /*inside=*/true);
  } else if (type == "Split") {
    AddSplit(json, where);
  } else if (type == "Digits") {
    const bool single = GetBoolOr(json, "individual_digits", where, false);
    steps_.push_back({.at = At::kDigits, .behavior = single ? Behavior::kIsolated : Behavior::kContiguous});
  } else if (type == "ByteLevel") {
    adds_space_ = GetBoolOr(json, "add_prefix_space", where, true);
    if (adds_space_ && !steps_.empty())
      Fail("{}: ByteLevel behind a cut with \"add_prefix_space\": true is not supported", where);
    if (GetBoolOr(json, "use_regex", where, true)) steps_.emplace_back();
    byte_level_ = true;
  } else {
    Fail("{}: the type \"{}\" is not supported with a BPE model; Split, Digits, ByteLevel and a Sequence of them are",
         where, Shown(type, 40));
  }
}

void WordSplitter::AddSplit(const Json& json, const std::string& where) {
  constexpr std::pair<const char*, Behavior> kBehaviors[] = {{"Removed", Behavior::kRemoved},
                                                             {"Isolated", Behavior::kIsolated},
                                                             {"MergedWithPrevious", Behavior::kMergedWithPrevious},
                                                             {"MergedWithNext", Behavior::kMergedWithNext},
                                                             {"Contiguous", Behavior::kContiguous}};
  Step step;
  const std::string behavior = GetString(json, "behavior", where);
  const auto known = std::find_if(std::begin(kBehaviors), std::end(kBehaviors),
                                  [&](const auto& entry) { return entry.first == behavior; });
  if (known == std::end(kBehaviors)) Fail("{}: Split: the behavior \"{}\" is not known", where, Shown(behavior, 40));
  step.behavior = known->second;
  step.inverted = GetBoolOr(json, "invert", where, false);
  const Json pattern = json.contains("pattern") ? json["pattern"] : Json();
  const auto text = [&](const char* key) {
    const bool has = pattern.is_object() && pattern.contains(key) && pattern[key].is_string();
    return has ? pattern[key].get<std::string>() : "";
  };
  if (step.string = text("String"); !step.string.empty()) {
    step.at = At::kString;
  } else {
    const std::optional<WordPattern> words = WordPatternOf(text("Regex"));
    // Their matches leave nothing between them.
    const bool whole = step.inverted ? step.behavior == Behavior::kRemoved : step.behavior == Behavior::kIsolated;
    if (!words || !whole)
      Fail("{}: Split: the pattern {} ({}) is not supported", where,
           Shown(pattern.dump(-1, ' ', false, Json::error_handler_t::replace), 100), behavior);
    step.pattern = *words;
  }
  steps_.push_back(std::move(step));
}

bool WordSplitter::cuts_at_spaces() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.at == At::kPattern; });
}

bool WordSplitter::Walk(size_t number, std::string_view text, const Action& action) const {
  if (text.empty()) return true;
  if (number == steps_.size()) return action(text);
  const Step& step = steps_[number];
  if (step.at == At::kPattern) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = WordEnd(step.pattern, text, at);
      if (!Walk(number + 1, text.substr(at, end - at), action)) return false;
      at = end;
    }
    return true;
  }
  for (const auto& [begin, end] : Cut(step, text))
    if (!Walk(number + 1, text.substr(begin, end - begin), action)) return false;
  return true;
}

// All of the text, in stretches that match and that do not.
std::vector<std::pair<WordSplitter::Range, bool>> WordSplitter::Matches(const Step& step, std::string_view text) {
  std::vector<std::pair<Range, bool>> matches;
  const auto put = [&](size_t begin, size_t end, bool match) {
    if (begin < end) matches.push_back({{begin, end}, match != step.inverted});
  };
  size_t at = 0;
  if (step.at == At::kString) {
    for (size_t found; (found = text.find(step.string, at)) != std::string_view::npos;
         at = found + step.string.size()) {
      put(at, found, false);
      put(found, found + step.string.size(), true);
    }
  } else {
    const char* next = text.data();
    for (const char* const end = next + text.size(); next < end;) {
      const auto begin = static_cast<size_t>(next - text.data());
      if (LetterClassOf(NextCodePoint(next)) != LetterClass::kNumber) continue;
      put(at, begin, false);
      at = static_cast<size_t>(next - text.data());
      put(begin, at, true);
    }
  }
  put(at, text.size(), false);
  return matches;
}

std::vector<WordSplitter::Range> WordSplitter::Cut(const Step& step, std::string_view text) {
  std::vector<std::pair<Range, bool>> matches = Matches(step, text);
  const bool backwards = step.behavior == Behavior::kMergedWithNext;
  if (backwards) std::reverse(matches.begin(), matches.end());
  std::vector<Range> words;
  bool before = false;  // the one before was a match
  for (const auto& [range, match] : matches) {
    const bool joins = step.behavior == Behavior::kContiguous ? match == before : match && !before;
    const bool may_join = step.behavior != Behavior::kRemoved && step.behavior != Behavior::kIsolated;
    if (may_join && joins && !words.empty()) {
      (backwards ? words.back().first : words.back().second) = backwards ? range.first : range.second;
    } else if (!match || step.behavior != Behavior::kRemoved) {
      words.push_back(range);
    }
    before = match;
  }
  if (backwards) std::reverse(words.begin(), words.end());
  return words;
}

}  // namespace lshformer
