// One pipeline asked from several threads at once: the same bits as alone.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/parallel.h"
#include "infer/pipeline.h"
#include "kernels/matmul.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::TempFolder;

constexpr int kCallers = 4, kRounds = 6;

// Calls `ask(caller, round)` from kCallers threads of their own, which begin together.
void FromSeveralThreads(const std::function<void(int, int)>& ask) {
  std::atomic<int> ready{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (++ready; ready < kCallers;) std::this_thread::yield();
      for (int round = 0; round < kRounds; ++round) ask(caller, round);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

class ThreadsTest : public ::testing::Test {
 protected:
  ThreadsTest() {
    config_.hidden_size = 32;
    config_.num_hidden_layers = 2;
    config_.num_attention_heads = 2;
    config_.intermediate_size = 64;
    config_.max_position_embeddings = 256;
    config_.labels = {"negative", "positive"};
    config_.initializer_range = 0.3;
    std::string vocabulary;
    for (const char* word : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "a", "mat", "."})
      vocabulary += std::string(word) + "\n";
    config_.vocab_size = 12;
    folder_.Write("vocab.txt", vocabulary);
    // Lengths from three tokens to the table's end: numbers drawn for short ones do not serve long ones.
    for (int i = 0; i < 24; ++i) {
      std::string text = "the";
      for (int word = 0; word < i * i % 251; ++word)
        text += word % 3 == i % 3 ? " cat" : word % 2 == 0 ? " sat" : " on";
      texts_.push_back({text, i % 4 == 0 ? std::optional<std::string>("a mat") : std::nullopt});
    }
  }

  // Fresh, so that weights are packed and planes drawn by those who ask first.
  Pipeline Make(PredictTask predict_task, Task task, const char* attention, Precision precision) {
    config_.attention = {ParseAttentionSpec(Json::parse(attention), "attention")};
    PredictOptions options;
    options.task = predict_task;
    options.precision = precision;
    options.batch_tokens = 512;
    return Pipeline(CreateModel(config_, task, 1), Tokenizer::Load(folder_.path()), options);
  }

  // Some of the texts, others for every caller and round.
  std::vector<size_t> Some(int caller, int round) const {
    std::vector<size_t> some;
    for (size_t i = 0; i < texts_.size(); ++i)
      if ((i * 7 + static_cast<size_t>(caller * 3 + round)) % 5 < 3) some.push_back(i);
    return some;
  }

  TempFolder folder_;
  ModelConfig config_;
  std::vector<TextInput> texts_;
};

TEST_F(ThreadsTest, EmbeddingsHaveTheBitsThatTheyHaveAlone) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16, Precision::kInt8}) {
    if (!SupportsProducts(precision)) continue;
    for (const char* attention :
         {R"("dense")", R"({"type": "simhash", "bands": 2})", R"({"type": "reformer", "chunk": 8})"}) {
      SCOPED_TRACE(std::string(Name(precision)) + " " + attention);
      const Pipeline alone = Make(PredictTask::kFeatureExtraction, Task::kEncoder, attention, precision);
      std::vector<std::vector<float>> expected;
      for (const TextInput& text : texts_) expected.push_back(alone.Embed({&text, 1})[0].value.values);
      const Pipeline shared = Make(PredictTask::kFeatureExtraction, Task::kEncoder, attention, precision);
      std::atomic<int> different{0};
      FromSeveralThreads([&](int caller, int round) {
        const std::vector<size_t> some = Some(caller, round);
        std::vector<TextInput> inputs;
        for (const size_t i : some) inputs.push_back(texts_[i]);
        const auto outcomes = shared.Embed(inputs);
        for (size_t i = 0; i < some.size(); ++i) different += outcomes[i].value.values != expected[some[i]];
      });
      EXPECT_EQ(different, 0);
    }
  }
}

// Where [CLS] is all that is wanted the last layer computes no other token.
TEST_F(ThreadsTest, SoHasTheFirstTokenAlone) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16, Precision::kInt8}) {
    if (!SupportsProducts(precision)) continue;
    const Pipeline pipeline = Make(PredictTask::kFeatureExtraction, Task::kEncoder, R"("dense")", precision);
    const auto all = pipeline.Embed(texts_, EmbedOptions{.pooling = Pooling::kNone}),
               first = pipeline.Embed(texts_, EmbedOptions{.pooling = Pooling::kCls});
    std::vector<EmbedQuery> mixed;
    for (size_t i = 0; i < texts_.size(); ++i)
      mixed.push_back(pipeline.PrepareEmbed(texts_[i], {.pooling = i % 2 == 0 ? Pooling::kCls : Pooling::kNone}).value);
    const auto both = pipeline.Run(mixed);
    for (size_t i = 0; i < texts_.size(); ++i) {
      const std::vector<float>& tokens = all[i].value.values;
      const std::vector<float> cls(tokens.begin(), tokens.begin() + config_.hidden_size);
      EXPECT_EQ(first[i].value.values, cls) << i;
      EXPECT_EQ(both[i].value.values, i % 2 == 0 ? cls : tokens) << i;
    }
  }
}

TEST_F(ThreadsTest, SoHaveClassesMasksAndAnswers) {
  const char* attention = R"({"type": "simhash", "bands": 2})";
  const Pipeline classifier =
      Make(PredictTask::kTextClassification, Task::kSequenceClassification, attention, Precision::kFloat32);
  const Pipeline filler = Make(PredictTask::kFillMask, Task::kMaskedLm, attention, Precision::kFloat32);
  const Pipeline reader =
      Make(PredictTask::kQuestionAnswering, Task::kQuestionAnswering, attention, Precision::kFloat32);
  std::vector<TextInput> masked = texts_;
  std::vector<QuestionInput> questions;
  for (TextInput& input : masked) input.text = "[MASK] " + input.text;
  for (const TextInput& input : texts_) questions.push_back({"a cat", input.text + " " + input.text});
  const auto classes = classifier.Classify(texts_);
  const auto filled = filler.FillMask(masked);
  const auto answers = reader.Answer(questions);
  std::atomic<int> different{0};
  FromSeveralThreads([&](int, int) {
    const auto now_classes = classifier.Classify(texts_);
    const auto now_filled = filler.FillMask(masked);
    const auto now_answers = reader.Answer(questions);
    for (size_t i = 0; i < texts_.size(); ++i) {
      different += now_classes[i].value[0].score != classes[i].value[0].score;
      different += now_filled[i].value.candidates[0][0].score != filled[i].value.candidates[0][0].score;
      different += now_answers[i].value[0].score != answers[i].value[0].score;
      different += now_answers[i].value[0].text != answers[i].value[0].text;
    }
  });
  EXPECT_EQ(different, 0);
}

}  // namespace
}  // namespace lshformer
