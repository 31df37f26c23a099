#include "serve/api_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "serve/request_error.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ApiRequest Parse(Route route, const std::string& body, const std::string& task = "feature-extraction") {
  return ParseApiRequest(route, body, [&](const std::string&) { return task; }, {.inputs = 4});
}

// "422 message", or "0" of a body that is right.
std::string Refusal(Route route, const std::string& body, const std::string& task = "feature-extraction") {
  try {
    Parse(route, body, task);
  } catch (const RequestError& error) {
    return std::to_string(error.status()) + " " + error.what();
  }
  return "0";
}

TEST(ApiRequestTest, InputsAreTextsPairsOrTokens) {
  const ApiRequest one = Parse(Route::kEmbed, R"({"inputs": "a"})");
  EXPECT_TRUE(one.single);
  EXPECT_EQ(one.inputs.at(0).text, "a");
  const ApiRequest ids = Parse(Route::kEmbed, R"({"inputs": [1, 2]})");
  EXPECT_TRUE(ids.single);
  EXPECT_THAT(ids.inputs.at(0).ids, ElementsAre(1, 2));
  const ApiRequest several = Parse(Route::kEmbed, R"({"inputs": ["a", ["b", "c"], [3], ["d"]]})");
  EXPECT_FALSE(several.single);
  ASSERT_EQ(several.inputs.size(), 4U);
  EXPECT_FALSE(several.inputs[0].pair);
  EXPECT_EQ(several.inputs[1].pair, "c");
  EXPECT_TRUE(several.inputs[2].is_ids);
  EXPECT_FALSE(several.inputs[3].pair);
}

TEST(ApiRequestTest, OptionsStandAtTheTopOrInParameters) {
  const ApiRequest request = Parse(Route::kEmbed, R"({"inputs": "a", "normalize": false, "truncation_direction": "LEFT",
      "parameters": {"truncate": true, "dimensions": 7, "prompt_name": "query"}, "unknown": [1]})");
  EXPECT_FALSE(request.normalize);
  EXPECT_TRUE(request.cut_left);
  EXPECT_EQ(request.truncate, true);
  EXPECT_EQ(request.dimensions, 7);
  EXPECT_EQ(request.prompt_name, "query");
  EXPECT_EQ(Parse(Route::kEmbed, R"({"inputs": "a", "truncate": null})").truncate, std::nullopt);
}

TEST(ApiRequestTest, OfPredictAFlatListIsAPair) {
  const std::string task = "text-classification";
  EXPECT_EQ(Parse(Route::kPredict, R"({"inputs": ["a", "b"]})", task).inputs.at(0).pair, "b");
  EXPECT_TRUE(Parse(Route::kPredict, R"({"inputs": ["a"]})", task).single);
  const ApiRequest nested = Parse(Route::kPredict, R"({"inputs": [["a"], ["b", "c"]]})", task);
  EXPECT_FALSE(nested.single);
  EXPECT_EQ(nested.inputs.size(), 2U);
  EXPECT_THAT(Refusal(Route::kPredict, R"({"inputs": ["a", "b", "c"]})", task),
              StartsWith("422 \"inputs\": expected one text or two"));
}

TEST(ApiRequestTest, RankingHasTwoForms) {
  const ApiRequest own = Parse(Route::kRerank, R"({"query": "q", "texts": ["a", "b"], "return_text": true})");
  EXPECT_EQ(own.route, Route::kRerank);
  EXPECT_EQ(own.inputs.at(1).text, "q");
  EXPECT_EQ(own.inputs.at(1).pair, "b");
  EXPECT_TRUE(own.return_text);
  const ApiRequest cohere = Parse(
      Route::kRerank, R"({"query": "q", "documents": ["a", {"text": "b"}], "top_n": 1, "return_documents": true})");
  EXPECT_EQ(cohere.route, Route::kCohereRerank);
  EXPECT_EQ(cohere.inputs.at(1).pair, "b");
  EXPECT_EQ(cohere.top_n, 1);
}

TEST(ApiRequestTest, TheBareAddressIsTheModelsTask) {
  EXPECT_EQ(Parse(Route::kRoot, R"({"inputs": "a"})").route, Route::kEmbed);
  EXPECT_EQ(Parse(Route::kRoot, R"({"inputs": {"source_sentence": "a", "sentences": ["b"]}})").route,
            Route::kSimilarity);
  EXPECT_EQ(Parse(Route::kRoot, R"({"inputs": "a"})", "text-classification").route, Route::kPredict);
  EXPECT_EQ(Parse(Route::kRoot, R"({"inputs": "a"})", "fill-mask").route, Route::kFillMask);
  const ApiRequest asked =
      Parse(Route::kRoot, R"({"inputs": {"question": "q", "context": "c"}, "parameters": {"top_k": 3}})",
            "question-answering");
  EXPECT_EQ(asked.route, Route::kQuestionAnswering);
  EXPECT_EQ(asked.question, "q");
  EXPECT_EQ(asked.top_k, 3);
}

// With one model it is not looked at, whatever it is.
TEST(ApiRequestTest, TheModelIsATextWhereThereAreSeveral) {
  const auto parse = [](bool several) {
    return ParseApiRequest(Route::kEmbed, R"({"inputs": "a", "model": 5})",
                           [](const std::string& model) { return model.empty() ? "feature-extraction" : ""; },
                           {.several_models = several});
  };
  EXPECT_EQ(parse(false).model, "");
  EXPECT_EQ(testing::ErrorOf([&] { parse(true); }), "\"model\": expected a text, got 5");
}

