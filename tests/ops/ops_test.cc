// Every op against its readable twin in double: values and gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <utility>

#include "base/parallel.h"
#include "kernels/ref/attention.h"
#include "kernels/ref/reformer.h"
#include "ops/attention.h"
#include "ops/decoder_cross_entropy.h"
#include "ops/linear.h"
#include "ops/op_checks.h"
#include "ops/row_ops.h"
#include "ops/sequences.h"
#include "ops/threads.h"
#include "ops/torch.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using testing::ExpectClose;
using testing::ExpectGradientsOf;
using testing::ExpectSameAsReference;
using ::testing::HasSubstr;
using testing::Normal;
using testing::Sequences;
using torch::Tensor;

constexpr UnaryFunction kFunctions[] = {UnaryFunction::kGelu, UnaryFunction::kGeluNew, UnaryFunction::kRelu,
                                        UnaryFunction::kTanh, UnaryFunction::kSilu,    UnaryFunction::kSigmoid};

// Absolute error of a few roundings of max(1, |x|).
TEST(FunctionTest, EveryFunctionAgreesWithDouble) {
  const Tensor x = torch::linspace(-12, 12, 401, torch::kFloat32).to(torch::kFloat64).view({-1, 1});
  for (const UnaryFunction function : kFunctions) {
    SCOPED_TRACE(static_cast<int>(function));
    ExpectSameAsReference([&](const auto& in) { return Apply(function, in[0]); },
                          [&](const auto& in) { return ApplyReference(function, in[0]); }, {x}, 5e-7);
    ExpectGradientsOf([&](const auto& in) { return ApplyReference(function, in[0]); }, {x + 1e-3});
  }
}

std::shared_ptr<RowIdentities> Rows(int64_t count) {
  auto rows = std::make_shared<RowIdentities>();
  for (int64_t i = 0; i < count; ++i) {
    rows->sequence_ids.push_back(7 + i / 5);
    rows->positions.push_back(static_cast<int32_t>(i % 5));
  }
  return rows;
}

TEST(LayerNormTest, AgreesWithDouble) {
  for (const int64_t columns : {3, 65})
    for (const int64_t rows : {1, 70})
      for (const double probability : {0.0, 0.3}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << columns << ", dropout " << probability);
        const DropoutSpec dropout{probability, 5, Rows(rows)};
        Tensor factors;
        if (probability > 0) factors = DropoutFactorsReference(dropout, columns).to(torch::kFloat64);
        const std::vector<Tensor> inputs{Normal({rows, columns}, 1), Normal({rows, columns}, 2), Normal({columns}, 3),
                                         Normal({columns}, 4)};
        ExpectSameAsReference(
            [&](const auto& in) { return DropoutAddLayerNorm(in[0], in[1], in[2], in[3], 1e-3, dropout); },
            [&](const auto& in) { return DropoutAddLayerNormReference(in[0], in[1], in[2], in[3], 1e-3, factors); },
            inputs, 3e-5);
        ExpectSameAsReference(
            [&](const auto& in) { return DropoutAddLayerNorm(in[0], {}, in[1], in[2], 1e-3, {}); },
            [&](const auto& in) { return DropoutAddLayerNormReference(in[0], {}, in[1], in[2], 1e-3, {}); },
            {inputs[0], inputs[2], inputs[3]}, 3e-5);
      }
  ExpectGradientsOf([](const auto& in) { return DropoutAddLayerNormReference(in[0], in[1], in[2], in[3], 1e-3, {}); },
                    {Normal({3, 5}, 1), Normal({3, 5}, 2), Normal({5}, 3), Normal({5}, 4)});
}

TEST(LayerNormTest, WithoutGradientsTheResultTakesTheMemoryOfAnXThatNobodyElseHolds) {
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({70, 65}), kept = x.clone(), residual = torch::randn({70, 65}),
               gamma = torch::randn({65}), beta = torch::randn({65});
  const auto norm = [&](Tensor of) { return DropoutAddLayerNorm(std::move(of), residual, gamma, beta, 1e-3, {}); };
  const Tensor want = norm(x);
  EXPECT_TRUE(torch::equal(x, kept));
  EXPECT_TRUE(torch::equal(norm(x.narrow(0, 0, 70)), want));  // a view: its memory is x's
  EXPECT_TRUE(torch::equal(x, kept));
  Tensor own = x.clone();
  const float* memory = own.data_ptr<float>();
  const Tensor got = norm(std::move(own));
  EXPECT_EQ(got.data_ptr<float>(), memory);
  EXPECT_TRUE(torch::equal(got, want));
}

