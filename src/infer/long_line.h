// JSON lines of many MiB, of which a model sees some hundred words.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace lshformer {

// Parsing a line of 64 MiB takes several times its size. This copies it with the values of its keys "text" and
// "text_pair" cut to about `longest` bytes: at a space, as no token reaches over one, or where there is none at a
// character, as an ideograph is a word of its own. nullopt where nothing is cut, or the line is not JSON as far as can
// be seen without parsing: then the parser shall say what is wrong.
std::optional<std::string> WithShorterTexts(std::string_view json, size_t longest);

}  // namespace lshformer
