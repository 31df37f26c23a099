#include "serve/serve.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/logging.h"
#include "base/signals.h"
#include "base/writing.h"
#include "serve/http_server.h"
#include "serve/service.h"

namespace lshformer {
namespace {

std::string NameOf(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  const std::string name = (path.has_filename() ? path : path.parent_path()).filename().string();
  return name.empty() || name == "." || name == ".." ? std::filesystem::absolute(path).lexically_normal().string()
                                                     : name;
}

std::vector<std::string> NamesOf(const ServeOptions& options) {
  std::vector<std::string> names = options.names;
  if (names.empty()) std::ranges::transform(options.folders, std::back_inserter(names), NameOf);
  std::set<std::string> seen;
  for (const std::string& name : names)
    if (!seen.insert(name).second)
      FailOption("served_model_name", "two models are called \"{}\"; a name for each tells them apart", Shown(name));
  return names;
}

// Options of vectors, where no model makes any.
void RequireVectors(const ServeOptions& options, const std::vector<ServedModel>& models) {
  const auto embeds = [](const ServedModel& model) { return model.task() == PredictTask::kFeatureExtraction; };
  if (std::ranges::any_of(models, embeds)) return;
  for (const auto& [name, value] :
       {std::pair("pooling", options.pooling), std::pair("default_prompt_name", options.default_prompt_name)})
    if (!value.empty())
      FailOption(name, "is for models of {} feature-extraction, of which there is none", OptionName{"task"});
}

// Each connection is a descriptor.
void AllowManyDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, std::max<rlim_t>(limit.rlim_cur, 16384));
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

void RunServe(const ServeOptions& options) {
  HeldLog warnings;  // a server that does not start says one line
  CheckServeOptions(options);
  const std::vector<std::string> names = NamesOf(options);
  AllowManyDescriptors();
  // Before models are loaded: a port that is in use is told at once.
  Service* service = nullptr;
  HttpServer server(
      {.host = options.host,
       .port = options.port,
       .payload_limit = options.payload_limit,
       .body_budget = std::max<int64_t>(int64_t{256} << 20, 4 * options.payload_limit),
       .request_timeout = options.request_timeout,
       .stop_timeout = options.stop_timeout},
      [&](std::shared_ptr<HttpRequest> request, Respond respond) {
        service->Handle(std::move(request), std::move(respond));
      },
      [&](int status, const std::string& message) { return service->WireError(status, message); });
  std::vector<ServedModel> models;
  for (size_t i = 0; i < options.folders.size(); ++i) {
    ThrowIfStopped("serve");
    const std::string task = options.tasks.empty() ? "" : options.tasks[options.tasks.size() == 1 ? 0 : i];
    models.push_back(ServedModel::Load(options.folders[i], names[i], task, options));
  }
  RequireVectors(options, models);
  ThrowIfStopped("serve");
  Service answers(std::move(models), options);
  service = &answers;
  answers.CountConnections([&server] { return server.connections(); });
  warnings.Release();
  const bool ipv6 = options.host.find(':') != std::string::npos;
  std::puts(fmt::format("listening on http://{}{}{}:{}", ipv6 ? "[" : "", options.host, ipv6 ? "]" : "", server.port())
                .c_str());
  if (std::fflush(stdout) != 0) FailWrite(OutputName("-"), errno);
  const bool all = server.Run([] { return StopSignal() != 0; }, [&] { answers.Stop(); });
  if (!all) answers.Abandon();
  throw Interrupted(StopSignal(), fmt::format("serve: stopped by {}; {} requests were answered{}",
                                              StopSignal() == SIGINT ? "SIGINT" : "SIGTERM", answers.answered(),
                                              all ? "" : ", some were given up (stop_timeout)"));
}

}  // namespace lshformer