TEST(DropoutTest, GradientPassesWhereTheValueDid) {
  const DropoutSpec dropout{0.5, 3, Rows(20)};
  const Tensor factors = DropoutFactorsReference(dropout, 33).to(torch::kFloat64);
  ExpectSameAsReference([&](const auto& in) { return Dropout(in[0], dropout); },
                        [&](const auto& in) { return in[0] * factors; }, {Normal({20, 33}, 1)}, 1e-6);
}

TEST(EmbeddingTest, AgreesWithDoubleAndSparesThePaddingRow) {
  auto indices = std::make_shared<EmbeddingIndices>();
  indices->words = {4, 0, 2, 4, 4, 0, 1};
  indices->positions = {0, 1, 2, 0, 1, 2, 3};
  indices->types = {0, 0, 1, 0, 1, 1, 1};
  indices->padding_word = 0;
  const std::vector<Tensor> tables{Normal({6, 70}, 1), Normal({5, 70}, 2), Normal({2, 70}, 3)};
  ExpectSameAsReference([&](const auto& in) { return EmbeddingSum(in[0], in[1], in[2], indices); },
                        [&](const auto& in) { return EmbeddingSumReference(in[0], in[1], in[2], *indices); }, tables,
                        1e-6);
  const Tensor words = tables[0].to(torch::kFloat32).requires_grad_(true);
  EmbeddingSum(words, tables[1].to(torch::kFloat32), tables[2].to(torch::kFloat32), indices).sum().backward();
  EXPECT_EQ(words.grad().to_dense()[0].abs().max().item<float>(), 0);
  EXPECT_EQ(words.grad().to_dense()[4][0].item<float>(), 3);
}

TEST(LinearTest, AgreesWithDouble) {
  for (const int64_t rows : {1, 5, 130})
    ExpectSameAsReference([](const auto& in) { return Linear({in[1]}, {in[2]})(in[0]); },
                          [](const auto& in) { return LinearReference(in[0], in[1], in[2]); },
                          {Normal({rows, 40}, 1), Normal({23, 40}, 2), Normal({23}, 3)});
  ExpectGradientsOf([](const auto& in) { return LinearReference(in[0], in[1], in[2]); },
                    {Normal({3, 4}, 1), Normal({5, 4}, 2), Normal({5}, 3)});
}

TEST(LinearTest, SeveralMapsOfOneInput) {
  ExpectSameAsReference(
      [](const auto& in) {
        return Linear({in[1], in[2]}, {in[3], in[4]})(in[0]);
      },
      [](const auto& in) {
        return torch::cat({LinearReference(in[0], in[1], in[3]), LinearReference(in[0], in[2], in[4])}, 1);
      },
      {Normal({9, 12}, 1), Normal({7, 12}, 2), Normal({5, 12}, 3), Normal({7}, 4), Normal({5}, 5)});
}

// Packed weights follow the weights: in-place changes, new storage, and raw writes of an optimizer between two steps.
TEST(LinearTest, PackedWeightsAreNeverStale) {
  Tensor weight = torch::randn({6, 8}).requires_grad_(true), bias = torch::randn({6}).requires_grad_(true);
  const Linear linear({weight}, {bias});
  const Tensor x = torch::randn({4, 8});
  const auto expect_current = [&](const char* when) {
    const torch::NoGradGuard no_grad;
    ExpectClose(linear(x), LinearReference(x, weight, bias).to(torch::kFloat64), 1e-5, when);
  };
  expect_current("at first");
  {
    const torch::NoGradGuard no_grad;
    weight.mul_(2);
    bias.add_(1);
  }
  expect_current("after a change in place");
  linear(x).sum().backward();
  for (int64_t i = 0; i < weight.numel(); ++i) weight.data_ptr<float>()[i] += 0.5f;
  expect_current("after an optimizer wrote through the pointer");
  {
    const torch::NoGradGuard no_grad;
    weight.set_data(torch::randn({6, 8}));
  }
  expect_current("after new storage");
}

TEST(LinearTest, WrongShapesAreNamed) {
  const Linear linear({torch::randn({6, 8})}, {torch::randn({6})});
  EXPECT_THAT(ErrorOf([&] { linear(torch::randn({4, 7})); }), HasSubstr("expected float32 [rows, 8]"));
}

