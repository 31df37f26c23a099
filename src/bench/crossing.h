// From how many tokens on sparse attention pays, decided from timings: pure functions of what was measured.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "attention/spec.h"

namespace lshformer {

// Exact and sparse runs of one length. They took turns, so whatever else the machine did met both runs of a pair.
struct Comparison {
  double exact_ms = 0, sparse_ms = 0;               // medians
  double ratio = 0, ratio_low = 0, ratio_high = 0;  // of sparse / exact over the pairs: median, and bounds of it
  int runs = 0;

  // Faster beyond doubt. What cannot be told apart stays exact: hashing that saves no time still costs accuracy.
  bool Pays() const { return ratio_high < 1; }
  // So noisy that it may well save a tenth, and may save nothing.
  bool CannotTell() const { return !Pays() && ratio_low < 0.9; }
};

// The bounds are order statistics: each leaves the true median out with a chance of at most 5 % (with fewer than five
// pairs that cannot be had, and the bounds are the extremes). Both lists have one time per pair.
Comparison Compare(const std::vector<double>& exact_ms, const std::vector<double>& sparse_ms);

// The shortest sequence that can be timed sparse: not one so short that the clock sees little else, and not
// less than its kind can plan.
int64_t ShortestToMeasure(const AttentionSpec& spec);

struct Crossing {
  struct Point {
    int length = 0;
    Comparison times;
  };
  bool cannot_tell = false;   // the longest length was too noisy to say that hashing does not pay
  int length = kNeverSparse;  // shortest length measured from which on hashing paid at every length measured
  std::vector<Point> points;  // all that was measured, by length
};

// `shortest`, the powers of two between, `longest`.
std::vector<int> Ladder(int shortest, int longest);

// Climbs the ladder until hashing has paid on two steps in a row, then halves the gap below the first of them until it
// is under a sixteenth of the length or eight tokens. One decision for all longer sequences: a length where hashing
// pays below one where it does not is no crossing. A length that cannot be told is measured up to three times.
// kNeverSparse where it does not pay on the last step.
Crossing FindCrossing(int shortest, int longest, const std::function<Comparison(int)>& measure);

}  // namespace lshformer
