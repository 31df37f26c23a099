#include "kernels/operator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/attention_case.h"
#include "kernels/attention_specs.h"
#include "kernels/isa.h"
#include "util/errors.h"
#include "util/sanitized.h"

namespace lshformer::testing {
namespace {

using ::testing::HasSubstr;

std::vector<AttentionSpec> EveryKind() {
  std::vector<AttentionSpec> specs = AllSpecs();
  for (const AttentionSpec& spec : ClusteredSpecs()) specs.push_back(spec);
  return FewerIfSanitized(specs, 5);
}

// Where a tensor of a call lies: how far apart its tokens and heads, in floats.
struct Layout {
  int64_t token_stride, head_stride;
};

// A case's tensors in memory of their own, laid out one way or another, and what the operator makes of them.
class Laid {
 public:
  Laid(const AttentionCase& c, Layout layout) : c_(c), layout_(layout) {
    for (const std::vector<float>* x : {&c.query, &c.key, &c.value, &c.grad_out}) inputs_.push_back(Spread(*x));
    for (std::vector<float>& x : outputs_) x.assign(Size(), kUntouched);
    lse_.assign(c.tokens() * c.heads, kUntouched);
  }

  OperatorCall Call() {
    OperatorCall call;
    call.spec = &c_.spec;
    call.tokens = c_.tokens();
    call.shape = c_.shape();
    call.query = In(0);
    if (!c_.SharedKeys()) call.key = In(1);
    call.value = In(2);
    call.out = Out(0);
    call.lse = lse_.data();
    call.dropout = c_.Dropout();
    if (HasBuckets(c_.spec)) call.buckets = &given_;
    return call;
  }

  // Forward and backward.
  AttentionResult Run(const OperatorCall& call) {
    const OperatorResult run = RunOperator(call);
    RunOperatorBackward({call, run.planned, In(3), Out(1), c_.SharedKeys() ? HeadTensor<float>{} : Out(2), Out(3)});
    buckets = run.buckets;
    return Result(run.counts);
  }
  AttentionResult Result(const AttentionCounts& counts = {}) const {
    return {Gathered(0), lse_, Gathered(1), c_.SharedKeys() ? std::vector<float>{} : Gathered(2), Gathered(3), counts};
  }

  // Whether what lies between the numbers is as it was.
  bool GapsAreUntouched() const {
    for (const std::vector<float>& x : outputs_) {
      int64_t untouched = 0;
      for (const float number : x) untouched += number == kUntouched;
      const bool unused = c_.SharedKeys() && &x == &outputs_[2];
      if (untouched != static_cast<int64_t>(x.size()) - (unused ? 0 : static_cast<int64_t>(c_.query.size())))
        return false;
    }
    return true;
  }

  HeadTensor<const float> In(int i) const { return {inputs_[i].data() + 1, layout_.token_stride, layout_.head_stride}; }
  HeadTensor<float> Out(int i) { return {outputs_[i].data() + 1, layout_.token_stride, layout_.head_stride}; }

  Buckets buckets;  // of the last run

 private:
  static constexpr float kUntouched = 12345.0f;

  int64_t At(int64_t token, int head) const { return 1 + token * layout_.token_stride + head * layout_.head_stride; }
  int64_t Size() const { return At(c_.tokens() - 1, c_.heads - 1) + c_.head_dim; }
  std::vector<float> Spread(const std::vector<float>& x) const {
    std::vector<float> to(Size(), NAN);
    for (int64_t t = 0; t < c_.tokens(); ++t) {
      for (int h = 0; h < c_.heads; ++h)
        std::copy_n(x.data() + (t * c_.heads + h) * c_.head_dim, c_.head_dim, to.data() + At(t, h));
    }
    return to;
  }
  std::vector<float> Gathered(int i) const {
    std::vector<float> x;
    for (int64_t t = 0; t < c_.tokens(); ++t) {
      for (int h = 0; h < c_.heads; ++h)
        x.insert(x.end(), outputs_[i].begin() + At(t, h), outputs_[i].begin() + At(t, h) + c_.head_dim);
    }
    return x;
  }

  AttentionCase c_;
  Layout layout_;
  Buckets given_ = GivenTo(c_);
  std::vector<std::vector<float>> inputs_;
  std::array<std::vector<float>, 4> outputs_;
  std::vector<float> lse_;

