#include "kernels/ref/reformer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/dropout.h"
#include "kernels/ref/simhash_pairs.h"

namespace lshformer::ref {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Which keys a query meets, in each round, in the order of its view; one as often as it is met. After the rounds come
// those that are always seen and that no round met, once.
class Meetings {
 public:
  Meetings(const AttentionSpec& spec, int length, const int32_t* buckets, int64_t stride)
      : spec_(spec),
        reformer_(As<ReformerAttention>(spec)),
        length_(length),
        buckets_(buckets),
        stride_(stride),
        hashed_(IsSparseAt(spec, length)) {
    if (!hashed_) return;
    chunks_of_a_round_ = (length + reformer_.chunk - 1) / reformer_.chunk;
    chunk_of_.resize(int64_t{reformer_.rounds} * length);
    for (int round = 0; round < reformer_.rounds; ++round) {
      std::vector<int> order(length);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return Bucket(round, a) < Bucket(round, b); });
      for (int place = 0; place < length; ++place) {
        if (place % reformer_.chunk == 0) circle_.emplace_back();
        circle_.back().push_back(order[place]);
        chunk_of_[int64_t{round} * length + order[place]] = static_cast<int>(circle_.size()) - 1;
      }
    }
  }

  int rounds() const { return hashed_ ? reformer_.rounds + 1 : 1; }

  std::vector<int> Of(int i, int round) const {
    std::vector<int> met;
    if (!hashed_) {
      for (int j = 0; j < length_; ++j) {
        if (j <= i || !reformer_.causal) met.push_back(j);
      }
      return met;
    }
    if (round == reformer_.rounds) return OfNoRound(i);
    const int own = chunk_of_[int64_t{round} * length_ + i], all = static_cast<int>(circle_.size());
    const int first = round * chunks_of_a_round_, last = first + chunks_of_a_round_ - 1;  // of this round
    for (int number = own - reformer_.look_back; number <= own + reformer_.look_ahead; ++number) {
      const bool outside = number < first || number > last;
      if (outside && !(reformer_.wrap && reformer_.cross_bucket)) continue;
      for (const int j : circle_[(number % all + all) % all]) {
        if (!reformer_.cross_bucket && Bucket(round, i) != Bucket(round, j)) continue;
        if (!reformer_.causal || j <= i) met.push_back(j);
      }
    }
    return met;
  }

  // N_ij for all j.
  std::vector<int32_t> Counts(int i) const {
    std::vector<int32_t> counts(length_);
    for (int round = 0; round < rounds(); ++round) {
      for (const int j : Of(i, round)) ++counts[j];
    }
    return counts;
  }

 private:
  std::vector<int> OfNoRound(int i) const {
    std::vector<bool> found(length_);
    for (int round = 0; round < reformer_.rounds; ++round) {
      for (const int j : Of(i, round)) found[j] = true;
    }
    std::vector<int> left;
    for (int j = 0; j < length_; ++j) {
      if (!found[j] && AlwaysSees(spec_, length_, i, j) && (!reformer_.causal || j <= i)) left.push_back(j);
    }
    return left;
  }

  int32_t Bucket(int round, int position) const { return buckets_[round * stride_ + position]; }

  const AttentionSpec& spec_;
  const ReformerAttention& reformer_;
  int length_;
  const int32_t* buckets_;
  int64_t stride_;
  bool hashed_;
  int chunks_of_a_round_ = 0;
  std::vector<std::vector<int>> circle_;  // positions of each chunk of all rounds, end to end
  std::vector<int> chunk_of_;             // [rounds, length]
};

// One sequence under one head.
class Unit {
 public:
  Unit(const Inputs& in, int sequence, int head)
      : in_(in),
        head_(head),
        begin_(in.shape.cu_seqlens[sequence]),
        length_(static_cast<int>(in.shape.cu_seqlens[sequence + 1] - begin_)),
        meetings_(in.spec, length_,
                  in.query_buckets.empty()
                      ? nullptr
                      : in.query_buckets.data() +
                            int64_t{head} * As<ReformerAttention>(in.spec).rounds * in.shape.tokens() + begin_,
                  in.shape.tokens()) {
    const int head_dim = in.shape.head_dim;
    for (int j = 0; j < length_; ++j) {
      const double* q = Row(in.query, j);
      key_scale_.push_back(1 / std::sqrt(Dot(q, q) + head_dim * ReformerAttention::kKeyNormEpsilon));
      for (int d = 0; d < head_dim; ++d) keys_.push_back(key_scale_[j] * q[d]);
    }
    if (in.dropout.probability > 0) {
      const uint64_t id = in.dropout.sequence_ids.empty() ? sequence : in.dropout.sequence_ids[sequence];
      dropout_key_ = DropoutHeadKey(in.dropout.key, id, in.shape.first_head + head);
    }
  }

