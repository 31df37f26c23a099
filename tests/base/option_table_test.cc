#include "base/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "util/errors.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;

enum class Heat { kLow, kHigh };

// A kind of nothing that the program knows, with every type of option.
struct Soup {
  Heat heat = Heat::kLow;
  int minutes = 10;
  double salt = 0.5;
  bool stirred = true;
  std::string name = "leek";
  uint64_t seed = 7;
  bool served = false;

  bool operator==(const Soup&) const = default;
};

OptionTable<Soup> SoupTable() {
  return {{Integer("minutes", &Soup::minutes, 1, 600, "how long it cooks"),
           Names("heat", &Soup::heat, {"low", "high"}, "of the stove").Decides().Then([](Soup& soup) {
             soup.minutes = soup.heat == Heat::kHigh ? 5 : 10;
           }),
           Number("salt", &Soup::salt, {.low = 0, .high = 1, .high_open = true}, "spoons"),
           Boolean("stirred", &Soup::stirred, "all the time").MeaninglessIf([](const Soup& soup) {
             return soup.heat == Heat::kLow ? "nothing burns at \"heat\" \"low\"" : "";
           }),
           Text("name", &Soup::name, "on the menu").Group("Menu").KeepsResult(), Unsigned("seed", &Soup::seed, ""),
           Boolean("served", &Soup::served, "")},
          [](const Soup& soup, std::string_view where) {
            if (soup.served && soup.minutes < 3) Fail("{}: \"served\": raw", where);
          },
          {},
          "Soup"};
}

Soup Read(const std::string& text) {
  Soup soup = SoupTable().defaults;
  ReadOptions(SoupTable(), ParseJson(text, "f"), "soup.json", soup);
  return soup;
}
std::string ErrorIn(const std::string& text) {
  return ErrorOf([&] { Read(text); });
}

Json Written(const Soup& soup) {
  Json json = Json::object();
  WriteOptions(SoupTable(), soup, json);
  return json;
}

TEST(OptionTable, EveryOptionGoesThereAndBack) {
  const std::string text =
      R"({"minutes":20,"heat":"high","salt":0.25,"stirred":false,"name":"bean","seed":18446744073709551615,"served":true})";
  const Soup soup = Read(text);
  EXPECT_EQ(soup, (Soup{Heat::kHigh, 20, 0.25, false, "bean", UINT64_MAX, true}));
  EXPECT_EQ(Written(soup).dump(), text);
  EXPECT_EQ(Read("{}"), Soup{});
}

TEST(OptionTable, WhatDecidesIsReadFirstAndSetsOthersDefaults) {
  EXPECT_EQ(Read(R"({"minutes":20,"heat":"high"})").minutes, 20);
  EXPECT_EQ(Read(R"({"heat":"high"})").minutes, 5);
}

TEST(OptionTable, WhatHasNoMeaningIsRefusedAndNotWritten) {
  EXPECT_EQ(ErrorIn(R"({"stirred":true})"),
            R"(soup.json: "stirred" has no meaning here: nothing burns at "heat" "low")");
  EXPECT_FALSE(Written(Soup{}).contains("stirred"));
  EXPECT_TRUE(Written({.heat = Heat::kHigh}).contains("stirred"));
}

TEST(OptionTable, ErrorsNameThePlaceTheKeyAndWhatWasExpected) {
  EXPECT_EQ(ErrorIn(R"({"minuets":1})"), R"(soup.json: unknown key "minuets" (did you mean "minutes"?))");
  EXPECT_EQ(ErrorIn(R"({"minutes":0})"), R"(soup.json: "minutes": expected 1 to 600, got 0)");
  EXPECT_EQ(ErrorIn(R"({"minutes":"long"})"), R"(soup.json: "minutes": expected 1 to 600, got "long")");
  EXPECT_EQ(ErrorIn(R"({"heat":"hot"})"), R"(soup.json: "heat": expected "low" or "high", got "hot")");
  EXPECT_EQ(ErrorIn(R"({"salt":1})"), R"(soup.json: "salt": expected at least 0 and below 1, got 1)");
  EXPECT_EQ(ErrorIn(R"({"served":1})"), R"(soup.json: "served": expected true or false, got 1)");
  EXPECT_EQ(ErrorIn(R"({"name":1})"), R"(soup.json: "name": expected a string, got 1)");
  EXPECT_EQ(ErrorIn(R"({"seed":-1})"), R"(soup.json: "seed": expected 0 to 18446744073709551615, got -1)");
  EXPECT_EQ(ErrorIn(R"({"minutes":2,"served":true})"), R"(soup.json: "served": raw)");
}

