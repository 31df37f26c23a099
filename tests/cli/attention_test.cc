// The commands `attention` and `bench attention`: what they refuse, what they write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>

#include "base/json.h"
#include "base/philox.h"
#include "io/safetensors.h"
#include "util/command.h"
#include "util/rounding.h"

namespace lshformer {
namespace {

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::OfLargest;
using testing::RunCommand;
using testing::TempFolder;
using testing::WithinRounding;

class AttentionCommand : public ::testing::Test {
 protected:
  // One sequence of `tokens`, two heads, with values that are easy to tell apart.
  void Add(const std::string& name, std::vector<int64_t> shape, float step) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    auto& values = floats_.emplace_back(std::make_unique<std::vector<float>>());
    for (int64_t i = 0; i < count; ++i) values->push_back(step * static_cast<float>(i % 7) - 1);
    tensors_.push_back({name, {DType::kF32, std::move(shape), std::as_bytes(std::span(*values))}});
  }
  void AddIntegers(const std::string& name, std::vector<int64_t> shape, std::vector<int32_t> values) {
    auto& kept = integers_.emplace_back(std::make_unique<std::vector<int32_t>>(std::move(values)));
    tensors_.push_back({name, {DType::kI32, std::move(shape), std::as_bytes(std::span(*kept))}});
  }
  const std::vector<float>& AddNormal(const std::string& name, std::vector<int64_t> shape, uint64_t seed) {
    PhiloxStream stream(StreamKey(seed, 0, 0, 0, Purpose::kSynthetic));
    auto& values = floats_.emplace_back(std::make_unique<std::vector<float>>());
    values->resize(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
    for (float& value : *values) value = static_cast<float>(stream.Normal());
    tensors_.push_back({name, {DType::kF32, std::move(shape), std::as_bytes(std::span(*values))}});
    return *values;
  }
  void AddOperands(int64_t tokens, int64_t head_dim = 4) {
    for (const auto& [name, step] : {std::pair("query", 0.3f), {"key", 0.4f}, {"value", 0.5f}, {"grad_output", 0.2f}}) {
      Add(name, {tokens, 2, head_dim}, step);
    }
  }
  CommandResult Run(std::vector<std::string> more = {}) {
    WriteSafetensors(folder_ / "in.safetensors", tensors_);
    std::vector<std::string> words{LSHFORMER_BINARY,           "attention", "--input",
                                   folder_ / "in.safetensors", "--output",  Output()};
    words.insert(words.end(), more.begin(), more.end());
    return RunCommand(words, "/dev/null");
  }
  std::string Output() const { return folder_ / "out.safetensors"; }

  TempFolder folder_;
  std::vector<NamedTensor> tensors_;
  std::vector<std::unique_ptr<std::vector<float>>> floats_;
  std::vector<std::unique_ptr<std::vector<int32_t>>> integers_;
};

std::vector<float> Floats(const SafetensorsFile& file, const char* name) {
  const TensorView& view = file.Get(name, DType::kF32);
  std::vector<float> values(view.elements());
  CopyTo<float>(view, values, name);
  return values;
}

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

std::vector<int32_t> Integers(const SafetensorsFile& file, const char* name) {
  const TensorView& view = file.Get(name, DType::kI32);
  std::vector<int32_t> values(view.elements());
  CopyTo<int32_t>(view, values, name);
  return values;
}

enum class Hash { kSeed, kPlanes, kBuckets };  // drawn by the program, or given in the file

struct FileCase {
  const char* name;
  std::vector<std::string> flags;
  int head_dim = 16, hashes = 1;
  Hash hash = Hash::kSeed;
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
  CommandResult RunWith(std::vector<std::string> flags, const char* more = nullptr) {
    if (more) flags.push_back(more);
    return Run(flags);
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
  if (c.hash == Hash::kPlanes) {
    const std::vector<float>& planes = AddNormal("planes", {kHeads, c.hashes, kBands, c.head_dim}, 5);
    const std::vector<int32_t> coefficients = Draw(int64_t{kHeads} * c.hashes * kBands, 6);
    AddIntegers("coefficients", {kHeads, c.hashes, kBands}, coefficients);
    query_buckets = HashByHand(query, false, planes, coefficients);
    key_buckets = HashByHand(key, c.center_keys, planes, coefficients);
  } else if (c.hash == Hash::kBuckets) {
    AddIntegers("query_buckets", hashed, query_buckets = Draw(kHeads * c.hashes * tokens_, 7));
    AddIntegers("key_buckets", hashed, key_buckets = Draw(kHeads * c.hashes * tokens_, 8));
  }

  const CommandResult fast_run = RunWith(c.flags);
  ASSERT_EQ(fast_run.status, 0) << fast_run.err;
  const std::string kept = folder_ / "fast.safetensors";
  std::filesystem::rename(Output(), kept);
  const CommandResult reference_run = RunWith(c.flags, "--reference");
  ASSERT_EQ(reference_run.status, 0) << reference_run.err;
  const SafetensorsFile fast(kept), reference(Output());

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
    EXPECT_EQ(fast.metadata().at("hash_flops") == "0", c.hash == Hash::kBuckets);
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
        FileCase{"dense_forward", {"--attention", "dense"}, 16, 1, Hash::kSeed, false, false},
        FileCase{"seed_zero_h1", SimHashFlags(1)},
        FileCase{"seed_mean_h3_64", SimHashFlags(3, {"--lsh_fill", "mean"}), 64, 3},
        FileCase{"seed_none_h2_256", SimHashFlags(2, {"--lsh_fill", "none"}), 256, 2},
        FileCase{"planes_zero_h1_256", SimHashFlags(1), 256, 1, Hash::kPlanes},
        FileCase{"planes_mean_h2", SimHashFlags(2, {"--lsh_fill", "mean"}), 16, 2, Hash::kPlanes},
        FileCase{"planes_none_h3_64", SimHashFlags(3, {"--lsh_fill", "none"}), 64, 3, Hash::kPlanes},
        FileCase{"planes_centred_h2_64", SimHashFlags(2, {"--lsh_center_keys"}), 64, 2, Hash::kPlanes, true},
        FileCase{"planes_reference_h2", SimHashFlags(2, {"--lsh_pairs", "reference"}), 16, 2, Hash::kPlanes},
        FileCase{"buckets_zero_h3", SimHashFlags(3), 16, 3, Hash::kBuckets},
        FileCase{"buckets_mean_h1_64", SimHashFlags(1, {"--lsh_fill", "mean"}), 64, 1, Hash::kBuckets},
        FileCase{"buckets_reference_mean_h3", SimHashFlags(3, {"--lsh_pairs", "reference", "--lsh_fill", "mean"}), 16,
                 3, Hash::kBuckets},
        FileCase{"buckets_reference_none_h1_256", SimHashFlags(1, {"--lsh_pairs", "reference", "--lsh_fill", "none"}),
                 256, 1, Hash::kBuckets},
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
                 Hash::kBuckets},
        FileCase{"window_global_h2", SimHashFlags(2, {"--lsh_window", "5", "--lsh_global", "cls,sep"}), 16, 2,
                 Hash::kBuckets},
        FileCase{"min_length", SimHashFlags(1, {"--lsh_min_length", "10"}), 16, 1, Hash::kBuckets}),
    [](const auto& info) { return info.param.name; });

struct ReformerCase {
  const char* name;
  std::vector<std::string> flags;
  Hash hash = Hash::kSeed;
  int rounds = 4;
  std::vector<int> factors = {};  // of rotations or buckets in the file
  bool by_length = false;         // short sequences have fewer buckets
};

// Reformer, from file to file: shared keys, its own tensors of hashing.
class ReformerOnFiles : public AttentionCommand, public ::testing::WithParamInterface<ReformerCase> {
 protected:
  static constexpr int kHeads = 2, kHeadDim = 16;
  const std::vector<int32_t> borders_{0, 0, 1, 301, 301, 310};
  const int64_t tokens_ = borders_.back();