  int length() const { return length_; }
  const Meetings& meetings() const { return meetings_; }
  int64_t Token(int position) const { return begin_ + position; }
  int64_t Offset(int position) const { return (Token(position) * in_.shape.heads + head_) * in_.shape.head_dim; }
  const double* Row(std::span<const double> tensor, int position) const { return tensor.data() + Offset(position); }
  const double* Key(int j) const { return keys_.data() + int64_t{j} * in_.shape.head_dim; }
  double key_scale(int j) const { return key_scale_[j]; }

  double Score(int i, int j) const {
    return i == j ? ReformerAttention::kSelfScore : in_.scale * Dot(Row(in_.query, i), Key(j));
  }
  // What a pair met `times` times has on top of its score each time.
  double Correction(int32_t times) const {
    return As<ReformerAttention>(in_.spec).count_pairs_once ? -std::log(times) : 0.0;
  }

  double KeepFactor(int i, int j) const {
    if (!(in_.dropout.probability > 0)) return 1.0;
    const bool dropped = IsDropped(DropoutSide(dropout_key_, i, 0), DropoutSide(dropout_key_, j, 1),
                                   DropoutThreshold(in_.dropout.probability));
    return dropped ? 0.0 : 1.0 / (1.0 - static_cast<double>(in_.dropout.probability));
  }

  double Dot(const double* a, const double* b) const { return std::inner_product(a, a + in_.shape.head_dim, b, 0.0); }

 private:
  const Inputs& in_;
  int head_;
  int64_t begin_;
  int length_;
  Meetings meetings_;
  std::vector<double> keys_, key_scale_;  // [length, head_dim], [length]
  uint64_t dropout_key_ = 0;
};

template <class Visit>
void ForEachUnit(const Inputs& in, const Visit& visit) {
  for (int b = 0; b < in.shape.sequences(); ++b) {
    for (int head = 0; head < in.shape.heads; ++head) visit(Unit(in, b, head), head);
  }
}

double LogSumExp(const std::vector<double>& x) {
  double top = kMinusInfinity;
  for (const double value : x) top = std::isnan(value) || value > top ? value : top;
  if (top == kMinusInfinity) return top;
  double sum = 0;
  for (const double value : x) sum += std::exp(value - top);
  return top + std::log(sum);
}

void AddScaled(double factor, const double* from, int count, double* to) {
  for (int d = 0; d < count; ++d) to[d] += factor * from[d];
}

// One round of one query: adds e^lse to the others by way of (lse, output).
struct Round {
  double lse;
  std::vector<double> output;
};

Round RunRound(const Inputs& in, const Unit& unit, int i, int round, const std::vector<int32_t>& times) {
  const std::vector<int> met = unit.meetings().Of(i, round);
  std::vector<double> scores;
  for (const int j : met) scores.push_back(unit.Score(i, j) + unit.Correction(times[j]));
  Round result{LogSumExp(scores), std::vector<double>(in.shape.head_dim)};
  for (size_t m = 0; m < met.size(); ++m) {
    AddScaled(std::exp(scores[m] - result.lse) * unit.KeepFactor(i, met[m]), unit.Row(in.value, met[m]),
              in.shape.head_dim, result.output.data());
  }
  return result;
}

// p_ij of all keys, all meetings together.
std::vector<double> Probabilities(const Unit& unit, int i) {
  const std::vector<int32_t> times = unit.meetings().Counts(i);
  std::vector<double> logits(times.size(), kMinusInfinity);
  for (int j = 0; j < unit.length(); ++j) {
    if (times[j] > 0) logits[j] = unit.Score(i, j) + unit.Correction(times[j]) + std::log(times[j]);
  }
  const double lse = LogSumExp(logits);
  for (double& p : logits) p = p == kMinusInfinity ? 0 : std::exp(p - lse);
  return logits;
}

}  // namespace

Outputs Forward(const ReformerAttention&, const Inputs& in) {
  Outputs outputs;
  outputs.out.assign(in.query.size(), 0.0);
  outputs.lse.assign(in.shape.tokens() * in.shape.heads, kMinusInfinity);
  ForEachUnit(in, [&](const Unit& unit, int head) {
    outputs.pairs_total += int64_t{unit.length()} * unit.length();
    for (int i = 0; i < unit.length(); ++i) {
      const std::vector<int32_t> times = unit.meetings().Counts(i);
      outputs.pairs_computed += std::count_if(times.begin(), times.end(), [](int32_t n) { return n > 0; });
      std::vector<Round> rounds;
      std::vector<double> lses;
      for (int round = 0; round < unit.meetings().rounds(); ++round) {
        rounds.push_back(RunRound(in, unit, i, round, times));
        lses.push_back(rounds.back().lse);
      }
      const double lse = LogSumExp(lses);
      for (const Round& round : rounds) {
        AddScaled(std::exp(round.lse - lse), round.output.data(), in.shape.head_dim,
                  outputs.out.data() + unit.Offset(i));
      }
      outputs.lse[unit.Token(i) * in.shape.heads + head] = lse;
    }
  });
  return outputs;
}

