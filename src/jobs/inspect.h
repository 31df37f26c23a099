// The raw numbers of a model on a batch: hidden states, attention maps, logits, loss, gradients.
#pragma once
#include <string>

#include "attention/spec_changes.h"

namespace lshformer {

struct InspectOptions {
  std::string model_name_or_path;
  std::string task;           // NamedTask
  std::string input, output;  // JSONL (inspect_batch.h); safetensors. "-": stdin, stdout
  bool hidden_states = false, attentions = false, gradients = false;  // beside outputs, logits and loss
  AttentionChanges attention = {};
};

// Dropout is off. All lines are one batch, B sequences of T tokens. Written: cu_seqlens i32 [B + 1], last_hidden_state
// [T, H], pooler_output [B, H] where the model has a pooler, hidden_states.L [T, H] (L = 0: embeddings, then behind
// each visit of a layer), attentions.L.B [heads, n, n], logits ([T, V], [B, labels] or of multiple choice [B], where a
// line is several sequences and cu_choices i32 [lines + 1] says which), the logits of sentence pairs [B, 2] under HF's
// name, start_logits and end_logits [T], no_answer_logits [B] of a head whose ends depend on the start, with labels
// loss [], gradients.NAME by tensor name; float32. UsageError: gradients without labels.
void RunInspect(const InspectOptions& options);

}  // namespace lshformer
