#include "data/squad.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "data/file_kind.h"
#include "data/json_rows.h"
#include "io/gzip.h"
#include "text/code_points.h"

namespace lshformer {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;

Json& ListOf(Json& object, const char* key, const std::string& where) {
  if (!object.is_object()) Fail("{}: expected an object, got {}", where, ShownValue(object));
  const auto found = object.find(key);
  if (found == object.end()) Fail("{}: \"{}\" is missing", where, key);
  if (!found->is_array()) Fail("{}: \"{}\": expected a list, got {}", where, key, ShownValue(*found));
  return *found;
}

std::string& TextOf(Json& object, const char* key, const std::string& where) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end()) Fail("{}: \"{}\" is missing", where, key);
  if (!found->is_string()) Fail("{}: \"{}\": expected a string, got {}", where, key, ShownValue(*found));
  return found->get_ref<std::string&>();
}

// Some data sets number their questions; as keys of JSON the numbers are strings all the same.
std::string IdOf(Json& question, const std::string& where) {
  const auto found = question.is_object() ? question.find("id") : question.end();
  if (found != question.end() && found->is_number_integer()) return found->dump();
  return TextOf(question, "id", where);
}

// Visits paragraphs and their questions in order of the file; the visitor may take the values it is given. In the flat
// form a paragraph is a row with its question, and an article a title.
class SquadFile {
 public:
  explicit SquadFile(const std::string& path) : name_(InputName(path)), rows_(Text(path), name_, {}) {}
  const std::string& name() const { return name_; }

  template <class Paragraph, class Question>
  void Visit(const Paragraph& paragraph, const Question& question) {
    for (Json row; rows_.Next(row);) {
      if (row.contains("context") || row.contains("question")) {
        VisitFlat(row, paragraph, question);
      } else if (!row.contains("paragraphs") && row.contains("data")) {
        if (!ListOf(row, "data", name_).empty()) Fail("{}: \"data\": expected a list of objects", name_);
      } else {
        if (!row.contains("paragraphs") && !rows_.in_list()) Fail("{}: \"data\" is missing", name_);
        VisitArticle(row, paragraph, question);
      }
    }
    if (ids_.empty()) Fail("{}: has no questions", name_);
  }

 private:
  static std::string Text(const std::string& path) {
    std::string text = ReadText(path, kMostBytes);
    if (IsBlank(text)) Fail("{}: is empty, expected JSON", InputName(path));
    return text;
  }

  template <class Paragraph, class Question>
  void VisitArticle(Json& article, const Paragraph& paragraph, const Question& question) {
    const std::string article_where = fmt::format("{}: data[{}]", name_, articles_);
    Json& paragraphs = ListOf(article, "paragraphs", article_where);
    for (size_t p = 0; p < paragraphs.size(); ++p) {
      const std::string where = fmt::format("{}.paragraphs[{}]", article_where, p);
      Json& questions = ListOf(paragraphs[p], "qas", where);
      paragraph(paragraphs[p], articles_, where);
      for (size_t q = 0; q < questions.size(); ++q) {
        std::string id = IdOf(questions[q], fmt::format("{}.qas[{}]", where, q));
        const std::string question_where = fmt::format("{}: question \"{}\"", name_, Shown(id, 60));
        if (!ids_.insert(id).second) Fail("{} is there for the second time", question_where);
        question(std::move(id), questions[q], question_where);
      }
      paragraphs[p] = nullptr;  // read: its memory is needed elsewhere
    }
    ++articles_;
  }

  // {"id", "title", "context", "question", "answers": {"text": […], "answer_start": […]}}. Rows that follow each other
  // on one context are one paragraph, as in the nested form.
  template <class Paragraph, class Question>
  void VisitFlat(Json& row, const Paragraph& paragraph, const Question& question) {
    const std::string where = rows_.where();
    const std::string title = HasValue(row, "title") ? GetString(row, "title", where) : "";
    std::string context = TextOf(row, "context", where);
    const bool first = !flat_, same_article = !first && title == title_;
    if (!first && !same_article) ++articles_;
    if (!same_article || context != context_) {
      context_ = std::move(context);
      paragraph(row, articles_, where);
    }
    flat_ = true, title_ = title;
    std::string id = IdOf(row, where);
    const std::string question_where = fmt::format("{}: question \"{}\"", where, Shown(id, 60));
    if (!ids_.insert(id).second) Fail("{} is there for the second time", question_where);
    if (const auto answers = row.find("answers"); answers != row.end() && answers->is_object())
      *answers = Nested(*answers, question_where);
    question(std::move(id), row, question_where);
  }

