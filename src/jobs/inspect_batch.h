// The input of inspect: JSON lines to one packed batch.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "data/batch.h"
#include "models/config.h"
#include "text/tokenizer.h"

namespace lshformer {

enum class LabelKind { kNone, kToken, kTokenAndNext, kClass, kFlags, kValue, kSpan, kChoice };

struct InspectBatch {
  PackedBatch batch;
  bool labelled = false;  // some line has labels of the kind asked for
};

// A line is {"input_ids", "token_type_ids"} or {"text", "text_pair"}, and "labels": a list (kToken; a line without has
// none to predict), a class number (kClass), a number for every label (kFlags, as HF takes them: 0, 1 or between) or a
// value (kValue), the latter three on all lines or on none; kTokenAndNext:
// a list, and the family's label of sentence pairs ("next_sentence_label": 0 or 1) on all lines or on none; kSpan:
// "start_positions" and "end_positions", tokens, both on all lines or on none; kChoice: "input_ids" and
// "token_type_ids" are lists of lists, an option each, and "labels" is the right one's number, on all lines or on none.
// Models that read words take texts alone: "text" is a question, "text_pair" its context, and places count the words of
// the context from 1, 0 being the start word.
// `tokenizer` is called for the first line with text. Error names the line: blank, not JSON, no token, ids out of
// range, too long.
InspectBatch ReadInspectBatch(const std::string& path, const ModelConfig& config, LabelKind labels,
                              const std::function<std::shared_ptr<const Tokenizer>()>& tokenizer);

}  // namespace lshformer
