#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/not_finite.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TempFolder;

std::string ParseError(std::string_view text, const JsonLimits& limits = {}) {
  return ErrorOf([&] { ParseJson(text, "f.json", limits); });
}

TEST(ParseJson, KeepsValuesAndTheOrderOfKeys) {
  const std::string text =
      R"({"z":[1,-2,2.5,1e-3,true,false,null,{}],"a":{"b":"é\n\u00e9\ud83d\ude00"},"m":18446744073709551615})";
  const Json json = ParseJson(text, "f.json");
  EXPECT_EQ(json.dump(), R"({"z":[1,-2,2.5,0.001,true,false,null,{}],"a":{"b":"é\né😀"},"m":18446744073709551615})");
  EXPECT_EQ(json.begin().key(), "z");
  EXPECT_EQ(ParseJson(" 5 ", "f.json"), Json(5));
}

TEST(ParseJson, SaysWhere) {
  EXPECT_EQ(ParseError("{\n  \"a\": 1,\n  \"b\": oops\n}"),
            "f.json: invalid JSON at line 3, column 8: invalid literal, near '\"b\": o'");
  EXPECT_THAT(ParseError("{\"a\" 1}"),
              AllOf(StartsWith("f.json: invalid JSON at column 6: "), HasSubstr("expected ':'")));
  EXPECT_THAT(ParseError("{\"a\":1}\n"), StartsWith("(nothing"));
  // One line that ends in '\n' is still one line.
  EXPECT_THAT(ParseError("{\"a\":x}\n"), StartsWith("f.json: invalid JSON at column 6: "));
  EXPECT_THAT(ParseError(""), StartsWith("f.json: invalid JSON at column 1: "));
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  for (const char* text :
       {"",        " ",      "{",    "[1",        "[1,]",        "{\"a\":1,}",  "{a:1}",  "{'a':1}",     "[1 2]",
        "[01]",    "[+1]",   "[.5]", "[1.]",      "[0x1]",       "[NaNs]",      "[nan]",  "[+Infinity]", "[-NaN]",
        "[1e999]", "tru",    "\"a",  "\"\\x\"",   "\"\\ud800\"", "\"\\udc00\"", "\"\t\"", "[1]]",        "{}{}",
        "{} x",    "/*c*/1", "1//c", "[\"a\nb\"]"})
    EXPECT_THAT(ParseError(text), StartsWith("f.json: invalid JSON at ")) << text;
}

// Python's json writes them. They are values that no key takes, and no line is lost over one that nobody reads.
TEST(ParseJson, NumbersThatAreNotFiniteStandWhereNobodyReads) {
  const Json json =
      ParseJson(R"({"a": NaN, "b": [Infinity, -Infinity,9e9], "c": "NaN, Infinity: \"NaN", "d": 1e9})", "f.json");
  EXPECT_TRUE(IsNotFinite(json["a"]));
  EXPECT_FALSE(json["a"].is_number());
  EXPECT_EQ(ShownValue(json["a"]), "NaN");
  EXPECT_EQ(ShownValue(json["b"][0]), "Infinity");
  EXPECT_EQ(ShownValue(json["b"][1]), "-Infinity");
  EXPECT_EQ(json["b"][2], 9e9);
  EXPECT_EQ(json["c"], "NaN, Infinity: \"NaN");
  EXPECT_EQ(json["d"], 1e9);
  EXPECT_TRUE(IsNotFinite(json, /*inside=*/true));
  EXPECT_FALSE(IsNotFinite(json));
  EXPECT_EQ(ErrorOf([&] { GetNumber(json, "a", "f"); }), "f: \"a\": expected a number, got NaN");
  EXPECT_EQ(ErrorOf([&] { GetString(json, "a", "f"); }), "f: \"a\": expected a string, got NaN");
  EXPECT_THAT(ParseError("[NaN, }"), StartsWith("f.json: invalid JSON at column 7: ")) << "places stay";
  Json written = json;
  NullNotFinite(written);
  EXPECT_EQ(written.dump(), R"({"a":null,"b":[null,null,9000000000.0],"c":"NaN, Infinity: \"NaN","d":1000000000.0})");
}

TEST(ParseJson, SkipsAByteOrderMarkAtTheStartOnly) {
  EXPECT_EQ(ParseJson("\xEF\xBB\xBF{}", "f.json"), Json::object());
  EXPECT_THAT(ParseError("{\xEF\xBB\xBF}"), StartsWith("f.json: invalid JSON at "));
  EXPECT_THAT(ParseError("\xEF\xBB"), StartsWith("f.json: invalid JSON at "));
}

TEST(ParseJson, RefusesNulBytes) {
  EXPECT_EQ(ParseError(std::string_view("{}\0garbage", 10)), "f.json: invalid JSON at column 3: NUL byte");
  EXPECT_EQ(ParseError(std::string_view("\"a\0b\"", 5)), "f.json: invalid JSON at column 3: NUL byte");
}

