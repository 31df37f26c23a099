// Sentences of plain text, by ICU's rules for sentence boundaries (Unicode Standard Annex 29, root locale).
#pragma once
#include <string_view>
#include <vector>

namespace lshformer {

// Text without a capital letter ends its sentences at every full stop, question mark and exclamation mark before a
// space, abbreviations included: ICU breaks at none of those that a small letter follows. In order, without the white
// space around them; blank ones are left out. Views into `text`, which is valid UTF-8.
std::vector<std::string_view> SplitSentences(std::string_view text);

}  // namespace lshformer
