#include "models/conditional_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/error.h"
#include "data/answer_beam.h"
#include "models/model.h"
#include "ops/row_ops.h"
#include "ops/span_cross_entropy.h"

namespace lshformer {
namespace {

constexpr const char *kStart = "start_logits.dense", *kJoined = "end_logits.dense_0",
                     *kEndNorm = "end_logits.LayerNorm", *kEnd = "end_logits.dense_1",
                     *kSummary = "answer_class.dense_0", *kNoAnswer = "answer_class.dense_1.weight";
constexpr float kMasked = -1e30F;

// [T] true where neither a start nor an end may be.
torch::Tensor Forbidden(const TokenStream& stream) {
  torch::Tensor mask = torch::ones({stream.size()}, torch::kBool);
  bool* forbidden = mask.data_ptr<bool>();
  for (int b = 0; b < stream.sequences(); ++b) {
    const int32_t begin = stream.cu_seqlens[b], end = stream.cu_seqlens[b + 1];
    forbidden[begin] = false;
    for (int32_t t = begin + 1; t + 1 < end; ++t) forbidden[t] = stream.type_ids[t] != 1;
  }
  return mask;
}

// The labels, those that are no span of the context as [CLS].
struct Gold {
  std::vector<int32_t> starts, ends;
  std::vector<float> none;  // 1: no answer
};

Gold GoldOf(const PackedBatch& batch, const torch::Tensor& forbidden) {
  const std::vector<int32_t>&starts = batch.labels.start_positions, &ends = batch.labels.end_positions;
  const auto sequences = static_cast<size_t>(batch.sequences());
  if (starts.size() != sequences || ends.size() != sequences)
    Fail("{} starts and {} ends of answers for {} sequences", starts.size(), ends.size(), sequences);
  const bool* outside = forbidden.data_ptr<bool>();
  Gold gold;
  for (size_t b = 0; b < sequences; ++b) {
    const int32_t begin = batch.tokens.cu_seqlens[b], length = batch.tokens.cu_seqlens[b + 1] - begin;
    const bool span = starts[b] > 0 && starts[b] <= ends[b] && ends[b] < length && !outside[begin + starts[b]] &&
                      !outside[begin + ends[b]];
    gold.starts.push_back(span ? starts[b] : 0);
    gold.ends.push_back(span ? ends[b] : 0);
    gold.none.push_back(span ? 0 : 1);
  }
  return gold;
}

std::span<const float> Part(const torch::Tensor& logits, const TokenStream& stream, int sequence) {  // of [T]
  const int32_t begin = stream.cu_seqlens[sequence], end = stream.cu_seqlens[sequence + 1];
  return {logits.data_ptr<float>() + begin, static_cast<size_t>(end - begin)};
}

// The likeliest tokens among those that are allowed.
std::vector<int32_t> Likeliest(std::span<const float> logits, int count) {
  std::vector<int32_t> tokens = Largest(logits, count);
  std::erase_if(tokens, [&](int32_t token) { return logits[static_cast<size_t>(token)] <= kMasked; });
  return tokens;
}

// log Σ exp(logits); finite ones.
double LogSumExp(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

}  // namespace

struct ConditionalAnswers::Tokens {
  torch::Tensor states;     // [T, H], A · h_t + b_1
  torch::Tensor sequences;  // [T], whose token it is
  torch::Tensor forbidden;  // [T]
  Linear start_map;         // B
};

void ConditionalAnswers::AppendSpecs(std::vector<ParameterSpec>& specs, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  const std::string sizes = fmt::format("hidden_size {}", hidden);
  AppendLinear(specs, kStart, /*out=*/1, hidden, "head", sizes);
  AppendLinear(specs, kJoined, hidden, 2 * hidden, "head", sizes);
  AppendLayerNorm(specs, kEndNorm, hidden, "head");
  AppendLinear(specs, kEnd, /*out=*/1, hidden, "head", sizes);
  AppendLinear(specs, kSummary, hidden, 2 * hidden, "head", sizes);
  specs.push_back({kNoAnswer, {1, hidden}, Initial::kNormal, "head", sizes});
}

ConditionalAnswers::ConditionalAnswers(const ParameterMap& parameters, const ModelConfig& config, double dropout)
    : dropout_(dropout),
      joined_(parameters.Get(fmt::format("{}.weight", kJoined))),
      joined_bias_(parameters.Get(fmt::format("{}.bias", kJoined))),
      start_(parameters.LinearOf(kStart)),
      end_(parameters.LinearOf(kEnd)),
      summary_(parameters.LinearOf(kSummary)),
      no_answer_({parameters.Get(kNoAnswer)}, {torch::zeros({1})}),
      end_norm_(parameters, kEndNorm, config.layer_norm_eps) {}

// The two halves of W_1 are maps of this forward alone: a map that stayed would not learn of a training step.
ConditionalAnswers::Tokens ConditionalAnswers::TokensOf(const PackedBatch& batch, const torch::Tensor& hidden) const {
  const int64_t width = hidden.size(1);
  std::vector<int64_t> sequences;
  for (int b = 0; b < batch.sequences(); ++b) sequences.resize(static_cast<size_t>(batch.tokens.cu_seqlens[b + 1]), b);
  const Linear token_map({joined_.narrow(1, 0, width)}, {joined_bias_});
  return {token_map(hidden), torch::tensor(sequences, torch::kInt64), Forbidden(batch.tokens),
          Linear({joined_.narrow(1, width, width)}, {torch::zeros({width})})};
}

torch::Tensor ConditionalAnswers::EndLogits(const Tokens& tokens, const torch::Tensor& hidden,
                                            const std::vector<int64_t>& starts) const {
  const torch::Tensor of_starts = tokens.start_map(hidden.index_select(0, torch::tensor(starts)));  // [B, H]
  const torch::Tensor states =
      Apply(UnaryFunction::kTanh, tokens.states + of_starts.index_select(0, tokens.sequences));  // [T, H]
  return end_(end_norm_(states, {}, {})).squeeze(1).masked_fill(tokens.forbidden, kMasked);
}

torch::Tensor ConditionalAnswers::NoAnswerLogits(const PackedBatch& batch, const ForwardContext& context,
                                                 const torch::Tensor& hidden, const torch::Tensor& start_logits) const {
  const std::vector<int32_t>& cu_seqlens = batch.tokens.cu_seqlens;
  std::vector<torch::Tensor> means;
  for (int b = 0; b < batch.sequences(); ++b) {
    const int64_t length = cu_seqlens[b + 1] - cu_seqlens[b];
    const torch::Tensor weights = torch::softmax(start_logits.narrow(0, cu_seqlens[b], length), 0);  // [n]
    means.push_back((weights.unsqueeze(1) * hidden.narrow(0, cu_seqlens[b], length)).sum(0));        // [H]
  }
  const std::vector<int64_t> first(cu_seqlens.begin(), cu_seqlens.end() - 1);
  const torch::Tensor joined = torch::cat({torch::stack(means), hidden.index_select(0, torch::tensor(first))}, 1);
  const torch::Tensor summary = Apply(UnaryFunction::kTanh, summary_(joined));  // [B, H]
  return no_answer_(Dropout(summary, context.DropoutPerSequence(DropoutSite::kHead, 0, dropout_))).squeeze(1);
}

// A sequence with fewer starts than others stands in with its first token, and the result is not looked at.
void ConditionalAnswers::FindBeams(const PackedBatch& batch, const Tokens& tokens, ModelOutput& output) const {
  const torch::NoGradGuard no_grad;
  const torch::Tensor start_logits = output.start_logits.contiguous(), no_answer = output.no_answer_logits.contiguous();
  std::vector<std::vector<int32_t>> starts;
  std::vector<double> start_sums;
  for (int b = 0; b < batch.sequences(); ++b) {
    const std::span<const float> logits = Part(start_logits, batch.tokens, b);
    const bool finite = AllFinite(logits);
    starts.push_back(finite ? Likeliest(logits, kBeamStarts) : std::vector<int32_t>());
    start_sums.push_back(finite ? LogSumExp(logits) : 0);
    output.beams.push_back({{}, finite ? no_answer.data_ptr<float>()[b] : std::numeric_limits<float>::quiet_NaN()});
  }
  for (size_t rank = 0; rank < kBeamStarts; ++rank) {
    std::vector<int64_t> rows(batch.tokens.cu_seqlens.begin(), batch.tokens.cu_seqlens.end() - 1);
    for (size_t b = 0; b < rows.size(); ++b) rows[b] += rank < starts[b].size() ? starts[b][rank] : 0;
    const torch::Tensor ends = EndLogits(tokens, output.last_hidden_state, rows).contiguous();  // [T]
    if (rank == 0) output.end_logits = ends;
    for (int b = 0; b < batch.sequences(); ++b) {
      if (rank >= starts[b].size()) continue;
      const std::span<const float> start = Part(start_logits, batch.tokens, b), end = Part(ends, batch.tokens, b);
      AnswerBeam& beam = output.beams[b];
      if (!AllFinite(end)) {
        beam.no_answer = std::numeric_limits<float>::quiet_NaN();
        continue;
      }
      const int32_t from = starts[b][rank];
      const auto start_score = static_cast<float>(start[static_cast<size_t>(from)] - start_sums[b]);
      const double end_sum = LogSumExp(end);
      for (const int32_t to : Likeliest(end, kBeamEnds))
        beam.spans.push_back({from, to, start_score, static_cast<float>(end[static_cast<size_t>(to)] - end_sum)});
    }
  }
}

void ConditionalAnswers::operator()(const PackedBatch& batch, const ForwardContext& context,
                                    ModelOutput& output) const {
  const torch::Tensor& hidden = output.last_hidden_state;
  const Tokens tokens = TokensOf(batch, hidden);
  output.start_logits = start_(hidden).squeeze(1).masked_fill(tokens.forbidden, kMasked);
  output.no_answer_logits = NoAnswerLogits(batch, context, hidden, output.start_logits);
  if (!context.train) FindBeams(batch, tokens, output);
  if (batch.labels.start_positions.empty() && batch.labels.end_positions.empty()) return;
  const Gold gold = GoldOf(batch, tokens.forbidden);
  std::vector<int64_t> rows(batch.tokens.cu_seqlens.begin(), batch.tokens.cu_seqlens.end() - 1);
  for (size_t b = 0; b < rows.size(); ++b) rows[b] += gold.starts[b];
  const torch::Tensor ends = EndLogits(tokens, hidden, rows);  // [T]
  const torch::Tensor spans =
      SpanCrossEntropy(torch::stack({output.start_logits, ends}, 1), batch.tokens.cu_seqlens, gold.starts, gold.ends);
  const torch::Tensor none = torch::binary_cross_entropy_with_logits(output.no_answer_logits, torch::tensor(gold.none));
  output.loss = spans + 0.5 * none;
}

}  // namespace lshformer
