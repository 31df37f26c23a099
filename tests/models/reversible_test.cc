// Reversible BERT, chunked feed-forward and gradient checkpointing: values, gradients, memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/parallel.h"
#include "base/philox.h"
#include "io/safetensors.h"
#include "models/bert/bert.h"
#include "nn/embeddings.h"
#include "nn/reversible_layer.h"
#include "ops/tensor_memory.h"
#include "ops/threads.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::TempFolder;
using torch::Tensor;

AttentionSpec SpecOf(const std::string& kind) {
  AttentionSpec spec = ParseAttentionSpec(kind, "test");
  if (Is<ReformerAttention>(spec)) spec.kind = ReformerAttention{.rounds = 2, .chunk = 16};
  return spec;
}

constexpr const char* kKinds[] = {"dense", "simhash", "reformer"};

ModelConfig Config(bool reversible, const char* kind = "dense", double dropout = 0.2) {
  ModelConfig config;
  config.vocab_size = 60, config.hidden_size = 32, config.num_hidden_layers = 3, config.num_attention_heads = 2;
  config.intermediate_size = 48, config.max_position_embeddings = 300, config.initializer_range = 0.2;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout;
  config.reversible = reversible;
  config.attention = {SpecOf(kind)};
  return config;
}

PackedBatch MakeBatch(const std::vector<int>& lengths, uint64_t first_id = 0) {
  PackedBatch batch;
  for (size_t s = 0; s < lengths.size(); ++s) {
    PhiloxStream stream(StreamKey(5, 0, 0, 0, Purpose::kSynthetic), first_id + s);
    std::vector<int32_t> ids(lengths[s]);
    for (int32_t& id : ids) id = static_cast<int32_t>(1 + stream.Below(59));
    AppendSequence(batch, ids, {}, first_id + s);
    for (const int32_t id : ids) batch.labels.tokens.push_back(stream.Below(4) == 0 ? id : -100);
  }
  return batch;
}

ForwardOptions Training() {
  ForwardOptions options;
  options.train = true, options.step = 5;
  return options;
}

struct Result {
  float loss = 0;
  Tensor last_hidden_state;
  std::vector<Tensor> gradients;  // undefined where a parameter has none
  AttentionCounts counts;
};

Tensor Gradient(const Tensor& parameter) {
  if (!parameter.grad().defined()) return {};
  return parameter.grad().is_sparse() ? parameter.grad().to_dense() : parameter.grad().clone();
}

Result Step(Model& model, const PackedBatch& batch, ForwardOptions options) {
  Result result;
  options.counts = &result.counts;
  for (const auto& [name, parameter] : model.NamedParameters()) parameter.mutable_grad().reset();
  const ModelOutput output = model.Forward(batch, options);
  output.loss.backward();
  result.loss = output.loss.item<float>();
  result.last_hidden_state = output.last_hidden_state.detach();
  for (const auto& [name, parameter] : model.NamedParameters()) result.gradients.push_back(Gradient(parameter));
  return result;
}

// Weights of the same seed under another config of the same names.
Result StepWith(const ModelConfig& config, const PackedBatch& batch, const ForwardOptions& options) {
  return Step(*CreateModel(config, Task::kMaskedLm, 3), batch, options);
}

double Largest(const Result& result) {
  double largest = 0;
  for (const Tensor& gradient : result.gradients)
    if (gradient.defined()) largest = std::max(largest, gradient.abs().max().item<double>());
  return largest;
}

// Every gradient within `factor` of its own largest value, or 1e-3 · factor of the largest of all: some gradients, such
// as those of key biases, are 0 in exact arithmetic.
void ExpectClose(const Result& got, const Result& want, double factor, const Model& model) {
  const double floor = 1e-3 * Largest(want);
  const auto named = model.NamedParameters();
  for (size_t i = 0; i < want.gradients.size(); ++i) {
    ASSERT_EQ(got.gradients[i].defined(), want.gradients[i].defined()) << named[i].first;
    if (!want.gradients[i].defined()) continue;
    const Tensor difference = got.gradients[i].to(torch::kFloat64) - want.gradients[i].to(torch::kFloat64);
    const double size = std::max(want.gradients[i].abs().max().item<double>(), floor);
    EXPECT_LE(difference.abs().max().item<double>(), factor * size) << named[i].first;
  }
}

