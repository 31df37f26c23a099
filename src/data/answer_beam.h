// What a head that makes an answer's end depend on its start (models/conditional_answers.h) says of one window: a few
// starts, and for each of them a few ends.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lshformer {

struct AnswerBeam {
  struct Span {
    int32_t start = 0, end = 0;            // tokens of the sequence, any two: also [CLS], or an end before its start
    float start_score = 0, end_score = 0;  // log P(start), log P(end | start)
    float score() const { return start_score + end_score; }
  };
  std::vector<Span> spans;
  float no_answer = 0;  // logit of the window not holding the answer
};

// Places of the `count` largest of these finite values, best first; of equals the later one.
std::vector<int32_t> Largest(std::span<const float> values, int count);

bool AllFinite(std::span<const float> values);
bool AllFinite(const AnswerBeam& beam);

}  // namespace lshformer
