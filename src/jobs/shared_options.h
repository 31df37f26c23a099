// Rows that the tables of several jobs have.
#pragma once
#include <fmt/format.h>

#include <cstdint>

#include "base/option_table.h"

namespace lshformer {

inline constexpr const char *kModelOptions = "Model", *kDataOptions = "Data", *kRunOptions = "Run";  // groups of help

template <class Job>
Option<Job> MaxEvalSamples(const char* what) {
  return Integer("max_eval_samples", &Job::max_eval_samples, 0, INT64_MAX, fmt::format("first {} only; 0: all", what));
}
template <class Job>
Option<Job> MaxSeqLength(const char* help) {
  return Integer("max_seq_length", &Job::max_seq_length, 0, INT32_MAX, fmt::format("{}; 0: the position table", help));
}

}  // namespace lshformer