// The encoder in torch's own graph: every activation stored, dropout and buckets drawn once. Float32, the same kernels.
Result RunStored(const ModelConfig& config, const PackedBatch& batch) {
  const ModelPtr model = CreateModel(config, Task::kMaskedLm, 3);
  ParameterMap parameters;
  for (const auto& [name, parameter] : model->NamedParameters()) parameters[name] = parameter;
  ForwardContext context(batch.tokens, batch.sequence_ids);
  context.train = true, context.step = context.dropout_step = 5;
  std::vector<ReversibleLayer> layers;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    layers.push_back(ReversibleEncoderLayer(parameters, BertLayerNames(layer, /*reversible=*/true), config,
                                            {static_cast<uint32_t>(layer), layer})(context, context));
  const Embeddings embeddings(parameters, BertForm(config, Task::kMaskedLm).embeddings);
  const LayerNorm norm(parameters, "bert.encoder.LayerNorm", config.layer_norm_eps);
  Result result;
  const Tensor last = norm(RunReversibleReference(embeddings(batch.tokens, context), layers), {}, {});
  result.last_hidden_state = last.detach();
  std::vector<int64_t> rows, labels;
  for (size_t i = 0; i < batch.labels.tokens.size(); ++i)
    if (batch.labels.tokens[i] >= 0) rows.push_back(static_cast<int64_t>(i)), labels.push_back(batch.labels.tokens[i]);
  const auto p = [&](const std::string& name) { return parameters.Get("cls.predictions." + name); };
  const Tensor dense = torch::matmul(last.index_select(0, torch::tensor(rows)), p("transform.dense.weight").t()) +
                       p("transform.dense.bias");
  const Tensor normal =
      DropoutAddLayerNormReference(ApplyReference(UnaryFunction::kGelu, dense), {}, p("transform.LayerNorm.weight"),
                                   p("transform.LayerNorm.bias"), config.layer_norm_eps, {});
  const Tensor logits = torch::matmul(normal, embeddings.words().t()) + p("bias");
  const Tensor loss = torch::cross_entropy_loss(logits, torch::tensor(labels));
  loss.backward();
  result.loss = loss.item<float>();
  for (const auto& [name, parameter] : model->NamedParameters()) result.gradients.push_back(Gradient(parameter));
  return result;
}

// Every attention, dropout of every kind on and off. Encoder values: the same bits. The loss and gradients pass through
// a head of torch's own operations, so they agree as float32 results of 3 layers do; a wrong mask or bucket anywhere
// would be off by a tenth and more.
TEST(ReversibleModelTest, AgreesWithStoredActivations) {
  const PackedBatch batch = MakeBatch({40, 1, 129, 17});
  for (const char* kind : kKinds)
    for (const double dropout : {0.0, 0.2}) {
      SCOPED_TRACE(::testing::Message() << kind << ", dropout " << dropout);
      const ModelConfig config = Config(true, kind, dropout);
      const Result stored = RunStored(config, batch);
      const ModelPtr model = CreateModel(config, Task::kMaskedLm, 3);
      const Result got = Step(*model, batch, Training());
      EXPECT_TRUE(got.last_hidden_state.equal(stored.last_hidden_state));
      EXPECT_NEAR(got.loss, stored.loss, 1e-6 * stored.loss);
      ExpectClose(got, stored, 2e-5, *model);
    }
}

struct ExactModel {
  std::map<std::string, Tensor> parameters;  // float64 leaves
  ModelConfig config;
  const PackedBatch* batch;
  std::shared_ptr<const RowIdentities> rows;

