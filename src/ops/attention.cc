#include "ops/attention.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/matmul_precision.h"
#include "kernels/operator.h"
#include "kernels/ref/clustered.h"
#include "kernels/ref/reformer.h"
#include "kernels/ref/simhash_pairs.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionsPtr = std::shared_ptr<const AttentionOptions>;

struct AttentionState : torch::CustomClassHolder {
  OptionsPtr options;
  PlannedAttention planned;
};

AttentionShape Shape(const AttentionOptions& options, const torch::Tensor& qkv) {
  return {options.cu_seqlens(), options.heads,
          static_cast<int>(qkv.size(1) / (SlicesOf(*options.spec) * options.heads)), options.first_head};
}

// Slice 0, 1, … of a [T, slices · hidden] tensor: query, key where there is one, value.
template <class T>
HeadTensor<T> Slice(const torch::Tensor& qkv, const AttentionShape& shape, int slice) {
  return {static_cast<T*>(qkv.data_ptr()) + slice * shape.heads * shape.head_dim, qkv.size(1), shape.head_dim};
}
template <class T>
HeadTensor<T> Whole(const torch::Tensor& x, const AttentionShape& shape) {
  return {static_cast<T*>(x.data_ptr()), x.size(1), shape.head_dim};
}
bool IsRounded(const torch::Tensor& x) { return x.scalar_type() == torch::kBFloat16; }

template <class T>
HeadTensor<T> Key(const AttentionSpec& spec, const torch::Tensor& qkv, const AttentionShape& shape) {
  return SlicesOf(spec) == 3 ? Slice<T>(qkv, shape, 1) : HeadTensor<T>{};
}
template <class T>
HeadTensor<T> Value(const AttentionSpec& spec, const torch::Tensor& qkv, const AttentionShape& shape) {
  return Slice<T>(qkv, shape, SlicesOf(spec) - 1);
}

// The first columns of `drawn` [rows, depth] become those of `stored`.
void Overlay(const torch::Tensor& stored, int depth, std::vector<float>& drawn) {
  const torch::Tensor from = stored.detach().to(torch::kFloat32).contiguous();
  const int64_t has = from.size(2), rows = static_cast<int64_t>(drawn.size()) / std::max(1, depth);
  if (from.size(0) * from.size(1) != rows && depth > 0)
    Fail("attention: expected directions [heads, head_dim, depth], got {}", c10::str(from.sizes()));
  const float* values = from.data_ptr<float>();
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(values + row * has, std::min<int64_t>(has, depth), drawn.begin() + row * depth);
}

Projections Draw(const AttentionSpec& spec, const AttentionShape& shape, uint32_t layer, uint64_t step,
                 const StoredDirections& stored) {
  Projections projections = DrawProjections(spec, shape, layer, step);
  auto* directions = std::get_if<ClusterDirections>(&projections);
  if (directions == nullptr || As<ClusteredAttention>(spec).directions != Directions::kStored) return projections;
  if (!stored.key.defined() || !stored.query.defined())
    Fail("attention: \"directions\" are \"stored\", but there are none");
  Overlay(stored.key, directions->key_depth, directions->key);
  Overlay(stored.query, directions->query_depth, directions->query);
  return projections;
}

// Nothing is drawn where nothing is hashed.
std::shared_ptr<const Projections> Numbers(const AttentionOptions& options, const AttentionShape& shape) {
  if (!AnySparse(*options.spec, shape)) return std::make_shared<const Projections>();
  if (options.drawn)
    return options.drawn->Get(*options.spec, shape, options.layer, options.planes_step, options.directions);
  return std::make_shared<const Projections>(
      Draw(*options.spec, shape, options.layer, options.planes_step, options.directions));
}

// All but what queries and keys are told apart by.
OperatorCall CallOf(const AttentionOptions& options, const torch::Tensor& qkv, const torch::Tensor& out,
                    const torch::Tensor& lse) {
  OperatorCall call;
  call.spec = options.spec.get();
  call.tokens = qkv.size(0);
  call.shape = Shape(options, qkv);
  if (IsRounded(qkv)) {
    call.rounded_query = Slice<const BFloat16>(qkv, call.shape, 0);
    call.rounded_key = Key<const BFloat16>(*options.spec, qkv, call.shape);
    call.rounded_value = Value<const BFloat16>(*options.spec, qkv, call.shape);
  } else {
    call.query = Slice<const float>(qkv, call.shape, 0);
    call.key = Key<const float>(*options.spec, qkv, call.shape);
    call.value = Value<const float>(*options.spec, qkv, call.shape);
  }
  if (IsRounded(out)) {
    call.rounded_out = Whole<BFloat16>(out, call.shape);
  } else {
    call.out = Whole<float>(out, call.shape);
  }
  call.lse = lse.data_ptr<float>();
  call.operands = options.operands;
  if (options.dropout > 0)
    call.dropout = {static_cast<float>(options.dropout), options.dropout_key, options.sequences->ids};
  return call;
}

