// Grapheme clusters (Unicode Standard Annex 29, extended ones): what a reader takes for one character.
#pragma once
#include <cstddef>

#include "text/normalized_text.h"

namespace lshformer {

// The end of the cluster that begins with character number `begin` of `text`.
size_t GraphemeEnd(NormalizedSpan text, size_t begin);

}  // namespace lshformer