  static Buckets GivenTo(const AttentionCase& c) {  // none of keys where those are the queries
    return {c.buckets.query, c.SharedKeys() ? std::vector<int32_t>{} : c.buckets.key};
  }
};

class OperatorOf : public ::testing::TestWithParam<AttentionSpec> {};
INSTANTIATE_TEST_SUITE_P(EveryKind, OperatorOf, ::testing::ValuesIn(EveryKind()),
                         [](const auto& info) { return NameOf(info.param) + "_" + std::to_string(info.index); });

// Tokens side by side, heads side by side, and neither: gaps between the rows of both.
TEST_P(OperatorOf, IsTheDirectCallsBitForBitInAnyLayout) {
  AttentionCase c = RandomCase(GetParam(), {1, 100, 0, 64}, 2, 19, 3);
  c.dropout = 0.1f;
  const AttentionResult want = RunKernels(c);
  for (const Layout layout : {Layout{2 * 19, 19}, Layout{19, 19 * 165}, Layout{57, 23}, Layout{24, 24 * 165 + 5}}) {
    SCOPED_TRACE(layout.token_stride);
    Laid laid(c, layout);
    const AttentionResult got = laid.Run(laid.Call());
    EXPECT_TRUE(got == want);
    EXPECT_EQ(got.counts.pairs_computed, want.counts.pairs_computed);
    EXPECT_EQ(got.counts.pairs_total, want.counts.pairs_total);
    EXPECT_EQ(got.counts.attention_flops, want.counts.attention_flops);
    EXPECT_EQ(got.counts.selection_flops, HasBuckets(c.spec) ? 0 : want.counts.selection_flops);
    EXPECT_TRUE(laid.GapsAreUntouched());
  }
}

// Buckets that it finds are those of the seed, and what it makes of them is what the oracle says.
// A backward that has lost its forward's plan.
TEST_P(OperatorOf, PlansAgainToTheSameBits) {
  AttentionCase c = RandomCase(GetParam(), {1, 100, 0, 64}, 2, 16, 3);
  Laid laid(c, {2 * 16, 16});
  const OperatorCall call = laid.Call();
  const AttentionResult want = laid.Run(call);
  OperatorCall unwritten = call;
  unwritten.value = {}, unwritten.out = {}, unwritten.lse = nullptr;
  const OperatorResult planned = PlanOperator(unwritten);
  EXPECT_EQ(planned.counts.pairs_computed, want.counts.pairs_computed);
  EXPECT_EQ(planned.counts.attention_flops, want.counts.attention_flops);
  RunOperatorBackward({call, planned.planned, laid.In(3), laid.Out(1),
                       c.SharedKeys() ? HeadTensor<float>{} : laid.Out(2), laid.Out(3)});
  EXPECT_TRUE(laid.Result() == want);
}

TEST_P(OperatorOf, DrawsFindsAndAgreesWithTheReference) {
  AttentionCase c = RandomCase(GetParam(), {1, 90, 64}, 2, 8, 4);
  Laid laid(c, {16, 8});
  OperatorCall call = laid.Call();
  call.buckets = nullptr;
  call.layer = 3;
  call.step = 5;
  call.keep_buckets = true;
  const AttentionResult kept = laid.Run(call);
  const Projections drawn = DrawProjections(c.spec, c.shape(), 3, 5);
  const Buckets found = FindBuckets(c.spec, c.shape(), call.query, call.key, drawn);
  EXPECT_EQ(laid.buckets.query, found.query);
  EXPECT_EQ(laid.buckets.key, found.key);
  call.projections = &drawn;
  call.keep_buckets = false;
  EXPECT_TRUE(laid.Run(call) == kept);
  EXPECT_TRUE(laid.buckets.query.empty());
  c.buckets = found;
  ExpectAgrees(c, kept);
}

// Query, key and value side by side in one tensor, as layers have them, and their gradients in another.
TEST(Operator, TakesPartsOfOneTensor) {
  const AttentionCase c = RandomCase(AttentionSpec{}, {5, 66}, 3, 7, 8);
  const AttentionResult want = RunKernels(c);
  const int64_t hidden = 3 * 7, tokens = c.tokens();
  std::vector<float> qkv(tokens * 3 * hidden), grads(qkv.size()), out(c.query.size()), lse(tokens * 3);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int part = 0; part < 3; ++part)
      std::copy_n((part == 0   ? c.query
                   : part == 1 ? c.key
                               : c.value)
                          .data() +
                      t * hidden,
                  hidden, qkv.data() + (3 * t + part) * hidden);
  }
  const auto part = [&](auto& all, int i) { return HeadTensor{all.data() + i * hidden, 3 * hidden, int64_t{7}}; };
  const auto& read = qkv;
  OperatorCall call{.spec = &c.spec, .tokens = tokens, .shape = c.shape()};
  call.query = part(read, 0), call.key = part(read, 1), call.value = part(read, 2);
  call.out = {out.data(), hidden, 7};
  call.lse = lse.data();
  const OperatorResult run = RunOperator(call);
  RunOperatorBackward(
      {call, run.planned, {c.grad_out.data(), hidden, 7}, part(grads, 0), part(grads, 1), part(grads, 2)});
  EXPECT_EQ(out, want.out);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < hidden; ++i) {
      ASSERT_EQ(grads[3 * t * hidden + i], want.grad_query[t * hidden + i]);
      ASSERT_EQ(grads[(3 * t + 1) * hidden + i], want.grad_key[t * hidden + i]);
      ASSERT_EQ(grads[(3 * t + 2) * hidden + i], want.grad_value[t * hidden + i]);
    }
  }
}

