// What is written is what is read.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "util/property.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::Holds;
using testing::TempFolder;

struct Written {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

Written DrawTensor() {
  Written tensor;
  tensor.dtype =
      *rc::gen::element(DType::kBool, DType::kU8, DType::kI8, DType::kI16, DType::kU16, DType::kF16, DType::kBF16,
                        DType::kI32, DType::kU32, DType::kF32, DType::kI64, DType::kU64, DType::kF64);
  const auto size = rc::gen::resize(rc::kNominalSize, rc::gen::inRange<int64_t>(0, 6));
  tensor.shape = *rc::gen::resize(4, rc::gen::container<std::vector<int64_t>>(size));
  int64_t bytes = static_cast<int64_t>(ItemSize(tensor.dtype));
  for (const int64_t dimension : tensor.shape) bytes *= dimension;
  const auto one = *rc::gen::arbitrary<uint8_t>();
  for (int64_t i = 0; i < bytes; ++i) tensor.bytes.push_back(static_cast<std::byte>(one + 7 * i));
  return tensor;
}

TEST(SafetensorsProperty, WhatIsWrittenIsRead) {
  const TempFolder folder;
  const std::string path = folder / "m.safetensors";
  EXPECT_TRUE(Holds("write and read", 200, [&] {
    const auto text = rc::gen::element<std::string>("", "pt", "\"", "\\", "日本", "a\nb", "\x7f");
    std::map<std::string, Written> tensors;
    for (int count = *rc::gen::inRange(0, 8); count > 0; --count) {
      tensors[*rc::gen::oneOf(
          rc::gen::element<std::string>("a.weight", "a.bias", "é", "x y", "\"", "\\u0041"),
          rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::inRange<char>(' ', '\x7f'))))] = DrawTensor();
    }
    std::map<std::string, std::string> metadata;
    for (int count = *rc::gen::inRange(0, 3); count > 0; --count) metadata[*text] = *text;
    std::vector<NamedTensor> views;
    for (const auto& [key, tensor] : tensors) views.push_back({key, {tensor.dtype, tensor.shape, tensor.bytes}});
    WriteSafetensors(path, views, metadata);
    const SafetensorsFile file(path);
    RC_ASSERT(file.metadata() == metadata);
    RC_ASSERT(file.tensors().size() == tensors.size());
    for (const auto& [key, tensor] : tensors) {
      const TensorView* view = file.Find(key);
      RC_ASSERT(view != nullptr);
      RC_ASSERT(view->dtype == tensor.dtype);
      RC_ASSERT(view->shape == tensor.shape);
      RC_ASSERT(view->bytes.size() == tensor.bytes.size());
      RC_ASSERT(std::equal(view->bytes.begin(), view->bytes.end(), tensor.bytes.begin()));
      // Aligned, so that no reader need copy it.
      RC_ASSERT(view->bytes.empty() || reinterpret_cast<uintptr_t>(view->bytes.data()) % ItemSize(view->dtype) == 0);
    }
  }));
}

}  // namespace
}  // namespace lshformer
