#include "serve/routes.h"

#include <algorithm>

#include "base/json.h"
#include "lshformer/version.h"

namespace lshformer {
namespace {

constexpr const char *kVectors = "feature-extraction", *kClasses = "text-classification";

constexpr RouteRow kRows[] = {
    {"/", Route::kRoot, false, true, "The page for a browser (Accept: text/html), health for all others", "", ""},
    {"/", Route::kRoot, true, false, "The model's own task, in the shape of Hugging Face's inference clients",
     R"({"inputs": "a text"})", kVectors},
    {"/ui", Route::kPage, false, true, "The page", "", ""},
    {"/embed", Route::kEmbed, true, false, "A vector of each input: [[…]]", R"({"inputs": ["a text", "another"]})",
     kVectors},
    {"/embed_all", Route::kEmbedAll, true, false, "A vector of each token of each input: [[[…]]]",
     R"({"inputs": "a text"})", kVectors},
    {"/embed_chunks", Route::kEmbedChunks, true, false,
     "Vectors of a text's parts out of one reading of it: [[{start, end, embedding}]]; chunking tokens, sentences or "
     "spans",
     R"({"inputs": "A text. It goes on.", "chunking": "sentences"})", kVectors},
    {"/predict", Route::kPredict, true, false,
     R"(Labels with scores, best first; "a" or ["a", "b"] (a pair), several in a list of lists)",
     R"({"inputs": [["a text"], ["one", "and its second"]]})", kClasses},
    {"/rerank", Route::kRerank, true, false, "Texts by how well they suit a query, of a classifier with one output",
     R"({"query": "a question", "texts": ["a text", "another"], "return_text": true})", kClasses},
    {"/v1/rerank", Route::kCohereRerank, true, false, "The same in the form of Cohere and Jina",
     R"({"query": "a question", "documents": ["a text", "another"], "top_n": 1})", kClasses},
    {"/v2/rerank", Route::kCohereRerank, true, false, "The same in the form of Cohere and Jina",
     R"({"query": "a question", "documents": ["a text", "another"], "top_n": 1})", kClasses},
    {"/similarity", Route::kSimilarity, true, false, "Cosines of one sentence and others: [f]",
     R"({"inputs": {"source_sentence": "a text", "sentences": ["another", "a third"]}})", kVectors},
    {"/fill_mask", Route::kFillMask, true, false, "Words for each mask of a text, best first",
     R"({"inputs": "a [MASK] text", "top_k": 3})", "fill-mask"},
    {"/question_answering", Route::kQuestionAnswering, true, false,
     "The answer to a question in a context of any length",
     R"({"question": "what is it?", "context": "It is a text.", "top_k": 1})", "question-answering"},
    {"/multiple_choice", Route::kMultipleChoice, true, false, "Scores of the options of a question",
     R"({"question": "what is it?", "context": "It is a text.", "options": ["a text", "a picture"]})",
     "multiple-choice"},
    {"/tokenize", Route::kTokenize, true, false, "Tokens of each input: [[{id, text, special, start, stop}]]",
     R"({"inputs": "a text"})", ""},
    {"/decode", Route::kDecode, true, false, "Tokens as texts", R"({"ids": [[5, 6, 7]]})", ""},
    {"/inspect", Route::kInspect, true, false,
     "What one head of one layer looks at, exact and under another attention; where the server has enable_inspect",
     R"({"inputs": "a short text", "attention": "simhash", "layer": 0, "head": 0})", ""},
    {"/v1/embeddings", Route::kOpenAiEmbeddings, true, false,
     "A vector of each input in the shape of OpenAI; with late_chunking the inputs are parts of one text",
     R"({"input": ["a text", "another"], "encoding_format": "float", "late_chunking": false})", kVectors},
    {"/embeddings", Route::kOpenAiEmbeddings, true, false, "A vector of each input in the shape of OpenAI",
     R"({"input": "a text"})", kVectors},
    {"/v1/models", Route::kOpenAiModels, false, false, "The models in the shape of OpenAI", "", ""},
    {"/info", Route::kInfo, false, false, "The model, its limits and the version", "", ""},
    {"/health", Route::kHealth, false, true, "200 while requests are answered, 503 while the server stops", "", ""},
    {"/ping", Route::kHealth, false, true, "The same", "", ""},
    {"/metrics", Route::kMetrics, false, true, "Figures in the text format of Prometheus", "", ""},
    {"/docs", Route::kDocs, false, true, "What stands here, to read", "", ""},
    {"/api-doc/openapi.json", Route::kOpenApi, false, true, "What stands here, as OpenAPI 3", "", ""},
};

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

Json Answers() {
  Json answers = Json::object();
  for (const auto& [code, text] : {std::pair("400", "nothing to answer, or no HTTP"),
                                   {"401", "without the key"},
                                   {"404", "no such model"},
                                   {"413", "the body is too large"},
                                   {"415", "the body is no JSON"},
                                   {"422", "wrong in type or length; the text names the item"},
                                   {"424", "the model has no such task, or could not answer"},
                                   {"429", "too many inputs wait"},
                                   {"503", "the server stops"}})
    answers[code] = {{"description", text}};
  return answers;
}

}  // namespace

std::span<const RouteRow> RouteRows() { return kRows; }

std::string MethodsOf(std::string_view path) {
  bool get = false, post = false;
  for (const RouteRow& row : kRows)
    if (path == row.path) (row.post ? post : get) = true;
  if (!get && !post) return "";
  return std::string(get ? "GET, HEAD, " : "") + (post ? "POST, " : "") + "OPTIONS";
}

const RouteRow* FindRoute(std::string_view method, std::string_view path) {
  const bool post = method == "POST";
  if (!post && method != "GET" && method != "HEAD") return nullptr;
  const auto* found =
      std::ranges::find_if(kRows, [&](const RouteRow& row) { return row.post == post && path == row.path; });
  return found == std::end(kRows) ? nullptr : found;
}

std::string OpenApiText() {
  Json paths = Json::object();
  for (const RouteRow& row : kRows) {
    Json operation{{"summary", row.summary}};
    Json answers{{"200", {{"description", "the answer"}}}};
    if (row.post) {
      const Json body = ParseJson(row.example, row.path);
      Json properties = Json::object();
      for (const auto& [key, value] : body.items()) properties[key] = Json::object();
      operation["requestBody"] = {
          {"required", true},
          {"content",
           {{"application/json", {{"schema", {{"type", "object"}, {"properties", properties}}}, {"example", body}}}}}};
      answers.update(Answers());
    }
    operation["responses"] = answers;
    if (!row.open) operation["security"] = Json::array({{{"key", Json::array()}}, Json::object()});
    paths[row.path][row.post ? "post" : "get"] = std::move(operation);
  }
  const Json document{
      {"openapi", "3.0.3"},
      {"info", {{"title", "lshformer"}, {"version", LSHFORMER_VERSION}, {"description", "Answers of text encoders"}}},
      {"paths", paths},
      {"components", {{"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
  return document.dump(1);
}

std::string DocsPage() {
  std::string page =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>lshformer: routes</title>"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><style>"
      ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:auto;padding:1rem}"
      "pre{overflow:auto;padding:.5rem;border:1px solid gray;border-radius:.3rem}code{font-size:.9em}"
      "h2{font-size:1.1rem;margin:1.5rem 0 .2rem}</style></head><body><h1>Routes</h1>"
      "<p>The same for programs: <a href=\"api-doc/openapi.json\">openapi.json</a>. <a href=\"ui\">The page</a> "
      "asks the model by hand.</p>";
  for (const RouteRow& row : kRows) {
    page += "<h2><code>" + std::string(row.post ? "POST " : "GET ") + row.path + "</code></h2><p>" +
            Escaped(row.summary) + (row.task[0] == '\0' ? "" : std::string(". Of models for ") + row.task) + ".</p>";
    if (row.post) page += "<pre>" + Escaped(row.example) + "</pre>";
  }
  return page + "</body></html>";
}

}  // namespace lshformer
