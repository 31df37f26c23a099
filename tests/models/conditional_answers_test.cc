// The head whose ends depend on starts: its formula in double precision, by hand, its beams, its files.
#include "models/conditional_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "data/answer_beam.h"
#include "models/albert/config.h"
#include "models/model.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;
using torch::Tensor;

constexpr int64_t kHidden = 6;

ModelConfig Config(int64_t hidden = kHidden) {
  ModelConfig config = DefaultModelConfig("albert", "test");
  config.vocab_size = 60, config.embedding_size = 8, config.hidden_size = hidden, config.num_attention_heads = 2;
  config.intermediate_size = 12, config.num_hidden_layers = 2, config.max_position_embeddings = 40;
  config.initializer_range = 0.5;
  config.own<AlbertConfig>().question_answering_head = AnswerHead::kConditional;
  return config;
}

// [CLS] q … [SEP] c … [SEP]
void AddSequence(PackedBatch& batch, int question, int context) {
  std::vector<int32_t> ids, types;
  for (int i = 0; i < question + context + 3; ++i) {
    ids.push_back((11 * i + 5 * question + batch.sequences()) % 60);
    types.push_back(i < question + 2 ? 0 : 1);
  }
  AppendSequence(batch, ids, types, static_cast<uint64_t>(7 + batch.sequences()));
}

// Contexts of 9, 1, 3 and 14 tokens; the third window does not hold its answer, the fourth's label is in the question.
PackedBatch Batch() {
  PackedBatch batch;
  AddSequence(batch, 3, 9), AddSequence(batch, 1, 1), AddSequence(batch, 2, 3), AddSequence(batch, 4, 14);
  batch.labels.start_positions = {6, 3, 0, 2}, batch.labels.end_positions = {8, 3, 0, 9};
  return batch;
}

ParameterMap Drawn(const ModelConfig& config) {
  std::vector<ParameterSpec> specs;
  ConditionalAnswers::AppendSpecs(specs, config);
  ParameterMap parameters;
  torch::manual_seed(4);
  for (const ParameterSpec& spec : specs) parameters[spec.name] = torch::randn(spec.shape).requires_grad_();
  return parameters;
}

struct Oracle {
  Tensor start_logits, no_answer, loss;
  std::vector<Tensor> context;                       // [sequences] → indices that are allowed
  std::function<Tensor(int b, int64_t start)> ends;  // [n], log probabilities
};

// As the formula is written, sequence by sequence, in double; `factors` of the dropout, [B, H].
Oracle Compute(const PackedBatch& batch, const std::map<std::string, Tensor>& w, const Tensor& hidden,
               const Tensor& factors) {
  Oracle oracle;
  std::vector<Tensor> starts, none;
  Tensor loss = torch::zeros({}, torch::kDouble);
  const auto map = [w](const char* name, const Tensor& x) {
    return torch::matmul(x, w.at(std::string(name) + ".weight").t()) + w.at(std::string(name) + ".bias");
  };
  const auto mask = [batch](int b) {
    const int32_t begin = batch.tokens.cu_seqlens[b], n = batch.tokens.cu_seqlens[b + 1] - begin;
    Tensor forbidden = torch::ones({n}, torch::kBool);
    for (int i = 0; i < n; ++i) forbidden[i] = !(i == 0 || (batch.tokens.type_ids[begin + i] == 1 && i < n - 1));
    return forbidden;
  };
  const auto rows = [batch, hidden](int b) {
    return hidden.slice(0, batch.tokens.cu_seqlens[b], batch.tokens.cu_seqlens[b + 1]);
  };
  oracle.ends = [=](int b, int64_t start) {
    const Tensor h = rows(b), both = torch::cat({h, h[start].expand_as(h)}, 1);  // [n, 2H]
    const Tensor inner =
        torch::layer_norm(torch::tanh(map("end_logits.dense_0", both)), {hidden.size(1)},
                          w.at("end_logits.LayerNorm.weight"), w.at("end_logits.LayerNorm.bias"), 1e-12);
    return torch::log_softmax(map("end_logits.dense_1", inner).squeeze(1).masked_fill(mask(b), -1e30), 0);
  };
  const double sequences = batch.sequences();
  for (int b = 0; b < batch.sequences(); ++b) {
    const Tensor h = rows(b), s = map("start_logits.dense", h).squeeze(1).masked_fill(mask(b), -1e30);
    starts.push_back(s);
    const Tensor joined = torch::cat({torch::matmul(torch::softmax(s, 0), h), h[0]});
    const Tensor z =
        ((torch::tanh(map("answer_class.dense_0", joined)) * factors[b]) * w.at("answer_class.dense_1.weight")[0])
            .sum();
    none.push_back(z);
    if (batch.labels.start_positions.empty()) continue;
    const int64_t start = batch.labels.start_positions[b], end = batch.labels.end_positions[b];
    const Tensor allowed = mask(b).logical_not();
    const bool span = start > 0 && end < h.size(0) && allowed[start].item<bool>() && allowed[end].item<bool>();
    loss = loss - torch::log_softmax(s, 0)[span ? start : 0] / (2 * sequences);
    loss = loss - oracle.ends(b, span ? start : 0)[span ? end : 0] / (2 * sequences);
    loss = loss + torch::softplus(span ? z : -z) / (2 * sequences);
  }
  oracle.start_logits = torch::cat(starts);
  oracle.no_answer = torch::stack(none);
  oracle.loss = loss;
  return oracle;
}

