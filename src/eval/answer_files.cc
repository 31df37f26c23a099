#include "eval/answer_files.h"

#include <functional>

#include "base/files.h"
#include "base/json.h"
#include "text/code_points.h"

namespace lshformer {
namespace {

// Calls visit(question number, its context) in order; a context is indexed once.
void ForEachQuestion(const SquadData& data, const std::function<void(size_t, const CodePointIndex&)>& visit) {
  int32_t indexed = -1;
  CodePointIndex context{""};
  for (size_t q = 0; q < data.questions.size(); ++q) {
    const int32_t wanted = data.questions[q].context;
    if (wanted != indexed) context = CodePointIndex(data.contexts[static_cast<size_t>(wanted)]);
    indexed = wanted;
    visit(q, context);
  }
}

std::string TextOf(const AnswerCandidate& answer, const CodePointIndex& context) {
  return std::string(context.Slice(answer.begin, answer.end));
}

class ObjectFile {
 public:
  explicit ObjectFile(const std::string& path) : file_(path) { file_.Write("{"); }
  void Add(const std::string& key, const Json& value) {
    file_.Write(first_ ? "\n" : ",\n");
    first_ = false;
    file_.Write("    " + Json(key).dump() + ": " + value.dump());
  }
  void Commit() {
    file_.Write("\n}\n");
    file_.Commit();
  }

 private:
  AtomicFile file_;
  bool first_ = true;
};

}  // namespace

std::vector<std::string> AnswerTexts(const SquadData& data, const std::vector<FoundAnswer>& found) {
  std::vector<std::string> texts;
  ForEachQuestion(data,
                  [&](size_t q, const CodePointIndex& context) { texts.push_back(TextOf(found[q].answer, context)); });
  return texts;
}

void WriteAnswerFiles(const SquadData& data, const std::vector<FoundAnswer>& found, bool version_2,
                      const std::string& folder, const std::string& prefix) {
  const std::string begin = folder + "/" + prefix;
  ObjectFile predictions(begin + "predictions.json"), best(begin + "nbest_predictions.json");
  ForEachQuestion(data, [&](size_t q, const CodePointIndex& context) {
    const std::string& id = data.questions[q].id;
    predictions.Add(id, TextOf(found[q].answer, context));
    Json list = Json::array();
    for (size_t i = 0; i < found[q].best.size(); ++i) {
      const AnswerCandidate& candidate = found[q].best[i];
      list.push_back({{"text", TextOf(candidate, context)},
                      {"start_logit", candidate.start_logit},
                      {"end_logit", candidate.end_logit},
                      {"probability", found[q].probabilities[i]}});
    }
    best.Add(id, list);
  });
  predictions.Commit();
  best.Commit();
  if (!version_2) return;
  ObjectFile odds(begin + "null_odds.json");
  for (size_t q = 0; q < found.size(); ++q) odds.Add(data.questions[q].id, found[q].null_odds);
  odds.Commit();
}

}  // namespace lshformer