TEST(ParseJson, RefusesInvalidUtf8) {
  for (const char* text :
       {"\"\xFF\"", "\"\xC0\xAF\"", "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xE2\x82\"", "\"\x80\"", "\xFF"})
    EXPECT_THAT(ParseError(text), StartsWith("f.json: invalid JSON at ")) << Shown(text);
}

TEST(ParseJson, RefusesDuplicateKeysAtAnyDepthAndInLargeObjects) {
  EXPECT_EQ(ParseError(R"({"a":1,"b":2,"a":3})"), "f.json: duplicate key \"a\" in JSON");
  EXPECT_EQ(ParseError(R"([{"x":{"a":1,"\u0061":3}}])"), "f.json: duplicate key \"a\" in JSON");
  EXPECT_THAT(ParseError(R"({"a":{"a":{"a":1}},"b":{"a":1}})"), StartsWith("(nothing"));
  for (const int last : {0, 17, 31, 32, 33, 499, 500}) {  // around the change from linear search to a set
    std::string text = "{";
    for (int i = 0; i < 500; ++i) text += fmt::format("\"k{}\":{},", i, i);
    text += fmt::format("\"k{}\":1}}", last);
    if (last < 500)
      EXPECT_EQ(ParseError(text), fmt::format("f.json: duplicate key \"k{}\" in JSON", last));
    else
      EXPECT_EQ(ParseJson(text, "f.json").size(), 501u);
  }
}

TEST(ParseJson, BoundsDepthBeforeItGoesThere) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_THAT(ParseError(nested(64)), StartsWith("(nothing"));
  EXPECT_EQ(ParseError(nested(65)), "f.json: JSON is nested deeper than 64 levels");
  EXPECT_EQ(ParseError(std::string(50'000'000, '[')), "f.json: JSON is nested deeper than 64 levels");
  EXPECT_EQ(ParseError("{\"a\":{\"a\":{}}}", {.depth = 2}), "f.json: JSON is nested deeper than 2 levels");
  EXPECT_EQ(ParseError("[]", {.depth = 0}), "f.json: JSON is nested deeper than 0 levels");
  EXPECT_THAT(ParseError("1", {.depth = 0}), StartsWith("(nothing"));
}

TEST(ParseJson, BoundsBytesAndValues) {
  EXPECT_EQ(ParseError("[1, 2]", {.bytes = 5}), "f.json: JSON has 6 bytes, the limit is 5");
  EXPECT_THAT(ParseError("[1, 2]", {.bytes = 6, .values = 3}), StartsWith("(nothing"));
  EXPECT_EQ(ParseError("[1, 2]", {.values = 2}), "f.json: JSON has more than 2 values");
}