TEST(CrossEntropyTest, AgreesWithDouble) {
  for (const int64_t rows : {1, 40})
    for (const int64_t words : {3, 2051}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows, " << words << " words");
      std::vector<int32_t> labels;
      for (int64_t i = 0; i < rows; ++i) labels.push_back(static_cast<int32_t>(i * 911 % words));
      labels[0] = static_cast<int32_t>(words - 1);
      ExpectSameAsReference([&](const auto& in) { return DecoderCrossEntropy(in[0], in[1], in[2], labels); },
                            [&](const auto& in) { return DecoderCrossEntropyReference(in[0], in[1], in[2], labels); },
                            {Normal({rows, 12}, 1), Normal({words, 12}, 2), Normal({words}, 3)}, 2e-5);
    }
  ExpectGradientsOf(
      [](const auto& in) {
        return DecoderCrossEntropyReference(in[0], in[1], in[2], {2, 0, 4});
      },
      {Normal({3, 4}, 1), Normal({5, 4}, 2), Normal({5}, 3)});
}

TEST(CrossEntropyTest, LargeLogitsAndNoRows) {
  const Tensor hidden = torch::full({2, 1}, 300.0f).requires_grad_(true),
               weight = torch::tensor({{1.0f}, {-1.0f}}).requires_grad_(true);
  const Tensor bias = torch::zeros({2}).requires_grad_(true);
  EXPECT_FLOAT_EQ(DecoderCrossEntropy(hidden, weight, bias, {0, 1}).item<float>(), 300);
  const Tensor none = DecoderCrossEntropy(hidden.slice(0, 0, 0), weight, bias, {});
  EXPECT_EQ(none.item<float>(), 0);
  none.backward();
  EXPECT_EQ(weight.grad().abs().max().item<float>(), 0);
  EXPECT_THAT(ErrorOf([&] {
                DecoderCrossEntropy(hidden, weight, bias, {0, 2});
              }),
              HasSubstr("label 2: expected 0 to 1"));
}

AttentionSpec SimHash(Fill fill, Pairs pairs, int hashes, bool center_keys) {
  return {.kind = SimHashAttention{.hashes = hashes, .fill = fill, .pairs = pairs, .center_keys = center_keys}};
}

AttentionSpec Sorted(Fill fill, int hashes) {
  return {.kind = SimHashAttention{
              .bands = 0, .hashes = hashes, .fill = fill, .pairs = Pairs::kSorted, .chunk = 4, .look_ahead = 1}};
}

// Chunks of `chunk` tokens, 4 buckets.
AttentionSpec Reformer(int rounds, int look_ahead, int chunk = 8) {
  return {.kind = ReformerAttention{.rounds = rounds, .buckets = {4, 0}, .chunk = chunk, .look_ahead = look_ahead}};
}

std::vector<AttentionSpec> AttentionSpecs() {
  std::vector<AttentionSpec> specs{
      AttentionSpec{},
      SimHash(Fill::kZero, Pairs::kFull, 1, false),
      SimHash(Fill::kMean, Pairs::kFull, 3, true),
      SimHash(Fill::kNone, Pairs::kFull, 2, false),
      SimHash(Fill::kZero, Pairs::kReference, 2, false),
      SimHash(Fill::kMean, Pairs::kReference, 1, false),
      SimHash(Fill::kNone, Pairs::kReference, 1, true),
      Reformer(1, 1),
      Reformer(3, 0),
      Reformer(2, 0, 40),  // one chunk, or exact
      Reformer(2, 1),
      Reformer(2, 0),
      Sorted(Fill::kZero, 2),
      Sorted(Fill::kMean, 1),
      Sorted(Fill::kNone, 3),
      SimHash(Fill::kZero, Pairs::kFull, 1, false),
      Reformer(2, 0),
  };
  for (const size_t i : {15, 16}) specs[i].window = 3, specs[i].global_first = true;
  As<ReformerAttention>(specs[10]).count_pairs_once = true;
  As<ReformerAttention>(specs[10]).scale = ScoreScale::kSqrtD;
  As<ReformerAttention>(specs[11]).causal = true;
  As<ReformerAttention>(specs[11]).cross_bucket = false;
  return specs;
}

TEST(AttentionTest, EveryModeAgreesWithTheComposedForm) {
  for (const AttentionSpec& spec : AttentionSpecs()) {
    SCOPED_TRACE(ToJson(spec).dump());
    auto options = std::make_shared<AttentionOptions>();
    options->spec = std::make_shared<const AttentionSpec>(spec);
    options->heads = 2;
    options->layer = 3;
    options->sequences = Sequences({0, 1, 40, 42, 75});
    ExpectSameAsReference([&](const auto& in) { return SelfAttention(in[0], options); },
                          [&](const auto& in) { return SelfAttentionReference(in[0], *options); },
                          {Normal({75, SlicesOf(spec) * 2 * 16}, 1)}, 2e-5);
  }
}

