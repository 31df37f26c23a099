// Answers as JSON, in the shapes of HF's pipelines.
#include <fmt/core.h>

#include "infer/pipeline.h"
#include "text/code_points.h"

namespace lshformer {
namespace {

std::string Quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

// The shortest digits that give the same float back.
std::string Number(float value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == text.npos ? text + ".0" : text;
}

void WriteVector(std::span<const float> vector, const JsonSink& sink) {
  std::string out = "[";
  for (size_t i = 0; i < vector.size(); ++i) out += (i == 0 ? "" : ", ") + Number(vector[i]);
  sink(out + "]");
}

}  // namespace

// A list for one mask, else a list of lists. As in HF, the sequence of a candidate has that one mask filled, and keeps
// its special tokens where there are several masks.
void Pipeline::WriteFillMask(const Request& request, const JsonSink& sink) const {
  const bool single = request.masks.size() == 1;
  std::vector<int32_t> ids = request.encoding.ids;
  if (!single) sink("[");
  for (size_t mask = 0; mask < request.masks.size(); ++mask) {
    sink(mask == 0 ? "[" : ", [");
    int32_t& hole = ids[static_cast<size_t>(request.masks[mask])];
    const int32_t saved = hole;
    for (size_t i = 0; i < static_cast<size_t>(request.top_k); ++i) {
      const Request::Candidate& best = request.candidates[mask * static_cast<size_t>(request.top_k) + i];
      hole = best.index;
      // A row beyond the vocabulary has no text of its own: its place stays empty.
      std::vector<int32_t> known = ids;
      if (best.index >= tokenizer_->vocab_size()) known.erase(known.begin() + request.masks[mask]);
      sink(fmt::format(R"({}{{"score": {}, "token": {}, "token_str": {}, "sequence": {}}})", i == 0 ? "" : ", ",
                       Number(best.score), best.index, token_strings_[static_cast<size_t>(best.index)],
                       Quoted(tokenizer_->Decode(known, single))));
    }
    hole = saved;
    sink("]");
  }
  if (!single) sink("]");
}

void Pipeline::WriteAnswers(const Request& request, const JsonSink& sink) const {
  const CodePointIndex context(request.asked->context);
  const FoundAnswer& found = request.asked->found;
  sink("[");
  for (size_t i = 0; i < found.best.size(); ++i) {
    const AnswerCandidate& best = found.best[i];
    const std::string text(context.Slice(best.begin, best.end));
    sink(fmt::format(R"({}{{"answer": {}, "score": {}, "start": {}, "end": {}}})", i == 0 ? "" : ", ", Quoted(text),
                     Number(static_cast<float>(found.probabilities[i])), best.begin, best.end));
  }
  sink("]");
}

void Pipeline::Write(const Request& request, const JsonSink& sink) const {
  const std::string id = request.id.value_or(Json()).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (!request.error.empty()) {
    sink(fmt::format(R"({{"id": {}, "error": {}}})", id, Quoted(request.error)));
    return;
  }
  sink(request.id ? fmt::format(R"({{"id": {}, )", id) : "{");
  if (options_.task == PredictTask::kFeatureExtraction) {
    const auto width = static_cast<size_t>(config().hidden_size);
    sink("\"embedding\": ");
    if (request.pooling != Pooling::kNone) {
      WriteVector(request.embedding, sink);
    } else {
      for (size_t begin = 0; begin < request.embedding.size(); begin += width) {
        sink(begin == 0 ? "[" : ", ");
        WriteVector({request.embedding.data() + begin, width}, sink);
      }
      sink("]");
    }
  } else if (options_.task == PredictTask::kQuestionAnswering) {
    sink("\"results\": ");
    WriteAnswers(request, sink);
  } else if (options_.task == PredictTask::kFillMask) {
    sink("\"results\": ");
    WriteFillMask(request, sink);
  } else {
    sink("\"results\": [");
    for (size_t i = 0; i < request.candidates.size(); ++i) {
      sink(fmt::format(R"({}{{"label": {}, "score": {}}})", i == 0 ? "" : ", ",
                       Quoted(config().label_name(request.candidates[i].index)), Number(request.candidates[i].score)));
    }
    sink("]");
  }
  sink("}");
}

}  // namespace lshformer
