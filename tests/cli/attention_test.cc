// The command `attention`: exact and SimHash attention against the reference, what is written, what is refused.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "cli/attention_command.h"
#include "util/rounding.h"

namespace lshformer {
namespace {

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::OfLargest;
using testing::WithinRounding;

TEST_F(AttentionCommand, WritesResultsBucketsGradientsAndCounts) {
  AddOperands(6);
  AddIntegers("cu_seqlens", {3}, {0, 4, 6});
  ASSERT_EQ(Run({"--attention", "simhash", "--lsh_hashes", "3"}).status, 0);
  const SafetensorsFile out(Output());
  EXPECT_EQ(out.Get("output", DType::kF32).shape, (std::vector<int64_t>{6, 2, 4}));
  EXPECT_EQ(out.Get("lse", DType::kF32).shape, (std::vector<int64_t>{6, 2}));
  EXPECT_EQ(out.Get("query_buckets", DType::kI32).shape, (std::vector<int64_t>{2, 3, 6}));
  EXPECT_EQ(out.Get("key_buckets", DType::kI32).shape, (std::vector<int64_t>{2, 3, 6}));
  for (const char* name : {"grad_query", "grad_key", "grad_value"})
    EXPECT_EQ(out.Get(name, DType::kF32).shape, (std::vector<int64_t>{6, 2, 4}));
  EXPECT_EQ(out.metadata().at("pairs_total"), "40");
  EXPECT_EQ(out.metadata().at("hash_flops"), std::to_string(2 * 2 * 4 * (6 + 6) * 3 * 2));
}

TEST_F(AttentionCommand, TheReferenceAgrees) {
  AddOperands(9);
  for (const char* fill : {"zero", "mean", "none"}) {
    ASSERT_EQ(Run({"--attention", "simhash", "--lsh_fill", fill}).status, 0);
    const std::vector<float> fast = Floats(SafetensorsFile(Output()), "output");
    ASSERT_EQ(Run({"--attention", "simhash", "--lsh_fill", fill, "--reference"}).status, 0);
    const std::vector<float> reference = Floats(SafetensorsFile(Output()), "output");
    for (size_t i = 0; i < fast.size(); ++i) EXPECT_NEAR(fast[i], reference[i], 1e-5) << fill << " " << i;
  }
}

struct FileCase {
  const char* name;
  std::vector<std::string> flags;
  int head_dim = 16, hashes = 1;
  HashFrom hash = HashFrom::kSeed;
  bool center_keys = false, gradients = true;
};

// The fast kernels against the oracle, from file to file, over ragged sequences.
class AttentionOnFiles : public AttentionCommand, public ::testing::WithParamInterface<FileCase> {
 protected:
  static constexpr int kHeads = 2, kBands = 3, kTable = 16;
  const std::vector<int32_t> borders_{0, 0, 1, 301, 301, 310};
  const int64_t tokens_ = borders_.back();

  std::vector<int32_t> Draw(int64_t count, uint64_t seed) const {
    PhiloxStream stream(StreamKey(seed, 0, 0, 0, Purpose::kPlanes));
    std::vector<int32_t> values(count);
    for (int32_t& value : values) value = static_cast<int32_t>(stream.Below(kTable));
    return values;
  }

