#include "serve/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/lower_case.h"
#include "base/thread_limit.h"
#include "infer/line_queries.h"
#include "ops/memory.h"
#include "serve/access_log.h"
#include "serve/answers.h"
#include "serve/inspect_attention.h"
#include "serve/page.h"

namespace lshformer {
namespace {

using enum RequestErrorType;

constexpr size_t kLongBody = size_t{16} << 10;           // bytes; tokens of a shorter one take less than a millisecond
constexpr int64_t kMostNumbers = int64_t{1} << 24;       // of an answer: two hundred megabytes of JSON
constexpr int64_t kMostWaitingBodies = int64_t{1} << 8;  // long ones

struct GaveUp {};  // what a batch that nobody waits for ends with

// Every byte is looked at, whatever the first that differs.
bool SameKey(std::string_view given, std::string_view key) {
  size_t different = given.size() ^ key.size();
  for (size_t i = 0; i < given.size(); ++i)
    different |= static_cast<uint8_t>(given[i]) ^ static_cast<uint8_t>(key[i % key.size()]);
  return different == 0;
}

HttpResponse JsonResponse(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

void CheckMediaType(const HttpRequest& request) {
  const std::string encoding = LowerCase(std::string(request.Header("content-encoding")));
  if (!encoding.empty() && encoding != "identity")
    throw RequestError(415, kValidation, fmt::format("content-encoding: expected none, got {}", Shown(encoding)));
  const std::string type = LowerCase(std::string(request.Header("content-type")));
  const size_t end = type.find_first_of("; ");
  if (!type.empty() && type.substr(0, end) != "application/json")
    throw RequestError(415, kValidation, fmt::format("content-type: expected application/json, got {}", Shown(type)));
}

// Numbers of the JSON that a query is answered with.
int64_t NumbersOf(const ServedModel& model, const PreparedQuery& prepared) {
  return std::visit([&](const auto& query) { return AnswerSize(model.pipeline(), query); }, prepared.query);
}

}  // namespace

// One request on its way to its answer. The members that several threads write stand behind the mutex.
struct Service::Pending {
  std::shared_ptr<HttpRequest> http;
  Respond respond;
  const RouteRow* row = nullptr;
  double begin = BatchQueue::Now();
  ApiRequest api;
  const ServedModel* model = nullptr;
  std::vector<size_t> truncated;
  RequestTimes times;
  std::mutex mutex;
  std::vector<Outcome<ModelAnswer>> answers;
  size_t left = 0;

