#include "infer/pipeline.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace lshformer {
namespace {

Task HeadOf(PredictTask task) {
  switch (task) {
    case PredictTask::kFillMask:
      return Task::kMaskedLm;
    case PredictTask::kTextClassification:
      return Task::kSequenceClassification;
    case PredictTask::kQuestionAnswering:
      return Task::kQuestionAnswering;
    case PredictTask::kFeatureExtraction:
      break;
  }
  return Task::kEncoder;
}

std::span<const float> Row(const torch::Tensor& matrix, int64_t row) {
  return {matrix.data_ptr<float>() + row * matrix.size(1), static_cast<size_t>(matrix.size(1))};
}

bool AllFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

// HF's rule: one label is a sigmoid, a regression stays as it is, all else is a softmax.
std::vector<float> ClassScores(std::span<const float> logits, const ModelConfig& config) {
  std::vector<float> scores(logits.begin(), logits.end());
  if (config.problem_type == "regression") return scores;
  if (config.num_labels == 1) {
    for (float& score : scores) score = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(score))));
    return scores;
  }
  SoftmaxRow(logits, scores);
  return scores;
}

void Normalize(std::span<float> vector) {
  double square = 0;
  for (const float x : vector) square += static_cast<double>(x) * x;
  if (square == 0) return;
  for (float& x : vector) x = static_cast<float>(x / std::sqrt(square));
}

// hidden: the request's rows [n, H].
std::vector<float> Pooled(std::span<const float> hidden, int64_t width, Pooling pooling, bool normalize) {
  std::vector<float> out;
  if (pooling == Pooling::kNone) {
    out.assign(hidden.begin(), hidden.end());
  } else if (pooling == Pooling::kCls) {
    out.assign(hidden.begin(), hidden.begin() + width);
  } else {
    const auto rows = static_cast<int64_t>(hidden.size()) / width;
    for (int64_t column = 0; column < width; ++column) {
      double sum = 0;
      for (int64_t row = 0; row < rows; ++row) sum += hidden[static_cast<size_t>(row * width + column)];
      out.push_back(static_cast<float>(sum / static_cast<double>(rows)));
    }
  }
  if (normalize) {
    for (size_t begin = 0; begin < out.size(); begin += static_cast<size_t>(width)) {
      Normalize({out.data() + begin, static_cast<size_t>(width)});
    }
  }
  return out;
}

}  // namespace

void SoftmaxRow(std::span<const float> logits, std::span<float> probabilities) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  for (size_t i = 0; i < logits.size(); ++i) {
    probabilities[i] = static_cast<float>(std::exp(logits[i] - largest) / sum);
  }
}

std::vector<Request::Candidate> BestOf(std::span<const float> scores, int count) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto better = [&](int32_t a, int32_t b) {
    const float left = scores[static_cast<size_t>(a)], right = scores[static_cast<size_t>(b)];
    return left > right || (left == right && a < b);
  };
  const auto last = order.begin() + std::min<int64_t>(count, static_cast<int64_t>(order.size()));
  std::partial_sort(order.begin(), last, order.end(), better);
  std::vector<Request::Candidate> best;
  for (auto index = order.begin(); index != last; ++index) {
    best.push_back({*index, scores[static_cast<size_t>(*index)]});
  }
  return best;
}

