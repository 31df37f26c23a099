// Tensors that other code computed, and what a model gives in their place.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "ops/torch.h"
#include "util/rounding.h"

namespace lshformer::testing {

class GoldenTensors {
 public:
  explicit GoldenTensors(const std::string& path) : file_(path) {}

  bool Has(const std::string& name) const { return file_.Find(name) != nullptr; }
  // `got` is the file's tensor `name` to within factor · its largest value + floor.
  void Expect(const std::string& name, const torch::Tensor& got, double factor, double floor = 0) {
    SCOPED_TRACE(name);
    const TensorView* view = file_.Find(name);
    ASSERT_NE(view, nullptr);
    ASSERT_TRUE(got.defined());
    ASSERT_EQ(got.sizes().vec(), view->shape);
    std::vector<float> want(view->elements());
    CopyTo(*view, std::span(want), name);
    const torch::Tensor flat = got.detach().contiguous();
    const std::vector<float> values(flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
    EXPECT_THAT(values, WithinRounding(want, OfLargest(want, factor) + floor));
    ++compared_;
  }

  double LargestGradient() const {
    double largest = 0;
    for (const auto& [name, view] : file_.tensors()) {
      if (!name.starts_with("gradients.")) continue;
      std::vector<float> values(view.elements());
      CopyTo(view, std::span(values), name);
      largest = std::max(largest, OfLargest(values, 1));
    }
    return largest;
  }

  size_t compared() const { return compared_; }  // that passed all but the comparison of values
  size_t size() const { return file_.tensors().size(); }

 private:
  SafetensorsFile file_;
  size_t compared_ = 0;
};

}  // namespace lshformer::testing
