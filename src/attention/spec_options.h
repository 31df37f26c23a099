// What the tables of the kinds of attention are made of: a kind's own options, and those that kinds share.
#pragma once
#include "attention/spec.h"
#include "base/option_table.h"

namespace lshformer {

inline constexpr int64_t kMaxLength = INT32_MAX;
inline constexpr int64_t kMaxTableSize = int64_t{1} << 24;  // buckets are int32, and a kernel's table has an entry each
inline constexpr int64_t kMaxChunk = int64_t{1} << 20, kMaxLook = int64_t{1} << 20;

// An option of a kind's struct as an option of the spec that holds it.
template <class Kind>
AttentionOption Own(Option<Kind> own) {
  return OfPart<AttentionSpec>(
      std::move(own), [](auto& spec) -> auto& { return As<Kind>(spec); });
}

// "window", "global", "resample", "min_length", "tuned_lengths", "seed".
AttentionOption WindowOption();
AttentionOption GlobalOption();
AttentionOption ResampleOption();
AttentionOption MinLengthOption();
AttentionOption TunedLengthsOption();
AttentionOption SeedOption();
// A table's check: "min_length" "auto" needs lengths that were measured.
void CheckMinLength(const AttentionSpec& spec, std::string_view where);

// "auto", "N" or "N,M,…" of a flag as its key's value: a text, or a list.
Json NumbersOfText(const std::string& text);

// The scale of most kinds.
double RootScale(int head_dim);  // 1 / √head_dim

}  // namespace lshformer
