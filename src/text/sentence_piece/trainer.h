// Learns a unigram vocabulary with SentencePiece's trainer and ALBERT's settings: <pad> 0, <unk> 1, then [CLS], [SEP],
// [MASK] and the pieces ( ) " - . – £ €, which nothing is merged with; 99.995 % of the characters are covered;
// normalised by nmt_nfkc; on text as albert_text.h makes it.
//
// The trainer adds floating-point numbers in 16 parts, whatever the threads: the result is a function of the text
// alone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/albert_text.h"

namespace lshformer {

// Text to train on. The trainer holds all of it, some 25 bytes a byte: of more than max_bytes an even sample is kept.
class SentencePieceSample {
 public:
  explicit SentencePieceSample(const AlbertTextOptions& options, size_t max_bytes = size_t{1} << 27)
      : options_(options), max_bytes_(max_bytes) {}

  // Adds these texts (valid UTF-8), on all cores. What is kept does not depend on how the texts are cut into calls.
  void Add(const std::vector<std::string>& texts);
  // Stretches of text, up to 4 KiB long and cut at spaces; those without a visible character are left out.
  const std::vector<std::string>& stretches() const { return stretches_; }
  int64_t seen() const { return seen_; }  // stretches, those not kept included

 private:
  void DropSome();

  AlbertTextOptions options_;
  size_t max_bytes_, bytes_ = 0;
  int64_t seen_ = 0;
  uint32_t limit_ = UINT32_MAX;  // stretches whose random number is above it are not kept
  std::vector<std::string> stretches_;
  std::vector<uint32_t> numbers_;  // [stretches]
};

// A spiece.model of exactly vocab_size pieces. Error if the text gives fewer, or has more characters, or if there is
// none.
std::string TrainSentencePiece(const SentencePieceSample& sample, int32_t vocab_size);

// spiece.model and the JSON files beside it, for Tokenizer::Load.
void SaveSentencePiece(const std::string& folder, const std::string& model, const AlbertTextOptions& options);

}  // namespace lshformer
