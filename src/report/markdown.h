// Text of a Markdown page in lines of at most 120 columns, broken at spaces, so that it reads in a terminal and in a
// diff. (Tables: report/table.h.)
#pragma once
#include <string>

namespace lshformer {

// With the blank line behind it.
std::string MarkdownParagraph(const std::string& text);
// "- …", further lines indented.
std::string MarkdownItem(const std::string& text);

}  // namespace lshformer
