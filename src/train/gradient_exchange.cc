#include "train/gradient_exchange.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "train/gradient.h"
#include "train/shards.h"

namespace lshformer {
namespace {

torch::Tensor Viewed(float* values, int64_t count) { return torch::from_blob(values, {count}, torch::kFloat32); }

// As "rows, values" in one text.
std::string PackRows(const torch::Tensor& gradient) {
  const torch::Tensor rows = gradient._indices().contiguous(), values = gradient._values().contiguous();
  const auto count = static_cast<uint64_t>(rows.numel());
  std::string text(sizeof(count) + rows.nbytes() + values.nbytes(), '\0');
  std::memcpy(text.data(), &count, sizeof(count));
  std::memcpy(text.data() + sizeof(count), rows.data_ptr(), rows.nbytes());
  std::memcpy(text.data() + sizeof(count) + rows.nbytes(), values.data_ptr(), values.nbytes());
  return text;
}

// Takes one from the front of `text`.
torch::Tensor UnpackRows(std::string_view& text, const torch::Tensor& parameter) {
  uint64_t count = 0;
  std::memcpy(&count, text.data(), sizeof(count));
  text.remove_prefix(sizeof(count));
  std::vector<int64_t> shape = parameter.sizes().vec();
  shape[0] = static_cast<int64_t>(count);
  torch::Tensor rows = torch::empty({1, shape[0]}, torch::kInt64), values = torch::empty(shape, torch::kFloat32);
  for (const torch::Tensor& part : {rows, values}) {
    std::memcpy(part.data_ptr(), text.data(), part.nbytes());
    text.remove_prefix(part.nbytes());
  }
  return RowGradient(rows, values, parameter.sizes());
}

}  // namespace

GradientExchange::GradientExchange(Communicator& communicator, const NamedTensors& parameters, int parts,
                                   bool own_slice)
    : communicator_(communicator), parameters_(parameters), parts_(parts), own_slice_(own_slice) {
  node_bounds_.push_back(0);
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const auto [begin, end] = PartsOf(rank, communicator.size(), parts);
    for (const std::pair<int, int>& node : NodesOf(begin, end)) nodes_.push_back(node);
    node_bounds_.push_back(nodes_.size());
  }
}

// Which gradients there are, and the losses, of every process.
GradientExchange::Kinds GradientExchange::TellKinds(const std::vector<GradientNode>& nodes,
                                                    std::vector<double>& losses) {
  std::string mine;
  for (const GradientNode& node : nodes)
    for (const torch::Tensor& gradient : node.gradients)
      mine += static_cast<char>(!gradient.defined()                   ? Kind::kNone
                                : gradient.layout() == torch::kSparse ? Kind::kRows
                                                                      : Kind::kDense);
  const size_t own = mine.size();
  const auto [first, last] = PartsOf(communicator_.rank(), communicator_.size(), parts_);
  mine.resize(own + static_cast<size_t>(last - first) * sizeof(double));
  if (last > first) std::memcpy(mine.data() + own, losses.data() + first, mine.size() - own);
  Kinds kinds;
  const std::vector<std::string> all = communicator_.AllGather(mine);
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    const std::string& text = all[static_cast<size_t>(rank)];
    const size_t count =
        (node_bounds_[static_cast<size_t>(rank) + 1] - node_bounds_[static_cast<size_t>(rank)]) * parameters_.size();
    const auto [begin, end] = PartsOf(rank, communicator_.size(), parts_);
    if (text.size() != count + static_cast<size_t>(end - begin) * sizeof(double))
      Fail("rank {} has other gradients than rank {}", rank, communicator_.rank());
    for (size_t i = 0; i < count; ++i) kinds.push_back(static_cast<Kind>(text[i]));
    if (end > begin) std::memcpy(losses.data() + begin, text.data() + count, text.size() - count);
  }
  return kinds;
}

bool GradientExchange::AnyOf(const Kinds& kinds, size_t parameter, Kind kind) const {
  for (size_t node = 0; node < nodes_.size(); ++node)
    if (kinds[node * parameters_.size() + parameter] == kind) return true;
  return false;
}

std::vector<size_t> GradientExchange::Dense(const Kinds& kinds) const {
  std::vector<size_t> dense;
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (AnyOf(kinds, i, Kind::kDense)) dense.push_back(i);
  return dense;
}