TEST(Operator, TakesNoTokensAtAll) {
  for (const AttentionSpec& spec : {AttentionSpec{}, SimHash(Pairs::kFull, Fill::kMean, 2), Reformer(2),
                                    AttentionSpec{.kind = ClusteredAttention{}}}) {
    const std::vector<int32_t> cu_seqlens{0, 0};
    OperatorCall call{.spec = &spec, .shape = {cu_seqlens, 2, 8}};
    call.keep_buckets = true;
    const OperatorResult run = RunOperator(call);
    EXPECT_EQ(run.counts.pairs_total, 0);
    EXPECT_TRUE(run.buckets.query.empty());
    RunOperatorBackward({call, run.planned, {}, {}, {}, {}});
  }
}

// Clustered attention whose heads differ has labels of each head's own number.
TEST(Operator, ChecksLabelsByHead) {
  const AttentionSpec spec = OfHeads({AttentionSpec{}, Clustered(16, 1, 2), Clustered(8, 2, 4)}, "test");
  AttentionCase c = RandomCase(spec, {80}, 3, 8, 5);
  std::fill_n(c.buckets.query.begin(), 80, 1 << 20);  // a dense head has no use for any
  Laid laid(c, {24, 8});
  EXPECT_TRUE(laid.Run(laid.Call()) == RunKernels(c));
  c.buckets.key[80] = ClustersOf(As<ClusteredAttention>(spec.heads[1]), 80);
  Laid wrong(c, {24, 8});
  EXPECT_THAT(ErrorOf([&] { RunOperator(wrong.Call()); }),
              HasSubstr("attention: tensor \"key_clusters\": element 80 is 5, expected 0 to 4 (5 buckets)"));
}

// A change to a call that is otherwise right, and what is said of it.
struct Refusal {
  std::string name;
  std::function<void(OperatorCall& call)> spoil;
  std::string says;
};

void PrintTo(const Refusal& refusal, std::ostream* stream) { *stream << refusal.name; }

class OperatorRefuses : public ::testing::TestWithParam<Refusal> {};

const std::array<int32_t, 3> kEndsEarly{0, 9, 29}, kDescends{0, 31, 30}, kBegins{1, 9, 30};
const float kSome[4096] = {};
const std::array<uint64_t, 1> kOneId{7};

