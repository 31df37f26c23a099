// The layers of models of words against the same formulas in double, written with torch alone: values and gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/philox.h"
#include "nn/bi_lstm.h"
#include "nn/word_embeddings.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using torch::Tensor;

// Parameters of a layer with random numbers, and the same in double.
struct Parameters {
  explicit Parameters(const std::vector<ParameterSpec>& specs) {
    torch::manual_seed(3);
    for (const ParameterSpec& spec : specs) {
      Tensor numbers = torch::randn(spec.shape) * (spec.role.embedding ? 1 : 0.4);
      if (spec.initial == Initial::kNormalPaddingRow) numbers[0].zero_();
      single[spec.name] = numbers.clone().requires_grad_(spec.role.trained);
      exact[spec.name] = numbers.to(torch::kFloat64).requires_grad_(spec.role.trained);
      names.push_back(spec.name);
    }
  }
  ParameterMap single;
  std::map<std::string, Tensor> exact;
  std::vector<std::string> names;
};

// |got − want| ≤ 1e-5 of the largest |want|: rounding of some hundred products of numbers of like size.
void ExpectNearReference(const Tensor& got, const Tensor& want, const std::string& what) {
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  const double bound = 1e-5 * std::max(want.abs().max().item<double>(), 1e-30);
  EXPECT_LE((got.to(torch::kFloat64) - want).abs().max().item<double>(), bound) << what;
}

// Values, and the gradients of Σ value · g for a random g.
void ExpectSame(const Tensor& got, const Tensor& want, const Parameters& parameters) {
  ExpectNearReference(got, want, "value");
  const Tensor g = torch::randn(want.sizes());
  (got * g).sum().backward();
  (want * g.to(torch::kFloat64)).sum().backward();
  for (const std::string& name : parameters.names) {
    const Tensor single = parameters.single.Get(name).grad(), exact = parameters.exact.at(name).grad();
    ASSERT_EQ(single.defined(), exact.defined()) << name;
    if (single.defined()) ExpectNearReference(single.is_sparse() ? single.to_dense() : single, exact, name);
  }
}

Tensor Map(const Parameters& parameters, const std::string& prefix, const Tensor& x) {
  const auto bias = parameters.exact.find(prefix + ".bias");
  const Tensor y = x.matmul(parameters.exact.at(prefix + ".weight").t());
  return bias == parameters.exact.end() ? y : y + bias->second;
}

Tensor HighwayInDouble(const Parameters& parameters, const std::string& prefix, Tensor x, bool relu) {
  for (const char* layer : {".0", ".1"}) {
    const Tensor t = Map(parameters, prefix + layer + ".transform", x);
    const Tensor gate = torch::sigmoid(Map(parameters, prefix + layer + ".gate", x));
    x = gate * (relu ? torch::relu(t) : t) + (1 - gate) * x;
  }
  return x;
}

// Words of 1, 2, 11 to 13 and 16 characters, unknown ones among them, and texts of them.
PackedBatch Batch() {
  PackedBatch batch;
  batch.further_streams.resize(3);
  PhiloxStream stream(StreamKey(1, 0, 0, 0, Purpose::kSynthetic));
  const std::vector<int> lengths{1, 2, 16, 11, 12, 13, 5, 2};
  for (const int length : lengths) {
    std::vector<int32_t> characters;
    for (int i = 0; i < length; ++i) characters.push_back(static_cast<int32_t>(1 + stream.Below(11)));
    AppendSequence(batch.further_streams[2], characters);
  }
  AppendSequence(batch.further_streams[1], {1, 1, 7, 3, 8, 2, 9, 1});
  AppendSequence(batch, {0, 3, 3, 1}, {}, 20);
  AppendSequence(batch, {0, 6}, {}, 21);
  AppendSequence(batch.further_streams[0], {0, 7});
  AppendSequence(batch.further_streams[0], {0, 2, 4, 5});
  return batch;
}

TEST(HighwayTest, IsTheFormula) {
  for (const bool relu : {true, false}) {
    HighwayShape shape{.width = 13};
    if (!relu) shape.function.reset();
    std::vector<ParameterSpec> specs;
    Highway::AppendSpecs(specs, "highway", shape, "embeddings", "");
    const Parameters parameters(specs);
    const Tensor x = torch::randn({9, 13});
    const PackedBatch batch = Batch();
    ExpectSame(Highway(parameters.single, "highway", shape)(x, ForwardContext(batch.tokens, {})),
               HighwayInDouble(parameters, "highway", x.to(torch::kFloat64), relu), parameters);
  }
}

