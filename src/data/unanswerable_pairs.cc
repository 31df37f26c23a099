#include "data/unanswerable_pairs.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/philox.h"

namespace lshformer {
namespace {

constexpr uint32_t kOfQuestions = 1;  // apart from the pairs of sentences

// The contexts that questions are about, by article.
std::map<int32_t, std::vector<int32_t>> ContextsByArticle(const SquadData& data) {
  std::map<int32_t, std::vector<int32_t>> contexts;
  int32_t last = -1;
  for (const SquadQuestion& question : data.questions) {  // in the order of their contexts
    if (std::exchange(last, question.context) == question.context) continue;
    contexts[data.articles[static_cast<size_t>(question.context)]].push_back(question.context);
  }
  return contexts;
}

// One of `candidates` that may be asked without an answer; −1: none.
int32_t DrawContext(const SquadData& data, const SquadQuestion& question, std::vector<int32_t> candidates,
                    PhiloxStream& random) {
  std::erase(candidates, question.context);
  while (!candidates.empty()) {
    std::swap(candidates[random.Below(candidates.size())], candidates.back());
    const std::string& context = data.contexts[static_cast<size_t>(candidates.back())];
    const auto inside = [&](const SquadAnswer& answer) { return context.find(answer.text) != context.npos; };
    if (std::none_of(question.answers.begin(), question.answers.end(), inside)) return candidates.back();
    candidates.pop_back();
  }
  return -1;
}

}  // namespace

int64_t AddUnanswerablePairs(SquadData& data, double probability, uint64_t seed, uint64_t file) {
  const auto contexts = ContextsByArticle(data);
  const uint64_t key = StreamKey(seed, file, kOfQuestions, 0, Purpose::kSentencePairs);
  std::vector<SquadQuestion> made;
  int64_t without = 0;
  for (size_t q = 0; q < data.questions.size(); ++q) {
    const SquadQuestion& question = data.questions[q];
    PhiloxStream random(key, q);
    if (question.answers.empty() || random.Uniform() >= probability) continue;
    const int32_t article = data.articles[static_cast<size_t>(question.context)];
    const int32_t context = DrawContext(data, question, contexts.at(article), random);
    without += context < 0;
    if (context >= 0) made.push_back({question.id + " (no answer)", question.text, context, {}});
  }
  data.questions.insert(data.questions.end(), std::make_move_iterator(made.begin()),
                        std::make_move_iterator(made.end()));
  std::stable_sort(data.questions.begin(), data.questions.end(),
                   [](const auto& a, const auto& b) { return a.context < b.context; });
  return without;
}

}  // namespace lshformer