std::vector<Refusal> OfShapes() {
  return {
      {"no_spec", [](OperatorCall& c) { c.spec = nullptr; }, "attention: there is no spec"},
      {"where", [](OperatorCall& c) { c.spec = nullptr, c.where = "layer 3"; }, "layer 3: there is no spec"},
      {"no_heads", [](OperatorCall& c) { c.shape.heads = 0; }, "has shape [30, 0, 8], expected 1 to 65536 heads"},
      {"many_heads", [](OperatorCall& c) { c.shape.heads = 65537; }, "expected 1 to 65536 heads"},
      {"head_dim_0", [](OperatorCall& c) { c.shape.head_dim = 0; }, "expected a head_dim of 1 to 256"},
      {"head_dim", [](OperatorCall& c) { c.shape.head_dim = 257; }, "[30, 2, 257], expected a head_dim of 1 to 256"},
      {"tokens", [](OperatorCall& c) { c.tokens = int64_t{1} << 31; }, "has 2147483648 tokens, expected at most"},
      {"no_offsets", [](OperatorCall& c) { c.shape.cu_seqlens = {}; }, "\"cu_seqlens\": is empty"},
      {"offsets_begin", [](OperatorCall& c) { c.shape.cu_seqlens = kBegins; }, "\"cu_seqlens\"[0]: expected 0, got 1"},
      {"offsets_descend", [](OperatorCall& c) { c.shape.cu_seqlens = kDescends; },
       "\"cu_seqlens\"[2]: expected at least 31 (offsets ascend), got 30"},
      {"offsets_end", [](OperatorCall& c) { c.shape.cu_seqlens = kEndsEarly; },
       "\"cu_seqlens\"[2]: expected 30 (the tokens of \"query\"), got 29"}};
}

std::vector<Refusal> OfTensors() {
  const auto strides = [](int64_t token, int64_t head) {
    return [=](OperatorCall& call) { call.value.token_stride = token, call.value.head_stride = head; };
  };
  const auto out_strides = [](int64_t token, int64_t head) {
    return [=](OperatorCall& call) { call.out.token_stride = token, call.out.head_stride = head; };
  };
  return {
      {"query", [](OperatorCall& c) { c.query = {}; }, "tensor \"query\" is missing"},
      {"key", [](OperatorCall& c) { c.key = {}; }, "tensor \"key\" is missing"},
      {"value", [](OperatorCall& c) { c.value = {}; }, "tensor \"value\" is missing"},
      {"out", [](OperatorCall& c) { c.out = {}; }, "tensor \"out\" is missing"},
      {"lse", [](OperatorCall& c) { c.lse = nullptr; }, "tensor \"lse\" is missing"},
      {"negative_stride", strides(-16, 8), "tensor \"value\" has strides -16 and 8, expected none below 0"},
      {"far_stride", strides(int64_t{1} << 61, 8), "more than memory can hold"},
      {"far_head_stride", strides(16, int64_t{1} << 62), "more than memory can hold"},
      {"rows_overlap", out_strides(12, 8), "tensor \"out\" has strides 12 and 8, expected such that its numbers lie"},
      {"heads_overlap", out_strides(16, 7), "tensor \"out\" has strides 16 and 7, expected such that"},
      {"one_row", out_strides(0, 8), "tensor \"out\" has strides 0 and 8, expected such that"},
      {"odd_address",
       [](OperatorCall& c) {
         c.key.data = reinterpret_cast<const float*>(reinterpret_cast<const char*>(c.key.data) + 2);
       },
       "tensor \"key\" begins between two numbers, expected a multiple of 4 bytes"},
      {"out_is_query", [](OperatorCall& c) { c.out.data = const_cast<float*>(c.query.data); },
       "tensors \"out\" and \"query\" overlap"},
      {"out_in_value", [](OperatorCall& c) { c.out.data = const_cast<float*>(c.value.data) + 5; },
       "tensors \"out\" and \"value\" overlap"},
      {"lse_in_out", [](OperatorCall& c) { c.lse = c.out.data + 100; }, "tensors \"out\" and \"lse\" overlap"},
      {"dropout_1", [](OperatorCall& c) { c.dropout.probability = 1; }, "a probability from 0 to below 1, got 1"},
      {"dropout_nan", [](OperatorCall& c) { c.dropout.probability = std::numeric_limits<float>::quiet_NaN(); },
       "expected a probability from 0 to below 1, got nan"},
      {"dropout_ids",
       [](OperatorCall& c) {
         c.dropout = {0.5f, 1, kOneId};
       },
       "1 sequence ids for 2 sequences"},
      {"rounded_query",
       [](OperatorCall& c) {
         c.rounded_query = {reinterpret_cast<const BFloat16*>(kSome), 16, 8};
       },
       "tensor \"query\" is not expected: queries are bfloat16, it is float32"},
      {"rounded_value",
       [](OperatorCall& c) {
         c.rounded_value = {reinterpret_cast<const BFloat16*>(kSome), 16, 8};
       },
       "tensor \"value\" is not expected: queries are float32, it is bfloat16"},
  };
}