// What the readable form takes too: any floating type.
void CheckShape(const torch::Tensor& qkv, const AttentionOptions& options) {
  const int slices = SlicesOf(*options.spec);
  if (qkv.dim() != 2 || options.heads < 1 || qkv.size(1) % (slices * options.heads) != 0)
    Fail("attention: expected [tokens, {} · {} heads · head_dim], got {}", slices, options.heads,
         c10::str(qkv.sizes()));
  const int64_t head_dim = qkv.size(1) / (slices * options.heads);
  if (head_dim < 1 || head_dim > 256) Fail("attention: expected head_dim 1 to 256, got {}", head_dim);
  if (qkv.size(0) != options.cu_seqlens().back())
    Fail("attention: {} tokens, but cu_seqlens ends at {}", qkv.size(0), options.cu_seqlens().back());
  if (options.dropout > 0 && options.sequences->ids.size() + 1 != options.cu_seqlens().size())
    Fail("attention: {} sequence ids for {} sequences", options.sequences->ids.size(), options.cu_seqlens().size() - 1);
}

// The kernels read numbers in rows side by side, where they lie.
void Check(const torch::Tensor& qkv, const AttentionOptions& options) {
  CheckShape(qkv, options);
  const torch::ScalarType rounded = OperandType(options.operands);
  const bool rounds_out = rounded == torch::kBFloat16 && AmxTilesAreActive();
  if (options.out_type != torch::kFloat32 && !(options.out_type == torch::kBFloat16 && rounds_out))
    Fail("attention: results in {} are for inference in bfloat16 on AMX tiles", c10::toString(options.out_type));
  const bool fits = qkv.scalar_type() == rounded && OnlyMultiplies(*options.spec, Shape(options, qkv));
  if (qkv.scalar_type() != torch::kFloat32 && !fits)
    Fail("attention: expected float32, got {}", c10::toString(qkv.scalar_type()));
  if (!qkv.device().is_cpu()) Fail("attention: expected a tensor on the CPU, got one on {}", qkv.device().str());
  if (!qkv.is_contiguous())
    Fail("attention: expected a contiguous tensor, got one of shape {} with strides {}", c10::str(qkv.sizes()),
         c10::str(qkv.strides()));
}

// `call` is one of the heads of `options`.
OperatorResult Run(const AttentionOptions& options, OperatorCall call) {
  const std::shared_ptr<const Projections> numbers = Numbers(options, call.shape);
  call.projections = numbers.get();
  call.count = options.counts != nullptr;
  OperatorResult result = RunOperator(call);
  if (options.counts) *options.counts += result.counts;
  return result;
}

struct SelfAttentionOp : torch::autograd::Function<SelfAttentionOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& qkv, OptionsPtr options) {
    const AttentionShape shape = Shape(*options, qkv);
    torch::Tensor out =
        torch::empty({qkv.size(0), shape.heads * shape.head_dim}, qkv.options().dtype(options->out_type));
    torch::Tensor lse = torch::empty({qkv.size(0), shape.heads}, qkv.options().dtype(torch::kFloat32));
    OperatorResult result = Run(*options, CallOf(*options, qkv, out, lse));
    const auto state = c10::make_intrusive<AttentionState>();
    state->planned = std::move(result.planned);
    state->options = std::move(options);
    context->save_for_backward({qkv, out, lse});
    context->saved_data["state"] = c10::IValue::make_capsule(state);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor &qkv = saved[0], &out = saved[1], grad_out = grads[0].contiguous();
    const auto* state = static_cast<const AttentionState*>(context->saved_data["state"].toCapsule().get());
    torch::Tensor grad = torch::empty_like(qkv);
    const OperatorCall forward = CallOf(*state->options, qkv, out, saved[2]);
    const AttentionSpec& spec = *forward.spec;
    RunOperatorBackward({forward, state->planned, Whole<const float>(grad_out, forward.shape),
                         Slice<float>(grad, forward.shape, 0), Key<float>(spec, grad, forward.shape),
                         Value<float>(spec, grad, forward.shape)});
    return {grad, {}};
  }
};

