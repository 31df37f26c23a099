// Requests to answers, over a model whose outputs can be worked out by hand (infer/fake_model.h).
#include "serve/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "serve/asked_service.h"
#include "text/base64.h"

namespace lshformer {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using testing::FakeSetup;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::TestService;

std::string HeaderOf(const HttpResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers)
    if (key == name) return value;
  return "";
}

// hidden[t][h] = id + h / 10: the mean over [CLS] the [SEP] (2 5 3) is 10/3 + h / 10.
TEST(ServiceTest, EmbeddingsAreListsOfVectors) {
  TestService test(PredictTask::kFeatureExtraction);
  const Json answer = test.Answer("/embed", R"({"inputs": "the", "normalize": false})");
  ASSERT_EQ(answer.size(), 1U);
  ASSERT_EQ(answer[0].size(), 4U);
  for (size_t h = 0; h < 4; ++h) EXPECT_NEAR(answer[0][h].get<double>(), 10.0 / 3 + 0.1 * static_cast<double>(h), 1e-6);
  const Json unit = test.Answer("/embed", R"({"inputs": ["the", "cat"], "dimensions": 2})");
  ASSERT_EQ(unit[1].size(), 2U);
  EXPECT_NEAR(std::hypot(unit[1][0].get<double>(), unit[1][1].get<double>()), 1, 1e-6);
  // Numbers are cut before they get their length.
  EXPECT_NEAR(unit[0][1].get<double>() / unit[0][0].get<double>(), (10.0 / 3 + 0.1) / (10.0 / 3), 1e-5);
  const Json tokens = test.Answer("/embed_all", R"({"inputs": ["the", "the cat"]})");
  EXPECT_EQ(tokens[0].size(), 3U);
  EXPECT_EQ(tokens[1].size(), 4U);
  EXPECT_EQ(tokens[1][2][0], 6.0);
}

TEST(ServiceTest, TokensAreTheirTexts) {
  TestService test(PredictTask::kFeatureExtraction);
  const Json text = test.Answer("/embed", R"({"inputs": "the cat"})");
  EXPECT_EQ(test.Answer("/embed", R"({"inputs": [5, 6]})"), text);
  EXPECT_EQ(test.Answer("/embed", R"({"inputs": [2, 5, 6, 3]})"), text);
  EXPECT_THAT(test.Refusal("/embed", R"({"inputs": [5, 13]})"),
              StartsWith("422 Validation: \"inputs\"[1]: expected a token below 13, got 13"));
}

TEST(ServiceTest, OpenAisShape) {
  TestService test(PredictTask::kFeatureExtraction);
  const Json floats = test.Answer("/v1/embeddings", R"({"input": ["the", "cat sat"], "model": "any"})");
  EXPECT_EQ(floats["object"], "list");
  EXPECT_EQ(floats["model"], "fake");
  EXPECT_EQ(floats["data"][1]["index"], 1);
  EXPECT_EQ(floats["usage"]["prompt_tokens"], 7);
  const Json coded = test.Answer("/embeddings", R"({"input": "cat sat", "encoding_format": "base64"})");
  const std::string bytes = DecodeBase64(coded["data"][0]["embedding"].get<std::string>()).value();
  ASSERT_EQ(bytes.size(), 16U);
  float numbers[4];
  std::memcpy(numbers, bytes.data(), sizeof(numbers));
  for (size_t h = 0; h < 4; ++h) EXPECT_EQ(numbers[h], floats["data"][1]["embedding"][h].get<float>());
  const HttpResponse wrong = test.Post("/v1/embeddings", R"({"input": []})");
  EXPECT_EQ(wrong.body, R"({"message":"\"input\" is empty","code":400,"type":"Empty"})");
  EXPECT_EQ(ParseJson(test.Ask("GET", "/v1/models").body, "models")["data"][0]["id"], "fake");
}

TEST(ServiceTest, SimilarityIsCosines) {
  TestService test(PredictTask::kFeatureExtraction);
  const Json answer =
      test.Answer("/similarity", R"({"inputs": {"source_sentence": "the cat", "sentences": ["the cat", "a mat ."]}})");
  ASSERT_EQ(answer.size(), 2U);
  EXPECT_NEAR(answer[0].get<double>(), 1, 1e-6);
  EXPECT_LT(answer[1].get<double>(), 1);
  EXPECT_EQ(test.Answer("/", R"({"inputs": {"source_sentence": "the cat", "sentences": ["the cat", "a mat ."]}})"),
            answer);
}