  bool batch() const { return answers.size() > 1; }
};

struct Service::Input : WaitingInput {
  bool dropped() const override { return request->http->gone; }
  std::shared_ptr<Pending> request;
  size_t place = 0;
  ModelQuery query;
};

Service::Service(std::vector<ServedModel> models, const ServeOptions& options)
    : options_(options), models_(std::move(models)) {
  for (const ServedModel& model : models_) model_bytes_ += model.parameter_bytes();
  queue_ = std::make_unique<BatchQueue>(BatchQueue::Limits{options_.max_concurrent_requests, options_.max_batch_tokens},
                                        [this](BatchQueue::Batch& batch) { RunBatch(batch); });
  const SignalsElsewhere none;
  reader_ = std::thread([this] { ReadLongBodies(); });
}

Service::~Service() {
  Stop();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  reader_.join();
  queue_.reset();
}

void Service::Stop() { stopping_ = true; }

void Service::Abandon() {
  abandoned_ = true;
  queue_->Drop();
}

HttpResponse Service::WireError(int status, const std::string& message) {
  metrics_.Failure("validation");
  return ErrorResponse(RequestError(status, kValidation, message));
}

const ServedModel& Service::ModelCalled(const std::string& name) const {
  if (models_.size() == 1) return models_.front();
  if (name.empty()) FailRequest(kValidation, "\"model\" is missing, and there are {} models", models_.size());
  for (const ServedModel& model : models_)
    if (model.name() == name) return model;
  throw RequestError(404, kValidation, fmt::format("\"model\": there is no \"{}\"", Shown(name)));
}

void Service::CheckKey(const HttpRequest& request) const {
  if (options_.api_key.empty()) return;
  const std::string_view given = request.Header("authorization"), bearer = "bearer ";
  const bool is_bearer = LowerCase(std::string(given.substr(0, bearer.size()))) == bearer;
  if (!is_bearer || !SameKey(given.substr(bearer.size()), options_.api_key))
    throw RequestError(401, kValidation, "authorization: expected Bearer and the server's key");
}

void Service::AddCors(const HttpRequest& request, HttpResponse& response) const {
  const std::string_view origin = request.Header("origin");
  if (origin.empty() || origin.find(',') != origin.npos || options_.cors_allow_origin.empty()) return;
  const std::string& allowed = options_.cors_allow_origin;
  const bool named = fmt::format(",{},", allowed).find(fmt::format(",{},", origin)) != std::string::npos;
  if (allowed != "*" && !named) return;
  response.headers.emplace_back("access-control-allow-origin", allowed == "*" ? "*" : std::string(origin));
  response.headers.emplace_back("vary", "origin");
}

HttpResponse Service::Preflight(const HttpRequest& request) const {
  HttpResponse response;
  response.status = 204;
  response.headers.emplace_back("allow", MethodsOf(request.path()));
  response.headers.emplace_back("access-control-allow-methods", MethodsOf(request.path()));
  response.headers.emplace_back("access-control-allow-headers", "authorization, content-type");
  return response;
}

void Service::Handle(std::shared_ptr<HttpRequest> request, Respond respond) {
  auto pending = std::make_shared<Pending>();
  pending->http = std::move(request);
  pending->respond = std::move(respond);
  const HttpRequest& http = *pending->http;
  try {
    const std::string methods = MethodsOf(http.path());
    if (methods.empty()) throw RequestError(404, kValidation, fmt::format("there is no {}", Shown(http.path())));
    if (http.method == "OPTIONS") return Send(*pending, Preflight(http));
    pending->row = FindRoute(http.method, http.path());
    if (pending->row == nullptr) {
      HttpResponse response = ErrorResponse(RequestError(
          405, kValidation, fmt::format("{}: expected {}, got {}", http.path(), methods, Shown(http.method))));
      response.headers.emplace_back("allow", methods);
      return Send(*pending, std::move(response));
    }
    if (!pending->row->open) CheckKey(http);
    if (!pending->row->post) return Send(*pending, Answer(http, *pending->row));
    if (stopping_) FailRequest(kUnhealthy, "the server stops");
    CheckMediaType(http);
    const bool inspects = pending->row->route == Route::kInspect;
    if (inspects && !options_.enable_inspect)
      throw RequestError(404, kValidation, "/inspect: the server was started without enable_inspect");
    if (http.body.size() <= kLongBody && !inspects) return Ask(pending);
    const std::lock_guard lock(mutex_);
    if (std::ssize(long_bodies_) >= kMostWaitingBodies) FailRequest(kOverloaded, "too many long bodies wait");
    long_bodies_.push_back(pending);
    changed_.notify_one();
  } catch (const RequestError& error) {
    Fail(*pending, error);
  }
}

void Service::ReadLongBodies() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || !long_bodies_.empty(); });
    if (long_bodies_.empty()) return;
    std::shared_ptr<Pending> next = std::move(long_bodies_.front());
    long_bodies_.pop_front();
    lock.unlock();
    if (!next->http->gone && !abandoned_) Ask(next);
    next.reset();
    lock.lock();
  }
}

void Service::Ask(const std::shared_ptr<Pending>& pending) {
  try {
    const double begin = BatchQueue::Now();
    const auto task_of = [&](const std::string& name) { return Name((pending->model = &ModelCalled(name))->task()); };
    pending->api = ParseApiRequest(pending->row->route, pending->http->body, task_of,
                                   {.inputs = options_.max_client_batch_size, .several_models = models_.size() > 1});
    if (pending->api.route == Route::kTokenize || pending->api.route == Route::kDecode ||
        pending->api.route == Route::kInspect)
      return Send(*pending, Direct(*pending));
    std::vector<PreparedQuery> prepared = pending->model->Prepare(pending->api);
    pending->http->body = std::string();
    pending->times.tokenization = BatchQueue::Now() - begin;
    pending->answers.resize(prepared.size());
    pending->left = prepared.size();
    int64_t numbers = 0;
    BatchQueue::Batch batch;
    for (size_t place = 0; place < prepared.size(); ++place) {
      PreparedQuery& query = prepared[place];
      numbers += NumbersOf(*pending->model, query);
      pending->times.tokens += query.tokens;
      pending->times.characters += query.characters;
      if (query.truncated) pending->truncated.push_back(place);
      metrics_.Input(query.tokens);
      auto input = std::make_unique<Input>();
      // Chunks are made in passes, by calls of their own.
      input->kind = 2 * static_cast<int>(pending->model - models_.data()) +
                    (std::holds_alternative<ChunkQuery>(query.query) ? 1 : 0);
      input->tokens = query.tokens;
      input->request = pending;
      input->place = place;
      input->query = std::move(query.query);
      batch.push_back(std::move(input));
    }
    if (numbers > kMostNumbers)
      FailRequest(kValidation, "the answer would have {} numbers, expected at most {}", numbers, kMostNumbers);
    metrics_.Request(pending->batch());
    if (!queue_->Push(std::move(batch)))
      FailRequest(kOverloaded, "{} inputs wait or are run already", options_.max_concurrent_requests);
  } catch (const RequestError& error) {
    Fail(*pending, error);
  } catch (const Error& error) {
    Fail(*pending, RequestError(kValidation, error.what()));
  } catch (const std::exception& error) {
    Fail(*pending, RequestError(kBackend, IsOutOfMemory(error) ? "out of memory" : error.what()));
  }
}

