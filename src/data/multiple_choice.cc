#include "data/multiple_choice.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "data/file_kind.h"
#include "data/json_rows.h"
#include "data/squad_excerpts.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kQuestionsAtOnce = 256;  // encoded together: some thousand texts

RaceLevel LevelOf(const fs::path& file) {
  const std::string folder = file.parent_path().filename().string();
  return folder == "middle" ? RaceLevel::kMiddle : folder == "high" ? RaceLevel::kHigh : RaceLevel::kNone;
}

std::string TextOf(const Json& value, const std::string& where) {
  if (!value.is_string()) Fail("{}: expected a string, got {}", where, ShownValue(value));
  return value.get<std::string>();
}

// A number from 0 or a letter from A.
int32_t LabelOf(const Json& value, size_t options, const std::string& where) {
  int64_t label = -1;
  if (value.is_number_integer()) {
    label = value.get<int64_t>();
  } else if (value.is_string() && value.get_ref<const std::string&>().size() == 1) {
    const char letter = static_cast<char>(value.get_ref<const std::string&>()[0] & ~0x20);  // in upper case
    label = letter >= 'A' && letter <= 'Z' ? letter - 'A' : -1;
  }
  if (label < 0 || label >= static_cast<int64_t>(options))
    Fail("{}: expected 0 to {} or \"A\" to \"{}\", got {}", where, options - 1, static_cast<char>('A' + options - 1),
         ShownValue(value));
  return static_cast<int32_t>(label);
}

class ChoiceReader {
 public:
  ChoiceReader(bool labelled, int64_t limit) : labelled_(labelled), limit_(limit) {}

  bool full() const { return limit_ > 0 && static_cast<int64_t>(data_.questions.size()) >= limit_; }
  ChoiceData Take() { return std::move(data_); }

  int64_t questions() const { return static_cast<int64_t>(data_.questions.size()); }

  void ReadFile(const std::string& path) {
    level_ = path == "-" ? RaceLevel::kNone : LevelOf(path);
    JsonRows rows(path, kJsonLineLimits);
    for (Json row; !full() && rows.Next(row);) Add(row, rows.is_one() ? InputName(path) : rows.where());
  }

 private:
  void Add(const Json& object, const std::string& where) {
    if (object.contains("article")) return AddArticle(object, where);
    if (!object.contains("question"))
      Fail("{}: expected \"article\" with \"questions\", or \"context\" and \"question\"", where);
    AddContext(object, "context", where);
    const Json& options = GetList(object, "options", where);
    if (labelled_ && !object.contains("label")) Fail("{}: \"label\" is missing", where);
    AddQuestion(TextOf(object["question"], where + ": \"question\""), options, labelled_ ? object["label"] : Json(),
                where, where + ": \"label\"");
  }

  void AddArticle(const Json& object, const std::string& where) {
    AddContext(object, "article", where);
    const Json &questions = GetList(object, "questions", where), &options = GetList(object, "options", where);
    const auto check = [&](const Json& list, const char* key) {
      if (list.size() != questions.size())
        Fail("{}: {} \"questions\", but {} \"{}\"", where, questions.size(), list.size(), key);
    };
    check(options, "options");
    if (labelled_) check(GetList(object, "answers", where), "answers");
    for (size_t q = 0; q < questions.size() && !full(); ++q) {
      const std::string place = fmt::format("{}: questions[{}]", where, q);
      const std::string options_place = fmt::format("{}: options[{}]", where, q);
      if (!options[q].is_array()) Fail("{}: expected a list, got {}", options_place, ShownValue(options[q]));
      AddQuestion(TextOf(questions[q], place), options[q], labelled_ ? object["answers"][q] : Json(), place,
                  fmt::format("{}: answers[{}]", where, q));
    }
  }

  void AddContext(const Json& object, const char* key, const std::string& where) {
    if (!object.contains(key)) Fail("{}: \"{}\" is missing", where, key);
    std::string context = TextOf(object[key], fmt::format("{}: \"{}\"", where, key));
    if (IsBlank(context)) Fail("{}: \"{}\" is blank", where, key);
    if (data_.contexts.empty() || data_.contexts.back() != context) data_.contexts.push_back(std::move(context));
  }

  void AddQuestion(std::string text, const Json& options, const Json& label, const std::string& where,
                   const std::string& label_where) {
    ChoiceQuestion question{.text = std::move(text), .options = {}, .level = level_, .where = where};
    if (options.size() < kFewestOptions || options.size() > kMostOptions)
      Fail("{}: expected {} to {} options, got {}", where, kFewestOptions, kMostOptions, options.size());
    for (size_t o = 0; o < options.size(); ++o) {
      question.options.push_back(TextOf(options[o], fmt::format("{}: options[{}]", where, o)));
      if (IsBlank(WithOption(question.text, question.options.back())))
        Fail("{}: question and options[{}] are blank", where, o);
    }
    if (labelled_) question.label = LabelOf(label, options.size(), label_where);
    question.context = static_cast<int32_t>(data_.contexts.size()) - 1;
    data_.questions.push_back(std::move(question));
  }

  bool labelled_;
  int64_t limit_;
  RaceLevel level_ = RaceLevel::kNone;
  ChoiceData data_;
};

// All files of questions below a folder, links followed.
class FileSearch {
 public:
  std::vector<fs::path> Take() { return std::move(files_); }

  void Visit(const fs::path& folder) {
    struct stat status {};
    if (stat(folder.c_str(), &status) != 0) FailRead(folder, errno);
    const std::pair identity(status.st_dev, status.st_ino);
    // A link to a folder around it has nothing that is not read anyway.
    if (std::find(around_.begin(), around_.end(), identity) != around_.end()) return;
    around_.push_back(identity);
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
      Add(entry->path());
    if (error) FailRead(folder, error.value());
    around_.pop_back();
  }