Gradients Backward(const ReformerAttention&, const Inputs& in, std::span<const double> grad_out) {
  const int head_dim = in.shape.head_dim;
  Gradients grads;
  for (std::vector<double>* gradient : {&grads.query, &grads.value}) gradient->assign(in.query.size(), 0.0);
  ForEachUnit(in, [&](const Unit& unit, int) {
    const int length = unit.length();
    std::vector<double> key_gradients(int64_t{length} * head_dim), probability_gradient(length);
    for (int i = 0; i < length; ++i) {
      const std::vector<double> p = Probabilities(unit, i);
      const std::vector<int32_t> times = unit.meetings().Counts(i);
      const double* grad_row = unit.Row(grad_out, i);
      double expected = 0;  // Σ_j p_ij ∂loss/∂p_ij
      for (int j = 0; j < length; ++j) {
        if (times[j] == 0) continue;
        const double keep = unit.KeepFactor(i, j);
        AddScaled(p[j] * keep, grad_row, head_dim, grads.value.data() + unit.Offset(j));
        probability_gradient[j] = keep * unit.Dot(grad_row, unit.Row(in.value, j));
        expected += p[j] * probability_gradient[j];
      }
      for (int j = 0; j < length; ++j) {
        if (times[j] == 0 || i == j) continue;  // the penalty is a constant
        const double gradient = in.scale * p[j] * (probability_gradient[j] - expected);
        AddScaled(gradient, unit.Key(j), head_dim, grads.query.data() + unit.Offset(i));
        AddScaled(gradient, unit.Row(in.query, i), head_dim, key_gradients.data() + int64_t{j} * head_dim);
      }
    }
    for (int j = 0; j < length; ++j) {  // k = q / √(Σ q² + ε): dq = (dk − k (k·dk)) / √(Σ q² + ε)
      const double* gradient = key_gradients.data() + int64_t{j} * head_dim;
      double* to = grads.query.data() + unit.Offset(j);
      AddScaled(unit.key_scale(j), gradient, head_dim, to);
      AddScaled(-unit.key_scale(j) * unit.Dot(unit.Key(j), gradient), unit.Key(j), head_dim, to);
    }
  });
  return grads;
}

std::vector<int32_t> MeetingCounts(const AttentionSpec& spec, int length, const int32_t* buckets, int64_t stride) {
  const bool once = As<ReformerAttention>(spec).count_pairs_once;
  const Meetings meetings(spec, length, buckets, stride);
  std::vector<int32_t> counts;
  for (int i = 0; i < length; ++i) {
    for (const int32_t times : meetings.Counts(i)) counts.push_back(once ? std::min(times, 1) : times);
  }
  return counts;
}

std::vector<int32_t> HashByRotation(const Inputs& in, const ReformerRotations& rotations) {
  const auto& reformer = As<ReformerAttention>(in.spec);
  const int head_dim = in.shape.head_dim, rounds = reformer.rounds, heads = in.shape.heads;
  const int64_t tokens = in.shape.tokens();
  std::vector<int32_t> buckets(int64_t{heads} * rounds * tokens);
  // argmax [xR, −xR] of the columns `first` … `first` + count − 1 of one head and round
  const auto largest = [&](const double* x, int64_t matrix, int first, int count) {
    std::vector<double> rotated(2 * count);
    for (int c = 0; c < count; ++c) {
      for (int d = 0; d < head_dim; ++d)
        rotated[c] += x[d] * rotations.rotations[(matrix * head_dim + d) * rotations.columns + first + c];
      rotated[count + c] = -rotated[c];
    }
    return static_cast<int32_t>(std::max_element(rotated.begin(), rotated.end()) - rotated.begin());
  };
  for (int b = 0; b < in.shape.sequences(); ++b) {
    const int64_t begin = in.shape.cu_seqlens[b], end = in.shape.cu_seqlens[b + 1];
    const std::array<int, 2> factors = BucketFactors(reformer, end - begin);
    for (int64_t matrix = 0; matrix < int64_t{heads} * rounds; ++matrix) {
      for (int64_t token = begin; token < end; ++token) {
        const double* x = in.query.data() + (token * heads + matrix / rounds) * head_dim;
        int32_t bucket = largest(x, matrix, 0, factors[0] / 2);
        if (factors[1] > 1) bucket += factors[0] * largest(x, matrix, factors[0] / 2, factors[1] / 2);
        buckets[matrix * tokens + token] = bucket;
      }
    }
  }
  return buckets;
}

}  // namespace lshformer::ref