  // Buckets [heads, rounds, tokens] by docs/attention.md, in double.
  std::vector<int32_t> HashByHand(const std::vector<float>& query, const std::vector<float>& rotations) const {
    const int columns = std::accumulate(GetParam().factors.begin(), GetParam().factors.end(), 0) / 2;
    std::vector<int32_t> buckets;
    for (int64_t matrix = 0; matrix < int64_t{kHeads} * GetParam().rounds; ++matrix) {
      for (int64_t t = 0; t < tokens_; ++t) {
        const float* x = query.data() + (t * kHeads + matrix / GetParam().rounds) * kHeadDim;
        int bucket = 0, first = 0, stride = 1;
        for (const int factor : GetParam().factors) {
          int best = 0;
          double largest = -INFINITY;
          for (int b = 0; b < factor; ++b) {
            double dot = 0;
            for (int d = 0; d < kHeadDim; ++d)
              dot +=
                  x[d] * static_cast<double>(rotations[(matrix * kHeadDim + d) * columns + first + b % (factor / 2)]);
            if (b >= factor / 2) dot = -dot;
            if (dot > largest) largest = dot, best = b;
          }
          bucket += stride * best;
          stride *= factor;
          first += factor / 2;
        }
        buckets.push_back(bucket);
      }
    }
    return buckets;
  }
};

TEST_P(ReformerOnFiles, AgreesWithTheReference) {
  const ReformerCase& c = GetParam();
  const std::vector<int64_t> shape{tokens_, kHeads, kHeadDim};
  const std::vector<float>& query = AddNormal("query", shape, 1);
  AddNormal("value", shape, 3);
  AddNormal("grad_output", shape, 4);
  AddIntegers("cu_seqlens", {static_cast<int64_t>(borders_.size())}, borders_);
  std::vector<int32_t> buckets;
  if (c.hash == Hash::kPlanes) {
    const int columns = std::accumulate(c.factors.begin(), c.factors.end(), 0) / 2;
    buckets = HashByHand(query, AddNormal("rotations", {kHeads, c.rounds, kHeadDim, columns}, 5));
  } else if (c.hash == Hash::kBuckets) {
    PhiloxStream stream(StreamKey(7, 0, 0, 0, Purpose::kPlanes));
    for (int64_t i = 0; i < kHeads * c.rounds * tokens_; ++i)
      buckets.push_back(static_cast<int32_t>(stream.Below(c.factors[0])));
    AddIntegers("query_buckets", {kHeads, c.rounds, tokens_}, buckets);
  }
  std::vector<std::string> flags = c.flags;
  const CommandResult fast_run = Run(flags);
  ASSERT_EQ(fast_run.status, 0) << fast_run.err;
  const std::string kept = folder_ / "fast.safetensors";
  std::filesystem::rename(Output(), kept);
  flags.push_back("--reference");
  const CommandResult reference_run = Run(flags);
  ASSERT_EQ(reference_run.status, 0) << reference_run.err;
  const SafetensorsFile fast(kept), reference(Output());
  ASSERT_EQ(fast.tensors().size(), 5u);  // output, lse, query_buckets, grad_query, grad_value
  ASSERT_EQ(reference.tensors().size(), 5u);
  EXPECT_EQ(Integers(fast, "query_buckets"), Integers(reference, "query_buckets"));
  EXPECT_EQ(fast.Get("query_buckets", DType::kI32).shape, (std::vector<int64_t>{kHeads, c.rounds, tokens_}));
  if (!buckets.empty() && !c.by_length) {
    EXPECT_EQ(Integers(fast, "query_buckets"), buckets);
  }
  for (const char* name : {"output", "grad_query", "grad_value"}) {
    const std::vector<float> want = Floats(reference, name);
    EXPECT_THAT(Floats(fast, name), WithinRounding(want, OfLargest(want, 1e-5))) << name;
  }
  const std::vector<float> lse = Floats(fast, "lse"), want = Floats(reference, "lse");
  for (size_t i = 0; i < lse.size(); ++i) EXPECT_NEAR(lse[i], want[i], 1e-5 * std::max(1.0f, std::abs(want[i]))) << i;
  for (const char* count : {"pairs_computed", "pairs_total", "hash_flops"})
    EXPECT_EQ(fast.metadata().at(count), reference.metadata().at(count)) << count;
  EXPECT_EQ(fast.metadata().at("hash_flops") == "0", c.hash == Hash::kBuckets);
}

std::vector<std::string> ReformerFlags(const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags{"--attention", "reformer", "--lsh_chunk", "16"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

INSTANTIATE_TEST_SUITE_P(
    Reformer, ReformerOnFiles,
    ::testing::Values(
        ReformerCase{"seed", ReformerFlags()},
        ReformerCase{"rotations", ReformerFlags({"--lsh_buckets", "8"}), Hash::kPlanes, 4, {8}},
        ReformerCase{"factors", ReformerFlags({"--lsh_buckets", "4,6", "--lsh_rounds", "2"}), Hash::kPlanes, 2, {4, 6}},
        ReformerCase{"auto_rotations", ReformerFlags({"--lsh_rounds", "1"}), Hash::kPlanes, 1, {32}, true},
        ReformerCase{"buckets", ReformerFlags({"--lsh_buckets", "10", "--lsh_rounds", "3"}), Hash::kBuckets, 3, {10}},
        ReformerCase{"paper",
                     ReformerFlags({"--lsh_buckets", "10", "--lsh_rounds", "3", "--lsh_cross_bucket", "false",
                                    "--lsh_wrap", "false", "--lsh_causal", "--lsh_count_pairs_once"}),
                     Hash::kBuckets,
                     3,
                     {10}},
        ReformerCase{"sqrt_d",
                     ReformerFlags({"--lsh_scale", "sqrt_d", "--lsh_look_back", "2", "--lsh_look_ahead", "1"})},
        ReformerCase{
            "window_global",
            ReformerFlags({"--lsh_buckets", "10", "--lsh_rounds", "2", "--lsh_window", "9", "--lsh_global", "cls"}),
            Hash::kBuckets,
            2,
            {10}},
        ReformerCase{
            "once", ReformerFlags({"--lsh_buckets", "10", "--lsh_count_pairs_once=true"}), Hash::kBuckets, 4, {10}}),
    [](const auto& info) { return info.param.name; });

TEST_F(AttentionCommand, RefusesReformersThatDoNotFit) {
  AddOperands(40);
  tensors_.erase(tensors_.begin() + 1);  // no key
  const std::vector<std::string> flags{"--attention", "reformer", "--lsh_rounds",  "1",
                                       "--lsh_chunk", "8",        "--lsh_buckets", "4"};
  EXPECT_EQ(Run(flags).status, 0);
  auto wide = flags;
  wide.insert(wide.end(), {"--lsh_look_back", "5"});
  EXPECT_THAT(Run(wide).err, HasSubstr("\"look_back\" 5 reaches around all 5 chunks of a sequence of 40 tokens"));
  auto wide_reference = wide;
  wide_reference.push_back("--reference");
  EXPECT_EQ(Run(wide_reference).status, 1);
  const size_t operands = tensors_.size();
  Add("rotations", {2, 1, 4, 3}, 1);
  EXPECT_THAT(Run(flags).err, HasSubstr("tensor \"rotations\" has shape [2, 1, 4, 3], expected [2, 1, 4, 2]"));
  tensors_.resize(operands);
  AddIntegers("query_buckets", {2, 1, 40}, std::vector<int32_t>(80, 4));
  EXPECT_THAT(Run(flags).err, HasSubstr("\"query_buckets\": element 0 is 4, expected 0 to 3 (4 buckets)"));
  auto any = flags;  // without a number of buckets they may be any that are not negative
  any.resize(any.size() - 2);
  EXPECT_EQ(Run(any).status, 0);
  tensors_.resize(operands);
  AddIntegers("query_buckets", {2, 1, 40}, std::vector<int32_t>(80, -1));
  EXPECT_THAT(Run(any).err, HasSubstr("\"query_buckets\": element 0 is -1, expected 0 to"));
  Add("rotations", {2, 1, 4, 2}, 1);
  EXPECT_THAT(Run(flags).err, HasSubstr("both \"rotations\" and \"query_buckets\""));
}

struct ClusteredCase {
  const char* name;
  std::vector<std::string> flags;
  enum { kSeed, kDirections, kKeyDirections, kLabels } hash = kSeed;
};

class ClusteredOnFiles : public AttentionCommand, public ::testing::WithParamInterface<ClusteredCase> {};

TEST_P(ClusteredOnFiles, AgreesWithTheReference) {
  constexpr int kHeads = 2, kHeadDim = 16, kCluster = 8, kGroups = 4;
  const std::vector<int32_t> borders{0, 0, 1, 301, 301, 310};
  const int64_t tokens = borders.back();
  for (const auto& [name, seed] : {std::pair("query", 1), {"key", 2}, {"value", 3}, {"grad_output", 4}})
    AddNormal(name, {tokens, kHeads, kHeadDim}, seed);
  AddIntegers("cu_seqlens", {static_cast<int64_t>(borders.size())}, borders);
  const auto hash = GetParam().hash;
  if (hash == ClusteredCase::kDirections || hash == ClusteredCase::kKeyDirections)
    AddNormal("key_directions", {kHeads, kHeadDim, 7}, 5);  // 38 clusters take six
  if (hash == ClusteredCase::kDirections) AddNormal("query_directions", {kHeads, kHeadDim, 2}, 6);
  if (hash == ClusteredCase::kLabels) {  // of any sizes
    PhiloxStream stream(StreamKey(7, 0, 0, 0, Purpose::kDirections));
    std::vector<int32_t> clusters, groups;
    for (int64_t i = 0; i < kHeads * tokens; ++i) {
      const int64_t length = i % tokens < 1 ? 1 : i % tokens < 301 ? 300 : 9;
      clusters.push_back(static_cast<int32_t>(stream.Below((length + kCluster - 1) / kCluster)));
      groups.push_back(static_cast<int32_t>(stream.Below(kGroups)));
    }
    AddIntegers("key_clusters", {kHeads, tokens}, clusters);
    AddIntegers("query_groups", {kHeads, tokens}, groups);
  }
  std::vector<std::string> flags{"--attention", "clustered", "--lsh_cluster", std::to_string(kCluster)};
  flags.insert(flags.end(), GetParam().flags.begin(), GetParam().flags.end());
  const CommandResult fast_run = Run(flags);
  ASSERT_EQ(fast_run.status, 0) << fast_run.err;
  const std::string kept = folder_ / "fast.safetensors";
  std::filesystem::rename(Output(), kept);
  flags.push_back("--reference");
  ASSERT_EQ(Run(flags).status, 0);
  const SafetensorsFile fast(kept), reference(Output());
  for (const char* name : {"key_clusters", "query_groups"}) {
    EXPECT_EQ(fast.Get(name, DType::kI32).shape, (std::vector<int64_t>{kHeads, tokens}));
    EXPECT_EQ(Integers(fast, name), Integers(reference, name)) << name;
  }
  for (const char* name : {"key_directions", "query_directions"}) {
    ASSERT_EQ(fast.Find(name) != nullptr, hash != ClusteredCase::kLabels) << name;
    if (hash != ClusteredCase::kLabels) {
      EXPECT_EQ(Floats(fast, name), Floats(reference, name)) << name;
    }
  }
  for (const char* name : {"output", "grad_query", "grad_key", "grad_value"}) {
    const std::vector<float> want = Floats(reference, name);
    EXPECT_THAT(Floats(fast, name), WithinRounding(want, OfLargest(want, 1e-4))) << name;
  }
  const std::vector<float> lse = Floats(fast, "lse"), want = Floats(reference, "lse");
  for (size_t i = 0; i < lse.size(); ++i) EXPECT_NEAR(lse[i], want[i], 1e-4 * std::max(1.0f, std::abs(want[i]))) << i;
  for (const char* count : {"pairs_computed", "pairs_total", "hash_flops"})
    EXPECT_EQ(fast.metadata().at(count), reference.metadata().at(count)) << count;
}

INSTANTIATE_TEST_SUITE_P(
    Clustered, ClusteredOnFiles,
    ::testing::Values(ClusteredCase{"seed", {}}, ClusteredCase{"directions", {}, ClusteredCase::kDirections},
                      ClusteredCase{"key_directions", {"--lsh_open", "2"}, ClusteredCase::kKeyDirections},
                      ClusteredCase{"labels", {}, ClusteredCase::kLabels},
                      ClusteredCase{"levels", {"--lsh_cluster", "32,8", "--lsh_open", "2,3"}},
                      ClusteredCase{"alone", {"--lsh_window", "0", "--lsh_global", "none", "--lsh_groups", "3"}}),
    [](const auto& info) { return info.param.name; });

TEST_F(AttentionCommand, RefusesClustersThatDoNotFit) {
  AddOperands(40);
  const std::vector<std::string> flags{"--attention", "clustered", "--lsh_cluster", "4", "--lsh_open", "1"};
  EXPECT_EQ(Run(flags).status, 0);
  const size_t operands = tensors_.size();
  Add("key_directions", {2, 4, 3}, 1);
  EXPECT_THAT(Run(flags).err, HasSubstr("\"key_directions\" has shape [2, 4, 3], expected at least 4 directions"));
  tensors_.resize(operands);
  Add("query_directions", {2, 4, 2}, INFINITY);
  EXPECT_THAT(Run(flags).err, HasSubstr("\"query_directions\": element 0 is not finite"));
  tensors_.resize(operands);
  AddIntegers("key_clusters", {2, 40}, std::vector<int32_t>(80, 10));
  EXPECT_THAT(Run(flags).err, HasSubstr("tensor \"query_groups\" is missing"));
  AddIntegers("query_groups", {2, 40}, std::vector<int32_t>(80, 0));
  EXPECT_THAT(Run(flags).err, HasSubstr("\"key_clusters\": element 0 is 10, expected 0 to 9"));
  Add("key_directions", {2, 4, 4}, 1);
  EXPECT_THAT(Run(flags).err, HasSubstr("both \"key_directions\" and \"key_clusters\""));
  tensors_.resize(operands);
  EXPECT_THAT(Run({"--attention", "clustered", "--lsh_rounds", "2"}).err, HasSubstr("no meaning for clustered"));
  EXPECT_THAT(Run({"--attention", "clustered", "--lsh_groups", "0"}).err, HasSubstr("expected 1 to 64"));
}

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
  EXPECT_EQ(Run({"--attention", "simhash"}).status, 0);
  EXPECT_EQ(Run({"--attention", "reformer"}).status, 0);
  EXPECT_EQ(Run({"--attention", "reformer", "--reference"}).status, 0);
  EXPECT_EQ(Run({"--attention", "clustered"}).status, 0);
  EXPECT_EQ(Run({"--attention", "clustered", "--reference"}).status, 0);
}

}  // namespace
}  // namespace lshformer
