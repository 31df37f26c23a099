// One stream of tokens over several processes (Jacobs et al. 2023, "DeepSpeed Ulysses").
//
// Where a row looks at no other a process has some of the tokens; in attention, which looks at all tokens of a head, it
// has some of the heads. Before attention and behind it they change places, every process with every other:
//
//   [own tokens, all heads]  →  all-to-all  →  [all tokens, own heads]  →  attention  →  all-to-all  →  back
//
// The tokens are cut into as many blocks as there are heads, block b of A being [T·b / A, T·(b + 1) / A); process r of
// p has the blocks, and the heads, [A·r / p, A·(r + 1) / p). p divides A, so that no process has more than another.
//
// What is summed up over tokens, the gradients of weights, is summed up for each block alone, and the blocks in one
// binary tree (sum_tree.h). So the result depends on A, and not on how many processes there are: one alone, without
// `others`, makes the same. All other results are functions of a row or of a head, whose bits stay as they are.
//
// Functions that talk to the others are called by all alike, in the same order, forward and backward.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ops/torch.h"

namespace lshformer {

// What processes say to each other here; dist/communicator.h.
class TokenExchange {
 public:
  virtual ~TokenExchange() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Rank r's `mine` in all[r · count, (r + 1) · count), count = mine.size() on every rank.
  virtual void AllGather(std::span<const float> mine, std::span<float> all) = 0;
  // Sends send_counts[r] floats of `send`, which lie in the order of the ranks, to rank r, and receives as many as each
  // has for this one into `receive`, in their order.
  virtual void AllToAll(std::span<const float> send, const std::vector<int64_t>& send_counts, std::span<float> receive,
                        const std::vector<int64_t>& receive_counts) = 0;

 protected:
  TokenExchange(int rank, int size) : rank_(rank), size_(size) {}

 private:
  int rank_, size_;
};

struct TokenSplit {
  TokenExchange* others = nullptr;  // null: this process has all tokens and heads
  int heads = 1;                    // and blocks
  int64_t tokens = 0;               // of all processes
  std::vector<int64_t> bounds{};    // [own blocks + 1]: where each begins among the rows that this process has

  int rank() const { return others == nullptr ? 0 : others->rank(); }
  int processes() const { return others == nullptr ? 1 : others->size(); }
  // Of process `of`: the first of its heads and blocks, and of its tokens; of `of` = processes(): how many there are.
  int FirstHead(int of) const { return static_cast<int>(int64_t{heads} * of / processes()); }
  int64_t FirstToken(int of) const { return tokens * FirstHead(of) / heads; }
  int own_heads() const { return FirstHead(rank() + 1) - FirstHead(rank()); }
  int64_t own_tokens() const { return FirstToken(rank() + 1) - FirstToken(rank()); }
};
using TokenSplitPtr = std::shared_ptr<const TokenSplit>;  // null: nothing is split, nor summed up in blocks
inline bool SharesTokens(const TokenSplitPtr& split) { return split != nullptr && split->others != nullptr; }

// Of all rows that this process has.
TokenSplitPtr SplitOf(TokenExchange* others, int heads, int64_t tokens);
// The same of some rows alone, [rows] ascending int64, as numbers among those.
TokenSplitPtr SplitOfRows(const TokenSplitPtr& split, const torch::Tensor& rows);

// [T, columns] → [own tokens, columns]. The gradient is gathered from all.
torch::Tensor OwnTokens(const torch::Tensor& all, const TokenSplitPtr& split);
// Back: the rows of all processes, one behind another, rank r's being counts[r]. All go on with the same; so each keeps
// its own part of the gradient.
torch::Tensor AllTokens(const torch::Tensor& own, const TokenSplitPtr& split, std::vector<int64_t> counts);

// [own tokens, slices · heads · head_dim] → [T, slices · own heads · head_dim], and back, each the gradient of the
// other; float32. The slices lie side by side, as attention takes them.
torch::Tensor HeadsOfTokens(const torch::Tensor& own, const TokenSplitPtr& split, int slices);
torch::Tensor TokensOfHeads(const torch::Tensor& own, const TokenSplitPtr& split, int slices);
// Without gradients of rows that are made as they are sent: `own` gives those [begin, end), so wide.
using MakeRows = std::function<torch::Tensor(int64_t begin, int64_t end)>;
torch::Tensor HeadsOfTokens(const MakeRows& own, int64_t columns, const TokenSplitPtr& split, int slices);

// The sum over all blocks, [count], the same on all processes. `make` writes that of the rows [begin, end), of which
// there is at least one, of this process's `rows`; a block without rows is 0.
using MakeBlock = std::function<void(int64_t begin, int64_t end, float* to)>;
torch::Tensor SumOverBlocks(const TokenSplit& split, int64_t rows, int64_t count, const MakeBlock& make);

}  // namespace lshformer
