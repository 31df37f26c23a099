// One description per option: a row says how an option is named, what it may be, where it has a meaning and what it is
// for. Reading and writing JSON, the check of a flag's text, what the help shows and the comparison of two runs follow.
//
//   struct Cooking { int minutes = 10; Heat heat = Heat::kLow; bool salt = true; };
//
//   const OptionTable<Cooking> kTable{
//       {Integer("minutes", &Cooking::minutes, 1, 600, "how long"),
//        Names("heat", &Cooking::heat, {"low", "high"}, "of the stove").Decides(),
//        Boolean("salt", &Cooking::salt, "whether the water is salted")
//            .MeaninglessIf([](const Cooking& c) { return c.heat == Heat::kLow ? "nothing boils" : ""; })}};
//
//   Cooking cooking = kTable.defaults;
//   ReadOptions(kTable, json, "soup.json", cooking);    // soup.json: "minutes": expected 1 to 600, got 0
//   Json written = Json::object();
//   WriteOptions(kTable, cooking, written);             // {"minutes":10,"heat":"low"}
//   for (const auto& option : kTable.options)           // --minutes N  how long (default 10)
//     AddFlag("--" + option.name, option.help, DefaultText(kTable, option));
//   TextError(kTable, kTable.options[0], "0");          // "expected 1 to 600, got 0"
//
// One line more is one option more.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace lshformer {

enum class OptionType { kInteger, kNumber, kBoolean, kName, kText };

template <class Struct>
struct Option {
  std::string name;  // the JSON key; the flag is "--", a prefix of the table's and this
  OptionType type = OptionType::kText;
  std::string help;                // one line; "": the option is no flag
  std::vector<std::string> names;  // kName: all there are, in the order of the enumeration's values
  std::string syntax;              // of a text that is more than its type: "auto|N"
  std::string group;               // heading in the help; "": the table's
  bool changes_result = true;      // false: two runs that differ in it alone compute the same
  bool decides = false;            // read before the others, whose defaults and meaning may hang on it

  // Reads the value at `name` of an object. Throws `WHERE: "NAME": expected …, got …`.
  std::function<void(const Json& object, std::string_view where, Struct& into)> read;
  std::function<Json(const Struct& from)> write;           // null: there is nothing to write
  std::function<Json(const std::string& text)> from_text;  // of a flag; throws "expected …, got …"
  // Why the option says nothing beside the values read before it: those that decide, and the rows above. "" where it
  // does. May be empty.
  std::function<std::string(const Struct&)> without_meaning;

  Option Group(std::string heading) && { return group = std::move(heading), std::move(*this); }
  Option KeepsResult() && { return changes_result = false, std::move(*this); }
  Option Decides() && { return decides = true, std::move(*this); }
  Option MeaninglessIf(std::function<std::string(const Struct&)> reason) && {
    return without_meaning = std::move(reason), std::move(*this);
  }
  // After a value was read: what it changes in the defaults of the options that are read later.
  Option Then(std::function<void(Struct&)> change) && {
    read = [first = std::move(read), change = std::move(change)](const Json& object, std::string_view where,
                                                                 Struct& into) {
      first(object, where, into);
      change(into);
    };
    return std::move(*this);
  }
};

template <class Struct>
struct OptionTable {
  std::vector<Option<Struct>> options;  // in the order in which they are written and listed
  // After all were read: what must hold between several. Throws `WHERE: …`.
  std::function<void(const Struct&, std::string_view where)> check;
  Struct defaults{};
  std::string group;  // heading of its flags in the help
};

// Numbers from low to high; a bound that is open is not among them. Infinite: no bound.
struct NumberRange {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;

  bool Holds(double x) const;  // false for what is not finite
  std::string Text() const;    // "0 to 1", "at least 0 and below 1", "above 0", "a number"
};

