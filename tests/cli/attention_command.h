// The command `attention` on a file of tensors that a test fills.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/philox.h"
#include "io/safetensors.h"
#include "util/command.h"
#include "util/temp_folder.h"

namespace lshformer {

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
  testing::CommandResult Run(std::vector<std::string> more = {}) {
    WriteSafetensors(folder_ / "in.safetensors", tensors_);
    std::vector<std::string> words{LSHFORMER_BINARY,           "attention", "--input",
                                   folder_ / "in.safetensors", "--output",  Output()};
    words.insert(words.end(), more.begin(), more.end());
    return testing::RunCommand(words, "/dev/null");
  }
  // With the kernels, whose file is Fast() then, and with the reference.
  void RunBoth(std::vector<std::string> flags) {
    const testing::CommandResult fast = Run(flags);
    ASSERT_EQ(fast.status, 0) << fast.err;
    std::filesystem::rename(Output(), Fast());
    flags.push_back("--reference");
    const testing::CommandResult reference = Run(flags);
    ASSERT_EQ(reference.status, 0) << reference.err;
  }
  std::string Fast() const { return folder_ / "fast.safetensors"; }
  std::string Output() const { return folder_ / "out.safetensors"; }

  testing::TempFolder folder_;
  std::vector<NamedTensor> tensors_;
  std::vector<std::unique_ptr<std::vector<float>>> floats_;
  std::vector<std::unique_ptr<std::vector<int32_t>>> integers_;
};

inline std::vector<float> Floats(const SafetensorsFile& file, const char* name) {
  const TensorView& view = file.Get(name, DType::kF32);
  std::vector<float> values(view.elements());
  CopyTo<float>(view, values, name);
  return values;
}

inline std::vector<int32_t> Integers(const SafetensorsFile& file, const char* name) {
  const TensorView& view = file.Get(name, DType::kI32);
  std::vector<int32_t> values(view.elements());
  CopyTo<int32_t>(view, values, name);
  return values;
}

enum class HashFrom { kSeed, kPlanes, kBuckets };  // drawn by the program, or given in the file

}  // namespace lshformer
