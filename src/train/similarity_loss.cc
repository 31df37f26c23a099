#include "train/similarity_loss.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "ops/recompute.h"

namespace lshformer {
namespace {

constexpr std::array<std::pair<const char*, SimilarityLossType>, 5> kTypes{
    {{"cosine", SimilarityLossType::kCosine},
     {"cosent", SimilarityLossType::kCosent},
     {"mnrl", SimilarityLossType::kMnrl},
     {"mnrl_symmetric", SimilarityLossType::kMnrlSymmetric},
     {"triplet", SimilarityLossType::kTriplet}}};

constexpr double kNothing = -std::numeric_limits<double>::infinity();

torch::Tensor Numbers(const std::vector<int64_t>& numbers) {
  return torch::from_blob(const_cast<int64_t*>(numbers.data()), {std::ssize(numbers)}, torch::kInt64).clone();
}

// Where the texts of each role are among all.
struct GroupRoles {
  std::vector<int64_t> anchors, positives;      // [groups]
  std::vector<int64_t> negatives, negative_of;  // [negatives]; the group of each
};

GroupRoles RolesOf(const VectorGroups& groups) {
  GroupRoles roles;
  for (size_t group = 0; group + 1 < groups.begins.size(); ++group) {
    const int64_t begin = groups.begins[group], end = groups.begins[group + 1];
    if (end - begin < 2) Fail("group {}: expected two texts or more, got {}", group, end - begin);
    roles.anchors.push_back(begin);
    roles.positives.push_back(begin + 1);
    for (int64_t text = begin + 2; text < end; ++text) {
      roles.negatives.push_back(text);
      roles.negative_of.push_back(static_cast<int64_t>(group));
    }
  }
  return roles;
}

torch::Tensor Rows(const torch::Tensor& vectors, const std::vector<int64_t>& numbers) {
  return vectors.index_select(0, Numbers(numbers));
}

torch::Tensor Normalized(const torch::Tensor& vectors) {
  return vectors / vectors.norm(2, 1, /*keepdim=*/true).clamp_min(1e-12);
}

// [groups]
torch::Tensor PairCosines(const torch::Tensor& vectors, const GroupRoles& roles) {
  return (Normalized(Rows(vectors, roles.anchors)) * Normalized(Rows(vectors, roles.positives))).sum(1);
}

torch::Tensor Scores(const VectorGroups& groups) {
  if (groups.scores.size() + 1 != groups.begins.size())
    Fail("the loss needs a score of each of {} groups, got {}", groups.begins.size() - 1, groups.scores.size());
  return torch::tensor(groups.scores, torch::kFloat64);
}

torch::Tensor CosentLoss(const torch::Tensor& cosines, const torch::Tensor& scores, double scale) {
  const torch::Tensor scaled = cosines * scale;
  const torch::Tensor differences = scaled.unsqueeze(1) - scaled.unsqueeze(0);  // [i, j]: s_i − s_j
  const torch::Tensor counts = scores.unsqueeze(1).lt(scores.unsqueeze(0));     // y_i < y_j
  const torch::Tensor exponents = differences.masked_fill(counts.logical_not(), kNothing).flatten();
  return torch::logsumexp(torch::cat({torch::zeros({1}, torch::kFloat64), exponents}), 0);
}

// [groups, candidates] true where a candidate is no negative of a group and not its positive.
torch::Tensor NotNegatives(const VectorGroups& groups, const GroupRoles& roles) {
  const size_t count = roles.anchors.size();
  const auto text = [&](int64_t number) { return groups.same_as[static_cast<size_t>(number)]; };
  const torch::Tensor mask =
      torch::zeros({static_cast<int64_t>(count), static_cast<int64_t>(count + roles.negatives.size())}, torch::kBool);
  auto at = mask.accessor<bool, 2>();
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < count; ++j)
      at[i][j] = i != j && (text(roles.positives[j]) == text(roles.positives[i]) ||
                            text(roles.anchors[j]) == text(roles.anchors[i]));
    for (size_t j = 0; j < roles.negatives.size(); ++j)
      at[i][count + j] = text(roles.negatives[j]) == text(roles.positives[i]);
  }
  return mask;
}

torch::Tensor RankingLoss(const VectorGroups& groups, const torch::Tensor& vectors, const GroupRoles& roles,
                          double scale, bool symmetric) {
  const torch::Tensor anchors = Normalized(Rows(vectors, roles.anchors));
  std::vector<int64_t> candidates = roles.positives;
  candidates.insert(candidates.end(), roles.negatives.begin(), roles.negatives.end());
  const int64_t count = anchors.size(0);
  const torch::Tensor mask = NotNegatives(groups, roles);
  const torch::Tensor scores = anchors.matmul(Normalized(Rows(vectors, candidates)).t()) * scale;
  const auto entropy = [&](const torch::Tensor& from, const torch::Tensor& hidden) {
    return at::cross_entropy_loss(from.masked_fill(hidden, kNothing), torch::arange(count));
  };
  const torch::Tensor forward = entropy(scores, mask);
  if (!symmetric) return forward;
  const auto square = [&](const torch::Tensor& of) { return of.slice(1, 0, count).t(); };
  return (forward + entropy(square(scores), square(mask))) / 2;
}