class ConditionalAnswersTest : public ::testing::TestWithParam<bool> {
 protected:
  ModelOutput Run(const PackedBatch& batch, const Tensor& hidden) const {
    ForwardContext context(batch.tokens, batch.sequence_ids);
    context.train = GetParam();
    ModelOutput output;
    output.last_hidden_state = hidden;
    ConditionalAnswers(parameters_, config_, kDropout)(batch, context, output);
    return output;
  }
  std::map<std::string, Tensor> InDouble() const {
    std::map<std::string, Tensor> copies;
    for (const ParameterSpec& spec : specs_)
      copies[spec.name] = parameters_.Get(spec.name).detach().to(torch::kDouble).requires_grad_();
    return copies;
  }
  Tensor Factors(const PackedBatch& batch) const {
    ForwardContext context(batch.tokens, batch.sequence_ids);
    context.train = GetParam();
    return DropoutFactorsReference(context.DropoutPerSequence(DropoutSite::kHead, 0, kDropout), kHidden)
        .to(torch::kDouble)
        .expand({batch.sequences(), kHidden});
  }
  void SetUp() override { ConditionalAnswers::AppendSpecs(specs_, config_); }

  static constexpr double kDropout = 0.4;
  const ModelConfig config_ = Config();
  const ParameterMap parameters_ = Drawn(config_);
  std::vector<ParameterSpec> specs_;
};
INSTANTIATE_TEST_SUITE_P(Dropout, ConditionalAnswersTest, ::testing::Bool());

TEST_P(ConditionalAnswersTest, ValuesAndGradientsAreThoseOfTheFormula) {
  const PackedBatch batch = Batch();
  const Tensor hidden = torch::randn({batch.tokens.size(), kHidden}).requires_grad_();
  const Tensor exact = hidden.detach().to(torch::kDouble).requires_grad_();
  const Tensor factors = GetParam() ? Factors(batch) : torch::ones({batch.sequences(), kHidden}, torch::kDouble);
  const std::map<std::string, Tensor> numbers = InDouble();
  const Oracle want = Compute(batch, numbers, exact, factors);
  const ModelOutput got = Run(batch, hidden);
  const auto near = [](const Tensor& a, const Tensor& b, const std::string& name) {
    EXPECT_TRUE(torch::allclose(a.to(torch::kDouble), b, 1e-4, 1e-5)) << name << "\n" << a << "\n" << b;
  };
  near(got.start_logits, want.start_logits, "start_logits");
  near(got.no_answer_logits, want.no_answer, "no_answer_logits");
  near(got.loss, want.loss, "loss");
  got.loss.backward();
  want.loss.backward();
  near(hidden.grad(), exact.grad(), "hidden");
  EXPECT_GT(hidden.grad().abs().max().item<double>(), 0.01);
  for (const auto& [name, number] : numbers) near(parameters_.Get(name).grad(), number.grad(), name);
  EXPECT_EQ(got.beams.empty(), GetParam()) << "training has no use for them";
}

TEST_P(ConditionalAnswersTest, LabelsHaveToFitTheBatch) {
  PackedBatch batch = Batch();
  batch.labels.end_positions.pop_back();
  EXPECT_THAT(ErrorOf([&] {
                Run(batch, torch::zeros({batch.tokens.size(), kHidden}));
              }),
              HasSubstr("4 starts and 3 ends of answers for 4 sequences"));
}

class ConditionalBeamTest : public ConditionalAnswersTest {};
INSTANTIATE_TEST_SUITE_P(WithoutDropout, ConditionalBeamTest, ::testing::Values(false));

