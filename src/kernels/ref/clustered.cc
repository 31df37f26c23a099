#include "kernels/ref/clustered.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/dropout.h"

namespace lshformer::ref {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Dot(const double* a, const double* b, int count) { return std::inner_product(a, a + count, b, 0.0); }

void AddScaled(double factor, const double* from, int count, double* to) {
  for (int d = 0; d < count; ++d) to[d] += factor * from[d];
}

// A cluster of keys as one group of queries sees it.
struct Centroid {
  double largest = -kInfinity;  // M: of m·k over keys that are not global
  double total = 0;             // W
  std::vector<double> weight;   // w, of each of its keys
  std::vector<double> key, value;
  double spread = 0;  // s
};

// Which clusters of all levels a query is scored with, and which of those it opens; by their numbers, level by level
// from the largest clusters.
struct Choice {
  std::vector<int32_t> scored, opened;
  bool IsOpen(int32_t cluster) const { return std::find(opened.begin(), opened.end(), cluster) != opened.end(); }
};

// What a query meets.
struct Row {
  std::vector<int32_t> keys, clusters;
  std::vector<double> key_probability, centroid_probability;
  double lse = -kInfinity;
};

// One sequence under one head. Constants come from `held`: m, w, W, M and the choice.
class Unit {
 public:
  Unit(const Inputs& in, const Inputs& held, int sequence, int head)
      : spec_(OfHead(in.spec, head)),
        in_(in),
        held_(held),
        head_(head),
        dims_(in.shape.head_dim),
        begin_(in.shape.cu_seqlens[sequence]),
        length_(in.shape.cu_seqlens[sequence + 1] - begin_) {
    const int32_t first = spec_.global_first ? 0 : -1, last = spec_.global_last ? length_ - 1 : -1;
    for (const int32_t position : {first, last})
      if (position >= 0) globals_.push_back(position);
    if (in.dropout.probability > 0) {
      const uint64_t id = in.dropout.sequence_ids.empty() ? sequence : in.dropout.sequence_ids[sequence];
      dropout_key_ = DropoutHeadKey(in.dropout.key, id, in.shape.first_head + head);
    }
    if (const ClusteredAttention* own = ClusteredOf(in.spec, head)) clustered_ = *own;
    if (IsSparseAt(spec_, length_) && AllFinite(held.query) && AllFinite(held.key)) SumUp();
  }

  int32_t length() const { return length_; }
  int64_t Token(int64_t position) const { return begin_ + position; }
  int64_t Offset(int64_t position) const { return (Token(position) * in_.shape.heads + head_) * dims_; }
  const double* RowOf(std::span<const double> tensor, int64_t position) const {
    return tensor.data() + Offset(position);
  }
  const std::vector<int32_t>& KeysOf(int32_t cluster) const { return members_[cluster]; }
  const Centroid& CentroidOf(int64_t query, int32_t cluster) const { return centroids_[GroupOf(query)][cluster]; }
  const std::vector<double>& MeanOf(int64_t query) const { return means_[GroupOf(query)]; }
  int64_t CentroidsScored(int32_t query) const {
    return centroids_.empty() ? 0 : static_cast<int64_t>(Choose(query).scored.size());
  }

  bool IsGlobal(int32_t position) const {
    return std::find(globals_.begin(), globals_.end(), position) != globals_.end();
  }

  bool IsExact(const Choice& choice, int32_t query, int32_t key) const {
    const int32_t apart = std::abs(query - key);
    return choice.IsOpen(first_.back() + ClusterOf(key)) || (spec_.window > 0 && apart <= spec_.window) ||
           IsGlobal(key);
  }