// Texts of flags as JSON values. A number, or the text as it stands where it is none ("auto"), for a reader to refuse.
Json NumberOrText(const std::string& text);
Json IntegerOf(const std::string& text);  // throws "expected an integer, got …"
Json NumberOf(const std::string& text);   // throws "expected a number, got …"
Json BooleanOf(const std::string& text);  // throws "expected true or false, got …"
// "" for one of the names, else `expected zero, mean or none, got "zreo" (did you mean "zero"?)`.
std::string NameError(const std::vector<std::string>& names, const std::string& text);
// The place of the name at `key` of an object. Throws `WHERE: "KEY": expected "zero", "mean" or "none", got "zreo"`.
size_t GetName(const Json& object, std::string_view key, std::string_view where, const std::vector<std::string>& names);
uint64_t GetUnsigned(const Json& object, std::string_view key, std::string_view where);  // 0 to 2⁶⁴ − 1

// An option of no type below: how it is read from an object and written.
template <class Struct>
Option<Struct> Custom(std::string name, std::string syntax,
                      std::function<void(const Json& object, std::string_view where, Struct& into)> read,
                      std::function<Json(const Struct& from)> write, std::string help) {
  Option<Struct> option;
  option.name = std::move(name);
  option.syntax = std::move(syntax);
  option.help = std::move(help);
  option.read = std::move(read);
  option.write = std::move(write);
  option.from_text = NumberOrText;
  return option;
}

namespace option_table {

// An option that is one member. `get(object, where)` is its value.
template <class Struct, class Value, class Get>
Option<Struct> Member(OptionType type, const std::string& name, Value Struct::*member, Get get, std::string help,
                      std::function<Json(const std::string&)> from_text) {
  Option<Struct> option = Custom<Struct>(
      name, "",
      [member, get](const Json& object, std::string_view where, Struct& into) {
        into.*member = static_cast<Value>(get(object, where));
      },
      [member](const Struct& from) { return Json(from.*member); }, std::move(help));
  option.type = type;
  option.from_text = std::move(from_text);
  return option;
}

}  // namespace option_table

template <class Struct, class Int>
Option<Struct> Integer(const std::string& name, Int Struct::*member, int64_t low, int64_t high, std::string help) {
  static_assert(std::is_integral_v<Int> && !std::is_same_v<Int, bool>);
  const auto get = [=](const Json& object, std::string_view where) { return GetInt(object, name, where, low, high); };
  return option_table::Member(OptionType::kInteger, name, member, get, std::move(help), IntegerOf);
}

template <class Struct>
Option<Struct> Unsigned(const std::string& name, uint64_t Struct::*member, std::string help) {
  const auto get = [=](const Json& object, std::string_view where) { return GetUnsigned(object, name, where); };
  return option_table::Member(OptionType::kInteger, name, member, get, std::move(help), IntegerOf);
}

template <class Struct>
Option<Struct> Number(const std::string& name, double Struct::*member, NumberRange range, std::string help) {
  const auto get = [=](const Json& object, std::string_view where) {
    const double number = GetNumber(object, name, where);
    if (!range.Holds(number)) Fail("{}: \"{}\": expected {}, got {}", where, name, range.Text(), number);
    return number;
  };
  return option_table::Member(OptionType::kNumber, name, member, get, std::move(help), NumberOf);
}

template <class Struct>
Option<Struct> Boolean(const std::string& name, bool Struct::*member, std::string help) {
  const auto get = [=](const Json& object, std::string_view where) { return GetBool(object, name, where); };
  return option_table::Member(OptionType::kBoolean, name, member, get, std::move(help), BooleanOf);
}

template <class Struct>
Option<Struct> Text(const std::string& name, std::string Struct::*member, std::string help) {
  const auto get = [=](const Json& object, std::string_view where) { return GetString(object, name, where); };
  return option_table::Member(OptionType::kText, name, member, get, std::move(help), NumberOrText);
}