TEST(ServiceTest, LongTextsAreCutOnlyWhereThatIsAsked) {
  TestService test(PredictTask::kFeatureExtraction);
  const std::string body =
      R"({"inputs": ["the cat sat", "the cat sat on a mat the cat sat on a mat the cat sat on a mat"])";
  EXPECT_THAT(test.Refusal("/embed", body + "}"),
              StartsWith("422 Validation: \"inputs\"[1] has 20 tokens, expected at most 16"));
  const HttpResponse cut = test.Post("/embed_all", body + R"(, "truncate": true})");
  EXPECT_EQ(cut.status, 200);
  EXPECT_EQ(HeaderOf(cut, "x-truncated"), "1");
  EXPECT_EQ(HeaderOf(cut, "x-compute-tokens"), "21");
  const Json right = ParseJson(cut.body, "cut"),
             left = test.Answer("/embed_all", body + R"(, "truncate": true, "truncation_direction": "left"})");
  ASSERT_EQ(left[1].size(), 16U);
  EXPECT_EQ(right[1][1][0], 5.0);   // the
  EXPECT_EQ(right[1][15][0], 3.0);  // [SEP]
  EXPECT_EQ(left[1][1][0], 10.0);   // a
  EXPECT_EQ(left[1][14][0], 11.0);  // mat
  EXPECT_EQ(left[1][15][0], 3.0);
  TestService cutting(PredictTask::kFeatureExtraction, {.auto_truncate = true});
  EXPECT_EQ(cutting.Post("/embed", body + "}").status, 200);
  EXPECT_EQ(cutting.Post("/embed", body + R"(, "truncate": false})").status, 422);
}

// logit(label) = label · tokens.
TEST(ServiceTest, LabelsWithScores) {
  TestService test(PredictTask::kTextClassification);
  const Json flat = test.Answer("/predict", R"({"inputs": "the"})");
  EXPECT_EQ(flat[0]["label"], "good");
  EXPECT_NEAR(flat[0]["score"].get<double>(), 1 / (1 + std::exp(-3.0)), 1e-6);
  const Json pair = test.Answer("/predict", R"({"inputs": ["the", "cat"], "raw_scores": true})");
  EXPECT_EQ(pair[0]["score"], 5.0);
  const Json nested = test.Answer("/predict", R"({"inputs": [["the"], ["the", "cat"]], "raw_scores": true})");
  EXPECT_EQ(nested[1], pair);
  EXPECT_EQ(test.Answer("/", R"({"inputs": "the"})"), Json::array({flat}));
  EXPECT_THAT(test.Refusal("/rerank", R"({"query": "the", "texts": ["cat"]})"), StartsWith("424 Backend: "));
  EXPECT_THAT(test.Refusal("/embed", R"({"inputs": "the"})"),
              StartsWith("424 Backend: the model \"fake\" is for text-classification, not for feature-extraction"));
}

// The words of Hugging Face's clients, in "parameters" at the bare address, beside TEI's.
TEST(ServiceTest, LabelsAsTheyAreAskedFor) {
  TestService test(PredictTask::kTextClassification);
  const auto scores = [&](const std::string& parameters) {
    const Json answer = test.Answer("/", R"({"inputs": "the", "parameters": {)" + parameters + "}}")[0];
    std::vector<double> values;
    for (const Json& label : answer) values.push_back(label["score"].get<double>());
    return values;
  };
  // logits 0 and 3
  EXPECT_THAT(scores(R"("top_k": 1)"), ElementsAre(DoubleNear(1 / (1 + std::exp(-3.0)), 1e-6)));
  EXPECT_THAT(scores(R"("top_k": 9)"), SizeIs(2));
  EXPECT_THAT(scores(R"("function_to_apply": "none")"), ElementsAre(3, 0));
  EXPECT_THAT(scores(R"("function_to_apply": "sigmoid")"),
              ElementsAre(DoubleNear(1 / (1 + std::exp(-3.0)), 1e-6), 0.5));
  EXPECT_EQ(scores(R"("function_to_apply": "softmax")"), scores(""));
  EXPECT_THAT(test.Answer("/predict", R"({"inputs": "the", "top_k": 1})"), SizeIs(1));
  for (const auto& [parameters, error] : std::vector<std::pair<std::string, std::string>>{
           {R"("top_k": 0)", "\"top_k\": expected"},
           {R"("top_k": "2")", "\"top_k\": expected"},
           {R"("function_to_apply": "tanh")",
            "\"function_to_apply\": expected softmax or sigmoid or none, got \"tanh\""},
           {R"("function_to_apply": "softmax", "raw_scores": true)",
            "\"raw_scores\" and \"function_to_apply\" softmax"}})
    EXPECT_THAT(test.Refusal("/", R"({"inputs": "the", "parameters": {)" + parameters + "}}"),
                StartsWith("422 Validation: " + error));
}

