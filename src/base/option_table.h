// One description per option: a row says how an option is named, what it may be, where it has a meaning and what it is
// for. Reading and writing JSON, the check of a flag's text, the help and the rules of resuming follow.
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
#include "base/files.h"
#include "base/json.h"

namespace lshformer {

enum class OptionType { kInteger, kNumber, kBoolean, kName, kText, kPath, kPaths };

// What becomes of a run that is resumed with another value.
enum class Effect {
  kRun,     // it would be another run: refused
  kCourse,  // another optimization of the same task: a legitimate wish, warned of
  kAfter,   // work after the training: the run is the same, but something may be left to do
  kNone,    // the result is the same
};

// What JSON's null is as the value of an option.
enum class Null {
  kRefused,  // of the wrong type
  kAbsent,   // as if the option were not there
  kValue,    // a value like others: "none", which is written too
};

template <class Struct>
struct Option {
  std::string name;  // the JSON key; the flag is "--", a prefix of the table's and this
  OptionType type = OptionType::kText;
  std::string help;                // one line; "": the option is no flag
  std::vector<std::string> names;  // kName: all there are, in the order of the enumeration's values
  std::string syntax;              // of a text that is more than its type: "auto|N"; of a path: "FILE" or "DIR"
  std::string range;               // of numbers, as the help shows it: "1 to 62"
  std::string group;               // heading in the help; "": the table's
  Effect effect = Effect::kRun;
  bool decides = false;   // read before the others, whose defaults and meaning may hang on it
  bool required = false;  // a text or path that may not be empty
  bool or_none = false;   // one of the names, or ""
  Null null = Null::kRefused;

  // Reads the value at `name` of an object. Throws `WHERE: "NAME": expected …, got …`. Empty: it is never read, what is
  // written follows from other options.
  std::function<void(const Json& object, std::string_view where, Struct& into)> read;
  std::function<Json(const Struct& from)> write;           // null: nothing is written, but for NullIsValue
  std::function<Json(const std::string& text)> from_text;  // of a flag; throws "expected …, got …"
  // Why the option says nothing beside the values read before it: those that decide, and the rows above. "" where it
  // does. May be empty.
  std::function<std::string(const Struct&)> without_meaning;

