#include "text/piece_tokenizer.h"

#include "base/error.h"

namespace lshformer {

const std::string& PieceTokenizer::Token(int32_t id) const {
  if (id < 0 || id >= vocab_size()) Fail("token id: expected 0 to {}, got {}", vocab_size() - 1, id);
  return vocabulary_.Token(id);
}

void PieceTokenizer::ForgetAbsent(TokenizerSettings& settings) const {
  const std::pair<int32_t, std::string*> named[] = {{unk_, &settings.unk},
                                                    {sep_, &settings.sep},
                                                    {pad_, &settings.pad},
                                                    {cls_, &settings.cls},
                                                    {mask_, &settings.mask}};
  for (const auto& [id, name] : named)
    if (id < 0) name->clear();
}

}  // namespace lshformer
