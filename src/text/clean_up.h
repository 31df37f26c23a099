// What Hugging Face does to decoded text where a tokenizer's settings say clean_up_tokenization_spaces.
#pragma once
#include <string>
#include <string_view>

namespace lshformer {

// Removes the space before . ? ! , and before n't 'm 's 've 're, and both around '.
void CleanUpSpaces(std::string& text);
void ReplaceAll(std::string& text, std::string_view from, std::string_view to);

}  // namespace lshformer
