#include "jobs/attention.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/error.h"
#include "io/safetensors.h"
#include "kernels/operator.h"
#include "kernels/ref/attention.h"

namespace lshformer {
namespace {

template <class T>
std::vector<T> Read(const SafetensorsFile& file, const char* name, DType dtype, const std::vector<int64_t>& shape) {
  const TensorView& view = file.Get(name, dtype, shape);
  std::vector<T> values(static_cast<size_t>(view.elements()));
  CopyTo<T>(view, values, file.path() + ": tensor \"" + name + "\"");
  return values;
}

// "coefficients" of the planes; where sign patterns are buckets there is nothing to choose, and it may be left out.
std::vector<int32_t> ReadCoefficients(const SafetensorsFile& file, const SimHashAttention& simhash,
                                      const AttentionInput& in, int bands) {
  if (!SignPatternsAreBuckets(simhash) || file.Find("coefficients"))
    return Read<int32_t>(file, "coefficients", DType::kI32, {in.heads, simhash.hashes, bands});
  std::vector<int32_t> powers;
  for (int64_t i = 0; i < int64_t{in.heads} * simhash.hashes * bands; ++i) powers.push_back(1 << i % bands);
  return powers;
}

// What the file holds of a kind's hashing: what it draws, or ready buckets.
void ReadHash(const DenseAttention&, const SafetensorsFile&, const AttentionSpec&, AttentionInput&) {}
void ReadHash(const LocalAttention&, const SafetensorsFile&, const AttentionSpec&, AttentionInput&) {}

void ReadHash(const SimHashAttention& simhash, const SafetensorsFile& file, const AttentionSpec&, AttentionInput& in) {
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
  }
}

void ReadHash(const ReformerAttention& reformer, const SafetensorsFile& file, const AttentionSpec& spec,
              AttentionInput& in) {
  const bool has_rotations = file.Find("rotations") != nullptr, has_buckets = file.Find("query_buckets") != nullptr;
  if (has_rotations && has_buckets)
    Fail("{}: has both \"rotations\" and \"query_buckets\", expected rotations or ready buckets", file.path());
  ReformerRotations rotations;
  for (size_t b = 0; b + 1 < in.cu_seqlens.size(); ++b) {
    const int32_t length = in.cu_seqlens[b + 1] - in.cu_seqlens[b];
    if (IsSparseAt(spec, length)) CheckView(reformer, length);
    rotations.columns = std::max(rotations.columns, RotationColumns(reformer, length));
  }
  if (has_rotations) {
    rotations.rotations =
        Read<float>(file, "rotations", DType::kF32, {in.heads, reformer.rounds, in.head_dim, rotations.columns});
    in.projections = std::move(rotations);
  }
  if (has_buckets) {
    in.buckets = {Read<int32_t>(file, "query_buckets", DType::kI32, {in.heads, reformer.rounds, in.tokens}), {}};
  }
}

// Directions [heads, head_dim, at least `depth`]; returns how many.
int ReadDirections(const SafetensorsFile& file, const char* name, const AttentionInput& in, int depth,
                   std::vector<float>& into) {
  const TensorView& view = file.Get(name, DType::kF32, std::array<int64_t, 3>{in.heads, in.head_dim, -1});
  if (view.shape[2] < depth)
    Fail("{}: tensor \"{}\" has shape {}, expected at least {} directions (the longest sequence is cut so often)",
         file.path(), name, ShapeText(view.shape), depth);
  into = Read<float>(file, name, DType::kF32, view.shape);
  return static_cast<int>(view.shape[2]);
}

// Directions that the file lacks are drawn.
void ReadHash(const ClusteredAttention& clustered, const SafetensorsFile& file, const AttentionSpec& spec,
              AttentionInput& in) {
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
  }
}

