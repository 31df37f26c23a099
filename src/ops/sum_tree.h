// A sum of many terms, in an order that does not depend on who adds up which of them:
//
//   sum(a, a + n) = sum(a, a + m) + sum(a + m, a + n),   m the largest power of two below n
//
// A node is the sum of 2^k terms from a multiple of 2^k on. Whoever has some of the terms makes nodes of them;
// neighbours are added up as soon as they make a node again, and what is left in the end (the terms are no power of
// two) from the right.
#pragma once
#include <utility>
#include <vector>

namespace lshformer {

// Whether the second makes a node with the first, which lies before it.
constexpr bool MakesNode(int first, int count, int second_count) {
  return count == second_count && first % (2 * count) == 0;
}

// Puts `node` (a struct with `first` and `count`, its terms) behind those before it. plus(left, right): left += right.
template <class Node, class Plus>
void AddNode(std::vector<Node>& nodes, Node node, const Plus& plus) {
  nodes.push_back(std::move(node));
  while (nodes.size() > 1) {
    Node& left = nodes[nodes.size() - 2];
    if (!MakesNode(left.first, left.count, nodes.back().count)) return;
    plus(left, nodes.back());
    left.count += nodes.back().count;
    nodes.pop_back();
  }
}

// Leaves one, the sum of all; nothing of nothing.
template <class Node, class Plus>
void SumNodes(std::vector<Node>& nodes, const Plus& plus) {
  while (nodes.size() > 1) {
    Node right = std::move(nodes.back());
    nodes.pop_back();
    plus(nodes.back(), right);
    nodes.back().count += right.count;
  }
}

// The nodes, as (first, count), that the terms [begin, end) come to.
inline std::vector<std::pair<int, int>> NodesOf(int begin, int end) {
  struct Node {
    int first, count;
  };
  std::vector<Node> nodes;
  for (int term = begin; term < end; ++term) AddNode(nodes, Node{term, 1}, [](Node&, Node&) {});
  std::vector<std::pair<int, int>> pairs;
  for (const Node& node : nodes) pairs.emplace_back(node.first, node.count);
  return pairs;
}

}  // namespace lshformer
