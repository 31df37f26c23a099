// The head whose ends depend on starts learns what two logits a token cannot say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "base/philox.h"
#include "models/albert/config.h"
#include "ops/threads.h"
#include "train/step.h"

namespace lshformer {
namespace {

// Ids: 1 [CLS], 2 [SEP], 3 the question, 4 and 5 begin answers, 6 and 7 end them, from 8 on other words.
constexpr int32_t kFirstStart = 4, kFirstEnd = 6, kWords = 8, kVocabulary = 20;

ModelPtr Untrained() {
  ModelConfig config = DefaultModelConfig("albert", "test");
  config.vocab_size = kVocabulary, config.embedding_size = 16, config.hidden_size = 24, config.num_attention_heads = 2;
  config.intermediate_size = 32, config.num_hidden_layers = 1, config.max_position_embeddings = 24;
  config.own<AlbertConfig>().question_answering_head = AnswerHead::kConditional;
  return CreateModel(config, Task::kQuestionAnswering, 11);
}

// A context of 12 words. Two of three hold an answer 4 … 6 and another one 5 … 7, one behind the other, and which of
// them is labelled is by chance: either start is as likely as the other, and so is either end, but not any pair. The
// third ones hold nothing.
PackedBatch Questions(uint64_t seed, int count, std::vector<bool>* none = nullptr) {
  PackedBatch batch;
  PhiloxStream random(StreamKey(seed, 0, 0, 0, Purpose::kSynthetic), 0);
  const auto below = [&](int n) { return static_cast<int32_t>(random.Below(static_cast<uint64_t>(n))); };
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> ids{1, 3, 2}, types(3, 0);
    for (int word = 0; word < 12; ++word) ids.push_back(kWords + below(kVocabulary - kWords));
    ids.push_back(2);
    types.resize(ids.size(), 1);
    const bool empty = i % 3 == 2;
    const int32_t pair = below(2), first = 3 + below(2), second = 9 + below(2);
    if (!empty) {
      const int32_t places[] = {first, second};
      for (int32_t k = 0; k < 2; ++k) {
        ids[places[k]] = kFirstStart + k;
        ids[places[k] + 1 + below(4)] = kFirstEnd + k;
      }
    }
    const auto place = [&](int32_t id) {
      return static_cast<int32_t>(std::find(ids.begin(), ids.end(), id) - ids.begin());
    };
    batch.labels.start_positions.push_back(empty ? 0 : place(kFirstStart + pair));
    batch.labels.end_positions.push_back(empty ? 0 : place(kFirstEnd + pair));
    AppendSequence(batch, ids, types, seed * 1000 + static_cast<uint64_t>(i));
    if (none != nullptr) none->push_back(empty);
  }
  return batch;
}

TEST(ConditionalAnswersTraining, AnEndBelongsToItsStart) {
  SetAllThreads(1);  // so small a model is not shared out
  const ModelPtr model = Untrained();
  TrainingOptions options;
  TrainingStep step(*model, options);
  for (uint64_t update = 0; update < 70; ++update) {
    const PackedBatch batch = Questions(100 + update, 24);
    step.Begin({&batch, 1});
    step.Accumulate(batch);
    step.Update(5e-3);
  }
  std::vector<bool> none;
  const PackedBatch batch = Questions(7, 60, &none);
  const torch::NoGradGuard no_grad;
  const ModelOutput output = model->Forward(batch, {});
  int judged = 0, both = 0, answerable = 0;
  double ends = 0;
  for (size_t b = 0; b < none.size(); ++b) {
    const AnswerBeam& beam = output.beams[b];
    judged += (beam.no_answer > 0) == none[b];
    if (none[b]) continue;
    ++answerable;
    const int32_t* ids = batch.tokens.ids.data() + batch.tokens.cu_seqlens[b];
    // The likeliest end of each of the two likeliest starts.
    int right = 0;
    for (const size_t place : {size_t{0}, size_t{5}}) {
      const AnswerBeam::Span& span = beam.spans[place];
      const int32_t start = ids[span.start] - kFirstStart;
      if (start != 0 && start != 1) continue;
      right += ids[span.end] == kFirstEnd + start;
      ends += std::exp(span.end_score) / 2;
    }
    both += right == 2;
  }
  SetAllThreads(HardwareThreads());
  EXPECT_EQ(answerable, 40);
  EXPECT_GE(judged, 57);
  EXPECT_GE(both, 36) << "of 40: both spans are found, each with the end that is its own";
  EXPECT_GT(ends / answerable, 0.8) << "without the start, an end would have the probability 1/2";
}

}  // namespace
}  // namespace lshformer
