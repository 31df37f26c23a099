#include "base/json.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <unordered_set>

#include "base/content_kind.h"
#include "base/error.h"
#include "base/files.h"
#include "base/not_finite.h"

namespace lshformer {
namespace {

// "line 3, column 17", or "column 17" of a text that is one line (a JSONL line: `where` has its number already).
std::string Place(std::string_view text, size_t position) {
  const std::string_view before = text.substr(0, std::min(position, text.size()));
  const size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t newline = before.rfind('\n');
  const size_t column = std::max<size_t>(1, newline == before.npos ? before.size() : before.size() - newline - 1);
  const bool one_line = text.find('\n') >= text.size() - (text.ends_with('\n') ? 1 : 0);
  if (one_line) return fmt::format("column {}", column);
  return fmt::format("line {}, column {}", line, column);
}

constexpr std::string_view kNan = "NaN", kInfinity = "Infinity";

// What Python writes for numbers that are not finite, and the numbers of as many digits that stand for them while the
// text is parsed: ones that it does not have.
class NotFinite {
 public:
  explicit NotFinite(std::string_view text) {
    if (text.find(kNan) == text.npos && text.find(kInfinity) == text.npos) return;
    nan_ = Unused(text, "e");
    infinity_ = Unused(text, "00000e");
    replaced_ = std::string(text);
    bool quoted = false;
    for (size_t at = 0; at < replaced_.size(); ++at) {
      const char c = replaced_[at];
      if (c == '"') quoted = !quoted;
      if (quoted && c == '\\') ++at;
      if (quoted || (c != 'N' && c != 'I')) continue;
      for (const auto& [word, number] : {std::pair(kNan, &nan_), {kInfinity, &infinity_}}) {
        if (replaced_.compare(at, word.size(), word) != 0 || !Alone(at, word)) continue;
        replaced_.replace(at, word.size(), *number);
        at += word.size() - 1;
        break;
      }
    }
  }

  // The text to parse in place of `text`.
  std::string_view Replaced(std::string_view text) const { return nan_.empty() ? text : replaced_; }

  // What a number of that text stood for; "": itself.
  std::string_view Meant(std::string_view number) const {
    if (nan_.empty()) return "";
    if (number == nan_) return kNan;
    const bool negative = number.starts_with('-');
    if (number.substr(negative ? 1 : 0) != infinity_) return "";
    return negative ? "-Infinity" : kInfinity;
  }

 private:
  // No letter or digit beside it: "NaNs" is no number. A minus belongs to Infinity alone.
  bool Alone(size_t at, std::string_view word) const {
    const auto plain = [&](size_t place) {
      return place >= replaced_.size() ||
             std::string_view(",:[]{} \t\r\n").find(replaced_[place]) != std::string_view::npos;
    };
    const bool minus = word == kInfinity && at > 0 && replaced_[at - 1] == '-';
    const size_t before = minus ? at - 1 : at;
    return (before == 0 || plain(before - 1)) && plain(at + word.size());
  }

  // A number of one digit, `middle` and another digit; were they all in the text, the last.
  static std::string Unused(std::string_view text, std::string_view middle) {
    std::string number;
    for (int pair = 99; pair >= 10; --pair) {
      number = fmt::format("{}{}{}", pair / 10, middle, pair % 10);
      if (text.find(number) == text.npos) break;
    }
    return number;
  }

