#include "attention.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "kernels/matmul_precision.h"
#include "kernels/operator.h"
#include "kernels/ref/attention.h"
#include "specs.h"

namespace lshformer::extension {
namespace {

struct Arguments {
  const Tensor& query;
  const OptionalTensor& key;
  const Tensor& value;
  const Tensor& cu_seqlens;
  const std::string& spec;
  int64_t seed = 0;
  double dropout = 0;
  int64_t layer = 0, step = 0;
  const OptionalTensor &key_directions, &query_directions;
};

AttentionShape ShapeOf(const Arguments& in) {
  const auto whole = [](int64_t x) { return static_cast<int>(std::min<int64_t>(x, INT32_MAX)); };
  return {Offsets(in.cu_seqlens), whole(in.query.size(1)), whole(in.query.size(2))};
}

void Check(const Arguments& in, const AttentionSpec& spec) {
  const ScalarType type = in.query.scalar_type();
  if (type != ScalarType::Float && type != ScalarType::BFloat16 && type != ScalarType::Double)
    Fail("{}: tensor \"query\" is {}, expected float32, bfloat16 or float64", kWhere, Name(type));
  CheckRows(in.query, "query", in.query);
  if (SharesKeys(spec) && in.key)
    Fail("{}: tensor \"key\" is not expected: of {} attention the keys are the queries", kWhere, Name(spec));
  if (!SharesKeys(spec) && !in.key) Fail("{}: tensor \"key\" is missing", kWhere);
  if (in.key) CheckRows(*in.key, "key", in.query);
  CheckRows(in.value, "value", in.query);
  CheckShape(ShapeOf(in), in.query.size(0), kWhere);
  if (!spec.heads.empty() && static_cast<int64_t>(spec.heads.size()) != in.query.size(1))
    Fail("{}: {} specs of heads for {} heads", kWhere, spec.heads.size(), in.query.size(1));
  if (in.layer < 0 || in.layer > INT32_MAX) Fail("{}: layer: expected one from 0, got {}", kWhere, in.layer);
  if (in.step < 0) Fail("{}: step: expected one from 0, got {}", kWhere, in.step);
}

// The first columns of `drawn` [heads, head_dim, depth] become those of `given`.
void Overlay(const Tensor& given, const char* name, const AttentionShape& shape, int depth, std::vector<float>& drawn) {
  CheckOnCpu(given, name);
  CheckDims(given, name, 3, "[heads, head_dim, depth]");
  CheckType(given, name, ScalarType::Float);
  if (given.size(0) != shape.heads || given.size(1) != shape.head_dim)
    Fail("{}: tensor \"{}\" has shape {}, expected [{}, {}, depth]", kWhere, name, ShapeText(given), shape.heads,
         shape.head_dim);
  if (!given.is_contiguous()) Fail("{}: tensor \"{}\" is not contiguous", kWhere, name);
  const int64_t has = given.size(2), rows = int64_t{shape.heads} * shape.head_dim;
  const auto* values = static_cast<const float*>(given.const_data_ptr());
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(values + row * has, std::min<int64_t>(has, depth), drawn.begin() + row * depth);
}

// What the call's sequences are hashed or grouped with; null where none is.
ProjectionsPtr ProjectionsOf(const Arguments& in, const AttentionSpec& spec, const AttentionShape& shape) {
  ProjectionsPtr drawn = Drawn(spec, in.spec, shape, static_cast<uint32_t>(in.layer), static_cast<uint64_t>(in.step));
  const bool given = in.key_directions.has_value() || in.query_directions.has_value();
  const auto* directions = drawn == nullptr ? nullptr : std::get_if<ClusterDirections>(drawn.get());
  if (directions == nullptr) {
    if (given && drawn != nullptr) Fail("{}: {} attention has no directions", kWhere, Name(spec));
    return drawn;
  }
  if (StoresDirections(spec) && (!in.key_directions || !in.query_directions))
    Fail("{}: \"directions\" are \"stored\", but there are none", kWhere);
  if (!given) return drawn;
  ClusterDirections own = *directions;
  if (in.key_directions) Overlay(*in.key_directions, "key_directions", shape, own.key_depth, own.key);
  if (in.query_directions) Overlay(*in.query_directions, "query_directions", shape, own.query_depth, own.query);
  return std::make_shared<const Projections>(std::move(own));
}

// Inputs of the fast kernels, with what they point to.
class Call {
 public:
  explicit Call(const Arguments& in) : spec_(SpecOf(in.spec)) {
    Check(in, *spec_);
    call.spec = spec_.get();
    call.tokens = in.query.size(0);
    call.shape = ShapeOf(in);
    call.operands = rounded(in) && Supports(Operands::kBFloat16) ? Operands::kBFloat16 : Operands::kFloat32;
    call.dropout.probability = static_cast<float>(in.dropout);
    call.dropout.key = StreamKey(static_cast<uint64_t>(in.seed), static_cast<uint64_t>(in.step),
                                 static_cast<uint32_t>(in.layer), 0, Purpose::kAttentionDropout);
    call.layer = static_cast<uint32_t>(in.layer);
    call.step = static_cast<uint64_t>(in.step);
    projections_ = ProjectionsOf(in, *spec_, call.shape);
    call.projections = projections_.get();
    call.count = false;
    call.where = kWhere;
  }