// The oracle of the kernels, in double, draws the same pairs to drop from (key, sequence id, head, i, j).
TEST(AttentionTest, DropoutEqualsTheOracle) {
  constexpr int kHeads = 2, kHeadDim = 16, kWidth = kHeads * kHeadDim, kTokens = 75;
  for (const AttentionSpec& spec : AttentionSpecs()) {
    SCOPED_TRACE(ToJson(spec).dump());
    auto options = std::make_shared<AttentionOptions>();
    options->spec = std::make_shared<const AttentionSpec>(spec);
    options->heads = kHeads;
    options->layer = 3;
    options->dropout = 0.3;
    options->dropout_key = 77;
    options->sequences = Sequences({0, 1, 40, 42, kTokens}, {9, 4, 7, 1000});
    const Tensor qkv = Normal({kTokens, SlicesOf(spec) * kWidth}, 1).to(torch::kFloat32).requires_grad_(true);
    const Tensor weight = Normal({kTokens, kWidth}, 2).to(torch::kFloat32);
    const Tensor out = SelfAttention(qkv, options);
    (out * weight).sum().backward();

    const Tensor wide = qkv.detach().to(torch::kFloat64);
    const auto part = [&](int i) { return wide.slice(1, i * kWidth, (i + 1) * kWidth).contiguous(); };
    const bool shared_keys = SlicesOf(spec) == 2;
    const Tensor query = part(0), key = part(1), value = part(shared_keys ? 1 : 2), slopes = weight.to(torch::kFloat64);
    const auto span = [](const Tensor& x) { return std::span<const double>(x.data_ptr<double>(), x.numel()); };
    const AttentionShape shape{options->cu_seqlens(), kHeads, kHeadDim};
    ref::Inputs in{shape,     spec,        span(query),
                   span(key), span(value), ScaleOfScores(spec, kHeadDim),
                   {},        {},          {0.3f, options->dropout_key, options->sequences->ids}};
    Buckets buckets;
    if (Is<SimHashAttention>(spec)) {
      buckets = ref::Hash(in, DrawSimHashPlanes(spec, kHeads, kHeadDim, options->layer, 0, shape.longest()));
    } else if (shared_keys) {
      buckets.query = ref::HashByRotation(in, DrawReformerRotations(spec, shape, options->layer, 0));
    }
    in.query_buckets = buckets.query, in.key_buckets = buckets.key;
    const ref::Outputs outputs = ref::Forward(in);
    const ref::Gradients grads = ref::Backward(in, span(slopes));
    const auto tensor = [&](const std::vector<double>& x) {
      return torch::tensor(x, torch::kFloat64).view({kTokens, kWidth});
    };
    ExpectClose(out, tensor(outputs.out), 1e-5, "result");
    std::vector<Tensor> parts{tensor(grads.query), tensor(grads.value)};
    if (!shared_keys) parts.insert(parts.begin() + 1, tensor(grads.key));
    const Tensor grad = torch::cat(parts, 1);
    for (int i = 0; i < SlicesOf(spec); ++i)
      ExpectClose(qkv.grad().slice(1, i * kWidth, (i + 1) * kWidth), grad.slice(1, i * kWidth, (i + 1) * kWidth), 1e-5,
                  "gradient of part " + std::to_string(i));
    options->dropout = 0;
    EXPECT_GT((SelfAttention(qkv, options) - out).abs().max().item<double>(), 0.1);
  }
}

TEST(AttentionTest, ComposedFormHasRightGradients) {
  for (const AttentionSpec& spec : AttentionSpecs()) {
    AttentionOptions options;
    options.heads = 2;
    const auto cut = [](auto& kind) {
      if constexpr (requires { kind.chunk; }) kind.chunk = std::min(kind.chunk, 3);  // several
    };
    AttentionSpec several = spec;
    std::visit(cut, several.kind);
    options.spec = std::make_shared<const AttentionSpec>(several);
    options.sequences = Sequences({0, 1, 9});
    ExpectGradientsOf([&](const auto& in) { return SelfAttentionReference(in[0], options); },
                      {Normal({9, SlicesOf(spec) * 2 * 4}, 1)});
  }
}