HttpResponse Service::Direct(const Pending& pending) {
  if (pending.api.route == Route::kInspect) return JsonResponse(InspectBody(pending.api, *pending.model));
  return JsonResponse(pending.api.route == Route::kTokenize ? pending.model->Tokenize(pending.api)
                                                            : pending.model->Decode(pending.api));
}

void Service::RunBatch(BatchQueue::Batch& batch) {
  std::vector<ModelQuery> queries;
  int64_t tokens = 0;
  for (const auto& waiting : batch) {
    tokens += waiting->tokens;
    queries.push_back(std::move(static_cast<Input&>(*waiting).query));
  }
  const ServedModel& model = *static_cast<Input&>(*batch.front()).request->model;
  const StopToken give_up = [&] {
    if (abandoned_ || std::ranges::all_of(batch, [](const auto& input) { return input->dropped(); })) throw GaveUp();
  };
  const double begin = BatchQueue::Now();
  AttentionCounts counts;
  std::vector<Outcome<ModelAnswer>> outcomes;
  std::string failure;
  try {
    outcomes = model.Run(std::move(queries), give_up, counts);
  } catch (const GaveUp&) {
    return;
  } catch (const std::exception& error) {
    failure = IsOutOfMemory(error) ? "out of memory" : Shown(error.what(), 200);
  }
  const double took = BatchQueue::Now() - begin;
  if (tokens > kTokensBesideLong) ReturnFreedMemory();
  metrics_.Batch(std::ssize(batch), tokens, counts.pairs_computed);
  outcomes.resize(batch.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    auto& input = static_cast<Input&>(*batch[i]);
    if (!failure.empty()) outcomes[i].error = failure;
    Pending& pending = *input.request;
    bool last = false;
    {
      const std::lock_guard lock(pending.mutex);
      const auto share = static_cast<double>(pending.answers.size());
      pending.times.queue += (begin - input.since) / share;
      pending.times.inference += took / share;
      pending.answers[input.place] = std::move(outcomes[i]);
      last = --pending.left == 0;
    }
    if (last) Finish(pending);
  }
}

void Service::Finish(Pending& pending) {
  std::vector<ModelAnswer> answers;
  for (size_t i = 0; i < pending.answers.size(); ++i) {
    if (!pending.answers[i].ok())
      return Fail(pending, RequestError(kBackend, fmt::format("input {}: {}", i, pending.answers[i].error)));
    answers.push_back(std::move(pending.answers[i].value));
  }
  try {
    Send(pending, JsonResponse(AnswerBody(pending.api, *pending.model, answers, pending.times.tokens)));
  } catch (const std::exception& error) {
    Fail(pending, RequestError(kBackend, IsOutOfMemory(error) ? "out of memory" : Shown(error.what(), 200)));
  }
}

void Service::Fail(Pending& pending, const RequestError& error) {
  metrics_.Failure(LowerCase(Name(error.type())));
  const bool openai = pending.row != nullptr && IsOpenAi(pending.row->route);
  HttpResponse response = ErrorResponse(error, openai);
  if (error.status() == 401) response.headers.emplace_back("www-authenticate", "Bearer");
  if (error.status() == 429 || error.status() == 503) response.headers.emplace_back("retry-after", "1");
  Send(pending, std::move(response));
}

void Service::Send(Pending& pending, HttpResponse response) {
  RequestTimes& times = pending.times;
  times.total = BatchQueue::Now() - pending.begin;
  const bool answered = response.status == 200 && pending.row != nullptr && pending.row->post;
  if (answered) {
    const auto add = [&](const char* name, auto value) {
      response.headers.emplace_back(name, fmt::format("{}", value));
    };
    const auto milliseconds = [](double seconds) { return static_cast<int64_t>(seconds * 1000); };
    add("x-compute-type", "cpu");
    add("x-compute-time", milliseconds(times.total));
    add("x-compute-characters", times.characters);
    add("x-compute-tokens", times.tokens);
    add("x-total-time", milliseconds(times.total));
    add("x-tokenization-time", milliseconds(times.tokenization));
    add("x-queue-time", milliseconds(times.queue));
    add("x-inference-time", milliseconds(times.inference));
    if (!pending.truncated.empty()) add("x-truncated", fmt::format("{}", fmt::join(pending.truncated, ",")));
    if (!pending.answers.empty()) metrics_.Success(pending.batch(), times);
    ++answered_;
  }
  AddCors(*pending.http, response);
  LogRequest(*pending.http, response.status, std::ssize(pending.answers), times, options_.json_log);
  pending.respond(std::move(response));
}

}  // namespace lshformer