// A kind's tensors of buckets: names, and hash functions or rounds; 0: they are [heads, tokens].
struct NamedBuckets {
  const char* name;
  int functions;
  const std::vector<int32_t>& buckets;
};
std::vector<NamedBuckets> Named(const DenseAttention&, const Buckets&) { return {}; }
std::vector<NamedBuckets> Named(const LocalAttention&, const Buckets&) { return {}; }
std::vector<NamedBuckets> Named(const SimHashAttention& simhash, const Buckets& buckets) {
  return {{"query_buckets", simhash.hashes, buckets.query}, {"key_buckets", simhash.hashes, buckets.key}};
}
std::vector<NamedBuckets> Named(const ReformerAttention& reformer, const Buckets& buckets) {
  return {{"query_buckets", reformer.rounds, buckets.query}};
}
std::vector<NamedBuckets> Named(const ClusteredAttention&, const Buckets& buckets) {
  return {{"query_groups", 0, buckets.query}, {"key_clusters", 0, buckets.key}};
}

// All but the outputs. An input of no tokens has nothing that buckets could be found of.
OperatorCall CallOf(const AttentionInput& in, const AttentionSpec& spec, std::string_view where) {
  const auto rows = [&](const std::vector<float>& x) {
    return HeadTensor<const float>{x.data(), int64_t{in.heads} * in.head_dim, in.head_dim};
  };
  OperatorCall call;
  call.spec = &spec;
  call.tokens = in.tokens;
  call.shape = in.shape();
  call.query = rows(in.query);
  if (!SharesKeys(spec)) call.key = rows(in.key);
  call.value = rows(in.value);
  call.projections = in.projections ? &*in.projections : nullptr;
  call.buckets = in.buckets ? &*in.buckets : nullptr;
  call.keep_buckets = true;
  call.where = where;
  return call;
}

std::vector<double> Widened(const std::vector<float>& x) { return {x.begin(), x.end()}; }
std::vector<float> Rounded(const std::vector<double>& x) { return {x.begin(), x.end()}; }

}  // namespace

AttentionInput ReadAttentionInput(const std::string& path, const AttentionSpec& spec) {
  const SafetensorsFile file(path);
  AttentionInput in;
  const TensorView& query = file.Get("query", DType::kF32, std::array<int64_t, 3>{-1, -1, -1});
  const std::vector<int64_t> shape = query.shape;
  in.tokens = shape[0];
  in.heads = static_cast<int>(std::min<int64_t>(shape[1], INT32_MAX));
  in.head_dim = static_cast<int>(std::min<int64_t>(shape[2], INT32_MAX));
  const std::array<int32_t, 2> one{0, static_cast<int32_t>(std::min<int64_t>(in.tokens, INT32_MAX))};
  CheckShape({one, in.heads, in.head_dim}, in.tokens, path);
  in.query = Read<float>(file, "query", DType::kF32, shape);
  if (!SharesKeys(spec)) in.key = Read<float>(file, "key", DType::kF32, shape);
  in.value = Read<float>(file, "value", DType::kF32, shape);
  if (file.Find("grad_output")) in.grad_output = Read<float>(file, "grad_output", DType::kF32, shape);
  in.cu_seqlens = {0, static_cast<int32_t>(in.tokens)};
  if (file.Find("cu_seqlens")) in.cu_seqlens = Read<int32_t>(file, "cu_seqlens", DType::kI32, {-1});
  CheckShape(in.shape(), in.tokens, path);
  std::visit([&](const auto& kind) { ReadHash(kind, file, spec, in); }, spec.kind);
  const OperatorCall call = CallOf(in, spec, path);
  if (in.buckets) CheckBuckets(call, *in.buckets);
  if (in.projections) CheckProjections(call, *in.projections);
  if (!in.buckets && !in.projections && in.tokens > 0)
    in.projections = DrawProjections(spec, in.shape(), /*layer=*/0, /*step=*/0);
  return in;
}

AttentionOutput RunAttention(const AttentionInput& in, const AttentionSpec& spec) {
  const int64_t token_stride = int64_t{in.heads} * in.head_dim;
  const auto output = [&](std::vector<float>& x) {
    x.resize(in.query.size());
    return HeadTensor<float>{x.data(), token_stride, in.head_dim};
  };
  AttentionOutput result;
  result.lse.resize(static_cast<size_t>(in.tokens * in.heads));
  OperatorCall call = CallOf(in, spec, "attention");
  call.out = output(result.out);
  call.lse = result.lse.data();
  OperatorResult run = RunOperator(call);
  if (in.grad_output) {
    RunOperatorBackward({call,
                         run.planned,
                         {in.grad_output->data(), token_stride, in.head_dim},
                         output(result.grad_query),
                         SharesKeys(spec) ? HeadTensor<float>{} : output(result.grad_key),
                         output(result.grad_value)});
  }
  result.buckets = std::move(run.buckets);
  result.counts = run.counts;
  return result;
}

