// What the server says of itself.
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "attention/spec.h"
#include "base/json.h"
#include "lshformer/version.h"
#include "serve/page.h"
#include "serve/service.h"

namespace lshformer {
namespace {

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

Json LabelsOf(const ModelConfig& config) {
  Json id2label = Json::object(), label2id = Json::object();
  for (int64_t id = 0; id < config.num_labels; ++id) {
    id2label[std::to_string(id)] = config.label_name(id);
    label2id[config.label_name(id)] = id;
  }
  return {{"id2label", id2label}, {"label2id", label2id}};
}

// As Text Embeddings Inference names kinds of models, where it has one.
Json TypeOf(const ServedModel& model) {
  const PredictOptions& options = model.pipeline().options();
  if (model.IsReranker()) return {{"reranker", LabelsOf(model.pipeline().config())}};
  if (options.task == PredictTask::kTextClassification) return {{"classifier", LabelsOf(model.pipeline().config())}};
  if (options.task == PredictTask::kFeatureExtraction) return {{"embedding", {{"pooling", model.EmbedPooling()}}}};
  return {{Name(options.task), Json::object()}};
}

Json ModelInfoOf(const ServedModel& model) {
  const ModelConfig& config = model.pipeline().config();
  std::vector<std::string> attention;
  for (const AttentionSpec& spec : config.attention)
    if (attention.empty() || attention.back() != Name(spec)) attention.emplace_back(Name(spec));
  return {{"model_id", model.name()},
          {"model_sha", nullptr},
          {"model_dtype", Name(model.pipeline().options().precision)},
          {"model_type", TypeOf(model)},
          {"task", Name(model.task())},
          {"max_input_length", model.max_input_length()},
          {"attention", attention}};
}

HttpResponse Response(const char* type, std::string body) {
  HttpResponse response;
  response.content_type = type;
  response.body = std::move(body);
  return response;
}

}  // namespace

HttpResponse Service::Answer(const HttpRequest& request, const RouteRow& row) {
  const bool page = row.route == Route::kPage ||
                    (row.route == Route::kRoot && request.Header("accept").find("text/html") != std::string_view::npos);
  if (page) return Response("text/html; charset=utf-8", std::string(PageHtml()));
  switch (row.route) {
    case Route::kInfo:
      return Response("application/json", Info());
    case Route::kOpenAiModels:
      return Response("application/json", ModelList());
    case Route::kMetrics:
      return Response("text/plain; version=0.0.4; charset=utf-8", MetricsText());
    case Route::kDocs:
      return Response("text/html; charset=utf-8", DocsPage());
    case Route::kOpenApi:
      return Response("application/json", OpenApiText());
    default:
      break;
  }
  if (stopping_) FailRequest(RequestErrorType::kUnhealthy, "the server stops");
  return Response("text/plain", "");
}

// Of several models the first, with a list of all.
std::string Service::Info() const {
  Json info = ModelInfoOf(models_.front());
  info["max_concurrent_requests"] = options_.max_concurrent_requests;
  info["max_batch_tokens"] = options_.max_batch_tokens;
  info["max_batch_requests"] = nullptr;
  info["max_client_batch_size"] = options_.max_client_batch_size;
  info["auto_truncate"] = options_.auto_truncate;
  info["inspect"] = options_.enable_inspect;
  info["attentions"] = Json::array();
  for (const std::string& name : AttentionNames())
    if (name != Name(AttentionSpec())) info["attentions"].push_back(name);
  info["tokenization_workers"] = 1;
  info["version"] = LSHFORMER_VERSION;
  info["sha"] = nullptr;
  info["docker_label"] = nullptr;
  for (const ServedModel& model : models_) info["models"].push_back(ModelInfoOf(model));
  return info.dump();
}

std::string Service::ModelList() const {
  Json data = Json::array();
  for (const ServedModel& model : models_)
    data.push_back({{"id", model.name()}, {"object", "model"}, {"created", 0}, {"owned_by", "lshformer"}});
  return Json{{"object", "list"}, {"data", data}}.dump();
}

std::string Service::MetricsText() const {
  const BatchQueue::Size size = queue_->size();
  return metrics_.Text({size.waiting, size.running, connections_ ? connections_() : 0, model_bytes_, ResidentBytes()});
}

}  // namespace lshformer