constexpr CharacterCnnShape kCharacters{.characters = 12, .width = 6, .filters = 7};

Tensor CharacterVectorsInDouble(const Parameters& parameters, const TokenStream& stream) {
  const auto p = [&](const char* name) { return parameters.exact.at(std::string("embeddings.character_") + name); };
  Tensor ids = torch::zeros({stream.sequences(), kMostCharacters}, torch::kInt64);
  for (int w = 0; w < stream.sequences(); ++w)
    for (int32_t c = stream.cu_seqlens[w]; c < stream.cu_seqlens[w + 1]; ++c)
      ids[w][c - stream.cu_seqlens[w]] = stream.ids[c];
  const Tensor padded = torch::embedding(p("embeddings.weight"), ids, /*padding_idx=*/0).transpose(1, 2);  // [W, e, 16]
  const Tensor kernel =
      p("convolution.weight").view({kCharacters.filters, kCharacterWindow, kCharacters.width}).transpose(1, 2);
  return torch::relu(torch::conv1d(padded, kernel, p("convolution.bias"))).amax(2);
}

// A convolution over words that are all filled up to 16 characters.
TEST(CharacterCnnTest, HasThePaddedMaximum) {
  std::vector<ParameterSpec> specs;
  CharacterCnn::AppendSpecs(specs, "embeddings", kCharacters);
  const Parameters parameters(specs);
  const PackedBatch batch = Batch();
  const WordStreams streams(batch);
  const CharacterCnn cnn(parameters.single, "embeddings", kCharacters);
  ExpectSame(cnn(streams.characters, ForwardContext(streams.words, {})),
             CharacterVectorsInDouble(parameters, streams.characters), parameters);
  EXPECT_EQ(
      parameters.single.Get("embeddings.character_embeddings.weight").grad().to_dense()[0].abs().max().item<float>(), 0)
      << "the padding has a gradient";
}

WordEmbeddingsShape Shape(bool fixed, bool characters, bool map) {
  WordEmbeddingsShape shape{.words = 10, .width = 8, .words_config = {}};
  if (map) shape.map = 5;
  shape.words_config.fixed_word_embeddings = fixed;
  shape.words_config.character_vocab_size = kCharacters.characters;
  shape.words_config.character_embedding_size = kCharacters.width;
  shape.words_config.character_filters = characters ? kCharacters.filters : 0;
  return shape;
}

TEST(WordEmbeddingsTest, AreTheFormula) {
  for (const auto& [fixed, characters, map] :
       {std::tuple(true, true, true), {false, true, false}, {true, false, true}}) {
    SCOPED_TRACE(fmt::format("fixed {}, characters {}, map {}", fixed, characters, map));
    const WordEmbeddingsShape shape = Shape(fixed, characters, map);
    std::vector<ParameterSpec> specs;
    WordEmbeddings::AppendSpecs(specs, shape);
    const Parameters parameters(specs);
    const PackedBatch batch = Batch();
    const WordStreams streams(batch);
    const ForwardContext context = ContextOfWords(streams, ForwardContext(batch.tokens, {}));
    const Tensor got = WordEmbeddings(parameters.single, shape)(streams, context);
    std::vector<Tensor> rows;
    const Tensor table = parameters.exact.at(std::string(kWordTable));
    for (const int32_t id : streams.words.ids)
      rows.push_back(fixed && id == 1 ? parameters.exact.at("embeddings.unknown_word.weight")[0] : table[id]);
    Tensor x = torch::stack(rows);
    if (characters) x = torch::cat({x, CharacterVectorsInDouble(parameters, streams.characters)}, 1);
    if (map) x = Map(parameters, "embeddings.map", x);
    ExpectSame(got, HighwayInDouble(parameters, "embeddings.highway", x, true), parameters);
    for (const ParameterSpec& spec : specs) EXPECT_EQ(spec.role.trained, spec.name != kWordTable || !fixed);
  }
}