TEST_P(ConditionalBeamTest, HasTheBestStartsAndTheBestEndsOfEach) {
  PackedBatch batch = Batch();
  batch.labels = {};
  const Tensor hidden = torch::randn({batch.tokens.size(), kHidden});
  const Oracle want =
      Compute(batch, InDouble(), hidden.to(torch::kDouble), torch::ones({batch.sequences(), kHidden}, torch::kDouble));
  for (const bool gradients : {true, false}) {
    const torch::AutoGradMode mode(gradients);
    const ModelOutput got = Run(batch, hidden);
    ASSERT_EQ(got.beams.size(), 4U);
    EXPECT_FALSE(got.loss.defined());
    const std::vector<size_t> contexts{9, 1, 3, 14};
    for (int b = 0; b < 4; ++b) {
      const int32_t begin = batch.tokens.cu_seqlens[b], end = batch.tokens.cu_seqlens[b + 1];
      const size_t allowed = contexts[b] + 1, few = std::min<size_t>(5, allowed);
      const AnswerBeam& beam = got.beams[b];
      EXPECT_NEAR(beam.no_answer, want.no_answer[b].item<double>(), 1e-5);
      ASSERT_EQ(beam.spans.size(), few * few);
      const Tensor starts = torch::log_softmax(want.start_logits.slice(0, begin, end), 0);
      const Tensor best = std::get<1>(starts.topk(static_cast<int64_t>(few)));
      for (size_t s = 0; s < few; ++s) {
        const int64_t start = best[static_cast<int64_t>(s)].item<int64_t>();
        const Tensor ends = want.ends(b, start);
        const Tensor best_ends = std::get<1>(ends.topk(static_cast<int64_t>(few)));
        if (s == 0) {
          const Tensor of_best = torch::log_softmax(got.end_logits.slice(0, begin, end).to(torch::kDouble), 0);
          EXPECT_TRUE(torch::allclose(of_best, ends, 1e-4, 1e-5));
        }
        for (size_t e = 0; e < few; ++e) {
          const AnswerBeam::Span& span = beam.spans[s * few + e];
          EXPECT_EQ(span.start, start);
          EXPECT_EQ(span.end, best_ends[static_cast<int64_t>(e)].item<int64_t>());
          EXPECT_NEAR(span.start_score, starts[start].item<double>(), 1e-5);
          EXPECT_NEAR(span.end_score, ends[span.end].item<double>(), 1e-5);
        }
      }
    }
  }
}

TEST_P(ConditionalBeamTest, ASequenceIsAloneInItsBatchBitForBit) {
  PackedBatch batch = Batch();
  batch.labels = {};
  const Tensor hidden = torch::randn({batch.tokens.size(), kHidden});
  const torch::NoGradGuard no_grad;
  const ModelOutput together = Run(batch, hidden);
  const std::pair<int, int> sizes[] = {{3, 9}, {1, 1}, {2, 3}, {4, 14}};
  for (int b = 0; b < 4; ++b) {
    PackedBatch one;
    AddSequence(one, sizes[b].first, sizes[b].second);
    const int32_t begin = batch.tokens.cu_seqlens[b], end = batch.tokens.cu_seqlens[b + 1];
    const ModelOutput alone = Run(one, hidden.slice(0, begin, end));
    EXPECT_TRUE(torch::equal(alone.start_logits, together.start_logits.slice(0, begin, end)));
    EXPECT_TRUE(torch::equal(alone.end_logits, together.end_logits.slice(0, begin, end)));
    EXPECT_TRUE(torch::equal(alone.no_answer_logits[0], together.no_answer_logits[b]));
    for (size_t i = 0; i < together.beams[b].spans.size(); ++i)
      EXPECT_EQ(alone.beams[0].spans[i].score(), together.beams[b].spans[i].score());
  }
}

TEST_P(ConditionalBeamTest, OfNumbersThatAreNotFiniteIsNotFinite) {
  PackedBatch batch = Batch();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Tensor hidden = torch::randn({batch.tokens.size(), kHidden});
    hidden[batch.tokens.cu_seqlens[2] + 5] = bad;
    const torch::NoGradGuard no_grad;
    const ModelOutput output = Run(batch, hidden);
    EXPECT_TRUE(AllFinite(output.beams[1]));
    EXPECT_FALSE(AllFinite(output.beams[2]));
    EXPECT_TRUE(AllFinite(output.beams[3]));
  }
}