  void ReadWide(const Arguments& in) {
    call.query = Wide(in.query);
    if (in.key) call.key = Wide(*in.key);
    call.value = Wide(in.value);
  }
  void ReadRounded(const Arguments& in) {
    call.rounded_query = Rows<const BFloat16>(in.query);
    if (in.key) call.rounded_key = Rows<const BFloat16>(*in.key);
    call.rounded_value = Rows<const BFloat16>(in.value);
  }
  // Of float32 where it lies, of bfloat16 widened.
  HeadTensor<const float> Wide(const Tensor& tensor) {
    if (tensor.scalar_type() == ScalarType::Float) return Rows<const float>(tensor);
    kept_.push_back(Widened(tensor));
    return Rows<const float>(kept_.back());
  }

  OperatorCall call;

 private:
  static bool rounded(const Arguments& in) { return in.query.scalar_type() == ScalarType::BFloat16; }

  SpecPtr spec_;
  ProjectionsPtr projections_;
  std::vector<Tensor> kept_;
};

std::vector<int64_t> Shape(const Tensor& tensor) { return {tensor.sizes().begin(), tensor.sizes().end()}; }

std::tuple<Tensor, Tensor> Forward(const Arguments& in) {
  Call fast(in);
  OperatorCall& call = fast.call;
  Tensor lse = Empty({in.query.size(0), in.query.size(1)}, ScalarType::Float);
  call.lse = static_cast<float*>(lse.mutable_data_ptr());
  const bool rounded = in.query.scalar_type() == ScalarType::BFloat16, tiles = rounded && AmxTilesAreActive();
  if (tiles && OnlyMultiplies(*call.spec, call.shape)) {
    fast.ReadRounded(in);
  } else {
    fast.ReadWide(in);
  }
  Tensor output = Empty(Shape(in.query), tiles ? ScalarType::BFloat16 : ScalarType::Float);
  if (tiles) {
    call.rounded_out = Rows<BFloat16>(output);
  } else {
    call.out = Rows<float>(output);
  }
  RunOperator(call);
  return {rounded && !tiles ? Narrowed(output) : output, lse};
}

std::tuple<Tensor, Tensor, Tensor> Backward(const Arguments& in, const Tensor& grad_output, const Tensor& output,
                                            const Tensor& lse) {
  Call fast(in);
  OperatorCall& call = fast.call;
  fast.ReadWide(in);
  // Of what it was written to the backward only reads.
  const HeadTensor<const float> out = fast.Wide(output);
  call.out = {const_cast<float*>(out.data), out.token_stride, out.head_stride};
  call.lse = static_cast<float*>(const_cast<void*>(lse.const_data_ptr()));
  const std::vector<int64_t> shape = Shape(in.query);
  Tensor grad_query = Empty(shape, ScalarType::Float), grad_value = Empty(shape, ScalarType::Float);
  Tensor grad_key = Empty(in.key ? shape : std::vector<int64_t>{0}, ScalarType::Float);
  const OperatorResult planned = PlanOperator(call);
  RunOperatorBackward({call, planned.planned, fast.Wide(grad_output), Rows<float>(grad_query),
                       in.key ? Rows<float>(grad_key) : HeadTensor<float>{}, Rows<float>(grad_value)});
  if (in.query.scalar_type() == ScalarType::Float) return {grad_query, grad_key, grad_value};
  return {Narrowed(grad_query), in.key ? Narrowed(grad_key) : Empty({0}, ScalarType::BFloat16), Narrowed(grad_value)};
}

// The readable oracle's inputs.
class Reference {
 public:
  explicit Reference(const Arguments& in) : spec_(SpecOf(in.spec)) {
    Check(in, *spec_);
    query_ = Doubles(in.query);
    if (in.key) key_ = Doubles(*in.key);
    value_ = Doubles(in.value);
    const AttentionShape shape = ShapeOf(in);
    if (!(in.dropout >= 0 && in.dropout < 1))
      Fail("{}: dropout: expected a probability from 0 to below 1, got {}", kWhere, in.dropout);
    const AttentionDropout dropout{static_cast<float>(in.dropout),
                                   StreamKey(static_cast<uint64_t>(in.seed), static_cast<uint64_t>(in.step),
                                             static_cast<uint32_t>(in.layer), 0, Purpose::kAttentionDropout),
                                   {}};
    inputs = {shape, *spec_, query_, key_, value_, ScaleOfScores(*spec_, shape.head_dim), {}, {}, dropout};
    if (const ProjectionsPtr projections = ProjectionsOf(in, *spec_, shape)) {
      buckets_ = ref::FindBuckets(inputs, *projections);
    } else if (shape.tokens() > 0) {
      buckets_ = ref::FindBuckets(inputs, DrawProjections(*spec_, shape, static_cast<uint32_t>(in.layer), 0));
    }
    inputs.query_buckets = buckets_.query;
    inputs.key_buckets = buckets_.key;
  }

