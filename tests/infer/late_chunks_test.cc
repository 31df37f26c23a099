// Late chunking against the states of the text, of one pass and of several.
#include "infer/late_chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::HasSubstr;

constexpr const char* kChunkWords = "the of and to in a is that it was for on are . Are";

class LateChunksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ModelConfig config;
    config.hidden_size = 16;
    config.num_hidden_layers = 2;
    config.num_attention_heads = 2;
    config.intermediate_size = 32;
    config.max_position_embeddings = 26;
    config.initializer_range = 0.5;
    config.vocab_size = 0;
    std::string vocabulary;
    std::istringstream words(std::string("[PAD] [UNK] [CLS] [SEP] [MASK] ") + kChunkWords);
    for (std::string word; words >> word; ++config.vocab_size) vocabulary += word + "\n";
    folder_.Write("vocab.txt", vocabulary);
    SaveModel(*CreateModel(config, Task::kEncoder, 3), folder_.path());
  }
  Pipeline Load(Chunking chunking, int64_t chunk_tokens = 4) const {
    PredictOptions options;
    options.task = PredictTask::kFeatureExtraction;
    options.long_text = LongText::kWhole;
    options.chunks = {chunking, chunk_tokens};
    return Pipeline::Load(folder_.path(), "", options);
  }
  static std::vector<ChunkVector> ChunksOf(const Pipeline& pipeline, const std::string& text,
                                           const std::vector<CodePointSpan>& spans = {}) {
    const Outcome<ChunkQuery> query = PrepareChunks(pipeline, text, {}, pipeline.options().chunks, spans);
    EXPECT_EQ(query.error, "");
    const auto outcomes = RunChunks(pipeline, {&query.value, 1});
    EXPECT_EQ(outcomes[0].error, "");
    return outcomes[0].value;
  }
  // Of a text that the model reads at once, word by word.
  std::vector<std::vector<float>> StatesOf(const std::string& text) const {
    PredictOptions options;
    options.task = PredictTask::kFeatureExtraction;
    const Pipeline pipeline = Pipeline::Load(folder_.path(), "", options);
    const TextInput input{text};
    const Embedding states = pipeline.Embed({&input, 1}).front().value;
    std::vector<std::vector<float>> rows;
    for (size_t begin = 16; begin + 32 <= states.values.size(); begin += 16)
      rows.emplace_back(states.values.begin() + static_cast<int64_t>(begin),
                        states.values.begin() + static_cast<int64_t>(begin) + 16);
    return rows;
  }
  static void ExpectMean(const std::vector<float>& vector, const std::vector<std::vector<float>>& rows, size_t begin,
                         size_t end) {
    ASSERT_EQ(vector.size(), 16U);
    for (size_t i = 0; i < vector.size(); ++i) {
      double sum = 0;
      for (size_t row = begin; row < end; ++row) sum += rows[row][i];
      EXPECT_NEAR(vector[i], sum / static_cast<double>(end - begin), 1e-5);
    }
  }
  testing::TempFolder folder_;
};

TEST_F(LateChunksTest, AChunkIsTheMeanOfItsOwnTokensOfTheWholeText) {
  const std::string text = "it was the of and to in a is that";
  const std::vector<std::vector<float>> rows = StatesOf(text);
  ASSERT_EQ(rows.size(), 10U);
  const std::vector<ChunkVector> chunks = ChunksOf(Load(Chunking::kTokens), text);
  ASSERT_EQ(chunks.size(), 3U);
  EXPECT_EQ(chunks[0].place, CodePointSpan(0, 13));
  EXPECT_EQ(chunks[1].place, CodePointSpan(14, 25));
  EXPECT_EQ(chunks[2].place, CodePointSpan(26, 33));
  for (size_t i = 0; i < 3; ++i) ExpectMean(chunks[i].values, rows, 4 * i, std::min<size_t>(10, 4 * i + 4));
}

TEST_F(LateChunksTest, SentencesAndSpans) {
  const std::string text = "the of . Are it was .";
  const std::vector<std::vector<float>> rows = StatesOf(text);
  const std::vector<ChunkVector> sentences = ChunksOf(Load(Chunking::kSentences), text);
  ASSERT_EQ(sentences.size(), 2U);
  EXPECT_EQ(sentences[0].place, CodePointSpan(0, 8));
  EXPECT_EQ(sentences[1].place, CodePointSpan(9, 21));
  ExpectMean(sentences[0].values, rows, 0, 3);
  ExpectMean(sentences[1].values, rows, 3, 7);
  const std::vector<ChunkVector> spans = ChunksOf(Load(Chunking::kSpans), text, {{4, 6}, {9, 15}});
  ASSERT_EQ(spans.size(), 2U);
  ExpectMean(spans[0].values, rows, 1, 2);
  ExpectMean(spans[1].values, rows, 3, 5);
}