// There a list has several texts, as in Hugging Face's pipelines; at /predict a flat one is a pair, as in TEI.
TEST(ServiceTest, AtTheBareAddressAListHasSeveralTexts) {
  TestService test(PredictTask::kTextClassification);
  const Json one = test.Answer("/", R"({"inputs": "the"})"), other = test.Answer("/", R"({"inputs": "the cat"})");
  EXPECT_EQ(test.Answer("/", R"({"inputs": ["the", "the cat"]})"), Json::array({one[0], other[0]}));
  EXPECT_EQ(test.Answer("/", R"({"inputs": ["the"]})"), one);
  const Json pair = Json::array({test.Answer("/predict", R"({"inputs": ["the", "cat"]})")});
  EXPECT_NE(pair, other);
  EXPECT_EQ(test.Answer("/", R"({"inputs": {"text": "the", "text_pair": "cat"}})"), pair);
  EXPECT_EQ(test.Answer("/", R"({"inputs": [["the", "cat"]]})"), pair);
  EXPECT_EQ(test.Answer("/", R"({"inputs": [{"text": "the"}, {"text": "the", "text_pair": "cat"}]})"),
            Json::array({one[0], pair[0]}));
  EXPECT_THAT(test.Refusal("/", R"({"inputs": [{"text_pair": "cat"}]})"),
              StartsWith("422 Validation: \"inputs\"[0]: \"text\" is missing"));
}

TEST(ServiceTest, MasksAreFilledFromTargets) {
  TestService test(PredictTask::kFillMask);
  const Json all = test.Answer("/fill_mask", R"({"inputs": "The cat [MASK] on", "top_k": 13})");
  const auto score = [&](const std::string& word) {
    for (const Json& one : all)
      if (one["token_str"] == word) return one["score"];
    return Json();
  };
  // Words that the model knows, as it reads them, each once; scores are those among all words.
  const Json some =
      test.Answer("/", R"({"inputs": "The cat [MASK] on", "parameters": {"targets": ["mat", "Cat", "cat"]}})");
  ASSERT_EQ(some.size(), 2U);
  for (const Json& one : some) EXPECT_EQ(one["score"], score(one["token_str"]));
  EXPECT_EQ(test.Answer("/fill_mask", R"({"inputs": "The cat [MASK] on", "targets": "mat", "top_k": 5})").size(), 1U);
  EXPECT_EQ(test.Answer("/", R"({"inputs": "[MASK]", "parameters": {"targets": ["mat", "cat"], "top_k": 1}})").size(),
            1U);
  for (const auto& [targets, error] : std::vector<std::pair<std::string, std::string>>{
           {R"(["mat", "cats"])",
            "422 Validation: \"targets\"[1]: \"cats\" is no token of the model; read as a text it has 2"},
           {R"(["dog"])", "422 Validation: \"targets\"[0]: \"dog\" is no token of the model"},
           {R"([5])", "422 Validation: \"targets\"[0]: expected a text, got 5"},
           {R"({})", "422 Validation: \"targets\": expected a list of words"},
           {R"([])", "400 Empty: \"targets\" is empty"}})
    EXPECT_THAT(test.Refusal("/", R"({"inputs": "[MASK]", "parameters": {"targets": )" + targets + "}}"),
                StartsWith(error));
}

