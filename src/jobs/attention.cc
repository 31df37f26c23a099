#include "jobs/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "base/error.h"
#include "io/safetensors.h"
#include "kernels/ref/attention.h"
#include "kernels/ref/clustered.h"
#include "kernels/ref/reformer.h"

namespace lshformer {
namespace {

constexpr int kLargestHeadDim = 256, kMostHeads = 65536;

template <class T>
std::vector<T> Read(const SafetensorsFile& file, const char* name, DType dtype, const std::vector<int64_t>& shape) {
  const TensorView& view = file.Get(name, dtype, shape);
  std::vector<T> values(static_cast<size_t>(view.elements()));
  CopyTo<T>(view, values, file.path() + ": tensor \"" + name + "\"");
  return values;
}

void CheckOffsets(const std::vector<int32_t>& cu_seqlens, int64_t tokens, const std::string& path) {
  const std::string where = path + ": tensor \"cu_seqlens\"";
  if (cu_seqlens.empty()) Fail("{}: is empty, expected sequences + 1 offsets", where);
  if (cu_seqlens.front() != 0) Fail("{}[0]: expected 0, got {}", where, cu_seqlens.front());
  for (size_t b = 1; b < cu_seqlens.size(); ++b) {
    if (cu_seqlens[b] < cu_seqlens[b - 1]) {
      Fail("{}[{}]: expected at least {} (offsets ascend), got {}", where, b, cu_seqlens[b - 1], cu_seqlens[b]);
    }
  }
  if (cu_seqlens.back() != tokens) {
    Fail("{}[{}]: expected {} (the tokens of \"query\"), got {}", where, cu_seqlens.size() - 1, tokens,
         cu_seqlens.back());
  }
}

// Integers of a tensor in [0, end).
void CheckRange(const std::vector<int32_t>& values, int end, const std::string& path, const char* name) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] >= end) {
      Fail("{}: tensor \"{}\": element {} is {}, expected 0 to {} (table_size {})", path, name, i, values[i], end - 1,
           end);
    }
  }
}

// Buckets [rows, tokens] of each sequence in [0, its own number of buckets).
void CheckBuckets(const std::vector<int32_t>& buckets, const OperatorInput& in,
                  const std::function<int64_t(int64_t length)>& buckets_of, const std::string& path, const char* name) {
  const int64_t rows = in.tokens == 0 ? 0 : static_cast<int64_t>(buckets.size()) / in.tokens;
  for (size_t b = 0; b + 1 < in.cu_seqlens.size(); ++b) {
    const int64_t end = buckets_of(in.cu_seqlens[b + 1] - in.cu_seqlens[b]);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = row * in.tokens + in.cu_seqlens[b]; i < row * in.tokens + in.cu_seqlens[b + 1]; ++i) {
        if (buckets[i] < 0 || buckets[i] >= end)
          Fail("{}: tensor \"{}\": element {} is {}, expected 0 to {} ({} buckets)", path, name, i, buckets[i], end - 1,
               end);
      }
    }
  }
}

// "coefficients" of the planes; where sign patterns are buckets there is nothing to choose, and it may be left out.
std::vector<int32_t> ReadCoefficients(const SafetensorsFile& file, const SimHashAttention& simhash,
                                      const OperatorInput& in, int bands) {
  const int64_t functions = int64_t{in.heads} * simhash.hashes;
  std::vector<int32_t> powers;
  for (int64_t i = 0; SignPatternsAreBuckets(simhash) && i < functions * bands; ++i) powers.push_back(1 << i % bands);
  if (!powers.empty() && !file.Find("coefficients")) return powers;
  std::vector<int32_t> given = Read<int32_t>(file, "coefficients", DType::kI32, {in.heads, simhash.hashes, bands});
  if (powers.empty()) CheckRange(given, simhash.table_size, file.path(), "coefficients");
  for (size_t i = 0; i < powers.size(); ++i) {
    if (given[i] != powers[i])
      Fail("{}: tensor \"coefficients\": element {} is {}, expected {} (every sign pattern is a bucket of its own)",
           file.path(), i, given[i], powers[i]);
  }
  return given;
}

// What the file holds of a kind's hashing: what it draws, or ready buckets.
void ReadHash(const DenseAttention&, const SafetensorsFile&, const AttentionSpec&, OperatorInput&) {}