// In training too a word's vector is its own: the mask is that of its id and letters, wherever it stands.
TEST(WordEmbeddingsTest, AWordsDropoutIsItsOwn) {
  WordEmbeddingsShape shape = Shape(false, true, true);
  shape.words_config.word_dropout = shape.words_config.character_dropout = shape.highway.dropout = 0.4;
  std::vector<ParameterSpec> specs;
  WordEmbeddings::AppendSpecs(specs, shape);
  const Parameters parameters(specs);
  const WordEmbeddings embeddings(parameters.single, shape);
  const auto vectors = [&](const PackedBatch& batch, bool train, uint64_t step) {
    const WordStreams streams(batch);
    ForwardContext context(batch.tokens, {});
    context.train = train, context.dropout_step = step;
    return embeddings(streams, ContextOfWords(streams, context));
  };
  const PackedBatch batch = Batch();
  PackedBatch other = batch;  // its words 7 and 2 alone, and in this order
  other.further_streams[1] = other.further_streams[2] = {};
  AppendSequence(other.further_streams[1], {1, 7});
  for (const int w : {7, 2}) {
    const TokenStream& from = batch.further_streams[2];
    AppendSequence(other.further_streams[2],
                   {from.ids.begin() + from.cu_seqlens[w], from.ids.begin() + from.cu_seqlens[w + 1]});
  }
  const Tensor all = vectors(batch, true, 4), some = vectors(other, true, 4);
  EXPECT_TRUE(torch::equal(all[7], some[0]));
  EXPECT_TRUE(torch::equal(all[2], some[1]));
  EXPECT_FALSE(torch::equal(all, vectors(batch, true, 5)));
  EXPECT_FALSE(torch::equal(all, vectors(batch, false, 4)));
  EXPECT_FALSE(torch::equal(all[0], all[7])) << "two unknown words of other letters";
}

TEST(ContextsAndQuestionsTest, AreOneStreamOfTwiceAsManySequences) {
  const PackedBatch batch = Batch();
  const ForwardContext context(batch.tokens, batch.sequence_ids);
  const ContextsAndQuestions both(WordStreams(batch), context);
  EXPECT_THAT(both.stream.ids, ElementsAre(0, 3, 3, 1, 0, 6, 0, 7, 0, 2, 4, 5));
  EXPECT_THAT(both.stream.positions, ElementsAre(0, 1, 2, 3, 0, 1, 0, 1, 0, 1, 2, 3));
  EXPECT_THAT(both.stream.cu_seqlens, ElementsAre(0, 4, 6, 8, 12));
  EXPECT_THAT(both.sequence_ids, ElementsAre(20, 21, 20 | uint64_t{1} << 63, 21 | uint64_t{1} << 63));
  EXPECT_THAT(context.Over(both.stream, both.sequence_ids).sequences->ids, both.sequence_ids);
}

// The names are torch's, so that its LSTM takes the tensors as they are.
TEST(BiLstmLayerTest, IsTorchsLstm) {
  for (const bool second : {false, true}) {
    const BiLstmShape shape{.input = 6, .hidden = 5, .second_bias = second};
    std::vector<ParameterSpec> specs;
    BiLstmLayer::AppendSpecs(specs, "lstm", shape, "encoder", "");
    const Parameters parameters(specs);
    EXPECT_EQ(specs.size(), second ? 8u : 6u);
    const Tensor x = torch::randn({7, 6});
    std::vector<Tensor> torchs;  // in the order of torch.nn.LSTM
    for (const char* direction : {"", "_reverse"})
      for (const char* part : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
        const auto own = parameters.exact.find(fmt::format("lstm.{}_l0{}", part, direction));
        torchs.push_back(own == parameters.exact.end() ? torch::zeros({20}, torch::kFloat64) : own->second);
      }
    const Tensor zero = torch::zeros({2, 1, 5}, torch::kFloat64);
    const Tensor want = std::get<0>(
        torch::lstm(x.to(torch::kFloat64).unsqueeze(1), {zero, zero}, torchs, true, 1, 0, false, true, false));
    ExpectSame(BiLstmLayer(parameters.single, "lstm", shape)(x, {0, 7}), want.squeeze(1), parameters);
  }
}

}  // namespace
}  // namespace lshformer