  Tensor operator[](const std::string& name) const { return parameters.at(name); }
  Tensor Norm(const Tensor& x, const std::string& prefix) const {
    return DropoutAddLayerNormReference(x, {}, (*this)[prefix + ".weight"], (*this)[prefix + ".bias"],
                                        config.layer_norm_eps, {});
  }
  Tensor Map(const Tensor& x, const std::string& prefix) const {
    return torch::matmul(x, (*this)[prefix + ".weight"].t()) + (*this)[prefix + ".bias"];
  }
  Tensor Drop(const Tensor& x, uint32_t layer, DropoutSite site) const {
    const uint64_t key = StreamKey(42, 5, layer, static_cast<uint32_t>(site), Purpose::kHiddenDropout);
    return x * DropoutFactorsReference({config.hidden_dropout_prob, key, rows}, x.size(1)).to(torch::kFloat64);
  }
  Tensor Attend(const Tensor& x, const std::string& prefix) const {
    AttentionOptions options;
    options.heads = static_cast<int>(config.num_attention_heads);
    options.sequences = std::make_shared<const PackedSequences>(PackedSequences{batch->tokens.cu_seqlens, {}});
    std::vector<Tensor> parts;
    for (const char* part : {"query", "key", "value"}) parts.push_back(Map(x, prefix + ".attention.self." + part));
    return Map(SelfAttentionReference(torch::cat(parts, 1), options), prefix + ".attention.output.dense");
  }
  Tensor Loss() const {
    const auto ids = [](const std::vector<int32_t>& list) {
      return torch::tensor(std::vector<int64_t>(list.begin(), list.end()), torch::kInt64);
    };
    const std::string embeddings = "bert.embeddings.";
    Tensor x = torch::embedding((*this)[embeddings + "word_embeddings.weight"], ids(batch->tokens.ids), 0) +
               torch::embedding((*this)[embeddings + "position_embeddings.weight"], ids(batch->tokens.positions)) +
               torch::embedding((*this)[embeddings + "token_type_embeddings.weight"], ids(batch->tokens.type_ids));
    x = Drop(Norm(x, embeddings + "LayerNorm"), 0, DropoutSite::kEmbeddings);
    Tensor first = x, second = x;
    for (uint32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      const std::string prefix = fmt::format("bert.encoder.layer.{}", layer);
      first = first +
              Drop(Attend(Norm(second, prefix + ".attention.LayerNorm"), prefix), layer, DropoutSite::kAttentionOutput);
      const Tensor inner = ApplyReference(
          UnaryFunction::kGelu, Map(Norm(first, prefix + ".intermediate.LayerNorm"), prefix + ".intermediate.dense"));
      second = second + Drop(Map(inner, prefix + ".output.dense"), layer, DropoutSite::kFeedForwardOutput);
    }
    const Tensor last = Norm((first + second) / 2, "bert.encoder.LayerNorm");
    const Tensor head = ApplyReference(UnaryFunction::kGelu, Map(last, "cls.predictions.transform.dense"));
    const Tensor logits = torch::matmul(Norm(head, "cls.predictions.transform.LayerNorm"),
                                        (*this)[embeddings + "word_embeddings.weight"].t()) +
                          (*this)["cls.predictions.bias"];
    return torch::cross_entropy_loss(logits, ids(batch->labels.tokens), {}, at::Reduction::Mean, -100);
  }
};

// The equations once more, in double precision and with torch alone: loss and all gradients, as golden_test.cc holds
// the ordinary model to HF's numbers. Hidden dropout is on: its factors are functions of counters.
TEST(ReversibleModelTest, AgreesWithTheEquationsInDouble) {
  ModelConfig config = Config(true);
  config.attention_probs_dropout_prob = 0;
  const PackedBatch batch = MakeBatch({40, 1, 29});
  const ModelPtr model = CreateModel(config, Task::kMaskedLm, 3);
  const Result got = Step(*model, batch, Training());
  ExactModel exact{{}, config, &batch, ForwardContext(batch.tokens, batch.sequence_ids).rows};
  for (const auto& [name, parameter] : model->NamedParameters())
    exact.parameters[name] = parameter.detach().to(torch::kFloat64).requires_grad_(true);
  const Tensor loss = exact.Loss();
  loss.backward();
  EXPECT_NEAR(got.loss, loss.item<double>(), 1e-5 * loss.item<double>());
  Result want;
  for (const auto& [name, parameter] : model->NamedParameters()) {
    want.gradients.push_back(exact.parameters[name].grad());
    EXPECT_TRUE(want.gradients.back().defined()) << name;
  }
  ExpectClose(got, want, 1e-3, *model);
}

TEST(ReversibleModelTest, BatchMatesAndThreadsChangeNoBit) {
  const std::vector<int> lengths{5, 1, 300, 17, 129};
  for (const char* kind : kKinds) {
    ModelConfig config = Config(true, kind);
    config.chunk_size_feed_forward = 50;
    const ModelPtr model = CreateModel(config, Task::kMaskedLm, 3);
    const torch::NoGradGuard no_grad;
    SetAllThreads(1);
    const Tensor all = model->Forward(MakeBatch(lengths), {}).last_hidden_state;
    SetAllThreads(2);
    EXPECT_TRUE(model->Forward(MakeBatch(lengths), {}).last_hidden_state.equal(all));
    int64_t begin = 0;
    for (size_t s = 0; s < lengths.size(); ++s) {
      const Tensor alone = model->Forward(MakeBatch({lengths[s]}, s), {}).last_hidden_state;
      EXPECT_TRUE(alone.equal(all.slice(0, begin, begin + lengths[s]))) << s;
      begin += lengths[s];
    }
  }
  SetAllThreads(HardwareThreads());
}

