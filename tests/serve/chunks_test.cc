// Vectors of a text's parts, over a model whose states can be worked out by hand (infer/fake_model.h): hidden[t][h] is
// the token's number and h / 10.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/json.h"
#include "serve/asked_service.h"

namespace lshformer {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TestService;

// the 5, cat 6, sat 8, on 9, a 10, mat 11
void ExpectVector(const Json& vector, double first) {
  ASSERT_EQ(vector.size(), 4U);
  for (size_t h = 0; h < 4; ++h) EXPECT_NEAR(vector[h].get<double>(), first + 0.1 * static_cast<double>(h), 1e-6);
}

TEST(ServedChunksTest, AChunkIsTheMeanOfItsOwnTokens) {
  TestService test(PredictTask::kFeatureExtraction);
  const Json answer =
      test.Answer("/embed_chunks",
                  R"({"inputs": "the cat sat on a mat", "chunking": "tokens", "chunk_tokens": 4, "normalize": false})");
  ASSERT_EQ(answer.size(), 1U);
  ASSERT_EQ(answer[0].size(), 2U);
  EXPECT_EQ(answer[0][0]["start"], 0);
  EXPECT_EQ(answer[0][0]["end"], 14);
  ExpectVector(answer[0][0]["embedding"], (5 + 6 + 8 + 9) / 4.0);
  EXPECT_EQ(answer[0][1]["start"], 15);
  ExpectVector(answer[0][1]["embedding"], (10 + 11) / 2.0);
}

TEST(ServedChunksTest, SentencesAndSpansOfSeveralTexts) {
  TestService test(PredictTask::kFeatureExtraction);
  const Json sentences =
      test.Answer("/embed_chunks", R"({"inputs": ["The cat sat. A mat sat.", "on"], "chunking": "sentences"})");
  ASSERT_EQ(sentences.size(), 2U);
  EXPECT_EQ(sentences[0].size(), 2U);
  EXPECT_EQ(sentences[0][1]["start"], 13);
  EXPECT_EQ(sentences[1].size(), 1U);
  const Json spans = test.Answer("/embed_chunks", R"({"inputs": ["the cat sat", "on a mat"], "normalize": false,
      "spans": [[[0, 3], [4, 11]], [[3, 4]]]})");
  ExpectVector(spans[0][0]["embedding"], 5);
  ExpectVector(spans[0][1]["embedding"], 7);
  ExpectVector(spans[1][0]["embedding"], 10);
  EXPECT_EQ(test.Answer("/embed_chunks", R"({"inputs": "the cat sat", "spans": [[0, 3]]})")[0].size(), 1U);
}

// Numbers are cut before they get their length, as of /embed.
TEST(ServedChunksTest, VectorsHaveLengthAndDimensionsAsOfOtherTexts) {
  TestService test(PredictTask::kFeatureExtraction);
  const Json cut = test.Answer("/embed_chunks", R"({"inputs": "the cat", "dimensions": 2})")[0][0]["embedding"];
  ASSERT_EQ(cut.size(), 2U);
  EXPECT_NEAR(std::hypot(cut[0].get<double>(), cut[1].get<double>()), 1, 1e-6);
  EXPECT_NEAR(cut[1].get<double>() / cut[0].get<double>(), 5.6 / 5.5, 1e-5);
}

// Of 16 positions.
TEST(ServedChunksTest, LongTextsAreReadInPasses) {
  TestService test(PredictTask::kFeatureExtraction);
  std::string text = "the";
  for (int i = 1; i < 60; ++i) text += i % 2 == 0 ? " the" : " cat";
  EXPECT_THAT(test.Refusal("/embed", R"({"inputs": ")" + text + R"("})"),
              HasSubstr("has 62 tokens, expected at most 16"));
  const Json chunks =
      test.Answer("/embed_chunks", R"({"inputs": ")" + text + R"(", "chunk_tokens": 1, "normalize": false})")[0];
  ASSERT_EQ(chunks.size(), 60U);
  for (size_t i = 0; i < 60; ++i) ExpectVector(chunks[i]["embedding"], i % 2 == 0 ? 5 : 6);
  // As many parts as a text has: they are one input.
  std::string parts = "\"the\"";
  for (int i = 1; i < 60; ++i) parts += ", \"cat\"";
  EXPECT_EQ(test.Answer("/v1/embeddings", R"({"late_chunking": true, "input": [)" + parts + "]}")["data"].size(), 60U);
}

