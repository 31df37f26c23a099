#include "serve/inspect_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "attention/spec_changes.h"
#include "base/error.h"
#include "base/json.h"
#include "models/family.h"
#include "models/stored_directions.h"
#include "serve/request_error.h"

namespace lshformer {
namespace {

using enum RequestErrorType;

struct Look {
  Json answer;
  std::vector<float> mean;  // of the last states
};

Look LookAt(Model& model, const PackedBatch& batch, const ApiRequest& request) {
  const torch::NoGradGuard no_gradients;
  AttentionCounts counts;
  ForwardOptions forward;
  forward.counts = &counts;
  forward.attentions = true;
  const ModelOutput output = model.Forward(batch, forward);
  const auto begin = std::chrono::steady_clock::now();
  model.Forward(batch, {});
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  if (request.layer >= std::ssize(output.attentions))
    FailRequest(kValidation, "\"layer\": expected 0 to {}, got {}", std::ssize(output.attentions) - 1, request.layer);
  const torch::Tensor heads = output.attentions[static_cast<size_t>(request.layer)].front();  // [heads, n, n]
  if (request.head >= heads.size(0))
    FailRequest(kValidation, "\"head\": expected 0 to {}, got {}", heads.size(0) - 1, request.head);
  const torch::Tensor head = heads[request.head].to(torch::kFloat32).contiguous();  // [n, n]
  const auto values = head.accessor<float, 2>();
  Json map = Json::array();
  for (int64_t i = 0; i < values.size(0); ++i) {
    Json& row = map.emplace_back(Json::array());
    for (int64_t j = 0; j < values.size(1); ++j)
      row.push_back(values[i][j] == 0 ? Json() : Json(std::round(values[i][j] * 1e6) / 1e6));
  }
  const AttentionSpec& spec = model.config().attention[static_cast<size_t>(request.layer)];
  const torch::Tensor states = output.last_hidden_state.to(torch::kFloat32).contiguous();
  return {{{"attention", Name(spec)},
           {"pairs", counts.pairs_computed},
           {"milliseconds", took.count()},
           {"map", std::move(map)}},
          PoolRows({states.data_ptr<float>(), static_cast<size_t>(states.numel())}, states.size(1), Pooling::kMean,
                   /*normalize=*/true)};
}

// The model's own attention with another kind in place of it. "": its own.
std::vector<AttentionSpec> Changed(std::vector<AttentionSpec> specs, const std::string& attention) {
  AttentionChanges changes;
  changes.attention = attention;
  changes.Apply(specs);
  return specs;
}

}  // namespace

std::string InspectBody(const ApiRequest& request, const ServedModel& model) {
  const Pipeline& pipeline = model.pipeline();
  if (!FamilyOf(pipeline.config()).encoder_layers)
    FailRequest(kBackend, "a model of type \"{}\" has no self-attention", pipeline.config().model_type);
  const Encoding text = pipeline.tokenizer().Encode(request.inputs.front().text);
  const auto tokens = std::ssize(text.ids);
  const int64_t most = std::min<int64_t>(kLongestInspected, model.max_input_length());
  if (tokens > most) FailRequest(kValidation, "\"inputs\" has {} tokens, expected at most {}", tokens, most);
  PackedBatch batch;
  AppendSequence(batch, text.ids, text.type_ids, 0);
  const std::vector<AttentionSpec>& own = pipeline.config().attention;
  std::vector<AttentionSpec> other;
  try {
    other = Changed(own, request.attention);
  } catch (const Error& error) {
    throw RequestError(kValidation, fmt::format("\"attention\": {}", error.what()));
  }
  if (AnyStoresDirections(other) && !AnyStoresDirections(own))
    FailRequest(kValidation, "\"attention\": \"directions\" are \"stored\", and the model is served without any");
  const Look exact = LookAt(*WithAttention(pipeline.model(), Changed(own, "dense")), batch, request);
  const Look looked = LookAt(*WithAttention(pipeline.model(), other), batch, request);
  double cosine = 0;
  for (size_t h = 0; h < exact.mean.size(); ++h) cosine += static_cast<double>(exact.mean[h]) * looked.mean[h];
  Json answer{{"tokens", Json::array()}, {"exact", exact.answer}, {"other", looked.answer}, {"cosine", cosine}};
  for (const int32_t id : text.ids) answer["tokens"].push_back(pipeline.tokenizer().Token(id));
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lshformer
