// "post_processor" of a tokenizer.json: what stands around texts, and what becomes of the places of tokens.
//
//   TemplateProcessing   any tokens before A, between A and B and behind, with their types
//   BertProcessing       [CLS] A [SEP] B [SEP], types 0 and 1
//   RobertaProcessing    <s> A </s></s> B </s>, types 0; trims places if "trim_offsets" says so
//   ByteLevel            trims places likewise, nothing around
//   Sequence             ByteLevel and then one of the first two
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "base/json.h"
#include "text/text_template.h"

namespace lshformer {

struct PostProcessor {
  TextTemplate around;
  // The tokens that are [CLS] and [SEP]: the only one before A, and the only one behind; "" where there is another
  // number of them.
  std::string cls, sep;
  bool trims_places = false;       // without the white space that a token begins and ends with
  bool keeps_first_space = false;  // but the one of the first token (with add_prefix_space it was put there)
};

// `processor` may be null. `id_of` gives the id of a token, −1 of none: the file must give it the same. Error, which
// begins with `path`, names what is not supported.
PostProcessor ReadPostProcessor(const Json& processor, const std::string& path,
                                const std::function<int32_t(const std::string&)>& id_of);

}  // namespace lshformer