 private:
  // What has the name of a file of questions, or may be such a folder, is read or refused.
  void Add(const fs::path& path) {
    const std::string name = path.filename().string();
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (fs::is_directory(status)) return Visit(path);
    if (name.starts_with('.')) return;
    if (!fs::exists(status)) FailRead(path, error ? error.value() : ENOENT);
    if (DataExtension(name) != "txt" && !IsJsonLines(name)) return;
    if (!fs::is_regular_file(status)) Fail("{}: is no regular file", Shown(path.string(), 160));
    files_.push_back(path);
  }

  [[noreturn]] static void FailRead(const fs::path& path, int error) {
    Fail("{}: {}", Shown(path.string(), 160), std::generic_category().message(error));
  }

  std::vector<fs::path> files_;
  std::vector<std::pair<dev_t, ino_t>> around_;  // the folders that the one at hand lies in
};

// Files of questions, by name, RACE's easier ones first.
std::vector<fs::path> FilesIn(const std::string& folder) {
  FileSearch search;
  search.Visit(folder);
  std::vector<fs::path> files = search.Take();
  if (files.empty()) Fail("{}: has no .txt, .json, .jsonl or .ndjson file", folder);
  std::sort(files.begin(), files.end());
  std::stable_partition(files.begin(), files.end(),
                        [](const fs::path& file) { return LevelOf(file) == RaceLevel::kMiddle; });
  return files;
}

}  // namespace

ChoiceData ReadChoices(const std::string& path, bool labelled, int64_t limit) {
  ChoiceReader reader(labelled, limit);
  std::error_code ignored;
  if (path != "-" && fs::is_directory(path, ignored)) {
    for (const fs::path& file : FilesIn(path)) {
      if (reader.full()) break;
      const int64_t before = reader.questions();
      reader.ReadFile(file.string());
      if (reader.questions() == before) Fail("{}: has no questions", file.string());
    }
  } else {
    reader.ReadFile(path);
  }
  ChoiceData data = reader.Take();
  if (data.questions.empty()) Fail("{}: has no questions", InputName(path));
  return data;
}

std::string RacePath(const std::string& data_dir, Split split) {
  const char* name = split == Split::kTrain ? "train" : split == Split::kValidation ? "dev" : "test";
  const std::string path = data_dir + "/" + name;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) Fail("{}: no such folder; RACE has train, dev and test", path);
  return path;
}

std::string WithOption(std::string_view question, std::string_view option) {
  if (question.find('_') == question.npos) return fmt::format("{} {}", question, option);
  std::string text;
  for (const char c : question) c == '_' ? text.append(option) : text.append(1, c);
  return text;
}

Encoding MakeChoice(std::span<const int32_t> article, std::span<const int32_t> question_and_option, int max_seq_length,
                    const Tokenizer& tokenizer) {
  const size_t room = static_cast<size_t>(max_seq_length) - tokenizer.text_template().two.tokens();
  const size_t asked = std::min(question_and_option.size(), room - 1), kept = std::min(article.size(), room - asked);
  const auto end = static_cast<int32_t>(question_and_option.size());
  ExcerptSequence sequence = MakeExcerpt(tokenizer.truncates_left() ? article.last(kept) : article.first(kept),
                                         question_and_option, {end - static_cast<int32_t>(asked), end}, tokenizer);
  const bool truncated = kept < article.size() || asked < question_and_option.size();
  return {std::move(sequence.ids), std::move(sequence.type_ids), {}, truncated};
}

SequenceSet EncodeChoices(const ChoiceData& data, bool labelled, const Tokenizer& tokenizer, int max_seq_length,
                          int64_t* truncated) {
  const EncodeOptions bare{.add_special_tokens = false};
  SequenceSet set;
  for (size_t begin = 0; begin < data.questions.size(); begin += kQuestionsAtOnce) {
    const size_t end = std::min(begin + kQuestionsAtOnce, data.questions.size());
    const auto first = static_cast<size_t>(data.questions[begin].context);
    const auto last = static_cast<size_t>(data.questions[end - 1].context);
    const std::vector<std::string> texts(data.contexts.begin() + static_cast<int64_t>(first),
                                         data.contexts.begin() + static_cast<int64_t>(last) + 1);
    std::vector<std::string> asked;
    for (size_t q = begin; q < end; ++q)
      for (const std::string& option : data.questions[q].options)
        asked.push_back(WithOption(data.questions[q].text, option));
    const std::vector<Encoding> articles = EncodeAll(tokenizer, texts, {}, bare);
    const std::vector<Encoding> tails = EncodeAll(tokenizer, asked, {}, bare);
    for (size_t q = begin, next = 0; q < end; ++q) {
      const ChoiceQuestion& question = data.questions[q];
      const std::vector<int32_t>& article = articles[static_cast<size_t>(question.context) - first].ids;
      std::vector<Encoding> options;
      bool cut = false;
      for (size_t o = 0; o < question.options.size(); ++o, ++next) {
        if (article.empty() || tails[next].ids.empty())
          Fail("{}: {} no tokens", question.where,
               article.empty() ? "the article has" : fmt::format("the question with options[{}] has", o));
        options.push_back(MakeChoice(article, tails[next].ids, max_seq_length, tokenizer));
        cut |= options.back().truncated;
      }
      set.AddChoices(options);
      if (labelled) set.AddLabel(question.label);
      *truncated += cut;
    }
  }
  return set;
}

}  // namespace lshformer