  // Buckets [heads, hashes, tokens] of x by docs/attention.md, in double.
  std::vector<int32_t> HashByHand(const std::vector<float>& x, bool center, const std::vector<float>& planes,
                                  const std::vector<int32_t>& coefficients) const {
    const int head_dim = GetParam().head_dim, hashes = GetParam().hashes;
    std::vector<double> rows(x.begin(), x.end());
    const int64_t width = int64_t{kHeads} * head_dim;
    for (size_t b = 0; center && b + 1 < borders_.size(); ++b) {
      for (int64_t k = 0; k < width; ++k) {
        double mean = 0;
        for (int64_t t = borders_[b]; t < borders_[b + 1]; ++t) mean += x[t * width + k];
        mean /= borders_[b + 1] - borders_[b];
        for (int64_t t = borders_[b]; t < borders_[b + 1]; ++t) rows[t * width + k] -= mean;
      }
    }
    std::vector<int32_t> buckets;
    for (int64_t hash = 0; hash < int64_t{kHeads} * hashes; ++hash) {
      for (int64_t t = 0; t < tokens_; ++t) {
        const double* row = rows.data() + t * width + hash / hashes * head_dim;
        int64_t sum = 0;
        for (int64_t plane = hash * kBands; plane < (hash + 1) * kBands; ++plane) {
          const double dot = std::inner_product(row, row + head_dim, planes.begin() + plane * head_dim, 0.0);
          if (dot > 0) sum += coefficients[plane];
        }
        buckets.push_back(static_cast<int32_t>(sum % kTable));
      }
    }
    return buckets;
  }
};

TEST_P(AttentionOnFiles, AgreesWithTheReference) {
  const FileCase& c = GetParam();
  const std::vector<int64_t> shape{tokens_, kHeads, c.head_dim}, hashed{kHeads, c.hashes, tokens_};
  const std::vector<float>& query = AddNormal("query", shape, 1);
  const std::vector<float>& key = AddNormal("key", shape, 2);
  AddNormal("value", shape, 3);
  if (c.gradients) AddNormal("grad_output", shape, 4);
  AddIntegers("cu_seqlens", {static_cast<int64_t>(borders_.size())}, borders_);
  std::vector<int32_t> query_buckets, key_buckets;  // where this test knows them
  if (c.hash == HashFrom::kPlanes) {
    const std::vector<float>& planes = AddNormal("planes", {kHeads, c.hashes, kBands, c.head_dim}, 5);
    const std::vector<int32_t> coefficients = Draw(int64_t{kHeads} * c.hashes * kBands, 6);
    AddIntegers("coefficients", {kHeads, c.hashes, kBands}, coefficients);
    query_buckets = HashByHand(query, false, planes, coefficients);
    key_buckets = HashByHand(key, c.center_keys, planes, coefficients);
  } else if (c.hash == HashFrom::kBuckets) {
    AddIntegers("query_buckets", hashed, query_buckets = Draw(kHeads * c.hashes * tokens_, 7));
    AddIntegers("key_buckets", hashed, key_buckets = Draw(kHeads * c.hashes * tokens_, 8));
  }

  ASSERT_NO_FATAL_FAILURE(RunBoth(c.flags));
  const SafetensorsFile fast(Fast()), reference(Output());

  ASSERT_EQ(fast.tensors().size(), reference.tensors().size());
  EXPECT_EQ(fast.Find("grad_query") != nullptr, c.gradients);
  for (const auto& [name, view] : reference.tensors()) {
    SCOPED_TRACE(name);
    EXPECT_EQ(fast.Get(name, view.dtype).shape, view.shape);
    if (view.dtype != DType::kF32) {
      EXPECT_EQ(Integers(fast, name.c_str()), Integers(reference, name.c_str()));
      continue;
    }
    std::vector<float> want = Floats(reference, name.c_str());
    const std::vector<float> got = Floats(fast, name.c_str());
    EXPECT_EQ(static_cast<int64_t>(want.size()), tokens_ * kHeads * (name == "lse" ? 1 : c.head_dim));
    std::vector<float> finite = want;  // the lse of a query that sees nothing is −∞ on both sides
    std::erase_if(finite, [](float x) { return !std::isfinite(x); });
    EXPECT_THAT(got, WithinRounding(want, OfLargest(finite, 1e-5)));
    EXPECT_GT(OfLargest(finite, 1), 0.01);
  }
  for (const char* count : {"pairs_computed", "pairs_total", "hash_flops"})
    EXPECT_EQ(fast.metadata().at(count), reference.metadata().at(count)) << count;
  if (!query_buckets.empty()) {
    EXPECT_EQ(Integers(fast, "query_buckets"), query_buckets);
    EXPECT_EQ(Integers(fast, "key_buckets"), key_buckets);
    EXPECT_EQ(fast.metadata().at("hash_flops") == "0", c.hash == HashFrom::kBuckets);
  }
}

std::vector<std::string> SimHashFlags(int hashes, const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags{"--attention",      "simhash", "--lsh_bands",  "3",
                                 "--lsh_table_size", "16",      "--lsh_hashes", std::to_string(hashes)};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

INSTANTIATE_TEST_SUITE_P(
    Modes, AttentionOnFiles,
    ::testing::Values(
        FileCase{"dense", {"--attention", "dense"}}, FileCase{"dense_64", {"--attention", "dense"}, 64},
        FileCase{"dense_256", {"--attention", "dense"}, 256},
        FileCase{"dense_forward", {"--attention", "dense"}, 16, 1, HashFrom::kSeed, false, false},
        FileCase{"seed_zero_h1", SimHashFlags(1)},
        FileCase{"seed_mean_h3_64", SimHashFlags(3, {"--lsh_fill", "mean"}), 64, 3},
        FileCase{"seed_none_h2_256", SimHashFlags(2, {"--lsh_fill", "none"}), 256, 2},
        FileCase{"planes_zero_h1_256", SimHashFlags(1), 256, 1, HashFrom::kPlanes},
        FileCase{"planes_mean_h2", SimHashFlags(2, {"--lsh_fill", "mean"}), 16, 2, HashFrom::kPlanes},
        FileCase{"planes_none_h3_64", SimHashFlags(3, {"--lsh_fill", "none"}), 64, 3, HashFrom::kPlanes},
        FileCase{"planes_centred_h2_64", SimHashFlags(2, {"--lsh_center_keys"}), 64, 2, HashFrom::kPlanes, true},
        FileCase{"planes_reference_h2", SimHashFlags(2, {"--lsh_pairs", "reference"}), 16, 2, HashFrom::kPlanes},
        FileCase{"buckets_zero_h3", SimHashFlags(3), 16, 3, HashFrom::kBuckets},
        FileCase{"buckets_mean_h1_64", SimHashFlags(1, {"--lsh_fill", "mean"}), 64, 1, HashFrom::kBuckets},
        FileCase{"buckets_reference_mean_h3", SimHashFlags(3, {"--lsh_pairs", "reference", "--lsh_fill", "mean"}), 16,
                 3, HashFrom::kBuckets},
        FileCase{"buckets_reference_none_h1_256", SimHashFlags(1, {"--lsh_pairs", "reference", "--lsh_fill", "none"}),
                 256, 1, HashFrom::kBuckets},
        FileCase{"seed_auto_mean_h2",
                 {"--attention", "simhash", "--lsh_bands", "auto", "--lsh_hashes", "2", "--lsh_fill", "mean"},
                 16,
                 2},
        FileCase{"seed_sorted_h2_64",
                 {"--attention", "simhash", "--lsh_pairs", "sorted", "--lsh_chunk", "16", "--lsh_hashes", "2"},
                 64,
                 2},
        FileCase{"seed_sorted_centred_mean",
                 {"--attention", "simhash", "--lsh_pairs", "sorted", "--lsh_chunk", "32", "--lsh_fill", "mean",
                  "--lsh_center_keys"},
                 16,
                 1},
        FileCase{"buckets_sorted_none_h3",
                 {"--attention", "simhash", "--lsh_pairs", "sorted", "--lsh_chunk", "20", "--lsh_fill", "none",
                  "--lsh_hashes", "3", "--lsh_look_back", "2", "--lsh_look_ahead", "0"},
                 16,
                 3,
                 HashFrom::kBuckets},
        FileCase{"window_global_h2", SimHashFlags(2, {"--lsh_window", "5", "--lsh_global", "cls,sep"}), 16, 2,
                 HashFrom::kBuckets},
        FileCase{"min_length", SimHashFlags(1, {"--lsh_min_length", "10"}), 16, 1, HashFrom::kBuckets}),
    [](const auto& info) { return info.param.name; });

TEST_F(AttentionCommand, RefusesWhatDoesNotFit) {
  AddOperands(5);
  const size_t operands = tensors_.size();
  struct Bad {
    std::vector<int32_t> borders;
    const char* message;
  };
  for (const Bad& bad :
       {Bad{{1, 5}, "\"cu_seqlens\"[0]: expected 0, got 1"},
        Bad{{0, 4, 3, 5}, "\"cu_seqlens\"[2]: expected at least 4"}, Bad{{0, 4}, "\"cu_seqlens\"[1]: expected 5"}}) {
    tensors_.resize(operands);
    AddIntegers("cu_seqlens", {static_cast<int64_t>(bad.borders.size())}, bad.borders);
    const CommandResult result = Run();
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr(bad.message));
  }
  tensors_.resize(operands);
  AddIntegers("query_buckets", {2, 1, 5}, std::vector<int32_t>(10, 3));
  AddIntegers("key_buckets", {2, 1, 5}, std::vector<int32_t>(10, -1));
  EXPECT_THAT(Run({"--attention", "simhash"}).err, HasSubstr("\"key_buckets\": element 0 is -1, expected 0 to 63"));
  Add("planes", {2, 1, 2, 4}, 1);
  EXPECT_THAT(Run({"--attention", "simhash"}).err, HasSubstr("both \"planes\" and \"query_buckets\""));
  tensors_.erase(tensors_.begin() + 1);
  EXPECT_THAT(Run().err, HasSubstr("tensor \"key\" is missing"));
}

TEST_F(AttentionCommand, AcceptsNoTokensAndEmptySequences) {
  AddOperands(0);
  EXPECT_EQ(Run().status, 0);
  AddIntegers("cu_seqlens", {3}, {0, 0, 0});
  for (const char* kind : {"dense", "simhash", "reformer", "clustered"}) {
    for (const bool reference : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", kind, reference));
      std::vector<std::string> flags{"--attention", kind};
      if (reference) flags.emplace_back("--reference");
      ASSERT_EQ(Run(flags).status, 0);
      const SafetensorsFile out(Output());
      for (const char* name : {"output", "grad_query", "grad_value"})
        EXPECT_EQ(out.Get(name, DType::kF32).shape, (std::vector<int64_t>{0, 2, 4}));
      EXPECT_EQ(out.Find("grad_key") != nullptr, kind != std::string("reformer"));
    }
  }
}

}  // namespace
}  // namespace lshformer
