#include "kernels/operator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/planning/plan_arrays.h"

namespace lshformer {
namespace {

// Where the numbers of a tensor lie: pieces of `piece` bytes, those of tokens and of heads so many bytes apart. A
// stride that nothing takes is 0.
struct Extent {
  const char* name;
  const void* data;
  int64_t tokens, heads;
  int64_t token_stride, head_stride, piece;

  bool empty() const { return tokens == 0; }
  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(data); }
  uintptr_t end() const { return begin() + (tokens - 1) * token_stride + (heads - 1) * head_stride + piece; }
  // {stride, count}: of the two ways through the tensor, the one with the larger steps and the other.
  std::pair<int64_t, int64_t> Wide() const {
    return token_stride >= head_stride ? std::pair(token_stride, tokens) : std::pair(head_stride, heads);
  }
  std::pair<int64_t, int64_t> Narrow() const {
    return token_stride >= head_stride ? std::pair(head_stride, heads) : std::pair(token_stride, tokens);
  }
  // Whether no two of its numbers lie in the same place.
  bool Apart() const {
    const auto [wide, wide_count] = Wide();
    const auto [narrow, narrow_count] = Narrow();
    return (narrow_count == 1 || narrow >= piece) && (wide_count == 1 || wide >= (narrow_count - 1) * narrow + piece);
  }
};

// The whole numbers around x / step.
std::array<int64_t, 3> Around(int64_t x, int64_t step) {
  if (step == 0) return {0, 0, 0};
  const int64_t nearest = x / step;
  return {nearest - 1, nearest, nearest + 1};
}

// Whether two tensors have a number in common. Of two that lie within one another in different steps it is taken to be
// so.
bool Overlap(const Extent& a, const Extent& b) {
  if (a.empty() || b.empty() || a.end() <= b.begin() || b.end() <= a.begin()) return false;
  const bool alike =
      a.token_stride == b.token_stride && a.head_stride == b.head_stride && a.tokens == b.tokens && a.heads == b.heads;
  if (!alike || !a.Apart() || !b.Apart()) return true;
  const auto [wide, wide_count] = a.Wide();
  const auto [narrow, narrow_count] = a.Narrow();
  const auto apart = static_cast<int64_t>(b.begin() - a.begin());
  for (const int64_t i : Around(-apart, wide)) {
    if (std::abs(i) >= wide_count) continue;
    for (const int64_t j : Around(-apart - i * wide, narrow)) {
      const int64_t between = apart + i * wide + j * narrow;
      if (std::abs(j) < narrow_count && between < a.piece && -between < b.piece) return true;
    }
  }
  return false;
}

class Checks {
 public:
  explicit Checks(const OperatorCall& call) : call_(call), where_(call.where) {}

  template <class T>
  Extent Of(const char* name, const HeadTensor<T>& tensor) const {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
    Extent extent{name, tensor.data, call_.tokens, call_.shape.heads, 0, 0, kBytes * call_.shape.head_dim};
    if (extent.empty()) return extent;
    if (tensor.data == nullptr) Fail("{}: tensor \"{}\" is missing", where_, name);
    if (reinterpret_cast<uintptr_t>(tensor.data) % alignof(T) != 0)
      Fail("{}: tensor \"{}\" begins between two numbers, expected a multiple of {} bytes", where_, name, alignof(T));
    if (tensor.token_stride < 0 || tensor.head_stride < 0)
      Fail("{}: tensor \"{}\" has strides {} and {}, expected none below 0", where_, name, tensor.token_stride,
           tensor.head_stride);
    int64_t last = 0, of_heads = 0;
    if (__builtin_mul_overflow(tensor.token_stride * int64_t{extent.tokens > 1}, kBytes * extent.tokens, &last) ||
        __builtin_mul_overflow(tensor.head_stride * int64_t{extent.heads > 1}, kBytes * extent.heads, &of_heads) ||
        last > INT64_MAX / 4 || of_heads > INT64_MAX / 4)
      Fail("{}: tensor \"{}\" has strides {} and {}: more than memory can hold", where_, name, tensor.token_stride,
           tensor.head_stride);
    if (extent.tokens > 1) extent.token_stride = tensor.token_stride * kBytes;
    if (extent.heads > 1) extent.head_stride = tensor.head_stride * kBytes;
    return extent;
  }