  // Lists of texts and of places as a list of answers.
  static Json Nested(Json& answers, const std::string& where) {
    Json &texts = ListOf(answers, "text", where + ": \"answers\""),
         &starts = ListOf(answers, "answer_start", where + ": \"answers\"");
    if (texts.size() != starts.size())
      Fail("{}: \"answers\": {} of \"text\", but {} of \"answer_start\"", where, texts.size(), starts.size());
    Json list = Json::array();
    for (size_t a = 0; a < texts.size(); ++a)
      list.push_back({{"text", std::move(texts[a])}, {"answer_start", std::move(starts[a])}});
    return list;
  }

  std::string name_;
  JsonRows rows_;
  std::unordered_set<std::string> ids_;
  size_t articles_ = 0;
  bool flat_ = false;            // some row was
  std::string title_, context_;  // of the last flat row
};

SquadAnswer ReadAnswer(Json& json, const CodePointIndex& context, const std::string& where) {
  SquadAnswer answer;
  answer.text = std::move(TextOf(json, "text", where));
  if (answer.text.empty()) Fail("{}: \"text\" is empty", where);
  const int64_t start = GetInt(json, "answer_start", where), length = CountCodePoints(answer.text);
  if (start < 0 || start > context.size())
    Fail("{}: \"answer_start\" is {}, the context has {} characters", where, start, context.size());
  const std::string_view there = context.Slice(start, std::min(start + length, context.size()));
  if (there != answer.text)
    Fail("{}: \"text\" is \"{}\", but the context has \"{}\" at \"answer_start\" {}", where, Shown(answer.text, 30),
         Shown(there, 30), start);
  answer.start = static_cast<int32_t>(start);
  return answer;
}

}  // namespace

SquadData ReadSquad(const std::string& path, SquadUse use, int64_t limit) {
  SquadFile file(path);
  SquadData data;
  data.path = file.name();
  const auto within_limit = [&] { return limit == 0 || static_cast<int64_t>(data.questions.size()) < limit; };
  std::string context;
  CodePointIndex index{""};
  int32_t article = 0;
  bool kept = false;  // the context is in data.contexts
  const auto keep = [&] {
    if (std::exchange(kept, true)) return;
    data.contexts.push_back(context);
    data.articles.push_back(article);
  };
  const auto paragraph = [&](Json& json, size_t place, const std::string& where) {
    context = std::move(TextOf(json, "context", where));
    if (context.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
      Fail("{}: \"context\" has more than 2^31 - 1 bytes", where);
    if (IsBlank(context)) Fail("{}: \"context\" is blank", where);
    index = CodePointIndex(context);
    article = static_cast<int32_t>(place);
    kept = false;
  };
  file.Visit(paragraph, [&](std::string id, Json& json, const std::string& where) {
    SquadQuestion question;
    question.id = std::move(id);
    question.text = std::move(TextOf(json, "question", where));
    if (IsBlank(question.text)) Fail("{}: \"question\" is blank", where);
    if (use != SquadUse::kQuestionsOnly) {
      Json& answers = ListOf(json, "answers", where);
      for (size_t a = 0; a < answers.size(); ++a)
        question.answers.push_back(ReadAnswer(answers[a], index, fmt::format("{}: answers[{}]", where, a)));
      if (question.answers.empty() && use == SquadUse::kAnswerable)
        Fail("{} has no answer; {} allows such questions", where, OptionName{"version_2_with_negative"});
    }
    if (!within_limit()) return;
    keep();
    question.context = static_cast<int32_t>(data.contexts.size()) - 1;
    data.questions.push_back(std::move(question));
  });
  return data;
}

std::vector<SquadReference> ReadSquadReferences(const std::string& path) {
  SquadFile file(path);
  std::vector<SquadReference> references;
  file.Visit(
      [](Json&, size_t, const std::string&) {},
      [&](std::string id, Json& json, const std::string& where) {
        SquadReference reference{std::move(id), {}};
        Json& answers = ListOf(json, "answers", where);
        for (size_t a = 0; a < answers.size(); ++a)
          reference.answers.push_back(std::move(TextOf(answers[a], "text", fmt::format("{}: answers[{}]", where, a))));
        references.push_back(std::move(reference));
      });
  return references;
}

}  // namespace lshformer
