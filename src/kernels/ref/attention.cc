#include "kernels/ref/attention.h"

#include <cmath>
#include <limits>

#include "kernels/dropout.h"
#include "kernels/ref/clustered.h"
#include "kernels/ref/reformer.h"
#include "kernels/ref/simhash_pairs.h"

namespace lshformer::ref {
namespace {

enum class Pair { kSeen, kUnseen, kAbsent };

// One sequence under one head: SimHash, or exact attention, which is what `simhash` does with a sequence that is not
// hashed; of local attention the pairs within its window.
class Unit {
 public:
  Unit(const SimHashAttention& simhash, const Inputs& in, int sequence, int head)
      : simhash_(simhash),
        in_(in),
        head_(head),
        begin_(in.shape.cu_seqlens[sequence]),
        length_(in.shape.cu_seqlens[sequence + 1] - begin_),
        reach_(Is<LocalAttention>(in.spec) ? in.spec.window : length_),
        mirrors_(IsSparseAt(in.spec, static_cast<int>(length_)) && simhash.pairs == Pairs::kReference),
        pairs_(simhash, in.spec, static_cast<int>(length_), Buckets(in.query_buckets), Buckets(in.key_buckets),
               in.shape.tokens()) {
    if (in.dropout.probability > 0) {
      const uint64_t id = in.dropout.sequence_ids.empty() ? sequence : in.dropout.sequence_ids[sequence];
      dropout_key_ = DropoutHeadKey(in.dropout.key, id, in.shape.first_head + head);
    }
    mean_key_.assign(in.shape.head_dim, 0.0);
    // From the first key on, so that the mean of equal keys is that key: center_keys hashes the difference.
    if (length_ > 0) mean_key_.assign(Row(in.key, 0), Row(in.key, 0) + in.shape.head_dim);
    for (int64_t j = 0; j < length_; ++j) {
      for (int d = 0; d < in.shape.head_dim; ++d)
        mean_key_[d] += (Row(in.key, j)[d] - Row(in.key, 0)[d]) / static_cast<double>(length_);
    }
  }

  Fill fill() const { return simhash_.fill; }
  int64_t length() const { return length_; }
  int64_t Token(int64_t position) const { return begin_ + position; }
  int64_t Offset(int64_t position) const { return (Token(position) * in_.shape.heads + head_) * in_.shape.head_dim; }
  const double* Row(std::span<const double> tensor, int64_t position) const { return tensor.data() + Offset(position); }
  const std::vector<double>& mean_key() const { return mean_key_; }

  Pair Kind(int64_t i, int64_t j) const {
    if (std::abs(i - j) > reach_) return Pair::kAbsent;
    if (pairs_.Sees(i, j)) return Pair::kSeen;
    return simhash_.fill == Fill::kNone ? Pair::kAbsent : Pair::kUnseen;
  }
  // Whether the score of the seen pair (i, j) is q_j·k_i's mirror: the roles of query and key are swapped.
  bool Mirrored(int64_t i, int64_t j) const { return mirrors_ && i > j; }

  double Score(int64_t i, int64_t j, Pair kind) const {
    if (kind == Pair::kUnseen) {
      return simhash_.fill == Fill::kMean ? in_.scale * Dot(Row(in_.query, i), mean_key_.data()) : 0.0;
    }
    return Mirrored(i, j) ? in_.scale * Dot(Row(in_.query, j), Row(in_.key, i))
                          : in_.scale * Dot(Row(in_.query, i), Row(in_.key, j));
  }

  // 1 without dropout and for unseen pairs; else 0 or 1 / (1 − probability).
  double KeepFactor(int64_t i, int64_t j, Pair kind) const {
    if (!(in_.dropout.probability > 0) || kind != Pair::kSeen) return 1.0;
    const bool dropped = IsDropped(DropoutSide(dropout_key_, i, 0), DropoutSide(dropout_key_, j, 1),
                                   DropoutThreshold(in_.dropout.probability));
    return dropped ? 0.0 : 1.0 / (1.0 - static_cast<double>(in_.dropout.probability));
  }

  double Dot(const double* a, const double* b) const {
    double sum = 0;
    for (int d = 0; d < in_.shape.head_dim; ++d) sum += a[d] * b[d];
    return sum;
  }

 private:
  const int32_t* Buckets(std::span<const int32_t> all) const {
    return all.empty() ? nullptr : all.data() + int64_t{head_} * simhash_.hashes * in_.shape.tokens() + begin_;
  }