AttentionOutput RunReferenceAttention(const AttentionInput& in, const AttentionSpec& spec) {
  const std::vector<double> query = Widened(in.query), key = Widened(in.key), value = Widened(in.value);
  ref::Inputs inputs{in.shape(), spec, query, key, value, ScaleOfScores(spec, in.head_dim), {}, {}, {}};
  AttentionOutput result;
  if (in.buckets) {
    result.buckets = *in.buckets;
  } else if (in.projections) {
    result.buckets = ref::FindBuckets(inputs, *in.projections);
    const OperatorCall call = CallOf(in, spec, "attention");
    const PlannedAttention planned = BuildPlan(spec, call.shape, call.query, call.key, result.buckets);
    result.counts.selection_flops = Counts(*planned.plan).selection_flops;
  }
  inputs.query_buckets = result.buckets.query;
  inputs.key_buckets = result.buckets.key;
  const ref::Outputs outputs = ref::Forward(inputs);
  result.out = Rounded(outputs.out);
  result.lse = Rounded(outputs.lse);
  result.counts.pairs_total = outputs.pairs_total;
  result.counts.pairs_computed = outputs.pairs_computed;
  result.counts.attention_flops = 4 * int64_t{in.head_dim} * outputs.pairs_total;
  if (in.grad_output) {
    const ref::Gradients grads = ref::Backward(inputs, Widened(*in.grad_output));
    result.grad_query = Rounded(grads.query);
    result.grad_key = Rounded(grads.key);
    result.grad_value = Rounded(grads.value);
  }
  return result;
}

void WriteAttentionOutput(const std::string& path, const AttentionInput& in, const AttentionSpec& spec,
                          const AttentionOutput& result) {
  std::vector<NamedTensor> tensors;
  const auto add = [&](const char* name, DType dtype, std::vector<int64_t> shape, const auto& values) {
    tensors.push_back({name, {dtype, std::move(shape), std::as_bytes(std::span(values))}});
  };
  const std::vector<int64_t> shape{in.tokens, in.heads, in.head_dim};
  add("output", DType::kF32, shape, result.out);
  add("lse", DType::kF32, {in.tokens, in.heads}, result.lse);
  for (const auto& [name, functions, buckets] :
       std::visit([&](const auto& kind) { return Named(kind, result.buckets); }, spec.kind)) {
    add(name, DType::kI32,
        functions > 0 ? std::vector<int64_t>{in.heads, functions, in.tokens}
                      : std::vector<int64_t>{in.heads, in.tokens},
        buckets);
  }
  // Directions are written out too, drawn or given, where they have been used.
  const auto* directions = in.projections ? std::get_if<ClusterDirections>(&*in.projections) : nullptr;
  if (directions != nullptr && !directions->key.empty() && AnySparse(spec, in.shape())) {
    add("key_directions", DType::kF32, {in.heads, in.head_dim, directions->key_depth}, directions->key);
    add("query_directions", DType::kF32, {in.heads, in.head_dim, directions->query_depth}, directions->query);
  }
  if (in.grad_output) {
    add("grad_query", DType::kF32, shape, result.grad_query);
    if (!SharesKeys(spec)) add("grad_key", DType::kF32, shape, result.grad_key);
    add("grad_value", DType::kF32, shape, result.grad_value);
  }
  WriteSafetensors(path, tensors,
                   {{"pairs_computed", std::to_string(result.counts.pairs_computed)},
                    {"pairs_total", std::to_string(result.counts.pairs_total)},
                    {"hash_flops", std::to_string(result.counts.selection_flops)},
                    {"attention_flops", std::to_string(result.counts.attention_flops)}});
}

}  // namespace lshformer