  Row Meet(int32_t query) const {
    Row row;
    std::vector<double> key_logits, centroid_logits;
    const double* q = RowOf(in_.query, query);
    if (centroids_.empty()) {
      for (int32_t j = 0; j < length_; ++j) row.keys.push_back(j);
    } else {
      const Choice choice = Choose(query);
      for (int32_t j = 0; j < length_; ++j)
        if (IsExact(choice, query, j)) row.keys.push_back(j);
      for (const int32_t c : choice.scored) {
        const Centroid& centroid = CentroidOf(query, c);
        if (choice.IsOpen(c)) continue;
        const double rest = Rest(choice, query, c);
        if (rest <= ClusteredAttention::kLeastRest) continue;
        row.clusters.push_back(c);
        centroid_logits.push_back(in_.scale * DotLessMean(query, q, centroid.key) + centroid.largest + std::log(rest));
      }
    }
    for (const int32_t j : row.keys) key_logits.push_back(in_.scale * Dot(q, RowOf(in_.key, j), dims_));
    double top = -kInfinity;
    for (const auto* logits : {&key_logits, &centroid_logits})
      for (const double logit : *logits)
        if (logit > top || std::isnan(logit)) top = logit;
    if (top == -kInfinity) {  // nothing takes part
      row.key_probability.assign(key_logits.size(), 0.0);
      row.centroid_probability.assign(centroid_logits.size(), 0.0);
      return row;
    }
    double sum = 0;
    const auto exponentials = [&](const std::vector<double>& logits, std::vector<double>& to) {
      for (const double logit : logits) sum += to.emplace_back(std::exp(logit - top));
    };
    exponentials(key_logits, row.key_probability);
    exponentials(centroid_logits, row.centroid_probability);
    for (auto* probabilities : {&row.key_probability, &row.centroid_probability})
      for (double& p : *probabilities) p /= sum;
    row.lse = top + std::log(sum);
    return row;
  }

  // Of a cluster's keys that the query does not meet itself.
  double Rest(const Choice& choice, int32_t query, int32_t cluster) const {
    double rest = 0;
    for (size_t n = 0; n < members_[cluster].size(); ++n)
      if (!IsExact(choice, query, members_[cluster][n])) rest += CentroidOf(query, cluster).weight[n];
    return rest;
  }

  // All clusters are scored, and those with the largest (s + ε) Σ_i p_i are opened by all queries i of the bundle; p_i
  // is the share of i's softmax over all centroids. A threshold is one of the bundle's mean.
  Choice ChooseOfBundle(int32_t query) const {
    Choice choice;
    const std::vector<Centroid>& centroids = held_centroids_[GroupOf(query)];
    std::vector<double> shares(centroids.size(), 0.0);
    double queries = 0;
    for (int32_t i = 0; i < length_; ++i) {
      if (LabelOf(in_.query_buckets, i) != LabelOf(in_.query_buckets, query)) continue;
      ++queries;
      const double total = LogOfTotal(i);
      for (size_t c = 0; c < shares.size(); ++c)
        if (centroids[c].largest != -kInfinity) shares[c] += std::exp(LogitOf(i, centroids[c]) - total);
    }
    Scores scores;
    for (int32_t c = 0; c < static_cast<int32_t>(shares.size()); ++c) {
      if (centroids[c].largest == -kInfinity) continue;
      choice.scored.push_back(c);
      scores.emplace_back(-shares[c] * (centroids[c].spread + ClusteredAttention::kSpreadEpsilon), c);
    }
    choice.opened = Best(std::move(scores), levels_[0].open,
                         clustered_.threshold ? queries * std::exp(*clustered_.threshold) : -kInfinity);
    return choice;
  }

  // All clusters of the first level are scored, then those that opened ones are made of.
  Choice Choose(int32_t query) const {
    if (clustered_.bundle > 1) return ChooseOfBundle(query);
    Choice choice;
    std::vector<int32_t> candidates(levels_[0].count);
    std::iota(candidates.begin(), candidates.end(), 0);
    for (size_t level = 0; level < levels_.size(); ++level) {
      const bool last = level + 1 == levels_.size();
      Scores scores;
      for (const int32_t c : candidates) {
        const Centroid& centroid = held_centroids_[GroupOf(query)][c];
        if (centroid.largest == -kInfinity) continue;
        choice.scored.push_back(c);
        scores.emplace_back(-ScoreOf(query, centroid), c);
      }
      const double least = last && clustered_.threshold ? *clustered_.threshold + LogOfTotal(query) : -kInfinity;
      const std::vector<int32_t> best = Best(std::move(scores), levels_[level].open, least);
      choice.opened.insert(choice.opened.end(), best.begin(), best.end());
      candidates.clear();
      for (const int32_t opened : best) {
        const int32_t children = last ? 0 : levels_[level].cluster / levels_[level + 1].cluster;
        for (int32_t k = 0; k < children; ++k)
          candidates.push_back(first_[level + 1] + (opened - first_[level]) * children + k);
      }
    }
    return choice;
  }

  // 1 without dropout; else 0 or 1 / (1 − probability). Centroids drop out as keys behind all others.
  double KeepFactor(int64_t query, int64_t key) const {
    if (!(in_.dropout.probability > 0)) return 1.0;
    const bool dropped = IsDropped(DropoutSide(dropout_key_, query, 0), DropoutSide(dropout_key_, key, 1),
                                   DropoutThreshold(in_.dropout.probability));
    return dropped ? 0.0 : 1.0 / (1.0 - static_cast<double>(in_.dropout.probability));
  }