  const SimHashAttention& simhash_;
  const Inputs& in_;
  int head_;
  int64_t begin_, length_, reach_;
  bool mirrors_;
  SimHashPairs pairs_;
  uint64_t dropout_key_ = 0;
  std::vector<double> mean_key_;
};

// Scores and probabilities of one query.
struct Row {
  std::vector<Pair> kind;
  std::vector<double> probability;
  double lse = -std::numeric_limits<double>::infinity();
};

Row Probabilities(const Unit& unit, int64_t i) {
  Row row;
  row.kind.resize(unit.length());
  row.probability.assign(unit.length(), 0.0);
  std::vector<double> score(unit.length());
  double top = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < unit.length(); ++j) {
    row.kind[j] = unit.Kind(i, j);
    if (row.kind[j] == Pair::kAbsent) continue;
    score[j] = unit.Score(i, j, row.kind[j]);
    if (score[j] > top || std::isnan(score[j])) top = score[j];
  }
  double sum = 0;
  for (int64_t j = 0; j < unit.length() && top != -std::numeric_limits<double>::infinity(); ++j) {
    if (row.kind[j] == Pair::kAbsent) continue;
    row.probability[j] = std::exp(score[j] - top);
    sum += row.probability[j];
  }
  if (sum == 0) return row;  // sees nothing: no probability, lse = −∞
  for (double& p : row.probability) p /= sum;
  row.lse = top + std::log(sum);
  return row;
}

template <class Visit>
void ForEachUnit(const SimHashAttention& simhash, const Inputs& in, const Visit& visit) {
  for (int b = 0; b < in.shape.sequences(); ++b) {
    for (int head = 0; head < in.shape.heads; ++head) visit(Unit(simhash, in, b, head), head);
  }
}

void AddScaled(double factor, const double* from, int count, double* to) {
  for (int d = 0; d < count; ++d) to[d] += factor * from[d];
}

// The gradient of score (i, j), passed on to the vectors that made it. `mean_gradient` collects what reaches the mean
// key.
void PassScoreGradient(const Inputs& in, const Unit& unit, int64_t i, int64_t j, Pair kind, double gradient,
                       Gradients& grads, std::vector<double>& mean_gradient) {
  const int head_dim = in.shape.head_dim;
  gradient *= in.scale;
  if (kind == Pair::kUnseen) {
    if (unit.fill() != Fill::kMean) return;
    AddScaled(gradient, unit.mean_key().data(), head_dim, grads.query.data() + unit.Offset(i));
    AddScaled(gradient, unit.Row(in.query, i), head_dim, mean_gradient.data());
    return;
  }
  if (unit.Mirrored(i, j)) std::swap(i, j);  // the score was q_j·k_i
  AddScaled(gradient, unit.Row(in.key, j), head_dim, grads.query.data() + unit.Offset(i));
  AddScaled(gradient, unit.Row(in.query, i), head_dim, grads.key.data() + unit.Offset(j));
}

}  // namespace

Outputs Forward(const SimHashAttention& simhash, const Inputs& in) {
  const int head_dim = in.shape.head_dim;
  Outputs outputs;
  outputs.out.assign(in.query.size(), 0.0);
  outputs.lse.assign(in.shape.tokens() * in.shape.heads, 0.0);
  ForEachUnit(simhash, in, [&](const Unit& unit, int head) {
    outputs.pairs_total += unit.length() * unit.length();
    for (int64_t i = 0; i < unit.length(); ++i) {
      const Row row = Probabilities(unit, i);
      outputs.lse[unit.Token(i) * in.shape.heads + head] = row.lse;
      for (int64_t j = 0; j < unit.length(); ++j) {
        if (row.kind[j] == Pair::kSeen && !unit.Mirrored(i, j)) ++outputs.pairs_computed;
        if (row.kind[j] == Pair::kAbsent) continue;
        AddScaled(row.probability[j] * unit.KeepFactor(i, j, row.kind[j]), unit.Row(in.value, j), head_dim,
                  outputs.out.data() + unit.Offset(i));
      }
    }
  });
  return outputs;
}

Gradients Backward(const SimHashAttention& simhash, const Inputs& in, std::span<const double> grad_out) {
  const int head_dim = in.shape.head_dim;
  Gradients grads;
  for (std::vector<double>* gradient : {&grads.query, &grads.key, &grads.value}) gradient->assign(in.query.size(), 0.0);
  ForEachUnit(simhash, in, [&](const Unit& unit, int) {
    std::vector<double> mean_gradient(head_dim, 0.0), probability_gradient(unit.length());
    for (int64_t i = 0; i < unit.length(); ++i) {
      const Row row = Probabilities(unit, i);
      const double* grad_row = unit.Row(grad_out, i);
      double expected = 0;  // Σ_j p_ij ∂loss/∂p_ij
      for (int64_t j = 0; j < unit.length(); ++j) {
        if (row.kind[j] == Pair::kAbsent) continue;
        const double keep = unit.KeepFactor(i, j, row.kind[j]);
        AddScaled(row.probability[j] * keep, grad_row, head_dim, grads.value.data() + unit.Offset(j));
        probability_gradient[j] = keep * unit.Dot(grad_row, unit.Row(in.value, j));
        expected += row.probability[j] * probability_gradient[j];
      }
      for (int64_t j = 0; j < unit.length(); ++j) {
        if (row.kind[j] == Pair::kAbsent) continue;
        PassScoreGradient(in, unit, i, j, row.kind[j], row.probability[j] * (probability_gradient[j] - expected), grads,
                          mean_gradient);
      }
    }
    for (int64_t j = 0; j < unit.length(); ++j) {
      AddScaled(1.0 / static_cast<double>(unit.length()), mean_gradient.data(), head_dim,
                grads.key.data() + unit.Offset(j));
    }
  });
  return grads;
}