// `names` are those of the enumeration's values 0, 1, …
template <class Struct, class Enum>
Option<Struct> Names(const std::string& name, Enum Struct::*member, std::vector<std::string> names, std::string help) {
  static_assert(std::is_enum_v<Enum>);
  Option<Struct> option = Custom<Struct>(
      name, "",
      [=](const Json& object, std::string_view where, Struct& into) {
        into.*member = static_cast<Enum>(GetName(object, name, where, names));
      },
      [=](const Struct& from) { return Json(names[static_cast<size_t>(from.*member)]); }, std::move(help));
  option.type = OptionType::kName;
  option.names = names;
  option.from_text = [names = std::move(names)](const std::string& text) {
    if (const std::string error = NameError(names, text); !error.empty()) Fail("{}", error);
    return Json(text);
  };
  return option;
}

template <class Struct>
const Option<Struct>* FindOption(const OptionTable<Struct>& table, std::string_view name) {
  for (const Option<Struct>& option : table.options)
    if (option.name == name) return &option;
  return nullptr;
}

template <class Struct>
std::vector<std::string> NamesOf(const OptionTable<Struct>& table) {
  std::vector<std::string> names;
  for (const Option<Struct>& option : table.options) names.push_back(option.name);
  return names;
}

// Throws `WHERE: unknown key "KEY" (did you mean "…"?)`.
template <class Struct>
void RefuseUnknownKeys(const OptionTable<Struct>& table, const Json& object, std::string_view where) {
  for (const auto& [key, value] : object.items()) {
    if (FindOption(table, key) == nullptr)
      Fail("{}: unknown key \"{}\"{}", where, Shown(key), Suggestion(key, NamesOf(table)));
  }
}

// Calls visit(option) for every option, those that decide first.
template <class Struct, class Visit>
void ForEachInReadingOrder(const OptionTable<Struct>& table, const Visit& visit) {
  for (const bool decides : {true, false}) {
    for (const Option<Struct>& option : table.options)
      if (option.decides == decides) visit(option);
  }
}

// The options that an object has, over what `into` holds. Other keys of the object are left to the caller.
template <class Struct>
void ReadKnownOptions(const OptionTable<Struct>& table, const Json& object, std::string_view where, Struct& into) {
  ForEachInReadingOrder(table, [&](const Option<Struct>& option) {
    if (!object.contains(option.name)) return;
    const std::string reason = option.without_meaning ? option.without_meaning(into) : "";
    if (!reason.empty()) Fail("{}: \"{}\" has no meaning here: {}", where, option.name, reason);
    option.read(object, where, into);
  });
  if (table.check) table.check(into, where);
}

// The same where an unknown key is an error.
template <class Struct>
void ReadOptions(const OptionTable<Struct>& table, const Json& object, std::string_view where, Struct& into) {
  RefuseUnknownKeys(table, object, where);
  ReadKnownOptions(table, object, where, into);
}

// Adds the options that have a meaning.
template <class Struct>
void WriteOptions(const OptionTable<Struct>& table, const Struct& from, Json& object) {
  for (const Option<Struct>& option : table.options) {
    if (option.without_meaning && !option.without_meaning(from).empty()) continue;
    if (Json value = option.write(from); !value.is_null()) object[option.name] = std::move(value);
  }
}

// What is wrong with a flag's text, "expected 1 to 62, got 0"; "" if nothing is.
template <class Struct>
std::string TextError(const OptionTable<Struct>& table, const Option<Struct>& option, const std::string& text) {
  try {
    Struct scratch = table.defaults;
    option.read(Json{{option.name, option.from_text(text)}}, "", scratch);
  } catch (const Error& error) {
    const std::string message = error.what(), place = fmt::format(": \"{}\": ", option.name);
    return message.starts_with(place) ? message.substr(place.size()) : message;
  }
  return "";
}

// As the help shows it.
template <class Struct>
std::string DefaultText(const OptionTable<Struct>& table, const Option<Struct>& option) {
  const Json value = option.write(table.defaults);
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
}

// The first option that changes the result and has another value; "" if none: the one goes on where the other stopped.
template <class Struct>
std::string FirstThatDiffers(const OptionTable<Struct>& table, const Struct& a, const Struct& b) {
  for (const Option<Struct>& option : table.options)
    if (option.changes_result && option.write(a) != option.write(b)) return option.name;
  return "";
}

}  // namespace lshformer