// 200,000 keys in one object: quadratic work would be 2·10^10 comparisons and run into the time limit of the test.
TEST(ParseJson, LargeObjectsTakeLinearTime) {
  std::string text = "{\"first\":0";
  for (int i = 0; i < 200'000; ++i) text += fmt::format(",\"key number {}\":0", i);
  EXPECT_EQ(ParseJson(text + "}", "f.json").size(), 200'001u);
}

TEST(ParseJson, ErrorsAreShortWhateverTheInput) {
  const std::string long_key(100'000, 'k');
  EXPECT_THAT(ParseError("{\"" + long_key + "\":1,\"" + long_key + "\":2}"), StartsWith("f.json: duplicate key"));
  EXPECT_THAT(ParseError("[\"" + std::string(100'000, 'x')), StartsWith("f.json: invalid JSON"));
  EXPECT_THAT(ParseError("[\"" + std::string(1000, '\x01') + "\"]"), StartsWith("f.json: invalid JSON"));
  EXPECT_THAT(ParseError("\n\n[\"\xFF\xFE\n"), StartsWith("f.json: invalid JSON at line 3"));
}

TEST(ReadJsonFile, NamesTheFile) {
  TempFolder folder;
  EXPECT_EQ(ReadJsonFile(folder.Write("a.json", "[1]")), Json::parse("[1]"));
  EXPECT_EQ(ErrorOf([&] { ReadJsonFile(folder / "none.json"); }),
            folder / "none.json" + ": cannot open: No such file or directory");
  const std::string path = folder.Write("bad.json", "[1");
  EXPECT_THAT(ErrorOf([&] { ReadJsonFile(path); }),
              StartsWith(path + ": invalid JSON at column 2: unexpected end of input"));
  EXPECT_THAT(ErrorOf([&] { ReadJsonFile(folder.Write("blank.json", " \r\n\t")); }),
              AllOf(StartsWith(folder / "blank.json" + ": invalid JSON at "), EndsWith(": it is blank")));
  EXPECT_EQ(ErrorOf([&] { ReadJsonFile(path, {.bytes = 1}); }), path + ": has more than 1 bytes");
}

TEST(JsonAccess, IntegersWithinTheirRange) {
  const Json json =
      ParseJson(R"({"n":5,"low":-3,"huge":18446744073709551615,"real":5.0,"text":"5","none":null,"list":[1,2]})", "f");
  EXPECT_EQ(GetInt(json, "n", "f"), 5);
  EXPECT_EQ(GetInt(json, "low", "f", -3, 0), -3);
  const auto error = [&](const char* key, int64_t low = INT64_MIN, int64_t high = INT64_MAX) {
    return ErrorOf([&] { GetInt(json, key, "f", low, high); });
  };
  EXPECT_EQ(error("n", 6, 9), "f: \"n\": expected 6 to 9, got 5");
  EXPECT_EQ(error("n", 6), "f: \"n\": expected an integer ≥ 6, got 5");
  EXPECT_EQ(error("n", INT64_MIN, 4), "f: \"n\": expected an integer ≤ 4, got 5");
  EXPECT_EQ(error("huge"), "f: \"huge\": expected an integer, got 18446744073709551615");
  EXPECT_EQ(error("real"), "f: \"real\": expected an integer, got 5.0");
  EXPECT_EQ(error("text"), "f: \"text\": expected an integer, got \"5\"");
  EXPECT_EQ(error("none"), "f: \"none\": expected an integer, got null");
  EXPECT_EQ(error("list"), "f: \"list\": expected an integer, got a list of 2 values");
  EXPECT_EQ(error("absent"), "f: \"absent\" is missing");
  EXPECT_EQ(ErrorOf([&] { GetInt(Json(3), "n", "f"); }), "f: \"n\" is missing");
}

TEST(JsonAccess, OtherTypes) {
  const Json json = ParseJson(R"({"n":5,"x":0.5,"yes":true,"s":"text","none":null,"o":{}})", "f");
  EXPECT_EQ(GetNumber(json, "n", "f"), 5);
  EXPECT_EQ(GetNumber(json, "x", "f"), 0.5);
  EXPECT_EQ(GetBool(json, "yes", "f"), true);
  EXPECT_EQ(GetString(json, "s", "f"), "text");
  EXPECT_TRUE(HasValue(json, "n"));
  EXPECT_FALSE(HasValue(json, "none"));
  EXPECT_FALSE(HasValue(json, "absent"));
  EXPECT_FALSE(HasValue(Json(5), "n"));
  EXPECT_EQ(ErrorOf([&] { GetNumber(json, "s", "f"); }), "f: \"s\": expected a number, got \"text\"");
  EXPECT_EQ(ErrorOf([&] { GetBool(json, "n", "f"); }), "f: \"n\": expected true or false, got 5");
  EXPECT_EQ(ErrorOf([&] { GetString(json, "o", "f"); }), "f: \"o\": expected a string, got an object");
}

TEST(Nearest, FindsTyposAndNothingElse) {
  const std::vector<std::string> keys{"bands", "hashes", "table_size", "fill", "pairs", "center_keys", "min_length"};
  EXPECT_EQ(Nearest("band", keys), "bands");
  EXPECT_EQ(Nearest("bnads", keys), "bands");  // neighbours swapped
  EXPECT_EQ(Nearest("tablesize", keys), "table_size");
  EXPECT_EQ(Nearest("table-size", keys), "table_size");
  EXPECT_EQ(Nearest("CenterKeys", keys), "center_keys");
  EXPECT_EQ(Nearest("minlenght", keys), "min_length");
  EXPECT_EQ(Nearest("foo", keys), "");
  EXPECT_EQ(Nearest("temperature", keys), "");
  EXPECT_EQ(Nearest("", keys), "");
  EXPECT_EQ(Nearest("x", {"a", "b"}), "");
  EXPECT_EQ(Nearest(std::string(100'000, 'b'), keys), "");
  EXPECT_EQ(Suggestion("band", keys), " (did you mean \"bands\"?)");
  EXPECT_EQ(Suggestion("zzz", keys), "");
}

TEST(Shown, IsValidUtf8OnOneShortLine) {
  EXPECT_EQ(Shown("plain ä😀 text"), "plain ä😀 text");
  EXPECT_EQ(Shown("a\nb\t\x7F"), "a\\x0Ab\\x09\\x7F");
  EXPECT_EQ(Shown("\xFF\xC3\xE2\x82"), "\\xFF\\xC3\\xE2\\x82");
  EXPECT_EQ(Shown("\xC0\x80\xED\xA0\x80\xF4\x90\x80\x80"), "\\xC0\\x80\\xED\\xA0\\x80\\xF4\\x90\\x80\\x80");
  EXPECT_EQ(Shown("a\u0085b\u2028c"), "a\\xC2\\x85b\\xE2\\x80\\xA8c");
  EXPECT_EQ(Shown("abcdef", 3), "abc…");
  EXPECT_EQ(Shown("ääää", 3), "ää…");
  EXPECT_EQ(Shown("abc", 3), "abc");
}

}  // namespace
}  // namespace lshformer
