// A model whose vectors another one learns.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/passages/text_groups.h"
#include "infer/pipeline.h"
#include "train/similarity_loss.h"

namespace lshformer {

// Vectors are what the folder says of a text: by its own tokenizer, so that its vocabulary may be any, and its own
// length; of a Sentence-Transformers folder with its modules and its prompts. Of those a text gets the one of its
// column's name, an anchor else "query", a positive or negative else "document", "passage" or "corpus", and else the
// folder's default. Of another folder they are pooled as the student's.
class Teacher {
 public:
  // OptionError of "teacher_name_or_path" where its vectors have not `width` numbers.
  Teacher(const std::string& folder, int64_t width, Pooling pooling);

  bool normalizes() const;  // vectors are of length 1
  // Of batches whose sequences are texts of these rows, numbered in their order. The texts are kept, and so is this
  // teacher, which has to outlive the function. It throws an Error naming a text that has no vector.
  WantedVectors VectorsOf(const std::vector<std::vector<GroupText>>& rows) const;

 private:
  EmbedOptions OptionsOf(std::string_view column) const;

  Pipeline pipeline_;
};

}  // namespace lshformer