 private:
  int32_t LabelOf(std::span<const int32_t> labels, int64_t position) const {
    return labels[int64_t{head_} * in_.shape.tokens() + Token(position)];
  }
  int32_t GroupOf(int64_t query) const {
    return LabelOf(in_.query_buckets, query) / BundlesOfAGroup(clustered_, length_);
  }
  int32_t ClusterOf(int64_t key) const { return LabelOf(in_.key_buckets, key); }
  bool AllFinite(std::span<const double> tensor) const {
    for (int64_t i = 0; i < length_; ++i)
      if (!std::all_of(RowOf(tensor, i), RowOf(tensor, i) + dims_, [](double x) { return std::isfinite(x); }))
        return false;
    return true;
  }

  using Scores = std::vector<std::pair<double, int32_t>>;  // negative, of clusters
  // The `open` best, but for the first only such as reach `least`; of equals the first cluster.
  static std::vector<int32_t> Best(Scores scores, int open, double least) {
    std::sort(scores.begin(), scores.end());
    std::vector<int32_t> best;
    for (size_t p = 0; p < scores.size() && p < static_cast<size_t>(open); ++p)
      if (p == 0 || -scores[p].first >= least) best.push_back(scores[p].second);
    return best;
  }

  // log Σ exp of the logits of all clusters of the first level.
  double LogOfTotal(int32_t query) const {
    std::vector<double> logits;
    for (int32_t c = 0; c < levels_[0].count; ++c) {
      const Centroid& centroid = held_centroids_[GroupOf(query)][c];
      if (centroid.largest != -kInfinity) logits.push_back(LogitOf(query, centroid));
    }
    const double top = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - top);
    return top + std::log(sum);
  }

  double DotLessMean(int32_t query, const double* q, const std::vector<double>& key) const {
    return Dot(q, key.data(), dims_) - Dot(MeanOf(query).data(), key.data(), dims_);
  }

  // Of a centroid that stands for all keys of its cluster.
  double LogitOf(int32_t query, const Centroid& centroid) const {
    return in_.scale * DotLessMean(query, RowOf(held_.query, query), centroid.key) + centroid.largest +
           std::log(centroid.total);
  }
  double ScoreOf(int32_t query, const Centroid& centroid) const {
    return LogitOf(query, centroid) + std::log(centroid.spread + ClusteredAttention::kSpreadEpsilon);
  }

  void SumUp() {
    levels_ = LevelsOf(clustered_, length_);
    for (const ClusterLevel& level : levels_) {
      first_.push_back(static_cast<int32_t>(members_.size()));
      members_.resize(members_.size() + level.count);
      for (int32_t j = 0; j < length_; ++j)
        members_[first_.back() + ClusterOf(j) / (levels_.back().count / level.count)].push_back(j);
    }
    means_.assign(clustered_.groups, std::vector<double>(dims_, 0.0));
    std::vector<double> sizes(clustered_.groups, 0.0);
    for (int32_t i = 0; i < length_; ++i) ++sizes[GroupOf(i)];
    for (int32_t i = 0; i < length_; ++i)
      AddScaled(1 / sizes[GroupOf(i)], RowOf(held_.query, i), dims_, means_[GroupOf(i)].data());
    for (int g = 0; g < clustered_.groups; ++g) {
      std::vector<Centroid>&of_group = centroids_.emplace_back(), &of_held = held_centroids_.emplace_back();
      for (const std::vector<int32_t>& members : members_) {
        of_held.push_back(SumUpCluster(means_[g], members, held_));
        of_group.push_back(of_held.back());
        WeightedMeans(members, in_, of_group.back());
      }
    }
  }

  Centroid SumUpCluster(const std::vector<double>& mean, const std::vector<int32_t>& members,
                        const Inputs& from) const {
    Centroid centroid;
    std::vector<double> scores;
    for (const int32_t j : members) {
      scores.push_back(in_.scale * Dot(mean.data(), RowOf(from.key, j), dims_));
      if (!IsGlobal(j)) centroid.largest = std::max(centroid.largest, scores.back());
    }
    for (size_t n = 0; n < members.size(); ++n)
      centroid.total +=
          centroid.weight.emplace_back(IsGlobal(members[n]) ? 0.0 : std::exp(scores[n] - centroid.largest));
    WeightedMeans(members, from, centroid);
    for (size_t n = 0; n < members.size(); ++n) {
      double square = 0;
      for (int d = 0; d < dims_; ++d) square += std::pow(RowOf(from.key, members[n])[d] - centroid.key[d], 2);
      if (centroid.total > 0) centroid.spread += centroid.weight[n] * square / centroid.total;
    }
    return centroid;
  }