torch::Tensor Distances(const torch::Tensor& x, const torch::Tensor& y) { return (x - y).norm(2, 1); }

torch::Tensor TripletLoss(const torch::Tensor& all, const GroupRoles& roles, double margin) {
  if (roles.negatives.empty()) Fail("the triplet loss needs a negative in some group of a batch");
  const torch::Tensor vectors = Normalized(all);
  const torch::Tensor near = Distances(Rows(vectors, roles.anchors), Rows(vectors, roles.positives));
  const torch::Tensor of = Numbers(roles.negative_of);
  const torch::Tensor far = Distances(Rows(vectors, roles.anchors).index_select(0, of), Rows(vectors, roles.negatives));
  return torch::relu(near.index_select(0, of) - far + margin).mean();
}

torch::Tensor LossOf(const SimilarityLossOptions& options, const VectorGroups& groups, const torch::Tensor& vectors,
                     const GroupRoles& roles) {
  switch (options.type) {
    case SimilarityLossType::kCosine:
      return torch::mse_loss(PairCosines(vectors, roles), Scores(groups));
    case SimilarityLossType::kCosent:
      return CosentLoss(PairCosines(vectors, roles), Scores(groups), options.scale);
    case SimilarityLossType::kTriplet:
      return TripletLoss(vectors, roles, options.margin);
    case SimilarityLossType::kMnrl:
    case SimilarityLossType::kMnrlSymmetric:
      break;
  }
  return RankingLoss(groups, vectors, roles, options.scale, options.type == SimilarityLossType::kMnrlSymmetric);
}

// The groups of batches as those of one. Texts are the same where their tokens are.
VectorGroups GroupsOf(std::span<const PackedBatch> batches, torch::Tensor vectors) {
  VectorGroups groups{std::move(vectors), {0}, {}, {}};
  std::map<std::pair<std::vector<int32_t>, std::vector<int32_t>>, int32_t> first;
  for (const PackedBatch& batch : batches) {
    const TokenStream& tokens = batch.tokens;
    const int32_t before = groups.begins.back();
    for (size_t group = 1; group < batch.labels.cu_choices.size(); ++group)
      groups.begins.push_back(before + batch.labels.cu_choices[group]);
    groups.scores.insert(groups.scores.end(), batch.labels.values.begin(), batch.labels.values.end());
    for (int32_t text = 0; text < tokens.sequences(); ++text) {
      const auto begin = tokens.cu_seqlens[static_cast<size_t>(text)],
                 end = tokens.cu_seqlens[static_cast<size_t>(text) + 1];
      const auto part = [&](const std::vector<int32_t>& all) {
        return std::vector<int32_t>(all.begin() + begin, all.begin() + end);
      };
      const auto number = static_cast<int32_t>(groups.same_as.size());
      groups.same_as.push_back(first.emplace(std::pair(part(tokens.ids), part(tokens.type_ids)), number).first->second);
    }
  }
  return groups;
}

// The sequences [begin, end) alone.
PackedBatch SequencesBetween(const PackedBatch& batch, int64_t begin, int64_t end) {
  const TokenStream& tokens = batch.tokens;
  PackedBatch piece;
  for (int64_t text = begin; text < end; ++text) {
    const auto first = tokens.cu_seqlens[static_cast<size_t>(text)],
               last = tokens.cu_seqlens[static_cast<size_t>(text) + 1];
    AppendSequence(piece, {tokens.ids.begin() + first, tokens.ids.begin() + last},
                   {tokens.type_ids.begin() + first, tokens.type_ids.begin() + last},
                   batch.sequence_ids[static_cast<size_t>(text)]);
  }
  return piece;
}

torch::Tensor ForwardVectors(Model& model, const PackedBatch& batch, const ForwardOptions& forward, Pooling pooling) {
  return Pool(model.Forward(batch, forward).last_hidden_state, batch.tokens.cu_seqlens, pooling);
}

torch::Tensor TeacherLoss(const torch::Tensor& wanted, const torch::Tensor& vectors,
                          const SimilarityLossOptions& options) {
  return torch::mse_loss(options.unit_teacher ? Normalized(vectors) : vectors, wanted);
}

}  // namespace

bool NeedsScores(SimilarityLossType type) {
  return type == SimilarityLossType::kCosine || type == SimilarityLossType::kCosent;
}

SimilarityLossType ParseSimilarityLoss(const std::string& name) {
  for (const auto& [known, type] : kTypes)
    if (name == known) return type;
  FailOption("loss", "expected cosine, cosent, mnrl, mnrl_symmetric or triplet, got \"{}\"", Shown(name));
}