// What is computed twice is counted and recorded once.
TEST(ReversibleModelTest, CountsAndMapsAreOfTheForwardAlone) {
  const PackedBatch batch = MakeBatch({40, 30});
  for (const bool reversible : {true, false}) {
    ForwardOptions options = Training();
    options.gradient_checkpointing = !reversible;
    options.attentions = options.hidden_states = true;
    AttentionCounts counts, forward_only;
    const ModelPtr model = CreateModel(Config(reversible, "simhash"), Task::kMaskedLm, 3);
    options.counts = &counts;
    const ModelOutput output = model->Forward(batch, options);
    forward_only = counts;
    output.loss.backward();
    EXPECT_GT(counts.pairs_computed, 0);
    EXPECT_EQ(counts.pairs_computed, forward_only.pairs_computed);
    ASSERT_EQ(output.attentions.size(), 3u);
    EXPECT_EQ(output.attentions[2][1].sizes(), (std::vector<int64_t>{2, 30, 30}));
    EXPECT_EQ(output.hidden_states.size(), 4u);
  }
}

// hidden_states: the embeddings, then the mean of the streams; last_hidden_state is the LayerNorm of the last.
TEST(ReversibleModelTest, HiddenStatesAreMeansOfTheStreams) {
  const ModelPtr model = CreateModel(Config(true), Task::kEncoder, 3);
  ForwardOptions options;
  options.hidden_states = true;
  const torch::NoGradGuard no_grad;
  const ModelOutput output = model->Forward(MakeBatch({40, 30}), options);
  ParameterMap parameters;
  for (const auto& [name, parameter] : model->NamedParameters()) parameters[name] = parameter;
  const LayerNorm norm(parameters, "bert.encoder.LayerNorm", model->config().layer_norm_eps);
  ASSERT_EQ(output.hidden_states.size(), 4u);
  EXPECT_TRUE(norm(output.hidden_states[3], {}, {}).equal(output.last_hidden_state));
  EXPECT_FALSE(output.hidden_states[0].equal(output.hidden_states[1]));
}

// Gradient checkpointing and feed-forward in pieces: the same values bit for bit; gradients of checkpointing too, of
// pieces up to the order of sums over tokens.
TEST(RecomputedLayersTest, ChangeNoBit) {
  const PackedBatch batch = MakeBatch({40, 1, 129, 17});
  for (const char* kind : kKinds) {
    SCOPED_TRACE(kind);
    const ModelConfig config = Config(false, kind);
    const ModelPtr model = CreateModel(config, Task::kMaskedLm, 3);
    const Result plain = Step(*model, batch, Training());
    ForwardOptions options = Training();
    options.gradient_checkpointing = true;
    const Result checkpointed = Step(*model, batch, options);
    EXPECT_TRUE(checkpointed.last_hidden_state.equal(plain.last_hidden_state));
    EXPECT_EQ(checkpointed.loss, plain.loss);
    EXPECT_EQ(checkpointed.counts.pairs_computed, plain.counts.pairs_computed);
    for (size_t i = 0; i < plain.gradients.size(); ++i) {
      ASSERT_EQ(checkpointed.gradients[i].defined(), plain.gradients[i].defined());
      if (plain.gradients[i].defined()) {
        EXPECT_TRUE(checkpointed.gradients[i].equal(plain.gradients[i])) << model->NamedParameters()[i].first;
      }
    }
  }
}

TEST(ChunkedFeedForwardTest, ChangesOnlyTheOrderOfSumsOverTokens) {
  const PackedBatch batch = MakeBatch({40, 1, 129, 17});
  for (const bool reversible : {false, true})
    for (const bool checkpointing : {false, true}) {
      if (reversible && checkpointing) continue;  // it does that anyway
      ModelConfig config = Config(reversible);
      const ModelPtr model = CreateModel(config, Task::kMaskedLm, 3);
      const Result whole = Step(*model, batch, Training());
      for (const int64_t chunk : {13, 64, 1000}) {
        SCOPED_TRACE(::testing::Message() << (reversible ? "reversible" : "ordinary") << ", pieces of " << chunk);
        config.chunk_size_feed_forward = chunk;
        ForwardOptions options = Training();
        options.gradient_checkpointing = checkpointing;
        const Result pieces = StepWith(config, batch, options);
        EXPECT_TRUE(pieces.last_hidden_state.equal(whole.last_hidden_state));
        EXPECT_EQ(pieces.loss, whole.loss);
        ExpectClose(pieces, whole, 187 * 0x1p-24 * 2, *model);  // sums over 187 tokens
        const torch::NoGradGuard no_grad;
        const ModelPtr plain = CreateModel(config, Task::kMaskedLm, 3);
        EXPECT_TRUE(plain->Forward(batch, {}).last_hidden_state.equal(model->Forward(batch, {}).last_hidden_state));
      }
    }
}