  void WeightedMeans(const std::vector<int32_t>& members, const Inputs& from, Centroid& centroid) const {
    centroid.key.assign(dims_, 0.0);
    centroid.value.assign(dims_, 0.0);
    for (size_t n = 0; n < members.size() && centroid.total > 0; ++n) {
      const double share = centroid.weight[n] / centroid.total;
      AddScaled(share, RowOf(from.key, members[n]), dims_, centroid.key.data());
      AddScaled(share, RowOf(from.value, members[n]), dims_, centroid.value.data());
    }
  }

  const AttentionSpec& spec_;
  ClusteredAttention clustered_;
  const Inputs &in_, &held_;
  int head_, dims_;
  int64_t begin_;
  int32_t length_;
  std::vector<int32_t> globals_;
  uint64_t dropout_key_ = 0;
  std::vector<ClusterLevel> levels_;
  std::vector<int32_t> first_;                                     // of each level, the first cluster's number
  std::vector<std::vector<int32_t>> members_;                      // of each cluster of all levels, positions
  std::vector<std::vector<double>> means_;                         // of each group
  std::vector<std::vector<Centroid>> centroids_, held_centroids_;  // [group][cluster]; empty: the sequence is exact
};

template <class Visit>
void ForEachUnit(const Inputs& in, const Inputs& held, const Visit& visit) {
  for (int b = 0; b < in.shape.sequences(); ++b) {
    for (int head = 0; head < in.shape.heads; ++head) visit(Unit(in, held, b, head), head);
  }
}

}  // namespace

Outputs ForwardHolding(const ClusteredAttention&, const Inputs& in, const Inputs& held) {
  const int head_dim = in.shape.head_dim;
  Outputs outputs;
  outputs.out.assign(in.query.size(), 0.0);
  outputs.lse.assign(in.shape.tokens() * in.shape.heads, 0.0);
  ForEachUnit(in, held, [&](const Unit& unit, int head) {
    outputs.pairs_total += int64_t{unit.length()} * unit.length();
    for (int32_t i = 0; i < unit.length(); ++i) {
      const Row row = unit.Meet(i);
      double* out = outputs.out.data() + unit.Offset(i);
      outputs.lse[unit.Token(i) * in.shape.heads + head] = row.lse;
      outputs.pairs_computed += static_cast<int64_t>(row.keys.size()) + unit.CentroidsScored(i);
      for (size_t n = 0; n < row.keys.size(); ++n)
        AddScaled(row.key_probability[n] * unit.KeepFactor(i, row.keys[n]), unit.RowOf(in.value, row.keys[n]), head_dim,
                  out);
      for (size_t n = 0; n < row.clusters.size(); ++n)
        AddScaled(row.centroid_probability[n] * unit.KeepFactor(i, unit.length() + row.clusters[n]),
                  unit.CentroidOf(i, row.clusters[n]).value.data(), head_dim, out);
    }
  });
  return outputs;
}

Outputs Forward(const ClusteredAttention& clustered, const Inputs& in) { return ForwardHolding(clustered, in, in); }

namespace {

// The gradients of one query's row.
class RowGradient {
 public:
  RowGradient(const Inputs& in, const Unit& unit, int32_t query, const double* grad_out, Gradients& grads)
      : in_(in), unit_(unit), query_(query), grad_out_(grad_out), grads_(grads), dims_(in.shape.head_dim) {}

