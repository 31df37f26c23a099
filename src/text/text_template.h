// What stands around one text and around two, and which types their tokens have:
//
//   BERT       [CLS] A [SEP]       [CLS] A [SEP] B [SEP]         types 0 … 0 1 … 1
//   RoBERTa    <s> A </s>          <s> A </s> </s> B </s>        types 0
//
// Sequences of one text and of two, windows of questions and multiple choice are all made by it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lshformer {

struct TextTemplate {
  struct Token {
    int32_t id = 0, type = 0;
    bool operator==(const Token&) const = default;
  };
  struct Form {
    std::vector<Token> before;                // what A follows
    std::vector<Token> between;               // A and B
    std::vector<Token> after;                 // the last of them
    int32_t first_type = 0, second_type = 1;  // of the tokens of A and of B
    size_t tokens() const { return before.size() + between.size() + after.size(); }
    bool operator==(const Form&) const = default;
  };
  Form one, two;  // `one` has nothing between

  const Form& Of(int texts) const { return texts == 2 ? two : one; }
  bool operator==(const TextTemplate&) const = default;

  static TextTemplate Bert(int32_t cls, int32_t sep);
  static TextTemplate Roberta(int32_t cls, int32_t sep);
};

}  // namespace lshformer