void ReadHash(const SimHashAttention& simhash, const SafetensorsFile& file, const AttentionSpec&, OperatorInput& in) {
  const bool has_planes = file.Find("planes") || file.Find("coefficients");
  const bool has_buckets = file.Find("query_buckets") || file.Find("key_buckets");
  if (has_planes && has_buckets) {
    Fail("{}: has both \"planes\" and \"{}\", expected hyperplanes or ready buckets", file.path(),
         file.Find("query_buckets") ? "query_buckets" : "key_buckets");
  }
  if (has_planes) {
    const int bands = BandsOf(simhash, in.shape().longest());
    in.projections =
        SimHashPlanes{bands, Read<float>(file, "planes", DType::kF32, {in.heads, simhash.hashes, bands, in.head_dim}),
                      ReadCoefficients(file, simhash, in, bands)};
  }
  if (has_buckets) {
    const std::vector<int64_t> shape{in.heads, simhash.hashes, in.tokens};
    in.buckets = {Read<int32_t>(file, "query_buckets", DType::kI32, shape),
                  Read<int32_t>(file, "key_buckets", DType::kI32, shape)};
    // Sorted pairs only sort by them.
    const auto buckets_of = [&simhash](int64_t length) {
      return simhash.pairs == Pairs::kSorted ? int64_t{1} << 31 : TableSizeOf(simhash, length);
    };
    CheckBuckets(in.buckets->query, in, buckets_of, file.path(), "query_buckets");
    CheckBuckets(in.buckets->key, in, buckets_of, file.path(), "key_buckets");
  }
}

void ReadHash(const ReformerAttention& reformer, const SafetensorsFile& file, const AttentionSpec& spec,
              OperatorInput& in) {
  const bool has_rotations = file.Find("rotations") != nullptr, has_buckets = file.Find("query_buckets") != nullptr;
  if (has_rotations && has_buckets)
    Fail("{}: has both \"rotations\" and \"query_buckets\", expected rotations or ready buckets", file.path());
  ReformerRotations rotations;
  for (size_t b = 0; b + 1 < in.cu_seqlens.size(); ++b) {
    const int32_t length = in.cu_seqlens[b + 1] - in.cu_seqlens[b];
    if (IsSparseAt(spec, length)) CheckWindow(reformer, length);
    rotations.columns = std::max(rotations.columns, RotationColumns(reformer, length));
  }
  if (has_rotations) {
    rotations.rotations =
        Read<float>(file, "rotations", DType::kF32, {in.heads, reformer.rounds, in.head_dim, rotations.columns});
    in.projections = std::move(rotations);
  }
  if (has_buckets) {
    in.buckets = {Read<int32_t>(file, "query_buckets", DType::kI32, {in.heads, reformer.rounds, in.tokens}), {}};
    const auto buckets_of = [&reformer](int64_t length) {
      // `auto` says how many to hash into; buckets from elsewhere may be any.
      if (reformer.buckets[0] == 0) return int64_t{INT32_MAX};
      const std::array<int, 2> factors = BucketFactors(reformer, length);
      return int64_t{factors[0]} * factors[1];
    };
    CheckBuckets(in.buckets->query, in, buckets_of, file.path(), "query_buckets");
  }
}

// Directions [heads, head_dim, at least `depth`]; returns how many.
int ReadDirections(const SafetensorsFile& file, const char* name, const OperatorInput& in, int depth,
                   std::vector<float>& into) {
  const TensorView& view = file.Get(name, DType::kF32, std::array<int64_t, 3>{in.heads, in.head_dim, -1});
  if (view.shape[2] < depth)
    Fail("{}: tensor \"{}\" has shape {}, expected at least {} directions (the longest sequence is cut so often)",
         file.path(), name, ShapeText(view.shape), depth);
  into = Read<float>(file, name, DType::kF32, view.shape);
  for (size_t i = 0; i < into.size(); ++i)
    if (!std::isfinite(into[i])) Fail("{}: tensor \"{}\": element {} is not finite", file.path(), name, i);
  return static_cast<int>(view.shape[2]);
}