// logit(t) is the token's number: the best answer ends and begins with the largest in reach.
TEST(ServiceTest, QuestionsAsTheyAreAsked) {
  TestService test(PredictTask::kQuestionAnswering);
  const auto ask = [&](const std::string& context, const std::string& parameters) {
    return R"({"inputs": {"question": "the", "context": ")" + context + R"("}, "parameters": {)" + parameters + "}}";
  };
  const std::string context = "mat the cat the mat";
  EXPECT_EQ(test.Answer("/", ask(context, R"("max_answer_len": 1)"))["answer"], "mat");
  EXPECT_EQ(test.Answer("/", ask(context, R"("top_k": 3, "max_answer_len": 1)")).size(), 3U);
  EXPECT_EQ(test.Answer("/", ask("the cats cats", R"("max_answer_len": 1)"))["answer"], "s");
  EXPECT_EQ(test.Answer("/", ask("the cats cats", R"("max_answer_len": 1, "align_to_words": true)"))["answer"], "cats");
  const Json unlikely = test.Answer("/", ask("the", R"("handle_impossible_answer": true, "top_k": 2)"));
  EXPECT_EQ(unlikely.size(), 2U) << "one of them is that there is none";
  // Windows of 7 tokens: the same answer, out of several.
  EXPECT_EQ(test.Answer("/", ask(context, R"("max_seq_len": 7, "doc_stride": 1, "max_answer_len": 1)"))["answer"],
            "mat");
  for (const auto& [parameters, error] : std::vector<std::pair<std::string, std::string>>{
           {R"("max_answer_len": 0)", "\"max_answer_len\": expected"},
           {R"("max_seq_len": 17)", "\"max_seq_len\": expected at most 16, got 17"},
           {R"("doc_stride": -1)", "\"doc_stride\": expected"},
           {R"("max_question_len": "all")", "\"max_question_len\": expected"},
           {R"("handle_impossible_answer": 1)", "\"handle_impossible_answer\": expected true or false"},
           {R"("align_to_words": "yes")", "\"align_to_words\": expected true or false"},
           {R"("top_k": 21)", "\"top_k\": expected 1 to 20, got 21"}})
    EXPECT_THAT(test.Refusal("/", ask(context, parameters)), StartsWith("422 Validation: " + error));
}

// What the client's feature_extraction sends stands at the top.
TEST(ServiceTest, VectorsAtTheBareAddressAreNumbers) {
  TestService test(PredictTask::kFeatureExtraction);
  EXPECT_EQ(test.Answer("/", R"({"inputs": "the", "normalize": false, "encoding_format": "float"})"),
            test.Answer("/embed", R"({"inputs": "the", "normalize": false})"));
  EXPECT_THAT(test.Refusal("/", R"({"inputs": "the", "encoding_format": "base64"})"),
              StartsWith("422 Validation: \"encoding_format\": expected float"));
}

TEST(ServiceTest, RanksTexts) {
  // One label: logit 0 whatever the text, so that the order is that of the texts.
  TestService test(PredictTask::kTextClassification, {}, {"LABEL_0"});
  const Json ranked = test.Answer("/rerank", R"({"query": "the", "texts": ["cat", "mat"], "return_text": true})");
  EXPECT_EQ(ranked, ParseJson(R"([{"index":0,"text":"cat","score":0.5},{"index":1,"text":"mat","score":0.5}])", "x"));
  EXPECT_EQ(test.Answer("/rerank", R"({"query": "the", "texts": ["cat"], "raw_scores": true})")[0]["score"], 0.0);
  const Json cohere = test.Answer("/v2/rerank", R"({"query": "the", "documents": ["cat", "mat"], "top_n": 1})");
  EXPECT_EQ(cohere["results"], ParseJson(R"([{"index":0,"relevance_score":0.5}])", "x"));
}

TEST(ServiceTest, MasksQuestionsAndOptions) {
  TestService masks(PredictTask::kFillMask);
  const Json filled = masks.Answer("/fill_mask", R"({"inputs": "The cat [MASK] on a mat.", "top_k": 1})");
  EXPECT_EQ(filled[0]["token_str"], "sat");
  EXPECT_EQ(masks.Answer("/fill_mask", R"({"inputs": ["a [MASK]", "[MASK]"]})").size(), 2U);
  EXPECT_EQ(masks.Answer("/", R"({"inputs": "The cat [MASK] on a mat.", "parameters": {"top_k": 1}})"), filled);
  EXPECT_THAT(masks.Refusal("/fill_mask", R"({"inputs": ["a [MASK]", "cat"]})"),
              StartsWith("422 Validation: \"inputs\"[1] has no [MASK]"));
  TestService questions(PredictTask::kQuestionAnswering);
  const Json answer = questions.Answer("/question_answering", R"({"question": "the", "context": "a cat sat"})");
  EXPECT_TRUE(answer.contains("answer") && answer.contains("start"));
  EXPECT_EQ(
      questions.Answer("/question_answering", R"({"question": "the", "context": "a cat sat", "top_k": 2})").size(), 2U);
  TestService options(PredictTask::kMultipleChoice);
  EXPECT_EQ(
      options.Answer("/multiple_choice", R"({"question": "the", "context": "a cat", "options": ["sat", "sat on"]})")
          .size(),
      2U);
}

