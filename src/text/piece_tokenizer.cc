#include "text/piece_tokenizer.h"

#include "base/error.h"

namespace lshformer {

const std::string& PieceTokenizer::Token(int32_t id) const {
  if (id < 0 || id >= vocab_size()) Fail("token id: expected 0 to {}, got {}", vocab_size() - 1, id);
  return vocabulary_.Token(id);
}

}  // namespace lshformer