// Two wide, so that every number can be worked out: s_t = a_t, and the LayerNorm of (v, 0) is (±1, ∓1) by v's sign.
TEST(ConditionalAnswers, LossByHand) {
  ModelConfig config = Config(2);
  ParameterMap parameters;
  parameters["start_logits.dense.weight"] = torch::tensor({{1.0F, 0.0F}});
  parameters["end_logits.dense_0.weight"] = torch::tensor({{1.0F, 0.0F, 1.0F, 0.0F}, {0.0F, 0.0F, 0.0F, 0.0F}});
  parameters["end_logits.LayerNorm.weight"] = torch::ones({2});
  parameters["end_logits.dense_1.weight"] = torch::tensor({{1.0F, 0.0F}});
  parameters["answer_class.dense_0.weight"] = torch::tensor({{1.0F, 0.0F, 0.5F, 0.0F}, {0.0F, 0.0F, 0.0F, 0.0F}});
  parameters["answer_class.dense_1.weight"] = torch::tensor({{2.0F, 0.0F}});
  for (const char* name : {"start_logits.dense", "end_logits.dense_1"})
    parameters[name + std::string(".bias")] = torch::zeros({1});
  for (const char* name : {"end_logits.dense_0", "end_logits.LayerNorm", "answer_class.dense_0"})
    parameters[name + std::string(".bias")] = torch::zeros({2});
  PackedBatch batch;
  AddSequence(batch, 1, 2), AddSequence(batch, 1, 2);
  batch.labels.start_positions = {3, 0}, batch.labels.end_positions = {4, 0};
  // a of [CLS], question, [SEP], two words, [SEP]; those that are neither start nor end would be the likeliest.
  const std::vector<float> a{-3, 9, 9, 1, 2, 9};
  Tensor hidden = torch::zeros({12, 2});
  for (int64_t t = 0; t < 12; ++t) hidden[t][0] = a[static_cast<size_t>(t) % 6];
  ModelOutput output;
  output.last_hidden_state = hidden;
  ConditionalAnswers(parameters, config, 0)(batch, ForwardContext(batch.tokens, {}), output);

  const double sum = std::exp(-3) + std::exp(1) + std::exp(2), e = std::exp(1);
  const double mean = (-3 * std::exp(-3) + 1 * std::exp(1) + 2 * std::exp(2)) / sum;
  const double z = 2 * std::tanh(mean - 1.5);
  // From the first word: −1 for [CLS], 1 for the words. From [CLS]: −1 for all three.
  const double found = 0.5 * (std::log(sum) - 1 + std::log(1 / e + 2 * e) - 1) + 0.5 * std::log1p(std::exp(z));
  const double none = 0.5 * (std::log(sum) + 3 + std::log(3)) + 0.5 * std::log1p(std::exp(-z));
  EXPECT_NEAR(output.loss.item<double>(), (found + none) / 2, 1e-5);
  EXPECT_NEAR(output.no_answer_logits[0].item<double>(), z, 1e-5);
  EXPECT_EQ(output.start_logits[1].item<float>(), -1e30F);
}

TEST(ConditionalAnswers, OfAModelAreReadBack) {
  const TempFolder folder;
  const ModelPtr model = CreateModel(Config(), Task::kQuestionAnswering, 3);
  SaveModel(*model, folder.path());
  EXPECT_EQ(ToJson(model->config())["question_answering_head"], "conditional");
  const ModelPtr read = LoadModel(folder.path(), Task::kQuestionAnswering, 0, /*require_head=*/true);
  const torch::NoGradGuard no_grad;
  const ModelOutput want = model->Forward(Batch(), {}), got = read->Forward(Batch(), {});
  EXPECT_TRUE(torch::equal(got.loss, want.loss));
  EXPECT_TRUE(torch::equal(got.end_logits, want.end_logits));
  EXPECT_TRUE(torch::equal(got.no_answer_logits, want.no_answer_logits));
  ASSERT_EQ(got.terms.size(), 1U);
  EXPECT_TRUE(torch::equal(got.terms[0], got.loss));
}

TEST(ConditionalAnswers, ReplaceHfsHeadOnRequestAlone) {
  const TempFolder folder;
  ModelConfig config = Config();
  config.own<AlbertConfig>().question_answering_head = AnswerHead::kSpan;
  EXPECT_FALSE(ToJson(config).contains("question_answering_head"));
  const ModelPtr spans = CreateModel(config, Task::kQuestionAnswering, 3);
  const auto names = [](const Model& model) {
    std::set<std::string> set;
    for (const auto& [name, parameter] : model.NamedParameters()) set.insert(name);
    return set;
  };
  EXPECT_TRUE(names(*spans).contains("qa_outputs.weight"));
  SaveModel(*spans, folder.path());
  const auto ask = [](ModelConfig& read) {
    read.own<AlbertConfig>().question_answering_head = AnswerHead::kConditional;
  };
  EXPECT_THAT(ErrorOf([&] { LoadModel(folder.path(), Task::kQuestionAnswering, 0, /*require_head=*/true, ask); }),
              HasSubstr("it has no head for the task, no tensor \"start_logits.dense.weight\""));
  const ModelPtr drawn = LoadModel(folder.path(), Task::kQuestionAnswering, 5, /*require_head=*/false, ask);
  EXPECT_FALSE(names(*drawn).contains("qa_outputs.weight"));
  EXPECT_TRUE(names(*drawn).contains("answer_class.dense_1.weight"));
  EXPECT_FALSE(names(*drawn).contains("answer_class.dense_1.bias"));
  EXPECT_THAT(ErrorOf([&] { ApplyOverrides(config, "question_answering_head=best", "overrides"); }),
              HasSubstr("\"question_answering_head\""));
}

}  // namespace
}  // namespace lshformer
