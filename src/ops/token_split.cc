#include "ops/token_split.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "ops/saved_for_backward.h"
#include "ops/sum_tree.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::span<const float> Read(const torch::Tensor& x) { return {x.data_ptr<float>(), static_cast<size_t>(x.numel())}; }
std::span<float> Written(torch::Tensor& x) { return {x.data_ptr<float>(), static_cast<size_t>(x.numel())}; }

// Messages are made and read in pieces of so many bytes, so that little lies in memory twice.
constexpr int64_t kPieceBytes = int64_t{8} << 20;

// The rows of all, rank r's being counts[r], one behind another.
torch::Tensor Gathered(const torch::Tensor& own, const std::vector<int64_t>& counts, TokenExchange& others) {
  const int64_t columns = own.size(1), most = *std::max_element(counts.begin(), counts.end());
  const int64_t row_bytes = std::max<int64_t>(1, columns * static_cast<int64_t>(sizeof(float)));
  const int64_t piece = std::max<int64_t>(1, kPieceBytes / row_bytes);
  torch::Tensor all = torch::empty({std::accumulate(counts.begin(), counts.end(), int64_t{0}), columns}, own.options());
  for (int64_t begin = 0; begin < most; begin += piece) {
    const int64_t rows = std::min(piece, most - begin);
    const auto of = [&](int64_t count) { return std::clamp<int64_t>(count - begin, 0, rows); };  // of a rank's rows
    torch::Tensor mine = torch::zeros({rows, columns}, own.options());                           // all send as many
    if (const int64_t count = of(own.size(0)); count > 0) mine.narrow(0, 0, count).copy_(own.narrow(0, begin, count));
    torch::Tensor received = torch::empty({rows * others.size(), columns}, own.options());
    others.AllGather(Read(mine), Written(received));
    int64_t first = 0;  // of a rank's rows among those of all
    for (int rank = 0; rank < others.size(); ++rank) {
      const int64_t whole = counts[static_cast<size_t>(rank)], count = of(whole);
      if (count > 0) all.narrow(0, first + begin, count).copy_(received.narrow(0, rows * rank, count));
      first += whole;
    }
  }
  return all;
}

std::vector<int64_t> TokensOfEach(const TokenSplit& split) {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < split.processes(); ++rank)
    counts.push_back(split.FirstToken(rank + 1) - split.FirstToken(rank));
  return counts;
}

struct OwnTokensOp : torch::autograd::Function<OwnTokensOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& all, const TokenSplitPtr& split) {
    Keep(context, split);
    return all.narrow(0, split->FirstToken(split->rank()), split->own_tokens()).clone();
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const TokenSplit& split = *GetKept<TokenSplitPtr>(context);
    return {Gathered(grads[0], TokensOfEach(split), *split.others), {}};
  }
};

struct GatheredRows {
  TokenSplitPtr split;
  std::vector<int64_t> counts;
};

struct AllTokensOp : torch::autograd::Function<AllTokensOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& own, GatheredRows rows) {
    torch::Tensor all = Gathered(own, rows.counts, *rows.split->others);
    Keep(context, std::move(rows));
    return all;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const GatheredRows& rows = GetKept<GatheredRows>(context);
    const auto own = rows.counts.begin() + rows.split->rank();
    return {grads[0].narrow(0, std::accumulate(rows.counts.begin(), own, int64_t{0}), *own).contiguous(), {}};
  }
};

