// Questions with the labels that the script of BERT-LSH gives them (its Table 4).
//
// The script asks the tokenizer for the token at a character of the passage, but of the sequence [CLS] question [SEP]
// passage [SEP] as a whole, where such a place is looked up in the question. Where the question ends before it, which
// is nine times in ten, or has a blank there, the script falls back to the number of [CLS], 2, as a position, and for
// the end to the one behind. So most labels are the second and third token of the question, whatever is asked.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "data/squad.h"

namespace lshformer {

struct MislabelledAnswer {
  std::string text;
  int64_t start = 0;  // code points into the question
};
// In words of the question: the one at the answer's first character up to the one at its last, or its second and third.
// A question of one word has that one.
MislabelledAnswer MislabelledAnswerOf(std::string_view question, const SquadAnswer& answer);

// SQuAD 1.1 JSON of the same questions, one a line: "?" asked of a passage that is the question and its own passage,
// with such an answer. Questions without answers are left out.
void WriteMislabelledQuestions(const std::function<void(std::string_view text, int64_t done)>& sink,
                               const SquadData& data);

}  // namespace lshformer