// Directions that the file lacks are drawn.
void ReadHash(const ClusteredAttention& clustered, const SafetensorsFile& file, const AttentionSpec& spec,
              OperatorInput& in) {
  const bool of_keys = file.Find("key_directions") != nullptr, of_queries = file.Find("query_directions") != nullptr;
  const bool has_labels = file.Find("key_clusters") || file.Find("query_groups");
  if ((of_keys || of_queries) && has_labels)
    Fail("{}: has both \"{}\" and \"{}\", expected directions or ready clusters and groups", file.path(),
         of_keys ? "key_directions" : "query_directions", file.Find("key_clusters") ? "key_clusters" : "query_groups");
  if (clustered.directions == Directions::kStored && !of_keys && !of_queries && !has_labels)
    Fail("{}: \"directions\" are \"stored\", expected tensors \"key_directions\" and \"query_directions\"",
         file.path());
  if (of_keys || of_queries) {
    ClusterDirections directions = DrawClusterDirections(spec, in.shape(), /*layer=*/0);
    if (of_keys)
      directions.key_depth = ReadDirections(file, "key_directions", in, directions.key_depth, directions.key);
    if (of_queries)
      directions.query_depth = ReadDirections(file, "query_directions", in, directions.query_depth, directions.query);
    in.projections = std::move(directions);
  }
  if (has_labels) {
    in.buckets = {Read<int32_t>(file, "query_groups", DType::kI32, {in.heads, in.tokens}),
                  Read<int32_t>(file, "key_clusters", DType::kI32, {in.heads, in.tokens})};
    CheckBuckets(
        in.buckets->query, in, [&](int64_t length) { return clustered.groups * BundlesOfAGroup(clustered, length); },
        file.path(), "query_groups");
    CheckBuckets(
        in.buckets->key, in, [&](int64_t length) { return ClustersOf(clustered, length); }, file.path(),
        "key_clusters");
  }
}

// Those of the file, or drawn. Nothing is hashed with either where there are no tokens.
template <class Projections>
Projections ProjectionsOf(const OperatorInput& in, const AttentionSpec& spec) {
  if (const auto* given = std::get_if<Projections>(&in.projections)) return *given;
  if (in.tokens == 0) return {};
  return std::get<Projections>(DrawProjections(spec, in.shape(), /*layer=*/0, /*step=*/0));
}

// The buckets of a kind's queries and keys, from the fast kernels and from the oracle.
struct HashCall {
  const OperatorInput& in;
  const AttentionSpec& spec;
  HeadTensor<const float> query, key;
};

Buckets Hash(const DenseAttention&, const HashCall&) { return {}; }
Buckets Hash(const SimHashAttention&, const HashCall& call) {
  return HashQueriesAndKeys(call.spec, call.in.shape(), call.query, call.key,
                            ProjectionsOf<SimHashPlanes>(call.in, call.spec));
}
Buckets Hash(const ReformerAttention&, const HashCall& call) {
  return {HashByRotation(call.spec, call.in.shape(), call.query, ProjectionsOf<ReformerRotations>(call.in, call.spec)),
          {}};
}

Buckets Hash(const ClusteredAttention&, const HashCall& call) {
  return GroupByHalving(call.spec, call.in.shape(), call.query, call.key,
                        ProjectionsOf<ClusterDirections>(call.in, call.spec));
}

Buckets Hash(const DenseAttention&, const OperatorInput&, const ref::Inputs&) { return {}; }
Buckets Hash(const SimHashAttention&, const OperatorInput& in, const ref::Inputs& inputs) {
  return ref::Hash(inputs, ProjectionsOf<SimHashPlanes>(in, inputs.spec));
}
Buckets Hash(const ReformerAttention&, const OperatorInput& in, const ref::Inputs& inputs) {
  return {ref::HashByRotation(inputs, ProjectionsOf<ReformerRotations>(in, inputs.spec)), {}};
}

Buckets Hash(const ClusteredAttention&, const OperatorInput& in, const ref::Inputs& inputs) {
  return ref::GroupByHalving(inputs, ProjectionsOf<ClusterDirections>(in, inputs.spec));
}

// The plan that a kind's buckets make.
AttentionPlanPtr PlanOf(const DenseAttention&, const HashCall& call, const Buckets&) {
  return BuildDensePlan(call.in.shape());
}
AttentionPlanPtr PlanOf(const SimHashAttention&, const HashCall& call, const Buckets& buckets) {
  return BuildSimHashPlan(call.spec, call.in.shape(), buckets.query, buckets.key);
}
AttentionPlanPtr PlanOf(const ReformerAttention&, const HashCall& call, const Buckets& buckets) {
  return BuildReformerPlan(call.spec, call.in.shape(), buckets.query);
}
AttentionPlanPtr PlanOf(const ClusteredAttention&, const HashCall& call, const Buckets& buckets) {
  return BuildClusteredPlan(call.spec, call.in.shape(), call.query, call.key, buckets.query, buckets.key);
}
AttentionPlanPtr PlanOf(const HashCall& call, const Buckets& buckets) {
  return std::visit([&](const auto& kind) { return PlanOf(kind, call, buckets); }, call.spec.kind);
}

