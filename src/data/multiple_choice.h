// Multiple choice: questions on a text, each with options of which one is right. A file is read line by line, or as a
// whole where its first line is no object of its own; its objects are RACE's or of the simpler kind:
//
//   {"article", "questions": […], "options": [["…", …], …], "answers": ["A", …]}
//   {"context", "question", "options": ["…", …], "label": 0 or "A"}
//
// Each option becomes a sequence, as in RACE's scripts:
//
//   [CLS] article [SEP] question option [SEP]        types 0 … 0 1 … 1
//
// where the option stands in place of each "_" of the question, or behind the question that has none.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/glue.h"
#include "data/sequence_set.h"
#include "text/tokenizer.h"

namespace lshformer {

// Of every question; each has a letter.
inline constexpr size_t kFewestOptions = 2, kMostOptions = 26;

enum class RaceLevel { kNone, kMiddle, kHigh };

struct ChoiceQuestion {
  std::string text;
  std::vector<std::string> options;
  int32_t label = 0;    // the right option, from 0
  int32_t context = 0;  // index into ChoiceData::contexts
  RaceLevel level = RaceLevel::kNone;
  std::string where;  // its place, for errors: "dev.jsonl:7", "high1.txt: questions[2]"
};

struct ChoiceData {
  std::vector<std::string> contexts;
  std::vector<ChoiceQuestion> questions;
};

// Questions of a file, plain or gzip, or of all .txt, .json, .jsonl and .ndjson files of a folder and the folders in
// it, links followed (but not to a folder around them): by name, those in folders called "middle" before the others. At
// most `limit` questions (0: all), after which it stops reading. Questions of a file in a folder "middle" or "high" are
// of that level. Without `labelled` answers are not read. Error naming file and place: not JSON or not of this shape,
// no questions, numbers of questions, options and answers that differ, fewer than kFewestOptions or more than
// kMostOptions options, a label that is none of them, a blank article; in a folder, hidden names apart, a link that
// leads nowhere, a folder that cannot be read, and such a name of what is neither a file nor a folder.
ChoiceData ReadChoices(const std::string& path, bool labelled, int64_t limit = 0);

// RACE's folder of a split: DIR/train, DIR/dev or DIR/test. Error if there is none.
std::string RacePath(const std::string& data_dir, Split split);

// What stands behind the article.
std::string WithOption(std::string_view question, std::string_view option);

// The sequence of an option. It has at most max_seq_length ≥ 5 tokens: the article loses its last ones, and the
// question with its option its first ones where they alone leave no room for a token of the article.
Encoding MakeChoice(std::span<const int32_t> article, std::span<const int32_t> question_and_option, int max_seq_length,
                    const Tokenizer& tokenizer);

// All questions, an example each, encoded on all cores, with their labels if `labelled`. *truncated counts examples
// that were cut. Error naming the question's place where it or its article has no tokens.
SequenceSet EncodeChoices(const ChoiceData& data, bool labelled, const Tokenizer& tokenizer, int max_seq_length,
                          int64_t* truncated);

}  // namespace lshformer