// One sequence of the readable form.
struct Sequence {
  const AttentionOptions& options;
  int64_t tokens, begin, end;  // of the batch; of the sequence
  torch::Tensor query, key;    // [heads, n, head_dim]; no key where they are shared

  int64_t length() const { return end - begin; }
  double Scale() const { return ScaleOfScores(*options.spec, static_cast<int>(query.size(2))); }
};

// Probabilities [heads, n, n] of a sequence, docs/attention.md line by line; of each kind, with what it hashed the
// batch to.
struct NoBuckets {};
NoBuckets BucketsOf(const DenseAttention&, const AttentionOptions&, const torch::Tensor&) { return {}; }

torch::Tensor Probabilities(const DenseAttention&, const Sequence& sequence, NoBuckets) {
  return torch::softmax(torch::matmul(sequence.query, sequence.key.transpose(1, 2)) * sequence.Scale(), -1);
}

NoBuckets BucketsOf(const LocalAttention&, const AttentionOptions&, const torch::Tensor&) { return {}; }

torch::Tensor Probabilities(const LocalAttention&, const Sequence& sequence, NoBuckets) {
  const torch::Tensor positions = torch::arange(sequence.length()),
                      apart = (positions.unsqueeze(0) - positions.unsqueeze(1)).abs();  // [n, n]
  const torch::Tensor scores = torch::matmul(sequence.query, sequence.key.transpose(1, 2)) * sequence.Scale();
  return torch::softmax(
      scores.masked_fill(apart > sequence.options.spec->window, -std::numeric_limits<double>::infinity()), -1);
}

// [heads, hashes, T] of queries and keys; empty where nothing is hashed.
Buckets BucketsOf(const SimHashAttention&, const AttentionOptions& options, const torch::Tensor& single) {
  const AttentionShape shape = Shape(options, single);
  if (!AnySparse(*options.spec, shape)) return {};
  return HashQueriesAndKeys(*options.spec, shape, Slice<const float>(single, shape, 0),
                            Slice<const float>(single, shape, 1), std::get<SimHashPlanes>(*Numbers(options, shape)));
}

// [heads, n, n]: which pairs of one sequence are seen.
torch::Tensor SeenPairs(const SimHashAttention& simhash, const Sequence& sequence, const Buckets& buckets) {
  const int64_t length = sequence.length();
  torch::Tensor seen = torch::empty({sequence.options.heads, length, length}, torch::kBool);
  bool* at = seen.data_ptr<bool>();
  for (int head = 0; head < sequence.options.heads; ++head) {
    const int64_t first = int64_t{head} * simhash.hashes * sequence.tokens + sequence.begin;
    const ref::SimHashPairs pairs(simhash, *sequence.options.spec, static_cast<int>(length),
                                  buckets.query.data() + first, buckets.key.data() + first, sequence.tokens);
    for (int64_t i = 0; i < length; ++i) {
      for (int64_t j = 0; j < length; ++j) *at++ = pairs.Sees(i, j);
    }
  }
  return seen;
}

torch::Tensor Probabilities(const SimHashAttention& simhash, const Sequence& sequence, const Buckets& buckets) {
  if (!IsSparseAt(*sequence.options.spec, static_cast<int>(sequence.length())))
    return Probabilities(DenseAttention{}, sequence, {});
  const torch::Tensor &query = sequence.query, &key = sequence.key;
  const torch::Tensor seen = SeenPairs(simhash, sequence, buckets);
  torch::Tensor scores = torch::matmul(query, key.transpose(1, 2)) * sequence.Scale();
  if (simhash.pairs == Pairs::kReference) scores = torch::triu(scores) + torch::triu(scores, 1).transpose(1, 2);
  if (simhash.fill == Fill::kNone) {
    // A query that sees nothing: shifting by a finite maximum keeps its row 0 instead of 0/0.
    const double kUnseen = -std::numeric_limits<double>::infinity();
    const torch::Tensor visible = torch::where(seen, scores, torch::full_like(scores, kUnseen));
    const torch::Tensor shift = torch::nan_to_num(std::get<0>(visible.max(-1, true)), 0.0, 0.0, 0.0).detach();
    const torch::Tensor weights = torch::where(
        seen, torch::exp(torch::where(seen, scores - shift, torch::zeros_like(scores))), torch::zeros_like(scores));
    const torch::Tensor total = weights.sum(-1, true);
    return weights / torch::where(total > 0, total, torch::ones_like(total));
  }
  torch::Tensor fill = torch::zeros_like(scores);
  if (simhash.fill == Fill::kMean)
    fill = (torch::matmul(query, key.mean(1, true).transpose(1, 2)) * sequence.Scale()).expand_as(scores);
  return torch::softmax(torch::where(seen, scores, fill), -1);
}

