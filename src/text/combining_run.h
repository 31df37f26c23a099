// Canonical order: a character that combines with nothing before it, and the marks after it, in the order of their
// combining classes.
//
// Hugging Face's library aligns what comes out with what went in one by one, even where marks change places: the k-th
// replacing character (the first of a decomposition stands for the original one, the others are added) gets the k-th
// place, an added one the place of the last replacing one.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace lshformer {

template <class Origin>
class CombiningRun {
 public:
  bool empty() const { return run_.empty(); }

  // A character that is in no run and came from `origin`: what an added one after it, in the next run, would be aligned
  // with.
  void Pass(const Origin& origin) { last_origin_ = origin; }

  // Character number `part` of the decomposition of one that came from `origin`.
  void Add(char32_t c, int combining_class, int part, const Origin& origin) {
    if (part == 0) origins_.push_back(origin);
    run_.push_back({combining_class, c, part == 0});
  }

  // Calls action(c, origin) for each in order, until it returns false; the run is empty then. Returns what it returned.
  template <class Action>
  bool End(const Action& action) {
    if (run_.size() > 1) {
      std::stable_sort(run_.begin(), run_.end(),
                       [](const Character& a, const Character& b) { return a.combining_class < b.combining_class; });
    }
    size_t next = 0;
    bool more = true;
    for (const Character& character : run_) {
      if (character.replaces) last_origin_ = origins_[next++];
      more = more && action(character.c, last_origin_);
    }
    run_.clear();
    origins_.clear();
    return more;
  }

 private:
  struct Character {
    int combining_class;
    char32_t c;
    bool replaces;
  };
  std::vector<Character> run_;
  std::vector<Origin> origins_;
  Origin last_origin_{};
};

}  // namespace lshformer