TEST(OptionTable, ChecksTheTextOfAFlag) {
  const OptionTable<Soup> table = SoupTable();
  const auto error = [&](const char* name, const char* text) {
    return TextError(table, *FindOption(table, name), text);
  };
  EXPECT_EQ(error("minutes", "600"), "");
  EXPECT_EQ(error("minutes", "601"), "expected 1 to 600, got 601");
  EXPECT_EQ(error("minutes", "long"), "expected an integer, got long");
  EXPECT_EQ(error("heat", "hihg"), "expected low or high, got \"hihg\" (did you mean \"high\"?)");
  EXPECT_EQ(error("salt", "0.5"), "");
  EXPECT_EQ(error("salt", "nan"), "expected at least 0 and below 1, got nan");
  EXPECT_EQ(error("salt", "much"), "expected a number, got much");
  EXPECT_EQ(error("stirred", "yes"), "expected true or false, got yes");
  EXPECT_EQ(error("name", "12"), "");
}

TEST(OptionTable, ShowsDefaults) {
  const OptionTable<Soup> table = SoupTable();
  std::vector<std::string> defaults;
  for (const Option<Soup>& option : table.options) defaults.push_back(DefaultText(table, option));
  EXPECT_THAT(defaults, ElementsAre("10", "low", "0.5", "true", "leek", "7", "false"));
}

// An option of every further type, and a part with a table of its own.
struct Order {
  std::string table;              // "", "inside" or "outside"
  std::vector<std::string> menu;  // files
  std::string bill;               // file
  double tip = -1;                // < 0: none
  Soup soup;
};

OptionTable<Order> OrderTable() {
  Option<Order> tip = Number("tip", &Order::tip, {.low = 0}, "more");
  tip.write = [](const Order& from) { return from.tip < 0 ? Json() : Json(from.tip); };
  return {{Names("table", &Order::table, {"inside", "outside"}, "where").OrNone(),
           Paths("menu", &Order::menu, "to choose from").Required(), Path("bill", &Order::bill, "FILE", "the end"),
           std::move(tip).NullIsAbsent(),
           OfPart<Order>(
               *FindOption(SoupTable(), "stirred"), [](auto& order) -> auto& { return order.soup; })},
          nullptr,
          {},
          "Order"};
}

TEST(OptionTable, PathsAreWrittenWhole) {
  Order order;
  ReadOptions(OrderTable(), ParseJson(R"({"menu":["/a/../b","-"],"bill":"/x/./y"})", "f"), "f", order);
  EXPECT_THAT(order.menu, ElementsAre("/a/../b", "-"));
  Json json = Json::object();
  WriteOptions(OrderTable(), order, json);
  EXPECT_EQ(json.dump(), R"({"table":"","menu":["/b","-"],"bill":"/x/y"})");
}

TEST(OptionTable, NullIsAbsentWhereTheRowSaysSo) {
  Order order;
  ReadOptions(OrderTable(), ParseJson(R"({"tip":null})", "f"), "f", order);
  EXPECT_EQ(order.tip, -1);
  EXPECT_EQ(ErrorOf([&] { ReadOptions(OrderTable(), ParseJson(R"({"bill":null})", "f"), "f", order); }),
            R"(f: "bill": expected a string, got null)");
}

TEST(OptionTable, AnOptionOfAPartIsOneOfTheWhole) {
  Order order;
  order.soup.heat = Heat::kHigh;
  ReadOptions(OrderTable(), ParseJson(R"({"stirred":false})", "f"), "f", order);
  EXPECT_FALSE(order.soup.stirred);
  order.soup.heat = Heat::kLow;
  EXPECT_THAT(ErrorOf([&] { ReadOptions(OrderTable(), ParseJson(R"({"stirred":true})", "f"), "f", order); }),
              ::testing::HasSubstr("has no meaning here: nothing burns"));
}

TEST(OptionTable, ValidatesWhatAProgramFilledIn) {
  const auto wrong = [](auto&& change) {
    Order order;
    order.menu = {"m"};
    change(order);
    return ErrorOf([&] { ValidateOptions(OrderTable(), order); });
  };
  EXPECT_EQ(wrong([](Order&) {}), "(nothing thrown)");
  EXPECT_EQ(wrong([](Order& order) { order.menu.clear(); }), "menu: required");
  EXPECT_EQ(wrong([](Order& order) { order.table = "inside"; }), "(nothing thrown)");
  EXPECT_EQ(wrong([](Order& order) { order.table = "under"; }),
            R"(table: expected "inside" or "outside", got "under")");
  EXPECT_EQ(ErrorOf([] { ValidateOptions(SoupTable(), Soup{.minutes = 0}); }), "minutes: expected 1 to 600, got 0");
}

TEST(NumberRange, SaysItsBounds) {
  EXPECT_EQ(NumberRange{}.Text(), "a number");
  EXPECT_EQ((NumberRange{.low = 0, .high = 1}).Text(), "0 to 1");
  EXPECT_EQ((NumberRange{.low = 0, .low_open = true}).Text(), "above 0");
  EXPECT_EQ((NumberRange{.low = 0, .high = 1, .low_open = true, .high_open = true}).Text(), "above 0 and below 1");
  EXPECT_FALSE((NumberRange{.low = 0, .low_open = true}).Holds(0));
  EXPECT_TRUE((NumberRange{.low = 0}).Holds(0));
  EXPECT_FALSE(NumberRange{}.Holds(std::numeric_limits<double>::quiet_NaN()));
}

}  // namespace
}  // namespace lshformer