  std::string nan_, infinity_, replaced_;
};

// Builds the value from the parser's events. The parser itself keeps its nesting on the heap, one bit a level, and the
// depth is checked before a level is built, so no input can exhaust the stack.
class Builder {
 public:
  Builder(std::string_view text, std::string_view where, const JsonLimits& limits, const NotFinite& not_finite)
      : text_(text), where_(where), limits_(limits), not_finite_(not_finite) {}
  Json Take() { return std::move(root_); }

  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(int64_t value) { return Add(value); }
  bool number_unsigned(uint64_t value) { return Add(value); }
  bool number_float(double value, const std::string& digits) {
    if (const std::string_view meant = not_finite_.Meant(digits); !meant.empty())
      return Add(Json::binary({meant.begin(), meant.end()}));
    return Add(value);
  }
  bool string(std::string& value) { return Add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(size_t) { return Open(Json::object()); }
  bool start_array(size_t) { return Open(Json::array()); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }

  bool key(std::string& name) {
    Level& level = open_.back();
    auto& members = level.container->get_ref<Json::object_t&>();
    // A linear search is cheaper than a set up to some dozen keys, and quadratic beyond.
    constexpr size_t kLinear = 32;
    bool seen = false;
    if (level.names.empty() && members.size() < kLinear) {
      seen = std::any_of(members.begin(), members.end(), [&](const auto& member) { return member.first == name; });
    } else {
      if (level.names.empty())
        for (const auto& member : members) level.names.insert(member.first);
      seen = !level.names.insert(name).second;
    }
    if (seen) Fail("{}: duplicate key \"{}\" in JSON", where_, Shown(name));
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    Fail("{}: invalid JSON at {}: {}", where_, Place(text_, position), Cause(error.what()));
  }

 private:
  struct Level {
    Json* container;
    std::unordered_set<std::string> names;
  };

  // The parser's "last read" begins with the last string or number. Behind a stretch of blanks its last word is enough.
  static std::string_view LastWord(std::string_view read) {
    constexpr std::string_view kBlanks = " \t\r\n";
    for (size_t at = 1; at < read.size(); ++at)
      if (kBlanks.find(read[at - 1]) != read.npos && kBlanks.find(read[at]) != read.npos)
        return read.substr(std::min(read.find_last_of(kBlanks) + 1, read.size() - 1));
    return read;
  }

  // nlohmann: "[json.exception.…] parse error at …: syntax error while parsing value - CAUSE; last read: 'TOKEN';
  // expected X".
  static std::string Cause(std::string_view message) {
    if (const size_t dash = message.find(" - "); dash != message.npos) message.remove_prefix(dash + 3);
    const size_t read = message.find("; last read: '");
    if (read == message.npos) {
      const size_t colon = message.find("number overflow");
      return colon == message.npos ? Shown(message, 160) : "number out of range";
    }
    std::string_view token = message.substr(read + 14), expected;
    if (const size_t end = token.rfind("'; expected "); end != token.npos) {
      expected = token.substr(end + 3);
      token = token.substr(0, end);
    } else if (token.ends_with('\'')) {
      token.remove_suffix(1);
    }
    std::string cause = fmt::format("{}, near '{}'", Shown(message.substr(0, read), 90), Shown(LastWord(token), 30));
    if (!expected.empty()) cause += fmt::format(", {}", Shown(expected, 60));
    return cause;
  }

  template <class Value>
  Json* Insert(Value&& value) {
    if (++values_ > limits_.values) Fail("{}: JSON has more than {} values", where_, limits_.values);
    if (open_.empty()) {
      root_ = std::forward<Value>(value);
      return &root_;
    }
    Json& container = *open_.back().container;
    if (container.is_array()) {
      auto& items = container.get_ref<Json::array_t&>();
      items.emplace_back(std::forward<Value>(value));
      return &items.back();
    }
    AppendMember(container, std::move(key_), std::forward<Value>(value));
    return &container.get_ref<Json::object_t&>().back().second;
  }

  template <class Value>
  bool Add(Value&& value) {
    Insert(std::forward<Value>(value));
    return true;
  }
  bool Open(Json container) {
    if (static_cast<int>(open_.size()) >= limits_.depth)
      Fail("{}: JSON is nested deeper than {} levels", where_, limits_.depth);
    open_.push_back({Insert(std::move(container)), {}});
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_, where_;
  const JsonLimits& limits_;
  const NotFinite& not_finite_;
  Json root_;
  std::vector<Level> open_;  // pointers stay valid: only the innermost container grows
  std::string key_;
  size_t values_ = 0;
};

const Json& Member(const Json& object, std::string_view key, std::string_view where) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end()) Fail("{}: \"{}\" is missing", where, Shown(key));
  return *found;
}

std::string Range(int64_t low, int64_t high) {
  if (low == INT64_MIN && high == INT64_MAX) return "an integer";
  if (high == INT64_MAX) return fmt::format("an integer ≥ {}", low);
  if (low == INT64_MIN) return fmt::format("an integer ≤ {}", high);
  return fmt::format("{} to {}", low, high);
}

}  // namespace

Json ParseJson(std::string_view text, std::string_view where, const JsonLimits& limits) {
  if (text.size() > limits.bytes) Fail("{}: JSON has {} bytes, the limit is {}", where, text.size(), limits.bytes);
  if (text.find_first_not_of(" \t\r\n") == text.npos)
    Fail("{}: invalid JSON at {}: it is blank", where, Place(text, 1));
  // The parser takes a NUL for the end of its input and would not look at what follows.
  if (const size_t nul = text.find('\0'); nul != text.npos)
    Fail("{}: invalid JSON at {}: NUL byte", where, Place(text, nul + 1));
  const NotFinite not_finite(text);
  Builder builder(text, where, limits, not_finite);
  const std::string_view parsed = not_finite.Replaced(text);
  Json::sax_parse(parsed.begin(), parsed.end(), &builder);
  return builder.Take();
}

Json ReadJsonFile(const std::string& path, const JsonLimits& limits) {
  return ParseJson(ReadOwnKind(path, limits.bytes), path, limits);
}

Json ReadJsonObject(const std::string& path) {
  Json json = ReadJsonFile(path);
  if (!json.is_object()) Fail("{}: expected a JSON object, got {}", path, json.type_name());
  return json;
}

void AppendMember(Json& object, std::string key, Json value) {
  auto& members = static_cast<Json::object_t::Container&>(object.get_ref<Json::object_t&>());
  members.emplace_back(std::move(key), std::move(value));
}

bool IsNotFinite(const Json& value, bool inside) {
  if (!inside || !value.is_structured()) return value.is_binary();
  return std::any_of(value.begin(), value.end(), [](const Json& part) { return IsNotFinite(part, true); });
}

void NullNotFinite(Json& value) {
  if (value.is_binary()) value = nullptr;
  if (!value.is_structured()) return;
  for (Json& part : value) NullNotFinite(part);
}

std::string ShownValue(const Json& value) {
  if (value.is_binary()) return {value.get_binary().begin(), value.get_binary().end()};
  if (value.is_string()) return fmt::format("\"{}\"", Shown(value.get_ref<const std::string&>()));
  if (value.is_array()) return fmt::format("a list of {} {}", value.size(), value.size() == 1 ? "value" : "values");
  if (value.is_object()) return "an object";
  return value.dump();
}

bool HasValue(const Json& object, std::string_view key) {
  if (!object.is_object()) return false;
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

int64_t GetInt(const Json& object, std::string_view key, std::string_view where, int64_t low, int64_t high) {
  const Json& value = Member(object, key, where);
  const bool too_large = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const bool fits = value.is_number_integer() && !too_large;
  if (!fits || value.get<int64_t>() < low || value.get<int64_t>() > high)
    Fail("{}: \"{}\": expected {}, got {}", where, Shown(key), Range(low, high), ShownValue(value));
  return value.get<int64_t>();
}

double GetNumber(const Json& object, std::string_view key, std::string_view where) {
  const Json& value = Member(object, key, where);
  if (!value.is_number()) Fail("{}: \"{}\": expected a number, got {}", where, Shown(key), ShownValue(value));
  return value.get<double>();
}

bool GetBool(const Json& object, std::string_view key, std::string_view where) {
  const Json& value = Member(object, key, where);
  if (!value.is_boolean()) Fail("{}: \"{}\": expected true or false, got {}", where, Shown(key), ShownValue(value));
  return value.get<bool>();
}

bool GetBoolOr(const Json& object, std::string_view key, std::string_view where, bool absent) {
  return HasValue(object, key) ? GetBool(object, key, where) : absent;
}

std::string GetString(const Json& object, std::string_view key, std::string_view where) {
  const Json& value = Member(object, key, where);
  if (!value.is_string()) Fail("{}: \"{}\": expected a string, got {}", where, Shown(key), ShownValue(value));
  return value.get<std::string>();
}

namespace {

// Edits between two words: insert, delete, replace, swap of neighbours (optimal string alignment).
size_t Edits(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

// Case and the choice of - or _ are not worth an edit.
std::string Folded(std::string_view word) {
  std::string folded(word);
  for (char& c : folded) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return folded;
}

}  // namespace

std::string Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kLongest = 100;  // nobody mistypes a longer word; also bounds the work
  if (word.empty() || word.size() > kLongest) return "";
  const std::string folded = Folded(word);
  std::string nearest;
  size_t fewest = SIZE_MAX;
  for (const std::string& candidate : candidates) {
    // One edit in three characters: "bnads" finds "bands", "foo" does not find "fill".
    const size_t allowed = std::max<size_t>(1, std::min(word.size(), candidate.size()) / 3);
    const size_t edits = Edits(folded, Folded(candidate));
    if (edits <= allowed && edits < candidate.size() && edits < fewest) {
      fewest = edits;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string Suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string nearest = Nearest(word, candidates);
  return nearest.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", Shown(nearest));
}

}  // namespace lshformer