// Slices of the nodes go to those whose they are; the sum of this process's slice goes into `total`.
void GradientExchange::AddSlice(const std::vector<GradientNode>& nodes, const Kinds& kinds, const Slices& slices,
                                std::vector<torch::Tensor>& total) {
  const auto ranks = static_cast<size_t>(communicator_.size()), own = static_cast<size_t>(communicator_.rank());
  const auto nodes_of = [&](size_t rank) { return static_cast<int64_t>(node_bounds_[rank + 1] - node_bounds_[rank]); };
  std::vector<int64_t> send_counts(ranks), receive_counts(ranks);
  const int64_t slice = slices.size(communicator_.rank());
  for (size_t rank = 0; rank < ranks; ++rank) {
    send_counts[rank] = nodes_of(own) * slices.size(static_cast<int>(rank));
    receive_counts[rank] = nodes_of(rank) * slice;
  }
  send_.resize(static_cast<size_t>(nodes_of(own) * slices.elements()));
  receive_.resize(nodes_.size() * static_cast<size_t>(slice));
  float* to = send_.data();
  for (int rank = 0; rank < communicator_.size(); ++rank)
    for (const GradientNode& node : nodes) {
      slices.ForEachPiece(rank, [&](size_t parameter, int64_t begin, int64_t end, int64_t place) {
        const torch::Tensor& gradient = node.gradients[parameter];
        if (gradient.defined()) {
          Viewed(to + place, end - begin).copy_(gradient.view({-1}).slice(0, begin, end));
        } else {
          std::fill_n(to + place, end - begin, 0.0f);  // nobody reads it
        }
      });
      to += slices.size(rank);
    }
  communicator_.AllToAll(send_, send_counts, receive_, receive_counts);
  GradientTree tree;
  for (size_t n = 0; n < nodes_.size(); ++n) {
    GradientNode node{nodes_[n].first, nodes_[n].second, {}};
    float* values = receive_.data() + static_cast<int64_t>(n) * slice;
    slices.ForEachPiece(communicator_.rank(), [&](size_t parameter, int64_t begin, int64_t end, int64_t place) {
      const bool there = kinds[n * parameters_.size() + parameter] == Kind::kDense;
      node.gradients.push_back(there ? Viewed(values + place, end - begin) : torch::Tensor());
    });
    tree.Add(std::move(node));
  }
  const std::vector<torch::Tensor> sums = tree.TakeTotal();
  size_t piece = 0;
  slices.ForEachPiece(communicator_.rank(), [&](size_t parameter, int64_t begin, int64_t end, int64_t) {
    total[parameter].view({-1}).slice(0, begin, end).copy_(sums[piece++]);
  });
}

void GradientExchange::GatherRows(const std::vector<GradientNode>& nodes, const Kinds& kinds, size_t parameter,
                                  std::vector<torch::Tensor>& total) {
  std::string mine;
  for (const GradientNode& node : nodes)
    if (node.gradients[parameter].defined()) mine += PackRows(node.gradients[parameter]);
  const std::vector<std::string> all = communicator_.AllGather(mine);
  GradientTree tree;
  size_t rank = 0;
  std::string_view text = all[0];
  for (size_t n = 0; n < nodes_.size(); ++n) {
    for (; n >= node_bounds_[rank + 1]; text = all[rank]) ++rank;
    const bool there = kinds[n * parameters_.size() + parameter] == Kind::kRows;
    tree.Add({nodes_[n].first,
              nodes_[n].second,
              {there ? UnpackRows(text, parameters_[parameter].second) : torch::Tensor()}});
  }
  total[parameter] = tree.TakeTotal()[0];
}

std::vector<torch::Tensor> GradientExchange::Total(std::vector<GradientNode> nodes, std::vector<double>& losses) {
  const torch::NoGradGuard no_grad;
  const Kinds kinds = TellKinds(nodes, losses);
  std::vector<torch::Tensor> total(parameters_.size());
  if (const std::vector<size_t> dense = Dense(kinds); !dense.empty()) {
    const Slices slices(parameters_, dense, communicator_.size());
    for (const size_t i : dense) total[i] = torch::empty_like(parameters_[i].second);
    AddSlice(nodes, kinds, slices, total);
    if (!own_slice_) slices.Share(communicator_, total);
  }
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (AnyOf(kinds, i, Kind::kRows)) GatherRows(nodes, kinds, i, total);
  return total;
}

}  // namespace lshformer