  template <class T>
  Extent Output(const char* name, const HeadTensor<T>& tensor) const {
    const Extent extent = Of(name, tensor);
    if (!extent.empty() && !extent.Apart())
      Fail("{}: tensor \"{}\" has strides {} and {}, expected such that its numbers lie apart", where_, name,
           tensor.token_stride, tensor.head_stride);
    return extent;
  }

  // [tokens, heads], contiguous.
  Extent Lse() const {
    if (call_.tokens > 0 && call_.lse == nullptr) Fail("{}: tensor \"lse\" is missing", where_);
    const auto bytes = static_cast<int64_t>(sizeof(float)) * call_.tokens * call_.shape.heads;
    return {"lse", call_.lse, std::min<int64_t>(call_.tokens, 1), 1, 0, 0, bytes};
  }

  template <class T>
  void None(const char* name, const HeadTensor<T>& tensor, const char* why) const {
    if (tensor.data != nullptr) Fail("{}: tensor \"{}\" is not expected: {}", where_, name, why);
  }

  // Each output from all inputs and from the outputs behind it.
  void Separate(const std::vector<Extent>& outputs, const std::vector<Extent>& inputs) const {
    for (size_t i = 0; i < outputs.size(); ++i) {
      for (const Extent& input : inputs) Separate(outputs[i], input);
      for (size_t j = i + 1; j < outputs.size(); ++j) Separate(outputs[i], outputs[j]);
    }
  }

  void Separate(const Extent& a, const Extent& b) const {
    if (Overlap(a, b))
      Fail("{}: tensors \"{}\" and \"{}\" overlap, expected memory of its own", where_, a.name, b.name);
  }

