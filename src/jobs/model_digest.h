// Whether a model's folder still holds the model that it held.
#pragma once
#include <string>

namespace lshformer {

// Of weights, config, tokenizer and the parts of Sentence-Transformers in a folder, by their contents (base/digest.h),
// but not of what training leaves beside them, nor of the file or folder `output`, "" for none.
std::string DigestOfModel(const std::string& folder, const std::string& output = "");

}  // namespace lshformer