// Calls add(name, hash functions or rounds, buckets) for those that a kind has; functions 0: buckets are [heads, T].
using AddTensor = std::function<void(const char* name, int functions, const std::vector<int32_t>& buckets)>;
void AddBuckets(const DenseAttention&, const Buckets&, const AddTensor&) {}
void AddBuckets(const SimHashAttention& simhash, const Buckets& buckets, const AddTensor& add) {
  add("query_buckets", simhash.hashes, buckets.query);
  add("key_buckets", simhash.hashes, buckets.key);
}
void AddBuckets(const ReformerAttention& reformer, const Buckets& buckets, const AddTensor& add) {
  add("query_buckets", reformer.rounds, buckets.query);
}

void AddBuckets(const ClusteredAttention&, const Buckets& buckets, const AddTensor& add) {
  add("query_groups", 0, buckets.query);
  add("key_clusters", 0, buckets.key);
}

// What was drawn or given for the hash and is written out with it.
template <class Kind>
ClusterDirections DirectionsOf(const Kind&, const OperatorInput&, const AttentionSpec&) {
  return {};
}
ClusterDirections DirectionsOf(const ClusteredAttention&, const OperatorInput& in, const AttentionSpec& spec) {
  if (in.buckets || !AnySparse(spec, in.shape())) return {};
  return ProjectionsOf<ClusterDirections>(in, spec);
}

HeadTensor<const float> RowsOf(const OperatorInput& in, const std::vector<float>& x) {
  return {x.data(), int64_t{in.heads} * in.head_dim, in.head_dim};
}

std::vector<double> Widened(const std::vector<float>& x) { return {x.begin(), x.end()}; }
std::vector<float> Rounded(const std::vector<double>& x) { return {x.begin(), x.end()}; }

}  // namespace

OperatorInput ReadOperatorInput(const std::string& path, const AttentionSpec& spec) {
  const SafetensorsFile file(path);
  OperatorInput in;
  const TensorView& query = file.Get("query", DType::kF32, std::array<int64_t, 3>{-1, -1, -1});
  const std::vector<int64_t> shape = query.shape;
  in.tokens = shape[0];
  if (in.tokens > INT32_MAX)
    Fail("{}: tensor \"query\" has {} tokens, expected at most {}", path, in.tokens, INT32_MAX);
  if (shape[1] < 1 || shape[1] > kMostHeads) {
    Fail("{}: tensor \"query\" has shape {}, expected 1 to {} heads", path, ShapeText(shape), kMostHeads);
  }
  if (shape[2] < 1 || shape[2] > kLargestHeadDim) {
    Fail("{}: tensor \"query\" has shape {}, expected a head_dim of 1 to {}", path, ShapeText(shape), kLargestHeadDim);
  }
  in.heads = static_cast<int>(shape[1]);
  in.head_dim = static_cast<int>(shape[2]);
  in.query = Read<float>(file, "query", DType::kF32, shape);
  if (!SharesKeys(spec)) in.key = Read<float>(file, "key", DType::kF32, shape);
  in.value = Read<float>(file, "value", DType::kF32, shape);
  if (file.Find("grad_output")) in.grad_output = Read<float>(file, "grad_output", DType::kF32, shape);
  in.cu_seqlens = {0, static_cast<int32_t>(in.tokens)};
  if (file.Find("cu_seqlens")) in.cu_seqlens = Read<int32_t>(file, "cu_seqlens", DType::kI32, {-1});
  CheckOffsets(in.cu_seqlens, in.tokens, path);
  std::visit([&](const auto& kind) { ReadHash(kind, file, spec, in); }, spec.kind);
  return in;
}