 private:
  const OperatorCall& call_;
  std::string_view where_;
};

constexpr const char* kSharedKeys = "the keys are the queries";

// Query, key and value, float32 or bfloat16; a plan asks for no value.
enum class Inputs { kAll, kOfPlan };
std::vector<Extent> CheckInputs(const OperatorCall& call, const Checks& checks, Inputs which = Inputs::kAll) {
  const bool shared = SharesKeys(*call.spec), rounded = call.rounded_query.data != nullptr;
  const auto all = [&](const auto& query, const auto& key, const auto& value) {
    std::vector<Extent> extents{checks.Of("query", query)};
    if (which == Inputs::kAll) extents.push_back(checks.Of("value", value));
    if (shared) {
      checks.None("key", key, kSharedKeys);
    } else {
      extents.push_back(checks.Of("key", key));
    }
    return extents;
  };
  if (!rounded) {
    for (const auto& [name, tensor] : {std::pair("key", call.rounded_key), std::pair("value", call.rounded_value)})
      checks.None(name, tensor, "queries are float32, it is bfloat16");
    return all(call.query, call.key, call.value);
  }
  for (const auto& [name, tensor] :
       {std::pair("query", call.query), std::pair("key", call.key), std::pair("value", call.value)})
    checks.None(name, tensor, "queries are bfloat16, it is float32");
  if (!OnlyMultiplies(*call.spec, call.shape))
    Fail("{}: tensor \"query\" is bfloat16, expected float32: {} attention does more with it than multiply", call.where,
         Name(*call.spec));
  return all(call.rounded_query, call.rounded_key, call.rounded_value);
}

Extent CheckOutput(const OperatorCall& call, const Checks& checks) {
  if (call.rounded_out.data == nullptr) return checks.Output("out", call.out);
  checks.None("out", call.out, "there is one in bfloat16");
  return checks.Output("out", call.rounded_out);
}

void CheckDropout(const OperatorCall& call) {
  const float probability = call.dropout.probability;
  if (!(probability >= 0 && probability < 1))
    Fail("{}: dropout: expected a probability from 0 to below 1, got {}", call.where, probability);
  const size_t ids = call.dropout.sequence_ids.size();
  if (probability > 0 && ids != 0 && ids != static_cast<size_t>(call.shape.sequences()))
    Fail("{}: {} sequence ids for {} sequences", call.where, ids, call.shape.sequences());
}

void CheckSpecAndShape(const OperatorCall& call) {
  if (call.spec == nullptr) Fail("{}: there is no spec", call.where);
  CheckShape(call.shape, call.tokens, call.where);
  if (!call.spec->heads.empty() && call.spec->heads.size() != static_cast<size_t>(call.shape.heads))
    Fail("{}: {} specs of heads for {} heads", call.where, call.spec->heads.size(), call.shape.heads);
}

void CheckSize(const OperatorCall& call, const char* name, size_t size, int64_t expected) {
  if (static_cast<int64_t>(size) != expected)
    Fail("{}: tensor \"{}\" has {} elements, expected {}", call.where, name, size, expected);
}

// What is drawn for a kind is whole, and such as is drawn.
void CheckNumbers(const OperatorCall&, const DenseAttention&, const Projections&) {}

void CheckNumbers(const OperatorCall&, const LocalAttention&, const Projections&) {}

void CheckNumbers(const OperatorCall& call, const SimHashAttention& simhash, const Projections& projections) {
  const auto& planes = std::get<SimHashPlanes>(projections);
  const int64_t bands = int64_t{call.shape.heads} * simhash.hashes * planes.bands;
  CheckSize(call, "planes", planes.planes.size(), bands * call.shape.head_dim);
  CheckSize(call, "coefficients", planes.coefficients.size(), bands);
  for (size_t i = 0; i < planes.coefficients.size(); ++i) {
    const int32_t got = planes.coefficients[i];
    if (SignPatternsAreBuckets(simhash)) {
      const int32_t power = 1 << i % static_cast<size_t>(planes.bands);
      if (got != power)
        Fail("{}: tensor \"coefficients\": element {} is {}, expected {} (every sign pattern is a bucket of its own)",
             call.where, i, got, power);
    } else if (got < 0 || got >= simhash.table_size) {
      Fail("{}: tensor \"coefficients\": element {} is {}, expected 0 to {} (table_size {})", call.where, i, got,
           simhash.table_size - 1, simhash.table_size);
    }
  }
}

void CheckNumbers(const OperatorCall& call, const ReformerAttention& reformer, const Projections& projections) {
  const auto& rotations = std::get<ReformerRotations>(projections);
  CheckSize(call, "rotations", rotations.rotations.size(),
            int64_t{call.shape.heads} * reformer.rounds * call.shape.head_dim * rotations.columns);
}

void CheckNumbers(const OperatorCall& call, const ClusteredAttention&, const Projections& projections) {
  const auto& directions = std::get<ClusterDirections>(projections);
  const int64_t rows = int64_t{call.shape.heads} * call.shape.head_dim;
  const auto check = [&](const char* name, const std::vector<float>& numbers, int depth) {
    CheckSize(call, name, numbers.size(), rows * depth);
    const auto wrong = std::find_if(numbers.begin(), numbers.end(), [](float x) { return !std::isfinite(x); });
    if (wrong != numbers.end())
      Fail("{}: tensor \"{}\": element {} is not finite", call.where, name, wrong - numbers.begin());
  };
  check("key_directions", directions.key, directions.key_depth);
  check("query_directions", directions.query, directions.query_depth);
}

// The labels that a kind gives to queries or to keys: of so many functions a head, each in [0, count(head, length)).
struct Labels {
  const char* name;
  const std::vector<int32_t>& labels;
  int functions = 1;
};
template <class Count>
void CheckLabels(const OperatorCall& call, const Labels& of, const Count& count) {
  const int64_t tokens = call.tokens, rows = int64_t{call.shape.heads} * of.functions;
  CheckSize(call, of.name, of.labels.size(), rows * tokens);
  for (int b = 0; b < call.shape.sequences(); ++b) {
    const int64_t first = call.shape.cu_seqlens[b], length = call.shape.cu_seqlens[b + 1] - first;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t end = count(static_cast<int>(row / of.functions), length);
      for (int64_t i = row * tokens + first; i < row * tokens + first + length; ++i) {
        if (of.labels[i] < 0 || of.labels[i] >= end)
          Fail("{}: tensor \"{}\": element {} is {}, expected 0 to {} ({} buckets)", call.where, of.name, i,
               of.labels[i], end - 1, end);
      }
    }
  }
}

void CheckLabels(const OperatorCall& call, const DenseAttention&, const Buckets& buckets) {
  if (!buckets.query.empty() || !buckets.key.empty())
    Fail("{}: {} attention has no buckets", call.where, Name(*call.spec));
}

void CheckLabels(const OperatorCall& call, const LocalAttention&, const Buckets& buckets) {
  CheckLabels(call, DenseAttention{}, buckets);
}

void CheckLabels(const OperatorCall& call, const SimHashAttention& simhash, const Buckets& buckets) {
  const auto count = [&](int, int64_t length) {  // sorted pairs only sort by them
    return simhash.pairs == Pairs::kSorted ? int64_t{1} << 31 : TableSizeOf(simhash, length);
  };
  CheckLabels(call, {"query_buckets", buckets.query, simhash.hashes}, count);
  CheckLabels(call, {"key_buckets", buckets.key, simhash.hashes}, count);
}

