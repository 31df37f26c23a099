#include "jobs/attention.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <utility>

#include "base/error.h"
#include "io/safetensors.h"
#include "kernels/ref/attention.h"
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

void CheckBorders(const std::vector<int32_t>& cu_seqlens, int64_t tokens, const std::string& path) {
  const std::string where = path + ": tensor \"cu_seqlens\"";
  if (cu_seqlens.empty()) Fail("{}: is empty, expected sequences + 1 borders", where);
  if (cu_seqlens.front() != 0) Fail("{}[0]: expected 0, got {}", where, cu_seqlens.front());
  for (size_t b = 1; b < cu_seqlens.size(); ++b) {
    if (cu_seqlens[b] < cu_seqlens[b - 1]) {
      Fail("{}[{}]: expected at least {} (borders ascend), got {}", where, b, cu_seqlens[b - 1], cu_seqlens[b]);
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
std::vector<int32_t> ReadCoefficients(const SafetensorsFile& file, const AttentionSpec& spec, const OperatorInput& in,
                                      int bands) {
  const int64_t functions = int64_t{in.heads} * spec.hashes;
  std::vector<int32_t> powers;
  for (int64_t i = 0; SignPatternsAreBuckets(spec) && i < functions * bands; ++i) powers.push_back(1 << i % bands);
  if (!powers.empty() && !file.Find("coefficients")) return powers;
  std::vector<int32_t> given = Read<int32_t>(file, "coefficients", DType::kI32, {in.heads, spec.hashes, bands});
  if (powers.empty()) CheckRange(given, spec.table_size, file.path(), "coefficients");
  for (size_t i = 0; i < powers.size(); ++i) {
    if (given[i] != powers[i])
      Fail("{}: tensor \"coefficients\": element {} is {}, expected {} (every sign pattern is a bucket of its own)",
           file.path(), i, given[i], powers[i]);
  }
  return given;
}

void ReadHash(const SafetensorsFile& file, const AttentionSpec& spec, OperatorInput& in) {
  const bool has_planes = file.Find("planes") || file.Find("coefficients");
  const bool has_buckets = file.Find("query_buckets") || file.Find("key_buckets");
  if (has_planes && has_buckets) {
    Fail("{}: has both \"planes\" and \"{}\", expected hyperplanes or ready buckets", file.path(),
         file.Find("query_buckets") ? "query_buckets" : "key_buckets");
  }
  if (has_planes) {
    const int bands = BandsOf(spec, in.shape().longest());
    in.planes = {bands, Read<float>(file, "planes", DType::kF32, {in.heads, spec.hashes, bands, in.head_dim}),
                 ReadCoefficients(file, spec, in, bands)};
  }
  if (has_buckets) {
    const std::vector<int64_t> shape{in.heads, spec.hashes, in.tokens};
    in.buckets = {Read<int32_t>(file, "query_buckets", DType::kI32, shape),
                  Read<int32_t>(file, "key_buckets", DType::kI32, shape)};
    // Sorted pairs only sort by them.
    const auto buckets_of = [&spec](int64_t length) {
      return spec.pairs == Pairs::kSorted ? int64_t{1} << 31 : TableSizeOf(spec, length);
    };
    CheckBuckets(in.buckets->query, in, buckets_of, file.path(), "query_buckets");
    CheckBuckets(in.buckets->key, in, buckets_of, file.path(), "key_buckets");
  }
}

void ReadRotations(const SafetensorsFile& file, const AttentionSpec& spec, OperatorInput& in) {
  const bool has_rotations = file.Find("rotations") != nullptr, has_buckets = file.Find("query_buckets") != nullptr;
  if (has_rotations && has_buckets)
    Fail("{}: has both \"rotations\" and \"query_buckets\", expected rotations or ready buckets", file.path());
  for (size_t b = 0; b + 1 < in.cu_seqlens.size(); ++b) CheckWindow(spec, in.cu_seqlens[b + 1] - in.cu_seqlens[b]);
  if (has_rotations) {
    in.rotations.emplace();
    for (size_t b = 0; b + 1 < in.cu_seqlens.size(); ++b) {
      const int columns = RotationColumns(spec, in.cu_seqlens[b + 1] - in.cu_seqlens[b]);
      in.rotations->columns = std::max(in.rotations->columns, columns);
    }
    in.rotations->rotations =
        Read<float>(file, "rotations", DType::kF32, {in.heads, spec.rounds, in.head_dim, in.rotations->columns});
  }
  if (has_buckets) {
    in.buckets = {Read<int32_t>(file, "query_buckets", DType::kI32, {in.heads, spec.rounds, in.tokens}), {}};
    const auto buckets_of = [&spec](int64_t length) {
      // `auto` says how many to hash into; buckets from elsewhere may be any.
      if (spec.buckets[0] == 0) return int64_t{INT32_MAX};
      const std::array<int, 2> factors = BucketFactors(spec, length);
      return int64_t{factors[0]} * factors[1];
    };
    CheckBuckets(in.buckets->query, in, buckets_of, file.path(), "query_buckets");
  }
}

SimHashPlanes Planes(const OperatorInput& in, const AttentionSpec& spec) {
  if (in.planes || in.tokens == 0) return in.planes.value_or(SimHashPlanes{});
  return DrawSimHashPlanes(spec, in.heads, in.head_dim, /*layer=*/0, /*step=*/0, in.shape().longest());
}

ReformerRotations Rotations(const OperatorInput& in, const AttentionSpec& spec) {
  return in.rotations ? *in.rotations : DrawReformerRotations(spec, in.shape(), /*layer=*/0, /*step=*/0);
}

// The buckets of `result` and the plan they make.
AttentionPlanPtr HashAndPlan(const OperatorInput& in, const AttentionSpec& spec, HeadTensor<const float> query,
                             HeadTensor<const float> key, OperatorOutput& result) {
  if (spec.type == AttentionType::kDense) return BuildDensePlan(in.shape());
  if (in.buckets) {
    result.buckets = *in.buckets;
  } else if (spec.type == AttentionType::kReformer) {
    result.buckets.query = HashByRotation(spec, in.shape(), query, Rotations(in, spec));
  } else {
    result.buckets = HashQueriesAndKeys(spec, in.shape(), query, key, Planes(in, spec));
  }
  return spec.type == AttentionType::kReformer
             ? BuildReformerPlan(spec, in.shape(), result.buckets.query)
             : BuildSimHashPlan(spec, in.shape(), result.buckets.query, result.buckets.key);
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
  if (spec.type != AttentionType::kReformer) in.key = Read<float>(file, "key", DType::kF32, shape);
  in.value = Read<float>(file, "value", DType::kF32, shape);
  if (file.Find("grad_output")) in.grad_output = Read<float>(file, "grad_output", DType::kF32, shape);
  in.cu_seqlens = {0, static_cast<int32_t>(in.tokens)};
  if (file.Find("cu_seqlens")) in.cu_seqlens = Read<int32_t>(file, "cu_seqlens", DType::kI32, {-1});
  CheckBorders(in.cu_seqlens, in.tokens, path);
  if (spec.type == AttentionType::kSimHash) ReadHash(file, spec, in);
  if (spec.type == AttentionType::kReformer) ReadRotations(file, spec, in);
  return in;
}

OperatorOutput RunOperator(const OperatorInput& in, const AttentionSpec& spec) {
  const int64_t head_stride = in.head_dim, token_stride = int64_t{in.heads} * in.head_dim;
  const auto input = [&](const std::vector<float>& x) {
    return HeadTensor<const float>{x.data(), token_stride, head_stride};
  };
  const auto output = [&](std::vector<float>& x) {
    x.resize(in.query.size());
    return HeadTensor<float>{x.data(), token_stride, head_stride};
  };
  OperatorOutput result;
  const bool shared_keys = spec.type == AttentionType::kReformer;
  const AttentionPlanPtr plan = HashAndPlan(in, spec, input(in.query), input(in.key), result);
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
                          shared_keys ? HeadTensor<float>{} : output(result.grad_key), output(result.grad_value)});
  }
  return result;
}

