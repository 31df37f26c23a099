// Question answering data: SQuAD 1.1 and 2.0 JSON, plain or gzip, in the official form and in the flat one of HF's
// scripts, whose rows may be JSON lines, a list, or a list under "data" (data/json_rows.h).
//
//   {"version", "data": [{"title", "paragraphs": [{"context", "qas": [{"id", "question",
//     "answers": [{"text", "answer_start"}], "is_impossible"}]}]}]}
//   {"id", "title", "context", "question", "answers": {"text": […], "answer_start": […]}}
//
// A question without answers has none in its context, whatever "is_impossible" says, as in the official scripts. Other
// keys are ignored. answer_start counts Unicode code points. An "id" may be an integer: its decimal text.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lshformer {

struct SquadAnswer {
  std::string text;
  int32_t start = 0;  // code points into the context, which has `text` there
};

struct SquadQuestion {
  std::string id, text;
  int32_t context = 0;               // index into SquadData::contexts; never smaller than the question's before
  std::vector<SquadAnswer> answers;  // empty: none
};

struct SquadData {
  std::string path;
  std::vector<std::string> contexts;  // as many as there are paragraphs
  std::vector<SquadQuestion> questions;
  std::vector<int32_t> articles = {};  // [contexts], the place in "data" of the article that each is a paragraph of
};

enum class SquadUse {
  kAnswerable,     // every question must have an answer (1.1)
  kMayHaveNone,    // questions without answers are allowed (2.0)
  kQuestionsOnly,  // answers are not read: data to predict
};

// In order of the file, at most `limit` questions (0: all; the whole file is checked all the same). Memory: about three
// times the file. Error naming file and question, of flat rows also the line: not JSON or not of this shape, no
// questions, an id for the second time, a blank question, a context without text, an answer that is empty, beyond the
// context or not what the context has at its place, with kAnswerable a question without answers.
SquadData ReadSquad(const std::string& path, SquadUse use, int64_t limit = 0);

// What the official scripts look at: ids and texts of answers. Contexts, questions and places are not read.
struct SquadReference {
  std::string id;
  std::vector<std::string> answers;
};
std::vector<SquadReference> ReadSquadReferences(const std::string& path);

}  // namespace lshformer