void CheckLabels(const OperatorCall& call, const ReformerAttention& reformer, const Buckets& buckets) {
  const auto count = [&](int, int64_t length) -> int64_t {
    if (reformer.buckets[0] == 0)
      return INT32_MAX;  // `auto` says how many to hash into; those from elsewhere may be any
    const std::array<int, 2> factors = BucketFactors(reformer, length);
    return int64_t{factors[0]} * factors[1];
  };
  CheckLabels(call, {"query_buckets", buckets.query, reformer.rounds}, count);
  if (!buckets.key.empty()) Fail("{}: tensor \"key_buckets\" is not expected: {}", call.where, kSharedKeys);
}

void CheckLabels(const OperatorCall& call, const ClusteredAttention&, const Buckets& buckets) {
  const auto of_head = [&](int head, auto count) {  // a dense head reads none
    const ClusteredAttention* own = ClusteredOf(*call.spec, head);
    return own == nullptr ? int64_t{INT32_MAX} : int64_t{count(*own)};
  };
  CheckLabels(call, {"query_groups", buckets.query}, [&](int head, int64_t length) {
    return of_head(head, [&](const ClusteredAttention& own) { return own.groups * BundlesOfAGroup(own, length); });
  });
  CheckLabels(call, {"key_clusters", buckets.key}, [&](int head, int64_t length) {
    return of_head(head, [&](const ClusteredAttention& own) { return ClustersOf(own, length); });
  });
}

// The buckets if they are given or to be kept, and the plan.
OperatorResult Plan(const OperatorCall& call) {
  const AttentionSpec& spec = *call.spec;
  OperatorResult result;
  const auto plan = [&](const auto& from) { return BuildPlan(spec, call.shape, call.query, call.key, from); };
  if (call.buckets != nullptr || call.tokens == 0) {  // of no tokens there is nothing to find
    const Buckets none;
    const Buckets& given = call.buckets != nullptr ? *call.buckets : none;
    result.planned = plan(given);
    if (call.keep_buckets) result.buckets = given;
    return result;
  }
  const bool needed = call.keep_buckets || AnySparse(spec, call.shape);
  Projections drawn;
  if (needed && call.projections == nullptr) drawn = DrawProjections(spec, call.shape, call.layer, call.step);
  const Projections& projections = call.projections != nullptr ? *call.projections : drawn;
  if (call.keep_buckets) {
    result.buckets = FindBuckets(spec, call.shape, call.query, call.key, projections);
    result.planned = plan(result.buckets);
  } else {
    result.planned = plan(projections);
  }
  return result;
}

AttentionForward ForwardOf(const OperatorCall& call, const PlannedAttention& planned) {
  AttentionForward forward;
  forward.shape = call.shape;
  forward.query = call.query;
  forward.key = call.key;
  forward.value = call.value;
  forward.out = call.out;
  forward.lse = call.lse;
  forward.scale = static_cast<float>(ScaleOfScores(*call.spec, call.shape.head_dim));
  forward.plan = planned.plan.get();
  forward.centroids = planned.centroids.get();
  forward.dropout = call.dropout;
  forward.operands = call.operands;
  forward.rounded_query = call.rounded_query;
  forward.rounded_key = call.rounded_key;
  forward.rounded_value = call.rounded_value;
  forward.rounded_out = call.rounded_out;
  return forward;
}

// Whether the plan is one of the call's sequences, heads and kind.
bool PlansFor(const PlannedAttention& planned, const OperatorCall& call) {
  if (planned.plan == nullptr) return false;
  const AttentionPlan& plan = *planned.plan;
  return std::equal(plan.cu_seqlens.begin(), plan.cu_seqlens.end(), call.shape.cu_seqlens.begin(),
                    call.shape.cu_seqlens.end()) &&
         plan.heads == call.shape.heads && plan.head_dim == call.shape.head_dim &&
         plan.shared_keys == SharesKeys(*call.spec) &&
         plan.clusters.size() == (planned.centroids == nullptr ? 0 : planned.centroids->units.size());
}

}  // namespace