// Wide enough that weights are small beside activations.
ModelConfig WideBatchConfig(bool reversible, int64_t layers) {
  ModelConfig config = Config(reversible, "reformer", 0.1);
  config.hidden_size = 64, config.intermediate_size = 256, config.num_attention_heads = 4;
  config.num_hidden_layers = layers, config.max_position_embeddings = 1024;
  return config;
}

// Tensors alive at once in a forward and backward, gradients of weights left out: the backward is asked for the
// gradient of one parameter of the embeddings.
int64_t ActivationBytes(const ModelConfig& config, const ForwardOptions& options = Training()) {
  const ModelPtr model = CreateModel(config, Task::kMaskedLm, 3);
  const PackedBatch batch = MakeBatch({1024});
  const Tensor first = model->NamedParameters()[3].second;
  EXPECT_EQ(model->NamedParameters()[3].first, "bert.embeddings.LayerNorm.weight");
  const TensorMemory memory;
  model->Forward(batch, options).loss.backward({}, c10::nullopt, false, std::vector<Tensor>{first});
  return memory.peak();
}

TEST(ActivationMemoryTest, OfReversibleLayersDoesNotGrowWithDepth) {
  const int64_t two = ActivationBytes(WideBatchConfig(true, 2));
  for (const int64_t layers : {6, 12, 24}) {
    const int64_t bytes = ActivationBytes(WideBatchConfig(true, layers));
    EXPECT_LE(bytes, two + two / 100) << layers << " layers";
  }
  const int64_t ordinary = ActivationBytes(WideBatchConfig(false, 2));
  EXPECT_GE(ActivationBytes(WideBatchConfig(false, 24)), 8 * ordinary);
}

TEST(ActivationMemoryTest, AtEightLayersIsAQuarterOrLess) {
  const int64_t ordinary = ActivationBytes(WideBatchConfig(false, 8));
  EXPECT_LE(4 * ActivationBytes(WideBatchConfig(true, 8)), ordinary);
  ModelConfig chunked = WideBatchConfig(true, 8);
  chunked.chunk_size_feed_forward = 256;
  EXPECT_LE(5 * ActivationBytes(chunked), ordinary);
  ForwardOptions checkpointing = Training();
  checkpointing.gradient_checkpointing = true;
  EXPECT_LE(3 * ActivationBytes(WideBatchConfig(false, 8), checkpointing), ordinary);
  chunked.reversible = false;
  EXPECT_LE(3 * ActivationBytes(chunked), 2 * ordinary);
}

TEST(ReversibleModelTest, SavesAndLoads) {
  for (const Task task :
       {Task::kEncoder, Task::kMaskedLm, Task::kPretraining, Task::kSequenceClassification, Task::kQuestionAnswering}) {
    const TempFolder folder;
    ModelConfig config = Config(true);
    config.chunk_size_feed_forward = 7;
    const ModelPtr model = CreateModel(config, task, 3);
    SaveModel(*model, folder / "model");
    const ModelPtr loaded = LoadModel(folder / "model", task, 0, true);
    EXPECT_TRUE(loaded->config().reversible);
    EXPECT_EQ(loaded->config().chunk_size_feed_forward, 7);
    const auto a = model->NamedParameters(), b = loaded->NamedParameters();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].second.equal(b[i].second)) << a[i].first;
  }
}

// No program can take a reversible model's weights for an ordinary one's: the LayerNorms have other names.
TEST(ReversibleModelTest, IsNotTakenForAnOrdinaryModel) {
  const TempFolder folder;
  for (const bool reversible : {true, false})
    SaveModel(*CreateModel(Config(reversible), Task::kMaskedLm, 3), folder / (reversible ? "two" : "one"));
  const auto load = [&](const std::string& name, bool reversible) {
    return ErrorOf([&] {
      LoadModel(folder / name, Task::kMaskedLm, 0, true, [&](ModelConfig& config) { config.reversible = reversible; });
    });
  };
  EXPECT_THAT(load("two", false), HasSubstr("attention.output.LayerNorm.weight\" is missing, expected shape [32]: the "
                                            "weights are those of a reversible model, which config.json does not say"));
  EXPECT_THAT(load("one", true), HasSubstr("attention.LayerNorm.weight\" is missing, expected shape [32]: config.json "
                                           "says \"reversible\", the weights are those of an ordinary model"));
  const SafetensorsFile two(folder / "two/model.safetensors"), one(folder / "one/model.safetensors");
  for (const auto& [name, view] : two.tensors())
    EXPECT_EQ(one.Find(name) == nullptr, name.starts_with("bert.encoder") && name.find("LayerNorm") != name.npos)
        << name;
}

}  // namespace
}  // namespace lshformer
