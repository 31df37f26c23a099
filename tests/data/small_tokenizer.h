// A WordPiece tokenizer with a handful of words.
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer.h"
#include "util/temp_folder.h"

namespace lshformer::testing {

// [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, then a … z 5 … 30, then ##a … ##z, digits and the words given.
inline std::shared_ptr<const Tokenizer> SmallTokenizer(const std::string& words = "") {
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char c = 'a'; c <= 'z'; ++c) vocabulary += std::string(1, c) + "\n";
  for (char c = 'a'; c <= 'z'; ++c) vocabulary += "##" + std::string(1, c) + "\n";
  for (char c = '0'; c <= '9'; ++c) vocabulary += std::string(1, c) + "\n";
  TempFolder folder;
  folder.Write("vocab.txt", vocabulary + words);
  return Tokenizer::Load(folder.path());
}

}  // namespace lshformer::testing