// The tokens that each process sends of or receives for its own, piece by piece, and what then goes where.
class Piece {
 public:
  // columns: of all heads.
  Piece(const TokenSplit& split, int64_t columns, int64_t number, int64_t pieces)
      : split_(split), of_head_(columns / split.heads), number_(number), pieces_(pieces) {}
  static int64_t CountOf(const TokenSplit& split, int64_t columns) {
    const int64_t bytes = split.tokens * columns * static_cast<int64_t>(sizeof(float)) / split.processes();
    return std::clamp<int64_t>(bytes / kPieceBytes, 1, std::max<int64_t>(1, split.tokens / split.heads));
  }
  // Among the tokens of a process.
  int64_t begin(int rank) const { return Bound(rank, number_); }
  int64_t end(int rank) const { return Bound(rank, number_ + 1); }
  int64_t tokens(int rank) const { return end(rank) - begin(rank); }
  int64_t own_begin() const { return begin(split_.rank()); }
  int64_t own_tokens() const { return tokens(split_.rank()); }
  // Floats for and of each other rank: this process's tokens under that one's heads, and the reverse. Its own part of
  // both is in no message.
  std::vector<int64_t> OwnTokens() const {
    return Each([&](int rank) { return own_tokens() * (split_.FirstHead(rank + 1) - split_.FirstHead(rank)); });
  }
  std::vector<int64_t> OwnHeads() const {
    return Each([&](int rank) { return tokens(rank) * split_.own_heads(); });
  }

 private:
  int64_t Bound(int rank, int64_t number) const {
    return (split_.FirstToken(rank + 1) - split_.FirstToken(rank)) * number / pieces_;
  }
  template <class Count>
  std::vector<int64_t> Each(const Count& count) const {
    std::vector<int64_t> counts;
    for (int rank = 0; rank < split_.processes(); ++rank)
      counts.push_back(rank == split_.rank() ? 0 : count(rank) * of_head_);
    return counts;
  }
  const TokenSplit& split_;
  int64_t of_head_, number_, pieces_;
};

