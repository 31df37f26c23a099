#include "base/attention_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;

AttentionSpec Parse(const std::string& text) {
  return ParseAttentionSpec(ParseJson(text, "f"), "config.json: \"attention\"");
}
std::string ParseError(const std::string& text) {
  const std::string message = ErrorOf([&] { Parse(text); });
  const std::string where = "config.json: \"attention\": ";
  return message.starts_with(where) ? message.substr(where.size()) : message;
}

TEST(ParseAttentionSpec, Defaults) {
  AttentionSpec simhash;
  simhash.type = AttentionType::kSimHash;
  EXPECT_EQ(Parse(R"("dense")"), AttentionSpec{});
  EXPECT_EQ(Parse(R"({"type":"dense"})"), AttentionSpec{});
  EXPECT_EQ(Parse(R"("simhash")"), simhash);
  EXPECT_EQ(Parse(R"({"type":"simhash"})"), simhash);
  // As docs/attention.md promises.
  EXPECT_EQ(ToJson(simhash).dump(),
            R"({"type":"simhash","bands":2,"hashes":1,"table_size":64,"fill":"zero","pairs":"full",)"
            R"("resample":"call","center_keys":false,"min_length":0,"seed":0})");
  EXPECT_EQ(ToJson(AttentionSpec{}).dump(), R"({"type":"dense","seed":0})");
}

TEST(ParseAttentionSpec, EveryKeyGoesThereAndBack) {
  const std::string text =
      R"({"type":"simhash","bands":62,"hashes":4,"table_size":256,"fill":"mean","pairs":"reference",)"
      R"("resample":"never","center_keys":true,"min_length":384,"seed":18446744073709551615})";
  const AttentionSpec spec = Parse(text);
  EXPECT_EQ(spec.bands, 62);
  EXPECT_EQ(spec.hashes, 4);
  EXPECT_EQ(spec.table_size, 256);
  EXPECT_EQ(spec.fill, Fill::kMean);
  EXPECT_EQ(spec.pairs, Pairs::kReference);
  EXPECT_EQ(spec.resample, Resample::kNever);
  EXPECT_TRUE(spec.center_keys);
  EXPECT_EQ(spec.min_length, 384);
  EXPECT_EQ(spec.seed, UINT64_MAX);
  EXPECT_EQ(ToJson(spec).dump(), text);
  EXPECT_EQ(Parse(R"({"type":"simhash","fill":"none"})").fill, Fill::kNone);
  EXPECT_EQ(Parse(R"({"type":"dense","seed":7})").seed, 7u);
}

TEST(ParseAttentionSpec, RefusesOtherTypes) {
  EXPECT_EQ(ParseError(R"("reformer")"), R"("type": expected "dense" or "simhash", got "reformer")");
  EXPECT_EQ(ParseError(R"({"type":"Dense"})"), R"("type": expected "dense" or "simhash", got "Dense")");
  EXPECT_EQ(ParseError(R"({"type":1})"), R"("type": expected a string, got 1)");
  EXPECT_EQ(ParseError(R"({"bands":2})"), R"("type" is missing)");
  EXPECT_EQ(ParseError("5"), "expected a type name or an object, got 5");
  EXPECT_EQ(ParseError("[]"), "expected a type name or an object, got a list of 0 values");
}

TEST(ParseAttentionSpec, RefusesUnknownKeysWithASuggestion) {
  EXPECT_EQ(ParseError(R"({"type":"simhash","band":2})"), R"(unknown key "band" (did you mean "bands"?))");
  EXPECT_EQ(ParseError(R"({"type":"simhash","tablesize":2})"),
            R"(unknown key "tablesize" (did you mean "table_size"?))");
  EXPECT_EQ(ParseError(R"({"type":"simhash","temperature":2})"), R"(unknown key "temperature")");
  EXPECT_EQ(ParseError(R"({"type":"dense","bands":2})"), R"("bands" has no meaning for type "dense")");
  EXPECT_EQ(ParseError(R"({"type":"dense","min_length":2})"), R"("min_length" has no meaning for type "dense")");
}

TEST(ParseAttentionSpec, RefusesValuesOutOfRange) {
  const auto error = [](const std::string& member) { return ParseError(R"({"type":"simhash",)" + member + "}"); };
  EXPECT_EQ(error(R"("bands":0)"), R"("bands": expected 1 to 62, got 0)");
  EXPECT_EQ(error(R"("bands":63)"), R"("bands": expected 1 to 62, got 63)");
  EXPECT_EQ(error(R"("bands":"auto")"), R"("bands": expected 1 to 62, got "auto")");
  EXPECT_EQ(error(R"("bands":2.5)"), R"("bands": expected 1 to 62, got 2.5)");
  EXPECT_EQ(error(R"("hashes":0)"), R"("hashes": expected 1 to 1024, got 0)");
  EXPECT_EQ(error(R"("hashes":-1)"), R"("hashes": expected 1 to 1024, got -1)");
  EXPECT_EQ(error(R"("table_size":0)"), R"("table_size": expected 1 to 16777216, got 0)");
  EXPECT_EQ(error(R"("table_size":1000000000000)"), R"("table_size": expected 1 to 16777216, got 1000000000000)");
  EXPECT_EQ(error(R"("min_length":-1)"), R"("min_length": expected 0 to 2147483647, got -1)");
  EXPECT_EQ(error(R"("fill":"max")"), R"("fill": expected "zero", "mean" or "none", got "max")");
  EXPECT_EQ(error(R"("fill":null)"), R"("fill": expected a string, got null)");
  EXPECT_EQ(error(R"("pairs":"half")"), R"("pairs": expected "full" or "reference", got "half")");
  EXPECT_EQ(error(R"("resample":true)"), R"("resample": expected a string, got true)");
  EXPECT_EQ(error(R"("center_keys":1)"), R"("center_keys": expected true or false, got 1)");
  EXPECT_EQ(error(R"("seed":-1)"), R"("seed": expected 0 to 18446744073709551615, got -1)");
  EXPECT_EQ(error(R"("seed":1.5)"), R"("seed": expected 0 to 18446744073709551615, got 1.5)");
}

TEST(UsesHash, FromMinLengthOn) {
  AttentionSpec spec;
  spec.min_length = 4;
  EXPECT_FALSE(UsesHash(spec, 100));  // dense
  spec.type = AttentionType::kSimHash;
  EXPECT_FALSE(UsesHash(spec, 3));
  EXPECT_TRUE(UsesHash(spec, 4));
  spec.min_length = 0;
  EXPECT_TRUE(UsesHash(spec, 0));
}

}  // namespace
}  // namespace lshformer
