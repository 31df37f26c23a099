#include "eval/squad_score.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/files.h"
#include "eval/answer_text.h"
#include "io/gzip.h"

namespace lshformer {
namespace {

struct Scores {
  double exact = 0, f1 = 0;
};

// A question with the raw scores of its prediction.
struct Scored {
  const SquadReference* reference;
  const std::string* prediction;  // null: there is none
  Scores raw, in_force;           // in_force: after na_prob_thresh
  bool answered = false;          // the prediction in force is not empty
  bool has_answer() const { return !reference->answers.empty(); }
};

Scores BestOverGold(const std::vector<std::string>& answers, const std::string& prediction, bool version_2) {
  std::vector<std::vector<std::string>> golds;
  for (const std::string& answer : answers) {
    golds.push_back(AnswerWords(answer));
    if (version_2 && golds.back().empty()) golds.pop_back();
  }
  if (golds.empty()) golds.emplace_back();
  const std::vector<std::string> words = AnswerWords(prediction);
  Scores best;
  for (const std::vector<std::string>& gold : golds) {
    const bool wordless = version_2 && (gold.empty() || words.empty());
    best.exact = std::max(best.exact, words == gold ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, wordless ? (words == gold ? 1.0 : 0.0) : BagF1(words, gold));
  }
  return best;
}

using Chooser = std::function<bool(const Scored&)>;

void AddTotals(const std::vector<Scored>& questions, const Chooser& chosen, const std::string& prefix, Json& out) {
  Scores sum;
  int64_t total = 0;
  for (const Scored& question : questions) {
    if (!chosen(question)) continue;
    sum.exact += question.in_force.exact;
    sum.f1 += question.in_force.f1;
    ++total;
  }
  if (total == 0) return;
  out[prefix + "exact"] = 100 * sum.exact / static_cast<double>(total);
  out[prefix + "f1"] = 100 * sum.f1 / static_cast<double>(total);
  out[prefix + "total"] = total;
}

struct BestThreshold {
  double score = 0, threshold = 0;
};

// All questions count as unanswered at first, which is right for those without an answer.
BestThreshold FindBestThreshold(const std::vector<Scored>& in_order, const std::vector<double>& probabilities,
                                double Scores::*which) {
  double current = 0;
  for (const Scored& question : in_order) current += question.has_answer() ? 0 : 1;
  BestThreshold best{current, 0};
  for (size_t i = 0; i < in_order.size(); ++i) {
    const Scored& question = in_order[i];
    current += question.has_answer() ? question.raw.*which : question.prediction->empty() ? 0 : -1;
    if (current > best.score) best = {current, probabilities[i]};
  }
  best.score = 100 * best.score / static_cast<double>(in_order.size());
  return best;
}

void AddBestThresholds(const std::vector<Scored>& questions, const NoAnswerProbabilities& na_prob, Json& out) {
  std::unordered_map<std::string_view, const Scored*> by_id;
  for (const Scored& question : questions) by_id[question.reference->id] = &question;
  NoAnswerProbabilities sorted = na_prob;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<Scored> in_order;
  std::vector<double> probabilities;
  for (const auto& [id, probability] : sorted) {
    const auto found = by_id.find(id);
    if (found == by_id.end()) continue;
    in_order.push_back(*found->second);
    probabilities.push_back(probability);
  }
  for (const auto& [name, which] : {std::pair("exact", &Scores::exact), std::pair("f1", &Scores::f1)}) {
    const BestThreshold best = FindBestThreshold(in_order, probabilities, which);
    out[std::string("best_") + name] = best.score;
    out[std::string("best_") + name + "_thresh"] = best.threshold;
  }
}

void WarnOfUnknownIds(const std::vector<SquadReference>& references, const SquadPredictions& predictions,
                      const std::string& name) {
  int64_t known = 0;
  for (const SquadReference& reference : references) known += predictions.contains(reference.id);
  const int64_t unknown = static_cast<int64_t>(predictions.size()) - known;
  if (unknown > 0)
    spdlog::warn("{}: {} of {} predictions have an id that no question has; they do not count", name, unknown,
                 predictions.size());
}

Json ReadObject(const std::string& path, std::string* name) {
  *name = InputName(path);
  Json json = ParseJson(ReadText(path, uint64_t{1} << 30), *name);
  if (!json.is_object()) Fail("{}: expected an object, question id to value, got {}", *name, ShownValue(json));
  return json;
}

}  // namespace

Json ScoreSquad(const std::vector<SquadReference>& references, const SquadPredictions& predictions,
                const std::string& predictions_name, const NoAnswerProbabilities& na_prob,
                const std::string& na_prob_name, const SquadScoring& scoring) {
  std::unordered_map<std::string_view, double> probability;
  for (const auto& [id, value] : na_prob) probability[id] = value;
  std::vector<Scored> questions;
  int64_t missing = 0;
  for (const SquadReference& reference : references) {
    const auto found = predictions.find(reference.id);
    Scored question{&reference, found == predictions.end() ? nullptr : &found->second, {}, {}};
    if (!scoring.version_2 && !question.has_answer())
      Fail("question \"{}\" has no gold answer; {} scores such files", Shown(reference.id),
           OptionName{"version_2_with_negative"});
    if (question.prediction == nullptr && scoring.version_2)
      Fail("{}: no prediction for question \"{}\"", predictions_name, Shown(reference.id));
    missing += question.prediction == nullptr;
    double na = 0;
    if (const auto given = probability.find(reference.id); given != probability.end()) {
      na = given->second;
    } else if (!na_prob.empty()) {
      Fail("{}: no probability for question \"{}\"", na_prob_name, Shown(reference.id));
    }
    if (question.prediction != nullptr)
      question.raw = BestOverGold(reference.answers, *question.prediction, scoring.version_2);
    const bool none = scoring.version_2 && na > scoring.na_prob_thresh;
    const double none_is_right = question.has_answer() ? 0 : 1;
    question.in_force = none ? Scores{none_is_right, none_is_right} : question.raw;
    question.answered = !none && question.prediction != nullptr && !question.prediction->empty();
    questions.push_back(question);
  }
  WarnOfUnknownIds(references, predictions, predictions_name);
  if (missing > 0)
    spdlog::warn("{}: {} of {} questions have no prediction and count 0", predictions_name, missing, questions.size());
  Json out;
  AddTotals(
      questions, [](const Scored&) { return true; }, "", out);
  AddTotals(questions, &Scored::has_answer, "HasAns_", out);
  AddTotals(
      questions, [](const Scored& question) { return !question.has_answer(); }, "NoAns_", out);
  if (scoring.version_2 && !na_prob.empty()) AddBestThresholds(questions, na_prob, out);
  if (!scoring.version_2) out["exact_match"] = out["exact"];
  const auto right = std::count_if(questions.begin(), questions.end(),
                                   [](const Scored& question) { return question.answered == question.has_answer(); });
  out["AvNA"] = 100 * static_cast<double>(right) / static_cast<double>(questions.size());
  return out;
}

Json ScoreSquadFiles(const std::string& predictions_path, const std::string& references_path,
                     const std::string& na_prob_path, const SquadScoring& scoring) {
  const std::vector<SquadReference> references = ReadSquadReferences(references_path);
  std::string name, na_prob_name;
  SquadPredictions predictions;
  const Json read = ReadObject(predictions_path, &name);
  for (const auto& [id, answer] : read.items()) {
    if (!answer.is_string())
      Fail("{}: question \"{}\": expected a string, got {}", name, Shown(id), ShownValue(answer));
    predictions.emplace(id, answer.get<std::string>());
  }
  NoAnswerProbabilities na_prob;
  if (!na_prob_path.empty()) {
    const Json numbers = ReadObject(na_prob_path, &na_prob_name);
    for (const auto& [id, value] : numbers.items()) {
      if (!value.is_number())
        Fail("{}: question \"{}\": expected a number, got {}", na_prob_name, Shown(id), ShownValue(value));
      na_prob.emplace_back(id, value.get<double>());
    }
    if (na_prob.empty()) Fail("{}: has no probabilities", na_prob_name);
  }
  return ScoreSquad(references, predictions, name, na_prob, na_prob_name, scoring);
}

}  // namespace lshformer