torch::Tensor LossOfGroups(const SimilarityLossOptions& options, const VectorGroups& groups) {
  const GroupRoles roles = RolesOf(groups);
  if (options.dims.empty()) return LossOf(options, groups, groups.vectors, roles);
  torch::Tensor sum;
  for (const int64_t dim : options.dims) {
    const torch::Tensor loss = LossOf(options, groups, groups.vectors.slice(1, 0, dim), roles);
    sum = sum.defined() ? sum + loss : loss;
  }
  return sum;
}

torch::Tensor VectorsOf(Model& model, const PackedBatch& batch, const ForwardOptions& forward,
                        const SimilarityLossOptions& options) {
  if (options.chunk == 0 || options.chunk >= batch.sequences() || !torch::GradMode::is_enabled())
    return ForwardVectors(model, batch, forward, options.pooling);
  RowFunction function;
  function.run = [&model, batch, forward, pooling = options.pooling](const torch::Tensor& texts, const RowCall& call) {
    ForwardOptions again = forward;
    if (call.again) again.counts = nullptr;
    return ForwardVectors(model, SequencesBetween(batch, call.begin, call.begin + texts.size(0)), again, pooling);
  };
  for (const auto& [name, parameter] : model.NamedParameters())
    if (parameter.requires_grad()) function.parameters.push_back(parameter);
  function.chunk = options.chunk;
  return Recomputed(std::move(function), torch::zeros({batch.sequences(), 1}));
}

namespace {

// The micro-batches of an update, and what the loss of all of them is by the vectors of each.
struct UpdateLoss {
  std::vector<PackedBatch> batches = {};
  int64_t examples = 0;
  double value = 0;
  std::vector<torch::Tensor> gradients = {};  // [micro-batch], once the first has been asked for
};

void Differentiate(Model& model, const ForwardOptions& forward, const SimilarityLossOptions& options,
                   UpdateLoss& update) {
  std::vector<torch::Tensor> vectors;
  std::vector<int64_t> counts;
  for (size_t i = 0; i < update.batches.size(); ++i) {
    const torch::NoGradGuard no_grad;
    ForwardOptions own = forward;  // of the same dropout as the forward that follows
    own.micro_step = static_cast<int64_t>(i);
    own.counts = nullptr;
    vectors.push_back(ForwardVectors(model, update.batches[i], own, options.pooling));
    counts.push_back(vectors.back().size(0));
  }
  const torch::Tensor all = torch::cat(vectors).requires_grad_();
  const torch::Tensor loss = LossOfGroups(options, GroupsOf(update.batches, all));
  loss.backward();
  update.value = loss.item<double>();
  const torch::Tensor gradient = all.grad().defined() ? all.grad() : torch::zeros_like(all);
  update.gradients = gradient.split_with_sizes(counts);
}

}  // namespace

TrainingLoss SimilarityLoss(const SimilarityLossOptions& options, const WantedVectors& teacher, bool whole_update) {
  const auto all = whole_update && !teacher ? std::make_shared<UpdateLoss>() : nullptr;
  TrainingLoss loss;
  loss.items = [all](Model&, std::span<const PackedBatch> update) {
    std::vector<TermItems> items;
    int64_t examples = 0;
    for (const PackedBatch& batch : update) {
      items.push_back({batch.examples()});
      examples += batch.examples();
    }
    if (all != nullptr) *all = {{update.begin(), update.end()}, examples, 0, {}};
    return items;
  };
  loss.terms = [options, teacher, all](Model& model, const PackedBatch& batch, const ForwardOptions& forward) {
    if (all != nullptr && all->gradients.empty()) Differentiate(model, forward, options, *all);
    const torch::Tensor vectors = VectorsOf(model, batch, forward, options);
    if (teacher) return std::vector{TeacherLoss(teacher(batch), vectors, options)};
    if (all == nullptr) return std::vector{LossOfGroups(options, GroupsOf({&batch, 1}, vectors))};
    // Its value is the loss; times the micro-batch's share of the examples its gradient is that of the update.
    const double share = static_cast<double>(batch.examples()) / static_cast<double>(all->examples);
    const torch::Tensor linear = (vectors * all->gradients.at(static_cast<size_t>(forward.micro_step))).sum() / share;
    return std::vector{linear - linear.detach() + all->value};
  };
  return loss;
}

double EvaluatedLoss(const WantedVectors& teacher, const PackedBatch& batch, const torch::Tensor& vectors,
                     const SimilarityLossOptions& options) {
  const torch::NoGradGuard no_grad;
  if (teacher) return TeacherLoss(teacher(batch), vectors, options).item<double>();
  return LossOfGroups(options, GroupsOf({&batch, 1}, vectors)).item<double>();
}

}  // namespace lshformer
