// Synthetic data of any size as files; what they hold: synth/synth.h.
#pragma once
#include <cstdint>
#include <string>

namespace lshformer {

struct SynthOptions {
  // "text", "classification", "multiple-choice", "qa", "duplication", or "mislabelled-qa" of `input`
  std::string task;
  std::string input;          // mislabelled-qa: a SQuAD file, jobs/mislabelled_questions.h
  std::string output;         // "-": stdout
  int64_t words = 1'000'000;  // of text, at least
  int64_t examples = 10'000;  // reviews, questions with options, documents with a question, or sequences
  int64_t length = 1000;      // qa, duplication: words of a document or sequence, about
  double unanswerable = 0;    // qa: share of the questions that have no answer
  uint64_t seed = 42;
};

void RunSynth(const SynthOptions& options);

}  // namespace lshformer