// The kernels would read whatever lies there.
TEST(AttentionTest, RefusesWhatTheKernelsDoNotTake) {
  auto options = std::make_shared<AttentionOptions>();
  options->heads = 2;
  options->sequences = Sequences({0, 9});
  const auto error = [&](const Tensor& qkv) { return ErrorOf([&] { SelfAttention(qkv, options); }); };
  const Tensor single = Normal({9, 24}, 1).to(torch::kFloat32);
  EXPECT_EQ(error(single), "(nothing thrown)");
  EXPECT_EQ(error(single.to(torch::kFloat64)), "attention: expected float32, got Double");
  EXPECT_EQ(error(single.to(torch::kMeta)), "attention: expected a tensor on the CPU, got one on meta");
  EXPECT_EQ(error(Normal({24, 9}, 1).to(torch::kFloat32).t()),
            "attention: expected a contiguous tensor, got one of shape [9, 24] with strides [1, 9]");
  EXPECT_EQ(error(single.slice(1, 0, 22)), "attention: expected [tokens, 3 · 2 heads · head_dim], got [9, 22]");
  EXPECT_EQ(error(single.slice(0, 0, 8)), "attention: 8 tokens, but cu_seqlens ends at 9");
}

TEST(AttentionTest, MapsAreProbabilities) {
  for (const AttentionSpec& spec : AttentionSpecs()) {
    AttentionOptions options;
    options.spec = std::make_shared<const AttentionSpec>(spec);
    options.heads = 2;
    options.sequences = Sequences({0, 3, 20});
    const auto maps = AttentionProbabilities(Normal({20, SlicesOf(spec) * 8}, 1), options);
    ASSERT_EQ(maps.size(), 2u);
    EXPECT_EQ(maps[1].sizes(), (std::vector<int64_t>{2, 17, 17}));
    const Tensor sums = maps[1].sum(-1);
    const Tensor whole = (sums - 1).abs() < 1e-12;
    const bool may_see_nothing = Is<SimHashAttention>(spec) && As<SimHashAttention>(spec).fill == Fill::kNone;
    EXPECT_TRUE((may_see_nothing ? torch::logical_or(whole, sums == 0) : whole).all().item<bool>());
  }
}

// Without a window a centroid's probability, shared out to its keys, makes the output; with one it does not quite.
TEST(AttentionTest, ClusteredMapsAreProbabilitiesAndMakeTheOutput) {
  auto options = std::make_shared<AttentionOptions>();
  AttentionSpec spec{.kind = ClusteredAttention{.cluster = {4}, .open = {2}, .groups = 3}};
  options->heads = 2;
  options->layer = 3;
  options->sequences = Sequences({0, 1, 40, 42, 75});
  for (const int window : {0, 2}) {
    spec.window = window;
    options->spec = std::make_shared<const AttentionSpec>(spec);
    const Tensor qkv = Normal({75, 3 * 2 * 16}, 1).to(torch::kFloat32);
    for (const Tensor& map : AttentionProbabilities(qkv, *options))
      EXPECT_LT((map.sum(-1) - 1).abs().max().item<double>(), 1e-5);
    const Tensor got = SelfAttention(qkv, options), made = SelfAttentionReference(qkv, *options);
    const double apart = (got - made).abs().max().item<double>();
    EXPECT_EQ(apart < 1e-4, window == 0) << apart;
  }
}

// Packed q, k, v: the gradients are those of the oracle, which finite differences hold.
TEST(AttentionTest, ClusteredGradientReachesQueryKeyAndValue) {
  auto options = std::make_shared<AttentionOptions>();
  options->spec = std::make_shared<const AttentionSpec>(
      ParseAttentionSpec({{"type", "clustered"}, {"cluster", 4}, {"open", 2}}, "test"));
  options->heads = 2;
  options->sequences = Sequences({0, 60});
  Tensor qkv = Normal({60, 3 * 2 * 16}, 1).to(torch::kFloat32);
  qkv.requires_grad_(true);
  SelfAttention(qkv, options).square().sum().backward();
  EXPECT_TRUE(torch::isfinite(qkv.grad()).all().item<bool>());
  EXPECT_GT(qkv.grad().abs().min().item<double>(), 0);
}

TEST(AttentionTest, CountsAreAddedAndShapesChecked) {
  AttentionCounts counts;
  auto options = std::make_shared<AttentionOptions>();
  options->heads = 2;
  options->sequences = Sequences({0, 3, 7});
  options->counts = &counts;
  const Tensor qkv = torch::randn({7, 24});
  SelfAttention(qkv, options);
  SelfAttention(qkv, options);
  EXPECT_EQ(counts.pairs_total, 2 * 2 * (9 + 16));
  EXPECT_EQ(counts.pairs_computed, counts.pairs_total);
  EXPECT_THAT(ErrorOf([&] {
                SelfAttention(torch::randn({8, 24}), options);
              }),
              HasSubstr("8 tokens, but cu_seqlens ends at 7"));
  EXPECT_THAT(ErrorOf([&] { SelfAttention(torch::randn({7, 25}), options); }), HasSubstr("expected [tokens, 3"));
}

}  // namespace
}  // namespace lshformer
