// What tokenizers of pieces of words have in common: a vocabulary, the five special tokens, added ones, and the files
// of the folder that they come with.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "text/added_tokens.h"
#include "text/tokenizer.h"
#include "text/tokenizer_files.h"
#include "text/vocabulary.h"

namespace lshformer {

class PieceTokenizer : public Tokenizer {
 public:
  int32_t vocab_size() const final { return vocabulary_.size(); }
  const std::string& Token(int32_t id) const final;
  int32_t Id(std::string_view token) const final { return vocabulary_.Id(token); }
  int32_t pad_id() const final { return pad_; }
  int32_t unk_id() const final { return unk_; }
  int32_t cls_id() const final { return cls_; }
  int32_t sep_id() const final { return sep_; }
  int32_t mask_id() const final { return mask_; }
  int64_t model_max_length() const final { return settings().model_max_length; }
  const TextTemplate& text_template() const final { return template_; }
  bool truncates_left() const final { return settings().truncates_left; }

 protected:
  PieceTokenizer(Vocabulary vocabulary, TokenizerFiles files)
      : files_(std::move(files)), vocabulary_(std::move(vocabulary)) {}

  virtual const TokenizerSettings& settings() const = 0;
  // Makes the names of those of the five that it has not empty.
  void ForgetAbsent(TokenizerSettings& settings) const;
  const AddedTokens& added_tokens() const final { return added_; }

  TokenizerFiles files_;
  Vocabulary vocabulary_;
  AddedTokens added_;
  TextTemplate template_;
  int32_t unk_ = -1, sep_ = -1, pad_ = -1, cls_ = -1, mask_ = -1;
};

}  // namespace lshformer