Pipeline::Pipeline(ModelPtr model, std::shared_ptr<const Tokenizer> tokenizer, const PredictOptions& options)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)), options_(options) {
  const auto positions = static_cast<int>(std::min<int64_t>(config().max_position_embeddings, INT32_MAX));
  // [CLS], a token and [SEP]; a pair has one more of both.
  constexpr int kShortest = 5;
  if (options_.max_seq_length == 0) options_.max_seq_length = positions;
  if (options_.max_seq_length < kShortest || options_.max_seq_length > positions) {
    FailUsage("--max_seq_length: expected {} to {} (the model's position table), got {}", kShortest, positions,
              options_.max_seq_length);
  }
  const bool asking = options_.task == PredictTask::kQuestionAnswering;
  if (asking) ValidateAnswerOptions(options_.answers);
  if (options_.top_k == 0) options_.top_k = asking ? 1 : static_cast<int>(std::min<int64_t>(5, config().vocab_size));
  const int64_t most = asking ? options_.answers.n_best_size : config().vocab_size;
  if (options_.top_k < 1 || options_.top_k > most) {
    FailUsage("--top_k: expected 1 to {} ({}), got {}", most, asking ? "--n_best_size" : "the model's vocabulary",
              options_.top_k);
  }
  if (options_.batch_tokens < 1) FailUsage("--batch_tokens: expected at least 1, got {}", options_.batch_tokens);
  if (tokenizer_->vocab_size() > config().vocab_size) {
    Fail("config.json: \"vocab_size\" is {}, but the tokenizer (vocab.txt) has {} tokens", config().vocab_size,
         tokenizer_->vocab_size());
  }
  if (model_->task() != HeadOf(options_.task)) Fail("the model has no head for this task");
  model_->set_precision(options_.precision);
  if (options_.task != PredictTask::kFillMask) return;
  if (tokenizer_->mask_id() < 0) Fail("the tokenizer has no mask token");
  for (int32_t id = 0; id < config().vocab_size; ++id) {
    // The model's table may be larger than the vocabulary; such rows have no text.
    const std::string text =
        id < tokenizer_->vocab_size() ? tokenizer_->Decode({id}, /*skip_special_tokens=*/false) : "";
    token_strings_.push_back(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

Pipeline Pipeline::Load(const std::string& folder, const std::string& tokenizer_folder, const PredictOptions& options,
                        const std::function<void(ModelConfig&)>& adjust) {
  std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Load(tokenizer_folder.empty() ? folder : tokenizer_folder);
  const Task head = HeadOf(options.task);
  return Pipeline(
      LoadModel(folder, head, /*seed=*/0, /*require_head=*/head != Task::kEncoder, adjust, WeightPlace::kMappedFile),
      std::move(tokenizer), options);
}

void Pipeline::Run(std::span<Request> requests, const Finished& finished) const {
  if (options_.task == PredictTask::kQuestionAnswering) return RunQuestions(requests, finished);
  std::vector<Request*> order;
  for (Request& request : requests) {
    if (request.error.empty()) order.push_back(&request);
  }
  // Similar lengths together: a call's time and memory then follow its tokens.
  std::stable_sort(order.begin(), order.end(),
                   [](const Request* a, const Request* b) { return a->encoding.ids.size() < b->encoding.ids.size(); });
  // Masked-LM logits are [masks, vocabulary]: 2^24 floats are 64 MiB, as much as one line of 512 masks needs.
  const int64_t most_masks = std::max<int64_t>(1, (int64_t{1} << 24) / config().vocab_size);
  std::vector<Request*> batch;
  int64_t tokens = 0, masks = 0;
  for (Request* request : order) {
    const auto length = static_cast<int64_t>(request->encoding.ids.size());
    const auto added = static_cast<int64_t>(request->masks.size());
    if (!batch.empty() && (tokens + length > options_.batch_tokens || masks + added > most_masks)) {
      RunBatch(batch);
      batch.clear();
      tokens = masks = 0;
    }
    batch.push_back(request);
    tokens += length;
    masks += added;
  }
  if (!batch.empty()) RunBatch(batch);
  if (finished) finished(requests.size());
}

void Pipeline::RunBatch(const std::vector<Request*>& batch) const {
  torch::NoGradGuard no_gradients;
  PackedBatch packed;
  for (const Request* request : batch) {
    AppendSequence(packed, request->encoding.ids, request->encoding.type_ids, packed.tokens.cu_seqlens.size() - 1);
    if (options_.task != PredictTask::kFillMask) continue;
    packed.labels.tokens.resize(packed.tokens.ids.size(), -100);  // logits are computed where there is a label
    for (const int32_t mask : request->masks) {
      packed.labels.tokens[packed.labels.tokens.size() - request->encoding.ids.size() + static_cast<size_t>(mask)] = 0;
    }
  }
  const ModelOutput output = model_->Forward(packed, {});
  const bool hidden = options_.task == PredictTask::kFeatureExtraction;
  const torch::Tensor rows = (hidden ? output.last_hidden_state : output.logits).contiguous();
  const int64_t width = config().hidden_size;
  int64_t row = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    Request& request = *batch[i];
    const auto length = static_cast<int64_t>(request.encoding.ids.size());
    const int64_t count = hidden                                    ? length
                          : options_.task == PredictTask::kFillMask ? static_cast<int64_t>(request.masks.size())
                                                                    : 1;
    const std::span<const float> values(rows.data_ptr<float>() + row * rows.size(1),
                                        static_cast<size_t>(count * rows.size(1)));
    if (!AllFinite(values)) {
      request.error = "the model's output for this text is not finite";
    } else if (hidden) {
      request.embedding = Pooled(values, width, request.pooling, request.normalize);
    } else if (options_.task == PredictTask::kTextClassification) {
      request.candidates = BestOf(ClassScores(values, config()), static_cast<int>(config().num_labels));
    } else {
      std::vector<float> probabilities(static_cast<size_t>(rows.size(1)));
      for (int64_t mask = 0; mask < count; ++mask) {
        SoftmaxRow(Row(rows, row + mask), probabilities);
        const std::vector<Request::Candidate> best = BestOf(probabilities, request.top_k);
        request.candidates.insert(request.candidates.end(), best.begin(), best.end());
      }
    }
    row += count;
  }
}

}  // namespace lshformer