// [heads, rounds, T]; empty where nothing is hashed.
std::vector<int32_t> BucketsOf(const ReformerAttention&, const AttentionOptions& options, const torch::Tensor& single) {
  const AttentionShape shape = Shape(options, single);
  if (!AnySparse(*options.spec, shape)) return {};
  return HashByRotation(*options.spec, shape, Slice<const float>(single, shape, 0),
                        std::get<ReformerRotations>(*Numbers(options, shape)));
}

// From the queries alone: each key as often as it is met.
torch::Tensor Probabilities(const ReformerAttention& reformer, const Sequence& sequence,
                            const std::vector<int32_t>& buckets) {
  const torch::Tensor& query = sequence.query;
  const int64_t n = sequence.length(), head_dim = query.size(2);
  std::vector<torch::Tensor> heads;  // [n, n]: how often the queries meet the keys
  for (int head = 0; head < sequence.options.heads; ++head) {
    const int64_t first = int64_t{head} * reformer.rounds * sequence.tokens + sequence.begin;
    const std::vector<int32_t> counts =
        ref::MeetingCounts(*sequence.options.spec, static_cast<int>(n),
                           buckets.empty() ? nullptr : buckets.data() + first, sequence.tokens);
    heads.push_back(torch::tensor(counts, torch::kInt32).view({n, n}));
  }
  const torch::Tensor meetings = torch::stack(heads);
  const torch::Tensor norm = torch::sqrt(query.square().sum(-1, true) + head_dim * ReformerAttention::kKeyNormEpsilon);
  torch::Tensor scores = torch::matmul(query, (query / norm).transpose(1, 2)) * sequence.Scale();
  scores = scores.masked_fill(torch::eye(n, torch::kBool), ReformerAttention::kSelfScore);
  return torch::softmax(scores + torch::log(meetings.to(query.scalar_type())), -1);  // log 0: takes no part
}

// Groups of queries and clusters of keys, [heads, T]; empty where nothing is hashed.
Buckets BucketsOf(const ClusteredAttention&, const AttentionOptions& options, const torch::Tensor& single) {
  const AttentionShape shape = Shape(options, single);
  if (!AnySparse(*options.spec, shape)) return {};
  return GroupByHalving(*options.spec, shape, Slice<const float>(single, shape, 0),
                        Slice<const float>(single, shape, 1), std::get<ClusterDirections>(*Numbers(options, shape)));
}

// Numbers of one sequence as the readable form of clustered attention takes them.
struct ClusteredNumbers {
  std::vector<double> query, key;
  std::vector<int32_t> groups, clusters, cu_seqlens;
  AttentionShape shape;
  ref::Inputs in;

  ClusteredNumbers(const Sequence& sequence, const Buckets& buckets)
      : query(Wide(sequence.query)),
        key(Wide(sequence.key)),
        groups(Own(sequence, buckets.query)),
        clusters(Own(sequence, buckets.key)),
        cu_seqlens{0, static_cast<int32_t>(sequence.length())},
        shape{cu_seqlens, sequence.options.heads, static_cast<int>(sequence.query.size(2))},
        in{shape, *sequence.options.spec, query, key, key, sequence.Scale(), groups, clusters, {}} {}
  ClusteredNumbers(const ClusteredNumbers&) = delete;
  ClusteredNumbers& operator=(const ClusteredNumbers&) = delete;

 private:
  static std::vector<double> Wide(const torch::Tensor& x) {
    const torch::Tensor rows = x.detach().to(torch::kFloat64).transpose(0, 1).contiguous();
    return {rows.data_ptr<double>(), rows.data_ptr<double>() + rows.numel()};
  }
  static std::vector<int32_t> Own(const Sequence& sequence, const std::vector<int32_t>& labels) {
    std::vector<int32_t> part;
    if (labels.empty()) return part;
    for (int head = 0; head < sequence.options.heads; ++head) {
      const auto first = labels.begin() + head * sequence.tokens + sequence.begin;
      part.insert(part.end(), first, first + sequence.length());
    }
    return part;
  }
};