OperatorOutput RunReferenceOperator(const OperatorInput& in, const AttentionSpec& spec) {
  const std::vector<double> query = Widened(in.query), key = Widened(in.key), value = Widened(in.value);
  ref::Inputs inputs{in.shape(), spec, query, key, value, ScaleOfScores(spec, in.head_dim), {}, {}, {}};
  OperatorOutput result;
  if (in.buckets) {
    result.buckets = *in.buckets;
  } else if (spec.type == AttentionType::kSimHash) {
    result.buckets = ref::Hash(inputs, Planes(in, spec));
  } else if (spec.type == AttentionType::kReformer) {
    result.buckets.query = ref::HashByRotation(inputs, Rotations(in, spec));
  }
  inputs.query_buckets = result.buckets.query;
  inputs.key_buckets = result.buckets.key;
  if (spec.type == AttentionType::kSimHash) {
    result.counts.hash_flops =
        Counts(*BuildSimHashPlan(spec, in.shape(), result.buckets.query, result.buckets.key)).hash_flops;
  } else if (spec.type == AttentionType::kReformer) {
    result.counts.hash_flops = Counts(*BuildReformerPlan(spec, in.shape(), result.buckets.query)).hash_flops;
  }
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
  if (spec.type == AttentionType::kSimHash) {
    add("query_buckets", DType::kI32, {in.heads, spec.hashes, in.tokens}, result.buckets.query);
    add("key_buckets", DType::kI32, {in.heads, spec.hashes, in.tokens}, result.buckets.key);
  }
  if (spec.type == AttentionType::kReformer)
    add("query_buckets", DType::kI32, {in.heads, spec.rounds, in.tokens}, result.buckets.query);
  if (!in.grad_output.empty()) {
    add("grad_query", DType::kF32, shape, result.grad_query);
    if (spec.type != AttentionType::kReformer) add("grad_key", DType::kF32, shape, result.grad_key);
    add("grad_value", DType::kF32, shape, result.grad_value);
  }
  WriteSafetensors(path, tensors,
                   {{"pairs_computed", std::to_string(result.counts.pairs_computed)},
                    {"pairs_total", std::to_string(result.counts.pairs_total)},
                    {"hash_flops", std::to_string(in.buckets ? 0 : result.counts.hash_flops)},
                    {"attention_flops", std::to_string(result.counts.attention_flops)}});
}

}  // namespace lshformer
