// The work of `tokenizer encode`, streamed.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "io/gzip.h"
#include "text/tokenizer.h"

namespace lshformer {

struct EncodeStatistics {
  int64_t lines = 0, truncated = 0;
  int64_t replaced = 0;  // invalid UTF-8 in raw text that became U+FFFD
  int64_t bad = 0;       // JSONL lines that were answered by an error
  std::string first_error;
};

// One JSON object a line, in order: input_ids, token_type_ids, tokens, offsets. With `jsonl` a line is {"text"} or
// {"text", "text_pair"}, and a bad one is answered by {"id", "error"}; without, a line is the text, and one that is too
// long is an Error. Memory is bounded by the longest line.
EncodeStatistics EncodeLines(const Tokenizer& tokenizer, LineReader& lines, bool jsonl, const EncodeOptions& options,
                             const std::function<void(std::string_view)>& write, const std::function<void()>& flush);

}  // namespace lshformer