// What a centroid gets is shared out to its keys; numbers alone, without gradients.
torch::Tensor Probabilities(const ClusteredAttention& clustered, const Sequence& sequence, const Buckets& buckets) {
  if (!IsSparseAt(*sequence.options.spec, static_cast<int>(sequence.length())))
    return Probabilities(DenseAttention{}, sequence, {});
  const int64_t n = sequence.length();
  const int heads = sequence.options.heads;
  const ClusteredNumbers numbers(sequence, buckets);
  torch::Tensor maps = torch::empty({heads, n, n}, torch::kFloat64);
  for (int head = 0; head < heads; ++head) {
    const std::vector<double> map = ref::ClusteredProbabilities(clustered, numbers.in, /*sequence=*/0, head);
    std::copy(map.begin(), map.end(), maps.data_ptr<double>() + head * n * n);
  }
  return maps.to(sequence.query.scalar_type());
}

// Calls visit(probabilities, value [heads, n, head_dim]) for every sequence.
template <class Visit>
void ForEachSequence(const torch::Tensor& qkv, const AttentionOptions& options, const Visit& visit) {
  CheckShape(qkv, options);
  const torch::Tensor single = qkv.detach().to(torch::kFloat32).contiguous();
  const AttentionShape shape = Shape(options, single);
  const int slices = SlicesOf(*options.spec);
  const torch::Tensor heads = qkv.view({qkv.size(0), slices, shape.heads, shape.head_dim}).permute({1, 2, 0, 3});
  const auto visit_all = [&](const auto& kind) {
    const auto buckets = BucketsOf(kind, options, single);
    for (int b = 0; b < shape.sequences(); ++b) {
      const int64_t begin = options.cu_seqlens()[b], end = options.cu_seqlens()[b + 1];
      const torch::Tensor mine = heads.slice(2, begin, end);  // [slices, heads, n, head_dim]
      const Sequence sequence{options, qkv.size(0), begin, end, mine[0], slices == 3 ? mine[1] : torch::Tensor()};
      visit(Probabilities(kind, sequence, buckets), mine[slices - 1]);
    }
  };
  std::visit(visit_all, options.spec->kind);
}

}  // namespace

AttentionOptions OfHeads(const AttentionOptions& options, int first, int heads) {
  AttentionOptions some = options;
  some.heads = heads;
  some.first_head += first;
  some.drawn = nullptr;  // is of all
  if (!options.spec->heads.empty()) {
    const auto begin = options.spec->heads.begin() + first;
    some.spec = std::make_shared<const AttentionSpec>(OfHeads({begin, begin + heads}, "attention"));
  }
  for (torch::Tensor* directions : {&some.directions.key, &some.directions.query})
    if (directions->defined()) *directions = directions->narrow(0, first, heads);
  return some;
}

int64_t StoredDirections::version() const {
  int64_t changes = 0;
  for (const torch::Tensor* part : {&key, &query})
    if (part->defined()) changes += part->_version();
  return changes;
}

std::shared_ptr<const Projections> DrawnProjections::Get(const AttentionSpec& spec, const AttentionShape& shape,
                                                         uint32_t layer, uint64_t step,
                                                         const StoredDirections& stored) {
  const std::lock_guard lock(mutex_);
  if (spec.resample == Resample::kNever) step = 0;  // as those who draw have it
  const int64_t version = stored.version();
  if (!projections_ || step_ != step || version_ != version || !Suffice(*projections_, spec, shape)) {
    projections_ = std::make_shared<const Projections>(Draw(spec, shape, layer, step, stored));
    step_ = step;
    version_ = version;
  }
  return projections_;
}

torch::ScalarType OperandType(Operands operands) {
  return !torch::GradMode::is_enabled() && operands == Operands::kBFloat16 ? torch::kBFloat16 : torch::kFloat32;
}

Operands OperandsOf(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      break;
    case Precision::kBFloat16:
      return Operands::kBFloat16;
    case Precision::kInt8:
      // Where it is faster: rounding to bfloat16 loses far less than the layers' 8 bits do.
      return BFloat16Pays() ? Operands::kBFloat16 : Operands::kFloat32;
  }
  switch (ActiveMatmulPrecision()) {
    case MatmulPrecision::kHighest:
      break;
    case MatmulPrecision::kHigh:
      return Operands::kTwoParts;
    case MatmulPrecision::kMedium:
      return Operands::kBFloat16;
  }
  return Operands::kFloat32;
}