int64_t Sum(const std::vector<int64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

// Of a piece's rows [n, slices · heads · head_dim] those of one rank's heads, [n, slices, its heads, head_dim].
torch::Tensor OfHeads(const TokenSplit& split, int slices, const torch::Tensor& rows, int rank) {
  const int64_t head_dim = rows.size(1) / (int64_t{slices} * split.heads);
  return rows.view({rows.size(0), slices, split.heads, head_dim})
      .narrow(2, split.FirstHead(rank), split.FirstHead(rank + 1) - split.FirstHead(rank));
}

// Of rows [T, own heads' columns] the piece's tokens of one rank, as many as it has.
torch::Tensor OfTokens(const TokenSplit& split, const Piece& piece, const torch::Tensor& heads, int rank) {
  return heads.narrow(0, split.FirstToken(rank) + piece.begin(rank), piece.tokens(rank));
}

// Copies between a message, which has the parts of the other ranks one after another, and where they are: part(rank).
template <class Part>
void CopyParts(const TokenSplit& split, const torch::Tensor& message, bool into_message, const Part& part) {
  int64_t place = 0;
  for (int rank = 0; rank < split.processes(); ++rank) {
    if (rank == split.rank()) continue;
    torch::Tensor theirs = part(rank);
    torch::Tensor sent = message.narrow(0, place, theirs.numel()).view(theirs.sizes());
    into_message ? sent.copy_(theirs) : theirs.copy_(sent);
    place += theirs.numel();
  }
}

torch::Tensor ToHeads(const MakeRows& make, int64_t columns, const TokenSplit& split, int slices) {
  const torch::NoGradGuard no_grad;
  const int64_t pieces = Piece::CountOf(split, columns);
  torch::Tensor heads = torch::empty({split.tokens, columns / split.heads * split.own_heads()});
  for (int64_t number = 0; number < pieces; ++number) {
    const Piece piece(split, columns, number, pieces);
    const torch::Tensor rows = make(piece.own_begin(), piece.own_begin() + piece.own_tokens()).contiguous();
    torch::Tensor message = torch::empty({Sum(piece.OwnTokens())}), received = torch::empty({Sum(piece.OwnHeads())});
    CopyParts(split, message, /*into_message=*/true, [&](int rank) { return OfHeads(split, slices, rows, rank); });
    const torch::Tensor kept = OfHeads(split, slices, rows, split.rank());
    OfTokens(split, piece, heads, split.rank()).view(kept.sizes()).copy_(kept);
    split.others->AllToAll(Read(message), piece.OwnTokens(), Written(received), piece.OwnHeads());
    CopyParts(split, received, /*into_message=*/false, [&](int rank) { return OfTokens(split, piece, heads, rank); });
  }
  return heads;
}

torch::Tensor ToTokens(const torch::Tensor& own, const TokenSplit& split, int slices) {
  const torch::NoGradGuard no_grad;
  if (own.dim() != 2 || own.size(0) != split.tokens || own.size(1) % (int64_t{slices} * split.own_heads()) != 0)
    Fail("tokens of heads: expected [{}, {} · {} heads · head_dim], got {}", split.tokens, slices, split.own_heads(),
         c10::str(own.sizes()));
  const int64_t columns = own.size(1) / split.own_heads() * split.heads, pieces = Piece::CountOf(split, columns);
  const torch::Tensor heads = own.contiguous();
  torch::Tensor tokens = torch::empty({split.own_tokens(), columns});
  for (int64_t number = 0; number < pieces; ++number) {
    const Piece piece(split, columns, number, pieces);
    const torch::Tensor rows = tokens.narrow(0, piece.own_begin(), piece.own_tokens());
    torch::Tensor message = torch::empty({Sum(piece.OwnHeads())}), received = torch::empty({Sum(piece.OwnTokens())});
    CopyParts(split, message, /*into_message=*/true, [&](int rank) { return OfTokens(split, piece, heads, rank); });
    torch::Tensor kept = OfHeads(split, slices, rows, split.rank());
    kept.copy_(OfTokens(split, piece, heads, split.rank()).view(kept.sizes()));
    split.others->AllToAll(Read(message), piece.OwnHeads(), Written(received), piece.OwnTokens());
    CopyParts(split, received, /*into_message=*/false, [&](int rank) { return OfHeads(split, slices, rows, rank); });
  }
  return tokens;
}

torch::Tensor ToHeads(const torch::Tensor& own, const TokenSplit& split, int slices) {
  if (own.dim() != 2 || own.size(0) != split.own_tokens() || own.size(1) % (int64_t{slices} * split.heads) != 0)
    Fail("heads of tokens: expected [{}, {} · {} heads · head_dim], got {}", split.own_tokens(), slices, split.heads,
         c10::str(own.sizes()));
  return ToHeads([&](int64_t begin, int64_t end) { return own.narrow(0, begin, end - begin); }, own.size(1), split,
                 slices);
}

struct Exchanged {
  TokenSplitPtr split;
  int slices;
  bool to_heads;
};

torch::Tensor Exchange(const torch::Tensor& x, const Exchanged& how, bool back) {
  return how.to_heads != back ? ToHeads(x, *how.split, how.slices) : ToTokens(x, *how.split, how.slices);
}

struct ExchangeOp : torch::autograd::Function<ExchangeOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, Exchanged how) {
    torch::Tensor y = Exchange(x, how, /*back=*/false);
    Keep(context, std::move(how));
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {Exchange(grads[0], GetKept<Exchanged>(context), /*back=*/true), {}};
  }
};

struct BlockSum {
  int first = 0, count = 1;
  torch::Tensor values;  // [count]
};
void Plus(BlockSum& left, BlockSum& right) { left.values.add_(right.values); }

