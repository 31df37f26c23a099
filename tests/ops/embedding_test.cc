// The gradient by a word table: rows of the words of the batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "base/philox.h"
#include "ops/row_ops.h"
#include "ops/threads.h"
#include "ops/torch.h"

namespace lshformer {
namespace {

using torch::Tensor;

Tensor Normal(std::vector<int64_t> shape, uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn(shape);
}

// The gradient by the word table holds one row for each word that is not the padding, ascending, and each is the sum of
// its tokens' rows in their order: the bits that a dense table would have, for any number of threads.
TEST(EmbeddingTest, GradientOfTheWordsHasTheRowsOfTheBatch) {
  constexpr int64_t kWords = 1000, kTokens = 700, kColumns = 200;
  auto indices = std::make_shared<EmbeddingIndices>();
  PhiloxStream stream(StreamKey(3, 0, 0, 0, Purpose::kSynthetic));
  for (int64_t token = 0; token < kTokens; ++token)
    indices->words.push_back(static_cast<int32_t>(stream.Below(2) == 0 ? stream.Below(9) : stream.Below(kWords)));
  indices->positions.assign(kTokens, 0), indices->types.assign(kTokens, 0);
  indices->padding_word = 5;
  const Tensor weight = Normal({kTokens, kColumns}, 7);
  Tensor want = torch::zeros({kWords, kColumns});
  std::vector<int64_t> ids(indices->words.begin(), indices->words.end());
  for (int64_t token = 0; token < kTokens; ++token)
    if (ids[token] != 5) want[ids[token]].add_(weight[token]);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::erase(ids, 5);
  for (const int threads : {1, 2, 3}) {
    SetAllThreads(threads);
    const Tensor words = torch::zeros({kWords, kColumns}).requires_grad_(true), other = torch::zeros({1, kColumns});
    (EmbeddingSum(words, other, other, indices) * weight).sum().backward();
    ASSERT_EQ(words.grad().layout(), torch::kSparse);
    EXPECT_TRUE(words.grad()._indices().equal(torch::tensor(ids).unsqueeze(0)));
    EXPECT_TRUE(words.grad().to_dense().equal(want)) << threads << " threads";
  }
  SetAllThreads(HardwareThreads());
}

// A table that is not there adds nothing, and the row of padding in the table of positions has no gradient.
TEST(EmbeddingTest, TablesMayBeMissing) {
  auto indices = std::make_shared<EmbeddingIndices>();
  indices->words = {4, 0, 2}, indices->positions = {2, 1, 3}, indices->types = {0, 1, 0};
  indices->padding_position = 1;
  const Tensor words = Normal({6, 4}, 1).requires_grad_(true), positions = Normal({5, 4}, 2).requires_grad_(true);
  const Tensor of_words = EmbeddingSum(words, {}, {}, indices);
  EXPECT_TRUE(of_words.equal(words.index_select(0, torch::tensor({4, 0, 2}))));
  const Tensor sum = EmbeddingSum(words, positions, {}, indices);
  EXPECT_TRUE(sum.equal(EmbeddingSumReference(words, positions, {}, *indices)));
  sum.sum().backward();
  EXPECT_TRUE(positions.grad().sum(1).equal(torch::tensor({0.0F, 0.0F, 4.0F, 4.0F, 0.0F})));
  EXPECT_TRUE(words.grad().to_dense().sum(1).equal(torch::tensor({4.0F, 0.0F, 4.0F, 0.0F, 4.0F, 0.0F})));
}

TEST(EmbeddingTest, ABatchOfPaddingHasAGradientWithoutRows) {
  auto indices = std::make_shared<EmbeddingIndices>();
  indices->words = {0, 0}, indices->positions = {0, 0}, indices->types = {0, 0};
  indices->padding_word = 0;
  const Tensor words = torch::ones({6, 4}).requires_grad_(true), other = torch::zeros({1, 4});
  EmbeddingSum(words, other, other, indices).sum().backward();
  EXPECT_EQ(words.grad()._nnz(), 0);
  EXPECT_EQ(words.grad().to_dense().abs().sum().item<float>(), 0);
}

// A table that a decoder shares has a dense gradient, whichever of the two comes first and in whichever step.
TEST(EmbeddingTest, RowsAreAddedIntoADenseGradient) {
  auto indices = std::make_shared<EmbeddingIndices>();
  indices->words = {4, 0, 2, 4}, indices->positions = {0, 0, 0, 0}, indices->types = {0, 0, 0, 0};
  const Tensor factor = Normal({6, 70}, 1), other = torch::zeros({1, 70});
  const Tensor words = torch::zeros({6, 70}).requires_grad_(true);
  const auto sum = [&] { return EmbeddingSum(words, other, other, indices).sum(); };
  const auto product = [&] { return (words * factor).sum(); };
  const Tensor rows = torch::tensor({1.0f, 0.0f, 1.0f, 0.0f, 2.0f, 0.0f}).unsqueeze(1);
  (sum() + product()).backward();
  ASSERT_EQ(words.grad().layout(), torch::kStrided);
  EXPECT_TRUE(words.grad().equal(factor + rows));
  for (const bool rows_first : {false, true}) {  // as micro-batches, of which some may have no label
    words.mutable_grad().reset();
    (rows_first ? sum() : product()).backward();
    (rows_first ? product() : sum()).backward();
    ASSERT_EQ(words.grad().layout(), torch::kStrided);
    EXPECT_TRUE(words.grad().equal(factor + rows)) << rows_first;
  }
}

// A look-up is a sum with tables of zeros: the same values and the same sparse gradient.
TEST(EmbeddingTest, LookUpIsTheSumWithoutTheOtherTables) {
  const std::vector<int32_t> ids{4, 0, 2, 4, 5, 1};
  const Tensor table = Normal({6, 70}, 1).requires_grad_(true), other = table.detach().clone().requires_grad_(true);
  const Tensor weight = Normal({6, 70}, 2);
  const Tensor found = LookUp(table, ids, /*padding=*/5), want = LookUpReference(other, ids, 5);
  EXPECT_TRUE(torch::equal(found, want));
  (found * weight).sum().backward();
  (want * weight).sum().backward();
  ASSERT_EQ(table.grad().layout(), torch::kSparse);
  EXPECT_EQ(table.grad()._nnz(), 4);
  EXPECT_TRUE(torch::equal(table.grad().to_dense(), other.grad()));
}

}  // namespace
}  // namespace lshformer
