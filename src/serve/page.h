// The page that a browser gets: one file of HTML, embedded when the program is built (page.html).
#pragma once
#include <string_view>

namespace lshformer {

std::string_view PageHtml();

}  // namespace lshformer