// Slices of the nodes go to those who add them up; the slices of the total go to all.
torch::Tensor SumOfAll(const std::vector<BlockSum>& own, const TokenSplit& split, int64_t count) {
  TokenExchange& others = *split.others;
  const auto bound = [&](int rank) { return count * rank / others.size(); };
  const int64_t slice = bound(others.rank() + 1) - bound(others.rank());
  std::vector<int64_t> send_counts, receive_counts;
  std::vector<BlockSum> nodes;  // of all
  for (int rank = 0; rank < others.size(); ++rank) {
    send_counts.push_back(std::ssize(own) * (bound(rank + 1) - bound(rank)));
    const auto theirs = NodesOf(split.FirstHead(rank), split.FirstHead(rank + 1));
    receive_counts.push_back(std::ssize(theirs) * slice);
    for (const auto& [first, terms] : theirs) nodes.push_back({first, terms, {}});
  }
  torch::Tensor send = torch::empty({std::ssize(own) * count}), receive = torch::empty({std::ssize(nodes) * slice});
  int64_t place = 0, most = 0;
  for (int rank = 0; rank < others.size(); ++rank) {
    const int64_t width = bound(rank + 1) - bound(rank);
    for (const BlockSum& node : own) {
      send.narrow(0, place, width).copy_(node.values.narrow(0, bound(rank), width));
      place += width;
    }
    most = std::max(most, width);
  }
  others.AllToAll(Read(send), send_counts, Written(receive), receive_counts);
  std::vector<BlockSum> tree;
  for (size_t n = 0; n < nodes.size(); ++n) {
    nodes[n].values = receive.narrow(0, static_cast<int64_t>(n) * slice, slice);
    AddNode(tree, std::move(nodes[n]), Plus);
  }
  SumNodes(tree, Plus);
  torch::Tensor mine = torch::zeros({most}), all = torch::empty({most * others.size()}), total = torch::empty({count});
  mine.narrow(0, 0, slice).copy_(tree.front().values);
  others.AllGather(Read(mine), Written(all));
  for (int rank = 0; rank < others.size(); ++rank) {
    const int64_t width = bound(rank + 1) - bound(rank);
    total.narrow(0, bound(rank), width).copy_(all.narrow(0, most * rank, width));
  }
  return total;
}

}  // namespace

TokenSplitPtr SplitOf(TokenExchange* others, int heads, int64_t tokens) {
  auto split = std::make_shared<TokenSplit>();
  split->others = others;
  split->heads = heads;
  split->tokens = tokens;
  const int first = split->FirstHead(split->rank()), end = split->FirstHead(split->rank() + 1);
  const int64_t before = split->FirstToken(split->rank());
  for (int block = first; block <= end; ++block) split->bounds.push_back(tokens * block / heads - before);
  return split;
}

TokenSplitPtr SplitOfRows(const TokenSplitPtr& split, const torch::Tensor& rows) {
  if (split == nullptr || !rows.defined()) return split;
  auto of_rows = std::make_shared<TokenSplit>(*split);
  const int64_t *begin = rows.data_ptr<int64_t>(), *end = begin + rows.numel();
  for (int64_t& bound : of_rows->bounds) bound = std::lower_bound(begin, end, bound) - begin;
  return of_rows;
}

torch::Tensor OwnTokens(const torch::Tensor& all, const TokenSplitPtr& split) { return OwnTokensOp::apply(all, split); }

torch::Tensor AllTokens(const torch::Tensor& own, const TokenSplitPtr& split, std::vector<int64_t> counts) {
  return AllTokensOp::apply(own, GatheredRows{split, std::move(counts)});
}

torch::Tensor HeadsOfTokens(const torch::Tensor& own, const TokenSplitPtr& split, int slices) {
  return ExchangeOp::apply(own, Exchanged{split, slices, /*to_heads=*/true});
}
torch::Tensor HeadsOfTokens(const MakeRows& own, int64_t columns, const TokenSplitPtr& split, int slices) {
  return ToHeads(own, columns, *split, slices);
}
torch::Tensor TokensOfHeads(const torch::Tensor& own, const TokenSplitPtr& split, int slices) {
  return ExchangeOp::apply(own, Exchanged{split, slices, /*to_heads=*/false});
}

torch::Tensor SumOverBlocks(const TokenSplit& split, int64_t rows, int64_t count, const MakeBlock& make) {
  const torch::NoGradGuard no_grad;
  if (rows != split.bounds.back()) Fail("{} rows, whose blocks end at {}", rows, split.bounds.back());
  const int first = split.FirstHead(split.rank());
  std::vector<BlockSum> nodes;
  for (size_t block = 0; block + 1 < split.bounds.size(); ++block) {
    const int64_t begin = split.bounds[block], end = split.bounds[block + 1];
    BlockSum sum{first + static_cast<int>(block), 1, begin == end ? torch::zeros({count}) : torch::empty({count})};
    if (begin < end) make(begin, end, sum.values.data_ptr<float>());
    AddNode(nodes, std::move(sum), Plus);
  }
  if (split.others != nullptr) return SumOfAll(nodes, split, count);
  SumNodes(nodes, Plus);
  return nodes.front().values;
}

}  // namespace lshformer
