// Questions that have no answer, made of those that have one.
#pragma once
#include <cstdint>

#include "data/squad.h"

namespace lshformer {

// For every question with an answer, with this probability, one question more that has none: the same words, asked of
// another paragraph of its article, drawn evenly among those that some question is about and that contain none of its
// answers' texts, byte for byte. Its id is that of the first with " (no answer)". Questions stay in the order of their
// contexts, new ones behind the old. What is drawn for a question follows from the seed, `file` (the number of the file
// in a run) and its place in data.questions. Returns how many were to be asked but had no such paragraph.
int64_t AddUnanswerablePairs(SquadData& data, double probability, uint64_t seed, uint64_t file);

}  // namespace lshformer
