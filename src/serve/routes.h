// Every address of the server: what is asked there, and what its page of documentation and openapi.json say of it.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace lshformer {

enum class Route {
  kRoot,  // POST: the model's own task; GET: the page, or health
  kEmbed,
  kEmbedAll,
  kEmbedChunks,
  kPredict,
  kRerank,
  kCohereRerank,
  kSimilarity,
  kFillMask,
  kQuestionAnswering,
  kMultipleChoice,
  kTokenize,
  kDecode,
  kInspect,
  kOpenAiEmbeddings,
  kOpenAiModels,
  kInfo,
  kHealth,
  kMetrics,
  kDocs,
  kOpenApi,
  kPage,
};

struct RouteRow {
  const char* path;
  Route route;
  bool post, open;      // POST, else GET and HEAD; open: answered without the key
  const char* summary;  // one line
  const char* example;  // a body that a model of the right task answers; "" of GET
  const char* task;     // of that model, in the words of --task; "": any
};

// The rows of one path stand together; no path has two of one method.
std::span<const RouteRow> RouteRows();

// What a path takes, for 405 and OPTIONS: "GET, HEAD, OPTIONS"; "" of a path that there is not.
std::string MethodsOf(std::string_view path);
// nullptr: none. HEAD is GET.
const RouteRow* FindRoute(std::string_view method, std::string_view path);

inline bool IsOpenAi(Route route) { return route == Route::kOpenAiEmbeddings || route == Route::kOpenAiModels; }

// openapi.json, and the same to read.
std::string OpenApiText();
std::string DocsPage();

}  // namespace lshformer
