// Names of BERT's tensors in HF files, old and new, mapped to one canonical form, and which of them a file may omit.
//
//   canonical: what HF's BertForPreTraining saves today: prefix "bert." on the encoder, LayerNorm "weight" and "bias",
//   no tied alias. "cls.", "classifier." and "qa_outputs." heads have no prefix.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lshformer {

// "embeddings.LayerNorm.gamma" → "bert.embeddings.LayerNorm.weight", "bert.encoder…" → itself. A name that is no tensor
// of a BERT model (an optimizer's, another model's) is returned with only the spelling of LayerNorm mended.
std::string CanonicalWeightName(std::string_view name);

// True for tensors that hold nothing to load: position_ids buffers, which old files carry.
bool IsIgnorableWeight(std::string_view canonical_name);

// The canonical name of the tensor that this one is tied to, or "" if it is not an alias:
//   cls.predictions.decoder.weight → bert.embeddings.word_embeddings.weight, cls.predictions.decoder.bias →
//   cls.predictions.bias
std::string TiedTo(std::string_view canonical_name);

// The name under which HF's `architecture` saves a canonical tensor: without "bert." in a bare "BertModel".
std::string FileWeightName(std::string_view canonical_name, std::string_view architecture);

// canonical name → name in the file. An alias stands for the tensor it is tied to where the file lacks that one, and is
// left out otherwise, as are ignorable tensors. Error (naming `where` and both) if two names mean one tensor.
std::map<std::string, std::string> MapWeightNames(const std::vector<std::string>& names_in_file,
                                                  std::string_view where);

}  // namespace lshformer
