#include "infer/member_text.h"

#include <gtest/gtest.h>

namespace lshformer {
namespace {

TEST(MemberText, AValueAsItWasWritten) {
  const auto id = [](const std::string& json) { return MemberText(json, "id").value_or("(none)"); };
  EXPECT_EQ(id(R"({"id": 1})"), "1");
  EXPECT_EQ(id(R"({"text": "x", "id":-12345678901234567890123.0e-05 , "more": 2})"), "-12345678901234567890123.0e-05");
  EXPECT_EQ(id(R"({"id": null})"), "null");
  EXPECT_EQ(id(R"({"id": "a } , \" \\ é"})"), R"("a } , \" \\ é")");
  EXPECT_EQ(id("{\"id\" :\t{ \"id\": [ 1 , {\"b\": \" c \"} ], \"d\": true } }"), R"({"id":[1,{"b":" c "}],"d":true})");
  EXPECT_EQ(id(R"({"id": []})"), "[]");
}

TEST(MemberText, OnlyTheObjectsOwnMember) {
  const auto id = [](const std::string& json) { return MemberText(json, "id").value_or("(none)"); };
  EXPECT_EQ(id("{}"), "(none)");
  EXPECT_EQ(id(R"({"a": {"id": 1}, "b": "id", "c": ["id", 2], "idx": 3})"), "(none)");
  EXPECT_EQ(id(R"({"a": {"id": 1}, "b": "id", "c": ["id", 2], "id": 3})"), "3");
  EXPECT_EQ(id(R"({"a\"id": 1, "\u0069d": 4})"), "4");  // the key with an escape in it
}

// What is no JSON gives nothing or a part of itself: it is never read beyond its end.
TEST(MemberText, OfTornTextIsAPartOfIt) {
  const std::string json = R"({"id":{"a":["b",1]},"c":"\"d"})";
  std::vector<std::string> texts{"\"", "\"\\", "}}}}", "{\"id\":", "]", "{\"i\\"};
  for (size_t end = 0; end < json.size(); ++end) texts.emplace_back(json, 0, end);
  for (const std::string& text : texts) EXPECT_NE(text.find(MemberText(text, "id").value_or("")), text.npos) << text;
  EXPECT_EQ(MemberText(json, "id"), R"({"a":["b",1]})");
}

}  // namespace
}  // namespace lshformer