TEST(ServiceTest, TokenizesAndDecodes) {
  TestService test(PredictTask::kFeatureExtraction);
  const Json tokens = test.Answer("/tokenize", R"({"inputs": "The cats"})")[0];
  ASSERT_EQ(tokens.size(), 5U);
  EXPECT_EQ(tokens[0], ParseJson(R"({"id":2,"text":"[CLS]","special":true,"start":null,"stop":null})", "x"));
  EXPECT_EQ(tokens[1], ParseJson(R"({"id":5,"text":"The","special":false,"start":0,"stop":3})", "x"));
  EXPECT_EQ(tokens[3], ParseJson(R"({"id":7,"text":"s","special":false,"start":7,"stop":8})", "x"));
  EXPECT_EQ(test.Answer("/tokenize", R"({"inputs": ["the"], "add_special_tokens": false})")[0].size(), 1U);
  EXPECT_EQ(test.Answer("/decode", R"({"ids": [2, 5, 6, 3]})"), Json::array({"the cat"}));
  EXPECT_EQ(test.Answer("/decode", R"({"ids": [[2, 5], [6]], "skip_special_tokens": false})"),
            Json::array({"[CLS] the", "cat"}));
  EXPECT_THAT(test.Refusal("/decode", R"({"ids": [[99]]})"), HasSubstr("\"ids\"[0][0]: expected a token below 13"));
}

TEST(ServiceTest, MethodsPathsAndMediaTypes) {
  TestService test(PredictTask::kFeatureExtraction);
  EXPECT_EQ(test.Ask("GET", "/nowhere").status, 404);
  EXPECT_EQ(test.Ask("GET", "/x/../embed").status, 404);
  const HttpResponse wrong = test.Ask("GET", "/embed");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(HeaderOf(wrong, "allow"), "POST, OPTIONS");
  EXPECT_EQ(test.Ask("OPTIONS", "/embed").status, 204);
  EXPECT_EQ(test.Ask("HEAD", "/health").status, 200);
  const std::string body = R"({"inputs": "the"})";
  EXPECT_EQ(test.Ask("POST", "/embed?x=1", body, {{"Content-Type", "application/json; charset=utf-8"}}).status, 200);
  EXPECT_EQ(test.Ask("POST", "/embed", body, {{"Content-Type", "text/plain"}}).status, 415);
  EXPECT_EQ(test.Ask("POST", "/embed", body, {{"Content-Encoding", "gzip"}}).status, 415);
  EXPECT_THAT(test.Ask("GET", "/", "", {{"Accept", "text/html,*/*"}}).body, StartsWith("<!doctype html>"));
  EXPECT_EQ(test.Ask("GET", "/").body, "");
  for (const RouteRow& row : RouteRows()) {
    if (row.post) continue;
    EXPECT_EQ(test.Ask("GET", row.path).status, 200) << row.path;
  }
}

TEST(ServiceTest, TheKeyAndOriginsOfOthers) {
  TestService test(PredictTask::kFeatureExtraction, {.api_key = "secret", .cors_allow_origin = "https://a,https://b"});
  const std::string body = R"({"inputs": "the"})";
  EXPECT_EQ(test.Post("/embed", body).status, 401);
  EXPECT_EQ(test.Ask("POST", "/embed", body, {{"Authorization", "Bearer secre"}}).status, 401);
  EXPECT_EQ(test.Ask("POST", "/embed", body, {{"Authorization", "Bearer secrets"}}).status, 401);
  EXPECT_EQ(test.Ask("POST", "/embed", body, {{"authorization", "bearer secret"}}).status, 200);
  EXPECT_EQ(test.Ask("GET", "/info").status, 401);
  for (const char* open : {"/", "/health", "/ping", "/metrics", "/docs"}) EXPECT_EQ(test.Ask("GET", open).status, 200);
  const auto origin = [&](const std::string& from) {
    return HeaderOf(test.Ask("GET", "/health", "", {{"Origin", from}}), "access-control-allow-origin");
  };
  EXPECT_EQ(origin("https://b"), "https://b");
  EXPECT_EQ(origin("https://c"), "");
  EXPECT_EQ(origin("https://a,https://b"), "");
}

