// Which commit this program was built from.
#pragma once

namespace lshformer::cli {

const char* BuiltFrom();  // "" where that is not known; the source is cmake/commit.cmake's

}  // namespace lshformer::cli