OperatorOutput RunOperator(const OperatorInput& in, const AttentionSpec& spec) {
  const int64_t head_stride = in.head_dim, token_stride = int64_t{in.heads} * in.head_dim;
  const auto input = [&](const std::vector<float>& x) { return RowsOf(in, x); };
  const auto output = [&](std::vector<float>& x) {
    x.resize(in.query.size());
    return HeadTensor<float>{x.data(), token_stride, head_stride};
  };
  OperatorOutput result;
  const HashCall call{in, spec, input(in.query), input(in.key)};
  result.buckets = in.buckets ? *in.buckets : std::visit([&](const auto& kind) { return Hash(kind, call); }, spec.kind);
  const AttentionPlanPtr plan = PlanOf(call, result.buckets);
  result.counts = Counts(*plan);
  result.lse.resize(static_cast<size_t>(in.tokens * in.heads));
  AttentionForward forward;
  forward.shape = in.shape();
  forward.query = input(in.query);
  forward.key = input(in.key);
  forward.value = input(in.value);
  forward.out = output(result.out);
  forward.lse = result.lse.data();
  forward.scale = static_cast<float>(ScaleOfScores(spec, in.head_dim));
  forward.plan = plan.get();
  RunAttentionForward(forward);
  if (!in.grad_output.empty()) {
    RunAttentionBackward({forward, input(in.grad_output), output(result.grad_query),
                          SharesKeys(spec) ? HeadTensor<float>{} : output(result.grad_key), output(result.grad_value)});
  }
  return result;
}

OperatorOutput RunReferenceOperator(const OperatorInput& in, const AttentionSpec& spec) {
  const std::vector<double> query = Widened(in.query), key = Widened(in.key), value = Widened(in.value);
  ref::Inputs inputs{in.shape(), spec, query, key, value, ScaleOfScores(spec, in.head_dim), {}, {}, {}};
  OperatorOutput result;
  result.buckets =
      in.buckets ? *in.buckets : std::visit([&](const auto& kind) { return Hash(kind, in, inputs); }, spec.kind);
  inputs.query_buckets = result.buckets.query;
  inputs.key_buckets = result.buckets.key;
  result.counts.selection_flops =
      Counts(*PlanOf(HashCall{in, spec, RowsOf(in, in.query), RowsOf(in, in.key)}, result.buckets)).selection_flops;
  const ref::Outputs outputs = ref::Forward(inputs);
  result.out = Rounded(outputs.out);
  result.lse = Rounded(outputs.lse);
  result.counts.pairs_total = outputs.pairs_total;
  result.counts.pairs_computed = outputs.pairs_computed;
  result.counts.attention_flops = 4 * int64_t{in.head_dim} * outputs.pairs_total;
  if (!in.grad_output.empty()) {
    const ref::Gradients grads = ref::Backward(inputs, Widened(in.grad_output));
    result.grad_query = Rounded(grads.query);
    result.grad_key = Rounded(grads.key);
    result.grad_value = Rounded(grads.value);
  }
  return result;
}

void WriteOperatorOutput(const std::string& path, const OperatorInput& in, const AttentionSpec& spec,
                         const OperatorOutput& result) {
  std::vector<NamedTensor> tensors;
  const auto add = [&](const char* name, DType dtype, std::vector<int64_t> shape, const auto& values) {
    tensors.push_back({name, {dtype, std::move(shape), std::as_bytes(std::span(values))}});
  };
  const std::vector<int64_t> shape{in.tokens, in.heads, in.head_dim};
  add("output", DType::kF32, shape, result.out);
  add("lse", DType::kF32, {in.tokens, in.heads}, result.lse);
  const auto add_buckets = [&](const char* name, int functions, const std::vector<int32_t>& buckets) {
    add(name, DType::kI32,
        functions > 0 ? std::vector<int64_t>{in.heads, functions, in.tokens}
                      : std::vector<int64_t>{in.heads, in.tokens},
        buckets);
  };
  std::visit([&](const auto& kind) { AddBuckets(kind, result.buckets, add_buckets); }, spec.kind);
  const ClusterDirections directions =
      std::visit([&](const auto& kind) { return DirectionsOf(kind, in, spec); }, spec.kind);
  if (!directions.key.empty()) {
    add("key_directions", DType::kF32, {in.heads, in.head_dim, directions.key_depth}, directions.key);
    add("query_directions", DType::kF32, {in.heads, in.head_dim, directions.query_depth}, directions.query);
  }
  if (!in.grad_output.empty()) {
    add("grad_query", DType::kF32, shape, result.grad_query);
    if (!SharesKeys(spec)) add("grad_key", DType::kF32, shape, result.grad_key);
    add("grad_value", DType::kF32, shape, result.grad_value);
  }
  WriteSafetensors(path, tensors,
                   {{"pairs_computed", std::to_string(result.counts.pairs_computed)},
                    {"pairs_total", std::to_string(result.counts.pairs_total)},
                    {"hash_flops", std::to_string(in.buckets ? 0 : result.counts.selection_flops)},
                    {"attention_flops", std::to_string(result.counts.attention_flops)}});
}

}  // namespace lshformer