// The parts are one text, with a space where there is none: what /embed_chunks gives of it.
TEST(ServedChunksTest, LateChunkingReadsTheInputsAsOneText) {
  TestService test(PredictTask::kFeatureExtraction);
  const Json whole =
      test.Answer("/embed_chunks", R"({"inputs": "the cat sat on a mat", "spans": [[0, 7], [8, 12], [12, 20]]})")[0];
  for (const char* path : {"/v1/embeddings", "/embeddings"}) {
    const Json parts = test.Answer(path, R"({"input": ["the cat", "sat ", "on a mat"], "late_chunking": true})");
    ASSERT_EQ(parts["data"].size(), 3U);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(parts["data"][i]["index"], i);
      EXPECT_EQ(parts["data"][i]["embedding"], whole[i]["embedding"]);
    }
    EXPECT_EQ(parts["usage"]["total_tokens"], 8) << "[CLS] the cat sat on a mat [SEP], once";
  }
  const Json alone = test.Answer("/v1/embeddings", R"({"input": ["the cat", "sat "], "late_chunking": false})");
  EXPECT_EQ(alone["usage"]["total_tokens"], 7);
  const Json coded =
      test.Answer("/v1/embeddings", R"({"input": ["the", "cat"], "late_chunking": true, "encoding_format": "base64"})");
  EXPECT_TRUE(coded["data"][1]["embedding"].is_string());
}

TEST(ServedChunksTest, SaysWhatIsWrong) {
  TestService test(PredictTask::kFeatureExtraction);
  for (const auto& [body, error] : std::vector<std::pair<std::string, std::string>>{
           {R"({"inputs": ""})", "400 Empty: \"inputs\" is empty"},
           {R"({"inputs": "\u0001"})", "422 Validation: \"inputs\" has no tokens"},
           {R"({"inputs": [["the", "cat"]]})", "422 Validation: \"inputs\"[0]: expected a text"},
           {R"({"inputs": [5, 6]})", "422 Validation: \"inputs\": expected a text"},
           {R"({"inputs": "the", "chunking": "none"})",
            "422 Validation: \"chunking\": expected tokens or sentences or spans, got \"none\""},
           {R"({"inputs": "the", "chunking": "spans"})", "422 Validation: \"spans\": is missing"},
           {R"({"inputs": "the", "chunking": "tokens", "spans": [[0, 1]]})",
            "422 Validation: \"spans\": is for \"chunking\" spans"},
           {R"({"inputs": "the", "chunking": "sentences", "chunk_tokens": 5})",
            "422 Validation: \"chunk_tokens\": is for \"chunking\" tokens"},
           {R"({"inputs": "the", "chunk_tokens": 0})", "422 Validation: \"chunk_tokens\": expected"},
           {R"({"inputs": "the", "spans": [[0, 9]]})",
            "422 Validation: \"inputs\": \"spans\"[0]: [0, 9] is not inside the text, of 3 code points"},
           {R"({"inputs": ["the", "cat"], "spans": [[[0, 1]]]})",
            "422 Validation: \"spans\": expected a list for each of 2 inputs"},
           {R"({"inputs": ["the", "cat"], "spans": [[[0, 1]], [[0, 1], [2]]]})",
            "422 Validation: \"spans\"[1][1]: expected [start, end], got a list of 1 value"},
           {R"({"inputs": "the", "spans": []})", "400 Empty: \"spans\" is empty"},
           {R"({"inputs": "the", "dimensions": 5})", "422 Validation: \"dimensions\": expected at most 4, got 5"},
           {R"({"inputs": "the", "prompt_name": "query"})",
            "422 Validation: \"prompt_name\": the model \"fake\" has no prompts, got \"query\""}})
    EXPECT_THAT(test.Refusal("/embed_chunks", body), StartsWith(error)) << body;
  const auto openai = [&](const std::string& body) {
    return ParseJson(test.Post("/v1/embeddings", body).body, "error")["message"].get<std::string>();
  };
  EXPECT_THAT(openai(R"({"input": ["the", " "], "late_chunking": true})"), HasSubstr("\"input\"[1] has no tokens"));
  EXPECT_THAT(openai(R"({"input": ["the", ""], "late_chunking": true})"), HasSubstr("\"input\"[1] is empty"));
  EXPECT_THAT(openai(R"({"input": ["the", [5]], "late_chunking": true})"), HasSubstr("\"input\"[1]: expected a text"));
  EXPECT_THAT(openai(R"({"input": "the", "late_chunking": 1})"),
              HasSubstr("\"late_chunking\": expected true or false"));
  TestService labels(PredictTask::kTextClassification);
  EXPECT_THAT(labels.Refusal("/embed_chunks", R"({"inputs": "the"})"), StartsWith("424 Backend: "));
}

}  // namespace
}  // namespace lshformer