void CheckShape(const AttentionShape& shape, int64_t tokens, std::string_view where) {
  if (tokens < 0 || tokens > INT32_MAX)
    Fail("{}: tensor \"query\" has {} tokens, expected at most {}", where, tokens, INT32_MAX);
  const auto refuse = [&](const std::string& expected) {
    Fail("{}: tensor \"query\" has shape [{}, {}, {}], expected {}", where, tokens, shape.heads, shape.head_dim,
         expected);
  };
  if (shape.heads < 1 || shape.heads > kMostHeads) refuse(fmt::format("1 to {} heads", kMostHeads));
  if (shape.head_dim < 1 || shape.head_dim > kLargestHeadDim)
    refuse(fmt::format("a head_dim of 1 to {}", kLargestHeadDim));
  const std::span<const int32_t> offsets = shape.cu_seqlens;
  if (offsets.empty()) Fail("{}: tensor \"cu_seqlens\": is empty, expected sequences + 1 offsets", where);
  if (offsets.front() != 0) Fail("{}: tensor \"cu_seqlens\"[0]: expected 0, got {}", where, offsets.front());
  for (size_t b = 1; b < offsets.size(); ++b) {
    if (offsets[b] < offsets[b - 1])
      Fail("{}: tensor \"cu_seqlens\"[{}]: expected at least {} (offsets ascend), got {}", where, b, offsets[b - 1],
           offsets[b]);
  }
  if (offsets.back() != tokens)
    Fail("{}: tensor \"cu_seqlens\"[{}]: expected {} (the tokens of \"query\"), got {}", where, offsets.size() - 1,
         tokens, offsets.back());
}

void CheckProjections(const OperatorCall& call, const Projections& projections) {
  if (call.tokens == 0 || (!call.keep_buckets && !AnySparse(*call.spec, call.shape))) return;
  if (!Suffice(projections, *call.spec, call.shape))
    Fail("{}: what was drawn is not of {} attention, or not enough for {} tokens", call.where, Name(*call.spec),
         call.shape.longest());
  std::visit([&](const auto& kind) { CheckNumbers(call, kind, projections); }, call.spec->kind);
}

void CheckBuckets(const OperatorCall& call, const Buckets& buckets) {
  std::visit([&](const auto& kind) { CheckLabels(call, kind, buckets); }, call.spec->kind);
}

OperatorResult PlanOperator(const OperatorCall& call) {
  CheckSpecAndShape(call);
  CheckInputs(call, Checks(call), Inputs::kOfPlan);
  if (call.buckets != nullptr && call.projections != nullptr)
    Fail("{}: both projections and buckets are given, expected one of them", call.where);
  if (call.buckets != nullptr) CheckBuckets(call, *call.buckets);
  if (call.projections != nullptr) CheckProjections(call, *call.projections);
  OperatorResult result = Plan(call);
  if (call.count) {
    result.counts = Counts(*result.planned.plan);
    if (call.buckets != nullptr) result.counts.selection_flops = 0;
  }
  return result;
}

OperatorResult RunOperator(const OperatorCall& call) {
  CheckSpecAndShape(call);
  CheckDropout(call);
  const Checks checks(call);
  checks.Separate({CheckOutput(call, checks), checks.Lse()}, CheckInputs(call, checks));
  OperatorResult result = PlanOperator(call);
  RunAttentionForward(ForwardOf(call, result.planned));
  return result;
}

void RunOperatorBackward(const OperatorBackwardCall& call) {
  const OperatorCall& forward = call.forward;
  CheckSpecAndShape(forward);
  CheckDropout(forward);
  if (forward.rounded_query.data != nullptr || forward.rounded_out.data != nullptr)
    Fail("{}: a forward in bfloat16 rows has no backward", forward.where);
  if (!PlansFor(call.planned, forward)) Fail("{}: the plan is not that of this call's forward", forward.where);
  const Checks checks(forward);
  std::vector<Extent> inputs = CheckInputs(forward, checks);
  for (const Extent& read : {checks.Of("out", forward.out), checks.Lse(), checks.Of("grad_out", call.grad_out)})
    inputs.push_back(read);
  std::vector<Extent> outputs{checks.Output("grad_query", call.grad_query),
                              checks.Output("grad_value", call.grad_value)};
  if (SharesKeys(*forward.spec)) {
    checks.None("grad_key", call.grad_key, kSharedKeys);
  } else {
    outputs.push_back(checks.Output("grad_key", call.grad_key));
  }
  checks.Separate(outputs, inputs);
  RunAttentionBackward(
      {ForwardOf(forward, call.planned), call.grad_out, call.grad_query, call.grad_key, call.grad_value});
}

}  // namespace lshformer