TEST(ServiceTest, SeveralModelsAreChosenByName) {
  FakeSetup vectors(PredictTask::kFeatureExtraction), labels(PredictTask::kTextClassification);
  std::vector<ServedModel> models;
  models.emplace_back("vectors", vectors.Make(), ServeOptions());
  models.emplace_back("labels", labels.Make(), ServeOptions());
  Service service(std::move(models), {});
  const auto status = [&](const std::string& path, const std::string& body) {
    auto request = std::make_shared<HttpRequest>();
    request->method = "POST";
    request->target = path;
    request->body = body;
    std::promise<int> promise;
    service.Handle(request, [&](HttpResponse response) { promise.set_value(response.status); });
    return promise.get_future().get();
  };
  EXPECT_EQ(status("/embed", R"({"inputs": "the", "model": "vectors"})"), 200);
  EXPECT_EQ(status("/predict", R"({"inputs": "the", "model": "labels"})"), 200);
  EXPECT_EQ(status("/predict", R"({"inputs": "the", "model": "vectors"})"), 424);
  EXPECT_EQ(status("/embed", R"({"inputs": "the", "model": "others"})"), 404);
  EXPECT_EQ(status("/embed", R"({"inputs": "the"})"), 422);
  EXPECT_EQ(status("/embed", R"({"inputs": "the", "model": 5})"), 422);
}

TEST(ServiceTest, TooManyInputsAreRefused) {
  TestService test(PredictTask::kFeatureExtraction, {.max_concurrent_requests = 2, .max_client_batch_size = 2});
  EXPECT_THAT(test.Refusal("/embed", R"({"inputs": ["the", "cat", "sat"]})"),
              StartsWith("422 Validation: \"inputs\": 3 inputs, expected at most 2"));
  // Sentences and the one that they are compared with are three inputs.
  EXPECT_THAT(test.Refusal("/similarity", R"({"inputs": {"source_sentence": "the", "sentences": ["cat", "sat"]}})"),
              StartsWith("429 Overloaded: "));
  EXPECT_EQ(test.Post("/embed", R"({"inputs": ["the", "cat"]})").status, 200);
}

TEST(ServiceTest, InspectsOnlyWhereThatIsAllowed) {
  TestService test(PredictTask::kFeatureExtraction);
  EXPECT_EQ(test.Post("/inspect", R"({"inputs": "the"})").status, 404);
}

TEST(ServiceTest, StoppedItAnswersNoMore) {
  TestService test(PredictTask::kFeatureExtraction);
  test.service().Stop();
  EXPECT_THAT(test.Refusal("/embed", R"({"inputs": "the"})"), StartsWith("503 Unhealthy: "));
  EXPECT_EQ(test.Ask("GET", "/health").status, 503);
}

TEST(ServiceTest, FiguresCountWhatWasAnswered) {
  TestService test(PredictTask::kFeatureExtraction);
  test.Post("/embed", R"({"inputs": "the"})");
  test.Post("/embed", R"({"inputs": ["the", "cat"]})");
  test.Post("/embed", "{");
  const std::string text = test.Ask("GET", "/metrics").body;
  for (const char* line : {"te_request_count{method=\"single\"} 1\n", "te_request_success{method=\"batch\"} 1\n",
                           "te_request_failure{err=\"validation\"} 1\n", "te_request_input_length_count 3\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

// A long body goes through a thread of its own, to the same answer.
TEST(ServiceTest, LongBodiesAreAnsweredToo) {
  TestService test(PredictTask::kFeatureExtraction);
  const std::string blanks(40'000, ' ');
  EXPECT_EQ(test.Answer("/embed", R"({"inputs": "the)" + blanks + R"(cat"})"),
            test.Answer("/embed", R"({"inputs": "the cat"})"));
}

}  // namespace
}  // namespace lshformer
