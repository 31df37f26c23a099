#include "io/matrix_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "io/safetensors.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;

const std::vector<float> kFirst{1, -2.5F, 3e-30F}, kSecond{4, std::numeric_limits<float>::quiet_NaN(), -0.0F};

std::string MatrixBytes(const TempFolder& folder, const std::string& name) {
  MatrixFile file(folder / "rows", name, 3);
  file.Write(kFirst);
  file.Write(kSecond);
  file.MoveTo(folder / name);
  return folder.Read(name);
}

TEST(MatrixFileTest, SafetensorsHaveOneTensor) {
  const TempFolder folder;
  MatrixBytes(folder, "m.safetensors");
  const SafetensorsFile file(folder / "m.safetensors");
  ASSERT_EQ(file.tensors().size(), 1u);
  const std::vector<int64_t> shape{2, 3};
  const TensorView& view = file.Get(kMatrixTensor, DType::kF32, shape);
  std::vector<float> values(6);
  CopyTo(view, std::span(values), "m");
  EXPECT_EQ(std::memcmp(values.data(), kFirst.data(), 12), 0);
  EXPECT_EQ(std::memcmp(values.data() + 3, kSecond.data(), 12), 0);
}

// NumPy's format 1.0, taken apart by hand: magic, version, length of the dictionary, which ends in a line's end at a
// multiple of 64 bytes.
TEST(MatrixFileTest, NpyIsNumPys) {
  const TempFolder folder;
  const std::string file = MatrixBytes(folder, "m.npy");
  ASSERT_GT(file.size(), 10u);
  EXPECT_EQ(file.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  uint16_t length = 0;
  std::memcpy(&length, file.data() + 8, 2);
  const size_t begin = 10u + length;
  EXPECT_EQ(begin % 64, 0u);
  const std::string dictionary = file.substr(10, length);
  EXPECT_THAT(dictionary, ::testing::StartsWith("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"));
  EXPECT_EQ(dictionary.back(), '\n');
  ASSERT_EQ(file.size(), begin + 24);
  EXPECT_EQ(std::memcmp(file.data() + begin, kFirst.data(), 12), 0);
  EXPECT_EQ(std::memcmp(file.data() + begin + 12, kSecond.data(), 12), 0);
}

// The number of rows is written over the header in the end, so its size must not depend on it.
TEST(MatrixFileTest, HeadersHaveOneSize) {
  for (const MatrixFormat format : {MatrixFormat::kNpy, MatrixFormat::kSafetensors}) {
    for (const bool places : {false, true}) {
      const size_t size = MatrixHeader(format, 0, 1, places).size();
      EXPECT_EQ(size % 64, 0u);
      EXPECT_EQ(MatrixHeader(format, INT64_MAX / 65536 / 5, 65536, places).size(), size);
    }
  }
}

TEST(MatrixFileTest, NoRowIsAMatrixToo) {
  const TempFolder folder;
  MatrixFile(folder / "rows", "m.safetensors", 5).MoveTo(folder / "m.safetensors");
  const SafetensorsFile file(folder / "m.safetensors");
  EXPECT_THAT(file.Get(kMatrixTensor, DType::kF32).shape, ::testing::ElementsAre(0, 5));
}

// Three tensors of which nothing overlaps and nothing is left, or a second matrix.
TEST(MatrixFileTest, PlacesStandBeside) {
  const TempFolder folder;
  for (const char* name : {"m.safetensors", "m.NPY"}) {
    MatrixFile file(folder / "rows", name, 3, /*places=*/true);
    file.Write(kFirst, {1, 0, 4});
    file.Write(kSecond, {3, 7, 9});
    file.MoveTo(folder / name);
  }
  const SafetensorsFile file(folder / "m.safetensors");
  ASSERT_EQ(file.tensors().size(), 3u);
  std::vector<float> values(6);
  CopyTo(file.Get(kMatrixTensor, DType::kF32, std::vector<int64_t>{2, 3}), std::span(values), "m");
  EXPECT_EQ(std::memcmp(values.data() + 3, kSecond.data(), 12), 0);
  const auto numbers = [](const TensorView& view) {
    std::vector<int32_t> all(view.bytes.size() / sizeof(int32_t));
    std::memcpy(all.data(), view.bytes.data(), view.bytes.size());
    return all;
  };
  EXPECT_THAT(numbers(file.Get(kSpansTensor, DType::kI32, std::vector<int64_t>{2, 2})),
              ::testing::ElementsAre(0, 4, 7, 9));
  EXPECT_THAT(numbers(file.Get(kLinesTensor, DType::kI32, std::vector<int64_t>{2})), ::testing::ElementsAre(1, 3));
  const std::string spans = folder.Read(SpansName("m.NPY"));
  EXPECT_THAT(spans, HasSubstr("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }"));
  const std::vector<int32_t> wanted{1, 0, 4, 3, 7, 9};
  ASSERT_GT(spans.size(), 24u);
  EXPECT_EQ(std::memcmp(spans.data() + spans.size() - 24, wanted.data(), 24), 0);
  EXPECT_THAT(folder.Read("m.NPY"), HasSubstr("'<f4', 'fortran_order': False, 'shape': (2, 3), }"));
}

TEST(MatrixFileTest, ARowOfAnotherWidthIsAnError) {
  const TempFolder folder;
  MatrixFile file(folder / "rows", "m.npy", 3);
  EXPECT_THAT(ErrorOf([&] { file.Write(std::vector<float>(4)); }), HasSubstr("a row of 4 numbers, expected 3"));
}

}  // namespace
}  // namespace lshformer