INSTANTIATE_TEST_SUITE_P(Shapes, OperatorRefuses, ::testing::ValuesIn(OfShapes()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Tensors, OperatorRefuses, ::testing::ValuesIn(OfTensors()),
                         [](const auto& info) { return info.param.name; });

AttentionCase SmallCase(const AttentionSpec& spec) { return RandomCase(spec, {9, 21}, 2, 8, 6); }

TEST_P(OperatorRefuses, WhatTheKernelsWouldReadOrWriteWrong) {
  Laid laid(SmallCase(AttentionSpec{}), {16, 8});
  OperatorCall call = laid.Call();
  EXPECT_EQ(ErrorOf([&] { RunOperator(call); }), "(nothing thrown)");
  GetParam().spoil(call);
  EXPECT_THAT(ErrorOf([&] { RunOperator(call); }), HasSubstr(GetParam().says));
}

TEST(OperatorRefusesBackward, WhatTheKernelsWouldReadOrWriteWrong) {
  const AttentionCase c = SmallCase(AttentionSpec{});
  Laid laid(c, {16, 8});
  const OperatorCall call = laid.Call();
  const PlannedAttention planned = RunOperator(call).planned;
  const auto error = [&](HeadTensor<const float> grad_out, HeadTensor<float> query, HeadTensor<float> key,
                         HeadTensor<float> value, const PlannedAttention& plan) {
    return ErrorOf([&] { RunOperatorBackward({call, plan, grad_out, query, key, value}); });
  };
  const HeadTensor<const float> given = laid.In(3);
  const HeadTensor<float> query = laid.Out(1), key = laid.Out(2), value = laid.Out(3);
  EXPECT_EQ(error(given, query, key, value, planned), "(nothing thrown)");
  EXPECT_THAT(error({}, query, key, value, planned), HasSubstr("tensor \"grad_out\" is missing"));
  EXPECT_THAT(error(given, {}, key, value, planned), HasSubstr("tensor \"grad_query\" is missing"));
  EXPECT_THAT(error(given, query, {}, value, planned), HasSubstr("tensor \"grad_key\" is missing"));
  EXPECT_THAT(error(given, query, key, {}, planned), HasSubstr("tensor \"grad_value\" is missing"));
  EXPECT_THAT(error(given, query, query, value, planned), HasSubstr("\"grad_query\" and \"grad_key\" overlap"));
  EXPECT_THAT(error(given, query, key, call.out, planned), HasSubstr("\"grad_value\" and \"out\" overlap"));
  EXPECT_THAT(error(given, query, key, value, {}), HasSubstr("the plan is not that of this call's forward"));
  EXPECT_THAT(error(given, query, key, value, PlanOf(RandomCase(c.spec, {10, 20}, 2, 8))),
              HasSubstr("the plan is not that of this call's forward"));
}

// Of the kinds that find buckets: what is given in their place.
TEST(OperatorRefusesNumbers, OfSimHash) {
  AttentionCase c = SmallCase(SimHash(Pairs::kFull, Fill::kZero, 2, 4));
  const auto error = [&](const Projections* projections, const Buckets* buckets) {
    Laid laid(c, {16, 8});
    OperatorCall call = laid.Call();
    call.projections = projections;
    call.buckets = buckets;
    return ErrorOf([&] { RunOperator(call); });
  };
  const Projections drawn = DrawProjections(c.spec, c.shape(), 0, 0);
  EXPECT_EQ(error(&drawn, nullptr), "(nothing thrown)");
  EXPECT_THAT(error(&drawn, &c.buckets), HasSubstr("both projections and buckets are given"));
  const Projections none;
  EXPECT_THAT(error(&none, nullptr), HasSubstr("what was drawn is not of simhash attention, or not enough for 21"));
  const auto spoilt = [&](auto spoil) {
    auto planes = std::get<SimHashPlanes>(drawn);
    spoil(planes);
    const Projections wrong = planes;
    return error(&wrong, nullptr);
  };
  EXPECT_THAT(spoilt([](auto& p) { p.planes.pop_back(); }), HasSubstr("\"planes\" has 63 elements, expected 64"));
  EXPECT_THAT(spoilt([](auto& p) { p.coefficients.pop_back(); }), HasSubstr("\"coefficients\" has 7 elements"));
  EXPECT_THAT(spoilt([](auto& p) { p.coefficients[3] = 4; }),
              HasSubstr("\"coefficients\": element 3 is 4, expected 0 to 3 (table_size 4)"));
  Buckets buckets = c.buckets;
  buckets.key.pop_back();
  EXPECT_THAT(error(nullptr, &buckets), HasSubstr("\"key_buckets\" has 119 elements, expected 120"));
  buckets = c.buckets;
  buckets.query[41] = -1;
  EXPECT_THAT(error(nullptr, &buckets), HasSubstr("\"query_buckets\": element 41 is -1, expected 0 to 3 (4 buckets)"));
}

TEST(OperatorRefusesNumbers, OfOtherKinds) {
  const auto error = [&](const AttentionSpec& spec, auto spoil) {
    Laid laid(RandomCase(spec, {80}, 2, 8, 6), {16, 8});
    OperatorCall call = laid.Call();
    return ErrorOf([&] {
      spoil(call);
      RunOperator(call);
    });
  };
  const Buckets one{{0}, {}};
  EXPECT_THAT(error(AttentionSpec{}, [&](OperatorCall& call) { call.buckets = &one; }),
              HasSubstr("dense attention has no buckets"));
  const Projections none;
  const auto no_numbers = [&](OperatorCall& call) { call.buckets = nullptr, call.projections = &none; };
  EXPECT_THAT(error(Reformer(2), no_numbers), HasSubstr("what was drawn is not of reformer attention"));
  EXPECT_THAT(error(Clustered(8, 2, 4), no_numbers), HasSubstr("what was drawn is not of clustered attention"));
  Buckets buckets;
  buckets.query.assign(2 * 2 * 80, 8);
  EXPECT_THAT(error(Reformer(2), [&](OperatorCall& call) { call.buckets = &buckets; }),
              HasSubstr("\"query_buckets\": element 0 is 8, expected 0 to 7 (8 buckets)"));
  Projections drawn;
  EXPECT_THAT(error(Clustered(8, 2, 4),
                    [&](OperatorCall& call) {
                      drawn = DrawProjections(*call.spec, call.shape, 0, 0);
                      std::get<ClusterDirections>(drawn).key[3] = std::numeric_limits<float>::infinity();
                      call.buckets = nullptr, call.projections = &drawn;
                    }),
              HasSubstr("\"key_directions\": element 3 is not finite"));
  EXPECT_THAT(error(Reformer(2), [](OperatorCall& call) { call.key = call.value; }),
              HasSubstr("\"key\" is not expected: the keys are the queries"));
  AttentionSpec heads = OfHeads({Clustered(8, 2, 4), Clustered(8, 2, 4), Clustered(16, 2, 4)}, "test");
  EXPECT_THAT(error(Clustered(8, 2, 4), [&](OperatorCall& call) { call.spec = &heads; }),
              HasSubstr("3 specs of heads for 2 heads"));
}

// Rows in bfloat16 are read where they lie only by what multiplies them and nothing else.
TEST(OperatorRefusesNumbers, InBFloat16) {
  const AttentionCase c = RandomCase(Clustered(8, 2, 4), {80}, 2, 8, 6);
  Laid laid(c, {16, 8});
  OperatorCall call = laid.Call();
  const HeadTensor<const BFloat16> rows{reinterpret_cast<const BFloat16*>(kSome), 16, 8};
  call.query = call.key = call.value = {};
  call.rounded_query = call.rounded_key = call.rounded_value = rows;
  EXPECT_THAT(
      ErrorOf([&] { RunOperator(call); }),
      HasSubstr("\"query\" is bfloat16, expected float32: clustered attention does more with it than multiply"));
  const AttentionSpec dense{};
  call.spec = &dense;
  call.buckets = nullptr;
  EXPECT_THAT(ErrorOf([&] { RunOperator(call); }), HasSubstr("rows in bfloat16 are for products of bfloat16"));
  EXPECT_THAT(
      ErrorOf([&] {
        RunOperatorBackward({call, {BuildDensePlan(call.shape)}, laid.In(3), laid.Out(1), laid.Out(2), laid.Out(3)});
      }),
      HasSubstr("a forward in bfloat16 rows has no backward"));
}

}  // namespace
}  // namespace lshformer::testing