  void Add() {
    const Row row = unit_.Meet(query_);
    std::vector<double> key_slopes, centroid_slopes;  // ∂loss/∂p
    double expected = 0;                              // Σ p ∂loss/∂p
    for (size_t n = 0; n < row.keys.size(); ++n) {
      const double keep = unit_.KeepFactor(query_, row.keys[n]);
      AddScaled(row.key_probability[n] * keep, grad_out_, dims_, grads_.value.data() + unit_.Offset(row.keys[n]));
      key_slopes.push_back(keep * Dot(grad_out_, unit_.RowOf(in_.value, row.keys[n]), dims_));
      expected += row.key_probability[n] * key_slopes.back();
    }
    for (size_t n = 0; n < row.clusters.size(); ++n) {
      const Centroid& centroid = unit_.CentroidOf(query_, row.clusters[n]);
      const double keep = unit_.KeepFactor(query_, unit_.length() + row.clusters[n]);
      ShareOut(row.clusters[n], row.centroid_probability[n] * keep, grad_out_, grads_.value);
      centroid_slopes.push_back(keep * Dot(grad_out_, centroid.value.data(), dims_));
      expected += row.centroid_probability[n] * centroid_slopes.back();
    }
    double* grad_query = grads_.query.data() + unit_.Offset(query_);
    for (size_t n = 0; n < row.keys.size(); ++n) {
      const double slope = in_.scale * row.key_probability[n] * (key_slopes[n] - expected);
      AddScaled(slope, unit_.RowOf(in_.key, row.keys[n]), dims_, grad_query);
      AddScaled(slope, unit_.RowOf(in_.query, query_), dims_, grads_.key.data() + unit_.Offset(row.keys[n]));
    }
    for (size_t n = 0; n < row.clusters.size(); ++n) {
      const double slope = in_.scale * row.centroid_probability[n] * (centroid_slopes[n] - expected);
      AddScaled(slope, unit_.CentroidOf(query_, row.clusters[n]).key.data(), dims_, grad_query);
      std::vector<double> apart(unit_.RowOf(in_.query, query_), unit_.RowOf(in_.query, query_) + dims_);
      AddScaled(-1.0, unit_.MeanOf(query_).data(), dims_, apart.data());
      ShareOut(row.clusters[n], slope, apart.data(), grads_.key);
    }
  }

 private:
  // What reaches a centroid, passed on to its keys by their weights.
  void ShareOut(int32_t cluster, double factor, const double* gradient, std::vector<double>& to) const {
    const Centroid& centroid = unit_.CentroidOf(query_, cluster);
    const std::vector<int32_t>& keys = unit_.KeysOf(cluster);
    for (size_t n = 0; n < keys.size(); ++n)
      AddScaled(factor * centroid.weight[n] / centroid.total, gradient, dims_, to.data() + unit_.Offset(keys[n]));
  }

  const Inputs& in_;
  const Unit& unit_;
  int32_t query_;
  const double* grad_out_;
  Gradients& grads_;
  int dims_;
};

}  // namespace

Gradients Backward(const ClusteredAttention&, const Inputs& in, std::span<const double> grad_out) {
  Gradients grads;
  for (std::vector<double>* gradient : {&grads.query, &grads.key, &grads.value}) gradient->assign(in.query.size(), 0.0);
  ForEachUnit(in, in, [&](const Unit& unit, int) {
    for (int32_t i = 0; i < unit.length(); ++i) RowGradient(in, unit, i, unit.RowOf(grad_out, i), grads).Add();
  });
  return grads;
}

double MassMet(const Inputs& in, int sequence, int head) {
  const Unit unit(in, in, sequence, head);
  const int64_t n = unit.length();
  double met = 0;
  std::vector<double> logits(n);
  for (int32_t i = 0; i < n; ++i) {
    for (int32_t j = 0; j < n; ++j)
      logits[j] = in.scale * Dot(unit.RowOf(in.query, i), unit.RowOf(in.key, j), in.shape.head_dim);
    const double top = *std::max_element(logits.begin(), logits.end());
    double all = 0, own = 0;
    for (const double logit : logits) all += std::exp(logit - top);
    for (const int32_t j : unit.Meet(i).keys) own += std::exp(logits[j] - top);
    met += own / all;
  }
  return n == 0 ? 1 : met / static_cast<double>(n);
}

std::vector<double> ClusteredProbabilities(const ClusteredAttention&, const Inputs& in, int sequence, int head) {
  const Unit unit(in, in, sequence, head);
  const int64_t n = unit.length();
  std::vector<double> map(n * n, 0.0);
  for (int32_t i = 0; i < n; ++i) {
    const Row row = unit.Meet(i);
    double* to = map.data() + i * n;
    for (size_t k = 0; k < row.keys.size(); ++k) to[row.keys[k]] = row.key_probability[k];
    const Choice choice = row.clusters.empty() ? Choice{} : unit.Choose(i);
    for (size_t k = 0; k < row.clusters.size(); ++k) {
      const int32_t c = row.clusters[k];
      const double share = row.centroid_probability[k] / unit.Rest(choice, i, c);
      for (size_t m = 0; m < unit.KeysOf(c).size(); ++m)
        if (!unit.IsExact(choice, i, unit.KeysOf(c)[m]))
          to[unit.KeysOf(c)[m]] = share * unit.CentroidOf(i, c).weight[m];
    }
  }
  return map;
}

}  // namespace lshformer::ref
