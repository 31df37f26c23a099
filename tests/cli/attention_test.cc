// The commands `attention` and `bench attention`: what they refuse, what they write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/json.h"
#include "io/safetensors.h"
#include "util/command.h"

namespace lshformer {
namespace {

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::RunCommand;
using testing::TempFolder;

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
}

TEST(BenchAttention, NamesEveryRowOnceInFlagOrder) {
  const CommandResult result =
      RunCommand({LSHFORMER_BINARY, "bench", "attention", "--json", "--no_machine", "--lengths", "5,9", "--heads", "1",
                  "--head_dim", "8", "--runs", "2", "--attention", "simhash", "--attention", "dense", "--attention",
                  R"({"type": "simhash", "bands": 4})"},
                 "/dev/null");
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = ParseJson(result.out, "bench");
  std::vector<std::string> names;
  for (const Json& row : json["results"]) {
    names.push_back(row["name"]);
    EXPECT_GT(row["median_ms"].get<double>(), 0);
    EXPECT_GT(row["work_bytes"].get<int64_t>(), 0);
  }
  ASSERT_EQ(names.size(), 2u * 2 * 3);  // lengths, directions, variants
  EXPECT_EQ(std::vector<std::string>(names.begin(), names.begin() + 3),
            (std::vector<std::string>{"simhash", "dense", "simhash-2"}));
  EXPECT_TRUE(json["machine"]["gemm_gflops"].is_null());
  EXPECT_EQ(json["results"][1]["pairs_fraction"], 1.0);
}

}  // namespace
}  // namespace lshformer