int SlicesOf(const AttentionSpec& spec) { return SharesKeys(spec) ? 2 : 3; }

namespace {

// Of a forward alone. All where plans are small; else as few as keep every thread at work on heads of its own.
int HeadsAtATime(const AttentionOptions& options, const AttentionShape& shape) {
  constexpr int64_t kRowsPlanned = 1 << 16;  // heads · tokens
  if (torch::GradMode::is_enabled() || !AnySparse(*options.spec, shape)) return options.heads;
  const int64_t tokens = std::max<int64_t>(1, options.cu_seqlens().back());
  return static_cast<int>(std::clamp<int64_t>(kRowsPlanned / tokens, Threads(), INT32_MAX));
}

// heads: at a time. Heads have nothing to do with one another, so this changes no bit.
torch::Tensor SomeHeadsAtATime(const torch::Tensor& qkv, const AttentionOptions& options, int heads) {
  const AttentionShape shape = Shape(options, qkv);
  torch::Tensor out =
      torch::empty({qkv.size(0), int64_t{shape.heads} * shape.head_dim}, qkv.options().dtype(options.out_type));
  for (int first = 0; first < shape.heads; first += heads) {
    const AttentionOptions some = OfHeads(options, first, std::min(heads, shape.heads - first));
    const torch::Tensor lse = torch::empty({qkv.size(0), some.heads}, qkv.options().dtype(torch::kFloat32));
    OperatorCall call = CallOf(options, qkv, out, lse);
    const auto move_on = [&](auto&... tensors) {
      ((tensors.data += tensors.data == nullptr ? 0 : first * tensors.head_stride), ...);
    };
    move_on(call.query, call.key, call.value, call.out);
    move_on(call.rounded_query, call.rounded_key, call.rounded_value, call.rounded_out);
    call.spec = some.spec.get();
    call.shape.heads = some.heads;
    call.shape.first_head = some.first_head;
    Run(some, call);
  }
  return out;
}

}  // namespace

torch::Tensor SelfAttention(const torch::Tensor& qkv, OptionsPtr options) {
  Check(qkv, *options);
  if (const int heads = HeadsAtATime(*options, Shape(*options, qkv)); heads < options->heads)
    return SomeHeadsAtATime(qkv, *options, heads);
  return SelfAttentionOp::apply(qkv, std::move(options));
}

std::vector<double> MassMet(const torch::Tensor& qkv, const AttentionOptions& options) {
  CheckShape(qkv, options);
  const torch::Tensor single = qkv.detach().to(torch::kFloat32).contiguous();
  const AttentionShape shape = Shape(options, single);
  const torch::Tensor heads = single.view({qkv.size(0), 3, shape.heads, shape.head_dim}).permute({1, 2, 0, 3});
  const Buckets buckets = BucketsOf(As<ClusteredAttention>(*options.spec), options, single);
  std::vector<double> met(shape.heads, 0.0);
  for (int b = 0; b < shape.sequences(); ++b) {
    const int64_t begin = options.cu_seqlens()[b], end = options.cu_seqlens()[b + 1];
    const torch::Tensor mine = heads.slice(2, begin, end);
    const ClusteredNumbers numbers({options, qkv.size(0), begin, end, mine[0], mine[1]}, buckets);
    ParallelFor(shape.heads, /*grain=*/1, [&](int64_t first, int64_t last) {
      for (int64_t head = first; head < last; ++head)
        met[head] += ref::MassMet(numbers.in, /*sequence=*/0, static_cast<int>(head)) / shape.sequences();
    });
  }
  return met;
}

std::vector<torch::Tensor> AttentionProbabilities(const torch::Tensor& qkv, const AttentionOptions& options) {
  std::vector<torch::Tensor> maps;
  ForEachSequence(qkv, options, [&](const torch::Tensor& map, const torch::Tensor&) { maps.push_back(map); });
  return maps;
}

torch::Tensor SelfAttentionReference(const torch::Tensor& qkv, const AttentionOptions& options) {
  std::vector<torch::Tensor> parts;
  ForEachSequence(qkv, options, [&](const torch::Tensor& map, const torch::Tensor& value) {
    parts.push_back(torch::matmul(map, value).transpose(0, 1).flatten(1));  // [n, heads · head_dim]
  });
  return torch::cat(parts);
}

}  // namespace lshformer
