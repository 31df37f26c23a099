// Questions on contexts of any length: windows of all requests share forward calls.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/signals.h"
#include "infer/pipeline.h"

namespace lshformer {
namespace {

// One forward call's windows.
struct WindowBatch {
  struct Place {
    size_t request;
    ContextWindow tokens;
  };
  PackedBatch packed;
  std::vector<Place> places;
};

bool AllFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

// The answer given first, then the others, best first; at most `count`. No-answer counts only with version_2.
FoundAnswer ForOutput(const FoundAnswer& all, const AnswerOptions& options, int count) {
  FoundAnswer found = WithoutRepetitions(all);
  const auto given = std::find_if(found.best.begin(), found.best.end(), [&](const AnswerCandidate& candidate) {
    return candidate.begin == found.answer.begin && candidate.end == found.answer.end;
  });
  const auto place = given - found.best.begin();
  std::rotate(found.best.begin(), given, given + 1);
  std::rotate(found.probabilities.begin(), found.probabilities.begin() + place,
              found.probabilities.begin() + place + 1);
  // Nothing was found, which is no opinion that there is nothing.
  if (!options.version_2 && found.answer.none()) found.probabilities[0] = 0;
  const auto kept = std::min(found.best.size(), static_cast<size_t>(count));
  found.best.resize(kept);
  found.probabilities.resize(kept);
  return found;
}

}  // namespace

Request Pipeline::PrepareQuestion(std::string_view question, std::string_view context) const {
  Request request = NewRequest();
  Ask(std::string(question), std::string(context), request);
  return request;
}

void Pipeline::Ask(std::string question, std::string context, Request& request) const {
  request.asked = std::make_shared<AskedQuestion>();
  AskedQuestion& asked = *request.asked;
  asked.question = EncodeBare(*tokenizer_, question).ids;
  if (asked.question.empty()) Fail("\"question\" has no tokens: it is blank");
  constexpr size_t kMostBytes = size_t{16} << 20;  // some three million words; a process stays below 400 MB
  if (context.size() > kMostBytes) Fail("\"context\" has {} bytes, expected at most {}", context.size(), kMostBytes);
  Encoding encoding = EncodeBare(*tokenizer_, context);
  asked.context = std::move(context);
  asked.context_ids = std::move(encoding.ids);
  asked.places = std::move(encoding.offsets);
  if (asked.context_ids.empty()) Fail("\"context\" has no tokens: it is blank");
  asked.windows =
      CutContext(static_cast<int64_t>(asked.question.size()), static_cast<int64_t>(asked.context_ids.size()),
                 {options_.max_seq_length, options_.doc_stride});
}

void Pipeline::RunQuestions(std::span<Request> requests, const Finished& finished) const {
  torch::NoGradGuard no_gradients;
  std::vector<AnswerSearch> searches(requests.size(), AnswerSearch(options_.answers));
  WindowBatch batch;
  size_t answered = 0;  // requests
  const auto answer_before = [&](size_t end) {
    if (end == answered) return;
    for (; answered < end; ++answered) {
      Request& request = requests[answered];
      if (request.error.empty())
        request.asked->found = ForOutput(searches[answered].Finish(), options_.answers, request.top_k);
    }
    if (finished) finished(answered);
  };
  const auto run = [&] {
    ThrowIfStopped("predict");
    const ModelOutput output = model_->Forward(batch.packed, {});
    const torch::Tensor starts = output.start_logits.contiguous(), ends = output.end_logits.contiguous();  // [T]
    for (size_t b = 0; b < batch.places.size(); ++b) {
      const auto [number, tokens] = batch.places[b];
      Request& request = requests[number];
      const int32_t begin = batch.packed.tokens.cu_seqlens[b];
      const auto length = static_cast<size_t>(batch.packed.tokens.cu_seqlens[b + 1] - begin);
      const std::span<const float> start(starts.data_ptr<float>() + begin, length);
      const std::span<const float> end(ends.data_ptr<float>() + begin, length);
      if (!AllFinite(start) || !AllFinite(end)) {
        request.error = "the model's output for this question is not finite";
        continue;
      }
      const auto first = static_cast<int32_t>(request.asked->question.size()) + 2;
      searches[number].AddWindow(start, end, {0, first, tokens}, request.asked->places);
    }
    batch = {};
  };
  for (size_t number = 0; number < requests.size(); ++number) {
    if (!requests[number].error.empty()) continue;
    const AskedQuestion& asked = *requests[number].asked;
    for (const ContextWindow& window : asked.windows) {
      const WindowSequence sequence = MakeWindow(asked.question, asked.context_ids, window, *tokenizer_);
      const auto tokens = batch.packed.tokens.size() + static_cast<int64_t>(sequence.ids.size());
      if (!batch.places.empty() && tokens > options_.batch_tokens) {
        run();
        answer_before(number);  // whose windows have all been run
      }
      AppendSequence(batch.packed, sequence.ids, sequence.type_ids, batch.places.size());
      batch.places.push_back({number, window});
    }
  }
  if (!batch.places.empty()) run();
  answer_before(requests.size());
}

}  // namespace lshformer