  ref::Inputs inputs;

 private:
  SpecPtr spec_;
  std::vector<double> query_, key_, value_;
  Buckets buckets_;
};

bool IsReference(const Arguments& in) { return in.query.scalar_type() == ScalarType::Double; }

}  // namespace

std::tuple<Tensor, Tensor> Attention(const Tensor& query, const OptionalTensor& key, const Tensor& value,
                                     const Tensor& cu_seqlens, const std::string& spec, int64_t seed, double dropout,
                                     int64_t layer, int64_t step, const OptionalTensor& key_directions,
                                     const OptionalTensor& query_directions) {
  const Arguments in{query, key, value, cu_seqlens, spec, seed, dropout, layer, step, key_directions, query_directions};
  if (!IsReference(in)) return Forward(in);
  const ref::Outputs outputs = ref::Forward(Reference(in).inputs);
  return {FromDoubles(outputs.out, Shape(query)), FromDoubles(outputs.lse, {query.size(0), query.size(1)})};
}

std::tuple<Tensor, Tensor, Tensor> AttentionBackward(const Tensor& grad_output, const Tensor& query,
                                                     const OptionalTensor& key, const Tensor& value,
                                                     const Tensor& output, const Tensor& lse, const Tensor& cu_seqlens,
                                                     const std::string& spec, int64_t seed, double dropout,
                                                     int64_t layer, int64_t step, const OptionalTensor& key_directions,
                                                     const OptionalTensor& query_directions) {
  const Arguments in{query, key, value, cu_seqlens, spec, seed, dropout, layer, step, key_directions, query_directions};
  CheckRows(grad_output, "grad_output", query);
  CheckRows(output, "output", query);
  CheckDims(lse, "lse", 2, "[tokens, heads]");
  CheckType(lse, "lse", IsReference(in) ? ScalarType::Double : ScalarType::Float);
  if (!lse.is_contiguous() || lse.size(0) != query.size(0) || lse.size(1) != query.size(1))
    Fail("{}: tensor \"lse\" has shape {}, expected [tokens, heads] of \"query\", contiguous", kWhere, ShapeText(lse));
  if (!IsReference(in)) return Backward(in, grad_output, output, lse);
  const std::vector<double> grad = Doubles(grad_output);
  const ref::Gradients gradients = ref::Backward(Reference(in).inputs, grad);
  return {FromDoubles(gradients.query, Shape(query)),
          FromDoubles(gradients.key, key ? Shape(query) : std::vector<int64_t>{0}),
          FromDoubles(gradients.value, Shape(query))};
}

Tensor Plan(const Tensor& query, const OptionalTensor& key, const Tensor& cu_seqlens, const std::string& spec,
            int64_t layer, int64_t step, const OptionalTensor& key_directions, const OptionalTensor& query_directions) {
  const Arguments in{query, key, query, cu_seqlens, spec, 0, 0, layer, step, key_directions, query_directions};
  if (IsReference(in)) CheckType(query, "query", ScalarType::Float);
  Call fast(in);
  fast.ReadWide(in);
  fast.call.count = true;
  const AttentionCounts counts = PlanOperator(fast.call).counts;
  Tensor result = Empty({4}, ScalarType::Long);
  const int64_t values[] = {counts.pairs_total, counts.pairs_computed, counts.selection_flops, counts.attention_flops};
  std::memcpy(result.mutable_data_ptr(), values, sizeof(values));
  return result;
}

}  // namespace lshformer::extension