Outputs Forward(const DenseAttention&, const Inputs& in) { return Forward(SimHashAttention{}, in); }

Gradients Backward(const DenseAttention&, const Inputs& in, std::span<const double> grad_out) {
  return Backward(SimHashAttention{}, in, grad_out);
}

Outputs Forward(const LocalAttention&, const Inputs& in) { return Forward(DenseAttention{}, in); }

Gradients Backward(const LocalAttention&, const Inputs& in, std::span<const double> grad_out) {
  return Backward(DenseAttention{}, in, grad_out);
}

namespace {

// The place of a sign pattern in Gray order, where each differs from the one before in one bit: bit b of the place is
// the parity of the pattern's bits b and above.
int64_t PlaceInGrayOrder(int64_t pattern, int bands) {
  int64_t place = 0;
  bool parity = false;
  for (int bit = bands - 1; bit >= 0; --bit) {
    parity ^= ((pattern >> bit) & 1) != 0;
    place = 2 * place + (parity ? 1 : 0);
  }
  return place;
}

}  // namespace

Outputs Forward(const Inputs& in) {
  return std::visit([&](const auto& kind) { return Forward(kind, in); }, in.spec.kind);
}

Gradients Backward(const Inputs& in, std::span<const double> grad_out) {
  return std::visit([&](const auto& kind) { return Backward(kind, in, grad_out); }, in.spec.kind);
}

namespace {

Buckets Find(const DenseAttention&, const Inputs&, const Projections&) { return {}; }
Buckets Find(const LocalAttention&, const Inputs&, const Projections&) { return {}; }
Buckets Find(const SimHashAttention&, const Inputs& in, const Projections& projections) {
  return Hash(in, std::get<SimHashPlanes>(projections));
}
Buckets Find(const ReformerAttention&, const Inputs& in, const Projections& projections) {
  return {HashByRotation(in, std::get<ReformerRotations>(projections)), {}};
}
Buckets Find(const ClusteredAttention&, const Inputs& in, const Projections& projections) {
  return GroupByHalving(in, std::get<ClusterDirections>(projections));
}

}  // namespace

Buckets FindBuckets(const Inputs& in, const Projections& projections) {
  return std::visit([&](const auto& kind) { return Find(kind, in, projections); }, in.spec.kind);
}

Buckets Hash(const Inputs& in, const SimHashPlanes& planes) {
  const auto& simhash = As<SimHashAttention>(in.spec);
  const int head_dim = in.shape.head_dim;
  Buckets buckets;
  buckets.query.assign(int64_t{in.shape.heads} * simhash.hashes * in.shape.tokens(), 0);
  buckets.key = buckets.query;
  ForEachUnit(simhash, in, [&](const Unit& unit, int head) {
    const int bands = BandsOf(simhash, unit.length());
    const auto bucket = [&](const double* x, int hash) {
      int64_t sum = 0;
      for (int band = 0; band < bands; ++band) {
        const int64_t plane = (int64_t{head} * simhash.hashes + hash) * planes.bands + band;
        double dot = 0;
        for (int d = 0; d < head_dim; ++d) dot += x[d] * planes.planes[plane * head_dim + d];
        if (dot > 0) sum += planes.coefficients[plane];
      }
      sum %= TableSizeOf(simhash, unit.length());
      return static_cast<int32_t>(simhash.pairs == Pairs::kSorted ? PlaceInGrayOrder(sum, bands) : sum);
    };
    for (int64_t i = 0; i < unit.length(); ++i) {
      std::vector<double> key(unit.Row(in.key, i), unit.Row(in.key, i) + head_dim);
      if (simhash.center_keys) AddScaled(-1.0, unit.mean_key().data(), head_dim, key.data());
      for (int hash = 0; hash < simhash.hashes; ++hash) {
        const int64_t at = (int64_t{head} * simhash.hashes + hash) * in.shape.tokens() + unit.Token(i);
        buckets.query[at] = bucket(unit.Row(in.query, i), hash);
        buckets.key[at] = bucket(key.data(), hash);
      }
    }
  });
  return buckets;
}

}  // namespace lshformer::ref