  Option Group(std::string heading) && { return group = std::move(heading), std::move(*this); }
  Option KeepsResult() && { return effect = Effect::kNone, std::move(*this); }
  Option ChangesCourse() && { return effect = Effect::kCourse, std::move(*this); }
  Option WorksAfter() && { return effect = Effect::kAfter, std::move(*this); }
  Option Required() && { return required = true, std::move(*this); }
  Option NullIsAbsent() && { return null = Null::kAbsent, std::move(*this); }
  Option NullIsValue() && { return null = Null::kValue, std::move(*this); }
  Option OrNone() && { return or_none = true, std::move(*this); }
  Option Syntax(std::string text) && { return syntax = std::move(text), std::move(*this); }
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

std::string IntegerRange(int64_t low, int64_t high);  // "1 to 62", "at least 1"

// Texts of flags as JSON values. A number, or the text as it stands where it is none ("auto"), for a reader to refuse.
Json NumberOrText(const std::string& text);
Json IntegerOf(const std::string& text);  // throws "expected an integer, got …"
Json NumberOf(const std::string& text);   // throws "expected a number, got …"
Json BooleanOf(const std::string& text);  // throws "expected true or false, got …"
// "" for one of the names, else `expected zero, mean or none, got "zreo" (did you mean "zero"?)`.
std::string NameError(const std::vector<std::string>& names, const std::string& text);
// The place of the name at `key` of an object. Throws `WHERE: "KEY": expected "zero", "mean" or "none", got "zreo"`.
size_t GetName(const Json& object, std::string_view key, std::string_view where, const std::vector<std::string>& names);
bool IsEmpty(const Json& value);                                                         // "" or []
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

template <class Struct>
Option<Struct> OneOf(Option<Struct> option, std::vector<std::string> names) {
  option.type = OptionType::kName;
  option.names = names;
  option.from_text = [names = std::move(names)](const std::string& text) {
    if (const std::string error = NameError(names, text); !error.empty()) Fail("{}", error);
    return Json(text);
  };
  return option;
}

}  // namespace option_table

template <class Struct, class Int>
Option<Struct> Integer(const std::string& name, Int Struct::*member, int64_t low, int64_t high, std::string help) {
  static_assert(std::is_integral_v<Int> && !std::is_same_v<Int, bool>);
  const auto get = [=](const Json& object, std::string_view where) { return GetInt(object, name, where, low, high); };
  Option<Struct> option = option_table::Member(OptionType::kInteger, name, member, get, std::move(help), IntegerOf);
  option.range = IntegerRange(low, high);
  return option;
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
  Option<Struct> option = option_table::Member(OptionType::kNumber, name, member, get, std::move(help), NumberOf);
  option.range = range.Text();
  return option;
}

template <class Struct>
Option<Struct> Boolean(const std::string& name, bool Struct::*member, std::string help) {
  const auto get = [=](const Json& object, std::string_view where) { return GetBool(object, name, where); };
  return option_table::Member(OptionType::kBoolean, name, member, get, std::move(help), BooleanOf);
}

template <class Struct>
Option<Struct> Text(const std::string& name, std::string Struct::*member, std::string help) {
  const auto get = [=](const Json& object, std::string_view where) { return GetString(object, name, where); };
  const auto text = [](const std::string& text) { return Json(text); };  // "12" is a text too
  return option_table::Member(OptionType::kText, name, member, get, std::move(help), text);
}

// `syntax`: "FILE" or "DIR". Written as runs keep it, the same from every working folder (CanonicalPath).
template <class Struct>
Option<Struct> Path(const std::string& name, std::string Struct::*member, std::string syntax, std::string help) {
  Option<Struct> option = Text(name, member, std::move(help));
  option.type = OptionType::kPath;
  option.syntax = std::move(syntax);
  option.write = [member](const Struct& from) { return Json(CanonicalPath(from.*member)); };
  return option;
}

// Several files; the flag may be repeated.
template <class Struct>
Option<Struct> Paths(const std::string& name, std::vector<std::string> Struct::*member, std::string help) {
  Option<Struct> option = Custom<Struct>(
      name, "FILE",
      [=](const Json& object, std::string_view, Struct& into) {
        into.*member = object.at(name).template get<std::vector<std::string>>();
      },
      [=](const Struct& from) {
        Json list = Json::array();
        for (const std::string& path : from.*member) list.push_back(CanonicalPath(path));
        return list;
      },
      std::move(help));
  option.type = OptionType::kPaths;
  return option;
}

// A text that is one of `names`.
template <class Struct>
Option<Struct> Names(const std::string& name, std::string Struct::*member, std::vector<std::string> names,
                     std::string help) {
  Option<Struct> option = Text(name, member, std::move(help));
  option.read = [=](const Json& object, std::string_view where, Struct& into) {
    into.*member = names[GetName(object, name, where, names)];
  };
  return option_table::OneOf(std::move(option), std::move(names));
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
  return option_table::OneOf(std::move(option), std::move(names));
}

// An option of a part as an option of the whole; part(whole) is a reference to it, of a constant whole to a constant.
template <class Whole, class Part, class Get>
Option<Whole> OfPart(Option<Part> own, const Get& part) {
  const bool is_read = own.read != nullptr;
  Option<Whole> option = Custom<Whole>(
      own.name, own.syntax,
      [=, read = std::move(own.read)](const Json& object, std::string_view where, Whole& into) {
        read(object, where, part(into));
      },
      [=, write = std::move(own.write)](const Whole& from) { return write(part(from)); }, own.help);
  if (!is_read) option.read = nullptr;
  option.type = own.type;
  option.names = std::move(own.names);
  option.range = own.range;
  option.group = own.group;
  option.effect = own.effect;
  option.decides = own.decides;
  option.required = own.required;
  option.or_none = own.or_none;
  option.null = own.null;
  option.from_text = std::move(own.from_text);
  if (own.without_meaning)
    option.without_meaning = [=, reason = std::move(own.without_meaning)](const Whole& whole) {
      return reason(part(whole));
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

// The options that an object has, over what `into` holds; what must hold between several is not looked at. Other keys
// of the object are left to the caller.
template <class Struct>
void ReadUnchecked(const OptionTable<Struct>& table, const Json& object, std::string_view where, Struct& into) {
  ForEachInReadingOrder(table, [&](const Option<Struct>& option) {
    if (!option.read || !object.contains(option.name)) return;
    const Json& value = object.at(option.name);
    if ((option.null == Null::kAbsent && value.is_null()) || (option.or_none && IsEmpty(value))) return;
    const std::string reason = option.without_meaning ? option.without_meaning(into) : "";
    if (!reason.empty()) Fail("{}: \"{}\" has no meaning here: {}", where, option.name, reason);
    option.read(object, where, into);
  });
}

// The same, and what must hold between several.
template <class Struct>
void ReadKnownOptions(const OptionTable<Struct>& table, const Json& object, std::string_view where, Struct& into) {
  ReadUnchecked(table, object, where, into);
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
    Json value = option.write(from);
    if (!value.is_null() || option.null == Null::kValue) object[option.name] = std::move(value);
  }
}

// What is wrong with a value, "expected 1 to 62, got 0"; "" if nothing is.
template <class Struct>
std::string ValueError(const OptionTable<Struct>& table, const Option<Struct>& option, const Json& value) {
  try {
    Struct scratch = table.defaults;
    option.read(Json{{option.name, value}}, "", scratch);
  } catch (const Error& error) {
    const std::string message = error.what(), place = fmt::format(": \"{}\": ", option.name);
    return message.starts_with(place) ? message.substr(place.size()) : message;
  }
  return "";
}

// The same of a flag's text.
template <class Struct>
std::string TextError(const OptionTable<Struct>& table, const Option<Struct>& option, const std::string& text) {
  try {
    return ValueError(table, option, option.from_text(text));
  } catch (const Error& error) {
    return error.what();
  }
}

// Calls fail(option, reason) for the first option whose value is none that it may have, or that is required and empty;
// fail throws. What must hold between options is not looked at: table.check, without_meaning.
template <class Struct, class Fail>
void ValidateOptions(const OptionTable<Struct>& table, const Struct& options, const Fail& fail) {
  for (const Option<Struct>& option : table.options) {
    const Json value = option.write(options);
    if (option.required && IsEmpty(value)) fail(option, "required");
    if (value.is_null() || !option.read || (option.or_none && IsEmpty(value))) continue;
    if (const std::string wrong = ValueError(table, option, value); !wrong.empty()) fail(option, wrong);
  }
}

// The same as an OptionError.
template <class Struct>
void ValidateOptions(const OptionTable<Struct>& table, const Struct& options) {
  ValidateOptions(table, options, [](const Option<Struct>& option, const std::string& reason) {
    FailOption(option.name, "{}", reason);
  });
}

// As the help shows it.
template <class Struct>
std::string DefaultText(const OptionTable<Struct>& table, const Option<Struct>& option) {
  const Json value = option.write(table.defaults);
  if (IsEmpty(value)) return "";
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "none" : value.dump();
}

}  // namespace lshformer