// A text of three times the model's length: every chunk is there, and a chunk inside a pass has that pass's states.
TEST_F(LateChunksTest, LongTextsAreReadInPassesThatOverlap) {
  std::string text;
  std::vector<std::string> words;
  std::istringstream all(kChunkWords);
  for (std::string word; all >> word;) words.push_back(word);
  for (int i = 0; i < 70; ++i) text += (i > 0 ? " " : "") + words[static_cast<size_t>(i * i + i / 7) % 13];
  const Pipeline pipeline = Load(Chunking::kTokens, 1);
  const Outcome<ChunkQuery> query = PrepareChunks(pipeline, text, {}, pipeline.options().chunks, {});
  ASSERT_GE(query.value.passes.size(), 3U);
  size_t next = 0;
  for (const ChunkQuery::Pass& pass : query.value.passes) {
    EXPECT_EQ(pass.first, next) << "every token counts once";
    EXPECT_LE(pass.text.ids.size(), 26U);
    EXPECT_GE(pass.first, pass.begin);
    EXPECT_LE(pass.last, pass.begin + pass.text.ids.size() - 2);
    next = pass.last;
  }
  // 24 tokens a pass begin at 0, 18, 36 and, the last one as long, 46: each counts up to the middle of what two share.
  std::vector<std::pair<size_t, size_t>> counted;
  for (const ChunkQuery::Pass& pass : query.value.passes) counted.emplace_back(pass.begin, pass.last);
  EXPECT_EQ(counted, (std::vector<std::pair<size_t, size_t>>{{0, 21}, {18, 39}, {36, 53}, {46, 70}}));
  EXPECT_EQ(next, 70U);
  const std::vector<ChunkVector> chunks = ChunksOf(pipeline, text);
  ASSERT_EQ(chunks.size(), 70U);
  for (const ChunkQuery::Pass& pass : query.value.passes) {
    const size_t tokens = pass.text.ids.size() - 2;
    const std::string part =
        text.substr(static_cast<size_t>(chunks[pass.begin].place.first),
                    static_cast<size_t>(chunks[pass.begin + tokens - 1].place.second - chunks[pass.begin].place.first));
    const std::vector<std::vector<float>> rows = StatesOf(part);
    ASSERT_EQ(rows.size(), tokens);
    for (size_t token = pass.first; token < pass.last; ++token)
      ExpectMean(chunks[token].values, rows, token - pass.begin, token - pass.begin + 1);
  }
}

TEST_F(LateChunksTest, SaysWhatIsWrong) {
  const Pipeline spans = Load(Chunking::kSpans);
  const auto error = [&](const std::vector<CodePointSpan>& given) {
    return PrepareChunks(spans, "it was the", {}, spans.options().chunks, given).error;
  };
  EXPECT_THAT(error({{0, 11}}), HasSubstr("\"spans\"[0]: [0, 11] is not inside the text, of 10 code points"));
  EXPECT_THAT(error({{2, 2}}), HasSubstr("is not inside"));
  EXPECT_THAT(error({{0, 4}, {3, 6}}), HasSubstr("\"spans\"[1]: [3, 6] begins before the end of the one before it, 4"));
  EXPECT_THAT(error({{3, 6}, {0, 2}}), HasSubstr("begins before"));
  EXPECT_THAT(error({{2, 3}}), HasSubstr("has no tokens"));
  EXPECT_THAT(PrepareChunks(spans, "", {}, spans.options().chunks, {}).error, HasSubstr("empty"));
  EXPECT_THAT(PrepareChunks(Load(Chunking::kTokens), " ", {}, {Chunking::kTokens}, {}).error,
              HasSubstr("has no tokens"));
  PredictOptions options;
  options.task = PredictTask::kFeatureExtraction;
  options.chunks.chunking = Chunking::kTokens;
  EXPECT_THAT(testing::ErrorOf([&] { Pipeline::Load(folder_.path(), "", options); }),
              HasSubstr("needs long_text whole"));
}

}  // namespace
}  // namespace lshformer
