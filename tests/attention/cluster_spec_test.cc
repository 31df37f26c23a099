// Specs of clustered and of local attention.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "attention/spec_changes.h"
#include "base/error.h"
#include "base/option_table.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;

AttentionSpec ParsedSpec(const std::string& text) {
  return ParseAttentionSpec(ParseJson(text, "f"), "config.json: \"attention\"");
}
std::string ErrorOfSpec(const std::string& text) {
  const std::string message = ErrorOf([&] { ParsedSpec(text); });
  const std::string where = "config.json: \"attention\": ";
  return message.starts_with(where) ? message.substr(where.size()) : message;
}

TEST(ParseAttentionSpec, LocalHasAWindowAlone) {
  const AttentionSpec local = ParsedSpec(R"("local")");
  EXPECT_EQ(ToJson(local).dump(), R"({"type":"local","window":64})");
  const AttentionSpec five = ParsedSpec(R"({"type":"local","window":5})");
  EXPECT_EQ(five, (AttentionSpec{.kind = LocalAttention{}, .window = 5}));
  EXPECT_EQ(ParsedSpec(ToJson(five).dump()), five);
  EXPECT_EQ(ShortName(five), "local, window 5");
  EXPECT_EQ(ParsedSpec(R"({"type":"local","window":0})").window, 0);
  EXPECT_FALSE(IsSparse(local));
  EXPECT_FALSE(IsSparseAt(local, 100'000));
  EXPECT_EQ(ErrorOfSpec(R"({"type":"local","window":-1})"), R"("window": expected 0 to 2147483647, got -1)");
  EXPECT_EQ(ErrorOfSpec(R"({"type":"local","window":2.5})"), R"("window": expected 0 to 2147483647, got 2.5)");
  EXPECT_EQ(ErrorOfSpec(R"({"type":"local","min_length":8})"), R"("min_length" has no meaning for type "local")");
  EXPECT_EQ(ErrorOfSpec(R"([{"type":"local"},{"type":"clustered"}])"),
            R"(heads that differ are clustered or dense, got "local")");
}

TEST(ParseAttentionSpec, Thresholds) {
  const AttentionSpec spec = ParsedSpec(R"({"type":"clustered","cluster":16,"threshold":0.44})");
  const auto& clustered = As<ClusteredAttention>(spec);
  EXPECT_EQ(clustered.threshold, 0.44);
  EXPECT_EQ(ParsedSpec(ToJson(spec).dump()), spec);
  EXPECT_EQ(ShortName(spec), "16 × 4, threshold 0.44");
  EXPECT_EQ(LevelsOf(clustered, 1000).back().open, 16);  // at most
  EXPECT_EQ(ShortestSparse(spec), 81);
  EXPECT_EQ(ParsedSpec(R"({"type":"clustered","threshold":"none"})"), ParsedSpec(R"("clustered")"));
  EXPECT_EQ(LevelsOf({.cluster = {32, 8}, .open = {2, 3}, .threshold = -1}, 1000)[0].open, 2);
  EXPECT_EQ(LevelsOf({.cluster = {32, 8}, .open = {2, 3}, .threshold = -1}, 1000)[1].open, 12);
  for (const LshKey& key : LshKeys()) {
    if (key.option->name != "threshold") continue;
    for (const auto& [flag, value] : {std::pair{"0.44", Json(0.44)}, {"-1", Json(-1)}, {"none", Json("none")}})
      EXPECT_EQ(key.option->from_text(flag), value) << flag;
  }
  const auto error = [](const std::string& keys) { return ErrorOfSpec(R"({"type":"clustered",)" + keys + "}"); };
  EXPECT_EQ(error(R"("threshold":"low")"), R"("threshold": expected "none" or a number, got "low")");
  EXPECT_EQ(error(R"("threshold":true)"), R"("threshold": expected "none" or a number, got true)");
  EXPECT_EQ(error(R"("threshold":0.5,"open":0)"),
            R"("threshold": the best cluster is always opened, expected an "open" of at least 1, got 0)");
  EXPECT_EQ(ErrorOfSpec(R"({"type":"simhash","threshold":1})"), R"("threshold" has no meaning for type "simhash")");
}

TEST(PairsInWindows, AreThoseNearTheDiagonal) {
  for (const int64_t window : {0, 1, 3, 8, 9, 50, INT32_MAX}) {
    for (const int64_t length : {0, 1, 2, 7, 9, 10, 30}) {
      int64_t pairs = 0;
      for (int64_t i = 0; i < length; ++i)
        for (int64_t j = 0; j < length; ++j) pairs += std::abs(i - j) <= window ? 1 : 0;
      EXPECT_EQ(PairsInWindows(window, length), pairs) << window << " " << length;
    }
  }
}

TEST(ParseAttentionSpec, Bundles) {
  const AttentionSpec bundled = ParsedSpec(R"({"type":"clustered","cluster":64,"bundle":48})");
  EXPECT_EQ(As<ClusteredAttention>(bundled).bundle, 48);
  EXPECT_THAT(ToJson(bundled).dump(), HasSubstr(R"("groups":4,"bundle":48,)"));
  EXPECT_EQ(ParsedSpec(ToJson(bundled).dump()), bundled);
  EXPECT_EQ(ShortName(bundled), "64 × 4, bundles of 48");
  EXPECT_EQ(ParsedSpec(R"({"type":"clustered","bundle":1})"), ParsedSpec(R"("clustered")"));
  const auto error = [](const std::string& keys) { return ErrorOfSpec(R"({"type":"clustered",)" + keys + "}"); };
  EXPECT_EQ(error(R"("bundle":0)"), R"("bundle": expected 1 to 64, got 0)");
  EXPECT_EQ(error(R"("bundle":65)"), R"("bundle": expected 1 to 64, got 65)");
  EXPECT_EQ(error(R"("bundle":64,"cluster":[128,16])"),
            R"("bundle": 64 queries share their openings where "cluster" is one number or auto, got [128,16])");
  EXPECT_EQ(ErrorOfSpec(R"({"type":"simhash","bundle":2})"), R"("bundle" has no meaning for type "simhash")");
}

// By the length of a sequence (docs/attention.md).
TEST(ParseAttentionSpec, LevelsByTheLength) {
  const auto sizes = [](const std::string& spec, int64_t length) {
    std::vector<int> found;
    for (const ClusterLevel& level : LevelsOf(As<ClusteredAttention>(ParsedSpec(spec)), length)) {
      found.push_back(level.cluster);
      EXPECT_EQ(level.open, 4);
    }
    return found;
  };
  const std::string automatic = R"("clustered")";
  EXPECT_EQ(sizes(automatic, 1), std::vector<int>{16});
  EXPECT_EQ(sizes(automatic, 2048), std::vector<int>{16});
  EXPECT_EQ(sizes(automatic, 2049), std::vector<int>{32});
  EXPECT_EQ(sizes(automatic, 8192), std::vector<int>{32});
  EXPECT_EQ(sizes(automatic, 8193), (std::vector<int>{256, 32}));
  EXPECT_EQ(sizes(automatic, 65536), (std::vector<int>{256, 32}));
  EXPECT_EQ(sizes(automatic, 65537), (std::vector<int>{2048, 256, 32}));
  EXPECT_EQ(sizes(automatic, 524289), (std::vector<int>{16384, 2048, 256, 32}));
  EXPECT_EQ(sizes(automatic, int64_t{1} << 31), (std::vector<int>{16384, 2048, 256, 32}));
  const std::string bundled = R"({"type":"clustered","bundle":64})";
  EXPECT_EQ(sizes(bundled, 2048), std::vector<int>{16});
  EXPECT_EQ(sizes(bundled, 100'000), std::vector<int>{32});
  // What opens all clusters of 32 has smaller ones, what opens none no levels.
  const auto clusters = [](int open, int64_t length) {
    AttentionSpec spec = ParsedSpec(R"("clustered")");
    As<ClusteredAttention>(spec).open = {open};
    EXPECT_EQ(ShortestSparse(spec), (open + 1) * 16 + 1);
    const std::vector<ClusterLevel> levels = LevelsOf(As<ClusteredAttention>(spec), length);
    return std::pair(levels.size(), levels.back().cluster);
  };
  EXPECT_EQ(clusters(100, 3232), std::pair(size_t{1}, 16));
  EXPECT_EQ(clusters(100, 3233), std::pair(size_t{1}, 32));
  EXPECT_EQ(clusters(1000, 32'032), std::pair(size_t{1}, 16));
  EXPECT_EQ(clusters(1000, 32'033), std::pair(size_t{2}, 32));
  EXPECT_EQ(clusters(0, 2049), std::pair(size_t{1}, 32));
  EXPECT_EQ(clusters(0, 100'000), std::pair(size_t{1}, 32));
}

// The largest clusters first; a number of opened ones for each level.
TEST(ParseAttentionSpec, LevelsOfClusters) {
  const AttentionSpec two = ParsedSpec(R"({"type":"clustered","open":[4,3],"cluster":[128,16]})");
  EXPECT_EQ(As<ClusteredAttention>(two).cluster, (std::vector<int>{128, 16}));
  EXPECT_EQ(As<ClusteredAttention>(two).open, (std::vector<int>{4, 3}));
  EXPECT_THAT(ToJson(two).dump(), HasSubstr(R"("cluster":[128,16],"open":[4,3],)"));
  EXPECT_EQ(ParsedSpec(ToJson(two).dump()), two);
  EXPECT_EQ(ShortestSparse(two), 65);
  EXPECT_EQ(ShortName(two), "128/16 × 4/3");
  EXPECT_EQ(As<ClusteredAttention>(ParsedSpec(R"({"type":"clustered","cluster":[128,16]})")).open,
            (std::vector<int>{4, 4}));
  EXPECT_EQ(ParsedSpec(R"({"type":"clustered","cluster":[16],"open":[4]})"),
            ParsedSpec(R"({"type":"clustered","cluster":16})"));
  const AttentionSpec automatic = ParsedSpec(R"({"type":"clustered","cluster":"auto","open":3})");
  EXPECT_THAT(ToJson(automatic).dump(), HasSubstr(R"("cluster":"auto","open":3,)"));
  EXPECT_EQ(ShortName(automatic), "auto × 3");
  EXPECT_EQ(ShortestSparse(automatic), 65);
  const auto error = [](const std::string& keys) { return ErrorOfSpec(R"({"type":"clustered",)" + keys + "}"); };
  const std::string size = R"("cluster": expected 1 to 65536, or a list of such numbers, got )";
  EXPECT_EQ(error(R"("cluster":0)"), size + "0");
  EXPECT_EQ(error(R"("cluster":"large")"), size + "\"large\"");
  EXPECT_EQ(error(R"("cluster":[])"), size + "a list of 0 values");
  EXPECT_EQ(error(R"("cluster":[16,0])"), size + "0");
  EXPECT_EQ(error(R"("cluster":[100,16])"),
            R"("cluster": expected sizes that are multiples of the next, got 100 before 16)");
  EXPECT_EQ(error(R"("cluster":[16,16])"),
            R"("cluster": expected sizes that are multiples of the next, got 16 before 16)");
  EXPECT_EQ(error(R"("open":-1)"), R"("open": expected 0 to 1024, or a list of such numbers, got -1)");
  EXPECT_EQ(error(R"("open":[4,4])"), R"("open": expected one number, as "cluster" has, got 2)");
  EXPECT_EQ(error(R"("cluster":"auto","open":[4,4])"), R"("open": expected one number, as "cluster" has, got 2)");
  EXPECT_EQ(error(R"("cluster":[128,16],"open":4)"), R"("open": expected 2 numbers, as "cluster" has, got 1)");
  EXPECT_EQ(error(R"("cluster":[128,16],"open":[0,4])"), R"("open": expected 0 in its last place at most, got [0,4])");
}

}  // namespace
}  // namespace lshformer