TEST(ApiRequestTest, AnAttentionIsANameOrAnObject) {
  const ApiRequest request = Parse(Route::kInspect, R"({"inputs": "a", "attention": {"type": "simhash"}, "layer": 2})");
  EXPECT_EQ(request.attention, R"({"type":"simhash"})");
  EXPECT_EQ(request.layer, 2);
}

TEST(ApiRequestTest, WhatIsWrongIsNamed) {
  for (const auto& [body, refusal] : std::vector<std::pair<std::string, std::string>>{
           {"", "422 body: invalid JSON"},
           {"[]", "422 body: expected a JSON object, got a list of 0 values"},
           {"{}", "422 body: \"inputs\" is missing"},
           {R"({"inputs": "a", "inputs": "b"})", "422 body: duplicate key \"inputs\""},
           {R"({"inputs": 5})", "422 \"inputs\": expected a text or a list of tokens, got 5"},
           {R"({"inputs": {"a": 1}})", "422 \"inputs\": expected a text or a list of tokens, got an object"},
           {R"({"inputs": []})", "400 \"inputs\" is empty"},
           {R"({"inputs": ""})", "400 \"inputs\" is empty"},
           {R"({"inputs": ["a", ""]})", "400 \"inputs\"[1] is empty"},
           {R"({"inputs": ["a", []]})", "400 \"inputs\"[1] is empty"},
           {R"({"inputs": ["a", 5]})", "422 \"inputs\"[1]: expected a text or a list of tokens, got 5"},
           {R"({"inputs": ["a", ["b", 5]]})", "422 \"inputs\"[1][1]: expected a text, got 5"},
           {R"({"inputs": [[1, -1]]})", "422 \"inputs\"[0][1]: expected a token's number, got -1"},
           {R"({"inputs": [[1, 18446744073709551615]]})", "422 \"inputs\"[0][1]: expected a token's number"},
           {R"({"inputs": [[1, 2.5]]})", "422 \"inputs\"[0][1]: expected a token's number, got 2.5"},
           {R"({"inputs": ["a", "b", "c", "d", "e"]})", "422 \"inputs\": 5 inputs, expected at most 4"},
           {R"({"inputs": "a", "normalize": "yes"})", "422 \"normalize\": expected true or false, got \"yes\""},
           {R"({"inputs": "a", "dimensions": NaN})", "422 \"dimensions\": expected"},
           {R"({"inputs": "a", "dimensions": 0})", "422 \"dimensions\": expected"},
           {R"({"inputs": "a", "truncation_direction": "up"})", "422 \"truncation_direction\": expected Left or Right"},
           {R"({"inputs": "a", "parameters": 5})", "422 \"parameters\": expected an object, got 5"},
           {"{\"inputs\": \"\xff\"}", "422 body: invalid JSON"},
           {"{\"inputs\": " + std::string(100, '[') + std::string(100, ']') + "}", "422 body: JSON is nested deeper"}})
    EXPECT_THAT(Refusal(Route::kEmbed, body), StartsWith(refusal)) << body;
  std::string million = R"({"inputs": [1)";
  for (int i = 0; i < 1'100'000; ++i) million += ",1";
  EXPECT_THAT(Refusal(Route::kEmbed, million + "]}"), StartsWith("422 body: JSON has more than"));
  EXPECT_THAT(Refusal(Route::kOpenAiEmbeddings, R"({"input": "a", "encoding_format": "int8"})"),
              StartsWith("422 \"encoding_format\": expected float or base64"));
  EXPECT_THAT(Refusal(Route::kRerank, R"({"query": "q", "texts": "a"})"), StartsWith("422 \"texts\": expected a list"));
}

// Each example of the documentation is a body that its route takes.
TEST(RoutesTest, ExamplesAreTaken) {
  for (const RouteRow& row : RouteRows()) {
    if (!row.post) continue;
    const std::string task = row.task[0] == '\0' ? "feature-extraction" : row.task;
    EXPECT_EQ(Refusal(row.route, row.example, task), "0") << row.path;
  }
}

TEST(RoutesTest, TheDocumentsHaveEveryRouteAndNoOther) {
  const Json document = ParseJson(OpenApiText(), "openapi.json");
  const std::string page = DocsPage();
  size_t operations = 0;
  for (const auto& [path, methods] : document["paths"].items()) operations += methods.size();
  EXPECT_EQ(operations, RouteRows().size());
  for (const RouteRow& row : RouteRows()) {
    EXPECT_TRUE(document["paths"][row.path].contains(row.post ? "post" : "get")) << row.path;
    EXPECT_THAT(page, HasSubstr(std::string(row.post ? "POST " : "GET ") + row.path + "<"));
    EXPECT_EQ(FindRoute(row.post ? "POST" : "GET", row.path), &row) << row.path << " is there twice";
    EXPECT_THAT(MethodsOf(row.path), HasSubstr(row.post ? "POST" : "GET"));
  }
  EXPECT_EQ(MethodsOf("/embed"), "POST, OPTIONS");
  EXPECT_EQ(MethodsOf("/../embed"), "");
  EXPECT_EQ(FindRoute("PUT", "/embed"), nullptr);
  EXPECT_EQ(page.find("http://"), std::string::npos);  // nothing is loaded from elsewhere
  EXPECT_EQ(page.find("https://"), std::string::npos);
}

}  // namespace
}  // namespace lshformer
