// The keys of config.json that are ALBERT's own, and which layers share what.
//
// Layer i of L belongs to group ⌊i·G / L⌋ of G = num_hidden_groups, in integers: the float formulas of the published
// code misround for odd sizes. Each layer runs through the inner_group_num inner layers of its group.
// "parameter_sharing" (a key of ours, which HF ignores) says what else layers may share; the ALBERT paper, section 4.5:
//   all        one group                                    none   a group for every layer
//   attention  one attention for all layers, each its own feed-forward; ffn: the reverse. A block has its LayerNorm.
#pragma once
#include <string>
#include <vector>

#include "models/config.h"

namespace lshformer {

// HF's two logits a token, or those of ALBERT's own code for SQuAD 2.0 (models/conditional_answers.h).
enum class AnswerHead { kSpan, kConditional };

struct AlbertConfig {
  int64_t num_hidden_groups = 1;
  std::string parameter_sharing;         // "": as num_hidden_groups says
  bool embedding_hidden_mapping = true;  // whether a map E → H stands where E = H too, as HF has it
  double classifier_dropout_prob = 0.1;  // before every map that looks at the pooled state
  AnswerHead question_answering_head = AnswerHead::kSpan;
};

// The groups that layer `layer` takes its two blocks from.
struct AlbertGroups {
  int64_t attention, feed_forward;
};
AlbertGroups GroupsOf(const ModelConfig& config, int64_t layer);
// Groups of which a file has a part: num_hidden_groups as it is written. HF reads a model whose layers share a part
// as one of so many groups, and misses that part in all but the first, which it says.
int64_t GroupCount(const ModelConfig& config);
bool HasEmbeddingMap(const ModelConfig& config);

std::vector<Option<ModelConfig>> AlbertOptions();
void SetAlbertDefaults(ModelConfig& config);  // HF's, which are those of xxlarge
void CheckAlbertConfig(const ModelConfig& config, std::string_view where);

}  // namespace lshformer
