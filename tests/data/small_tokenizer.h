// A WordPiece tokenizer with a handful of words, and where real data may lie.
#pragma once
#include <cstdlib>
#include <filesystem>
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

// The folder with real data sets, or "" where there is none.
inline std::string SharedFolder() {
  const char* set = std::getenv("LSHFORMER_SHARED_DIR");
  const std::string folder = set != nullptr ? set : LSHFORMER_SOURCE_DIR "/../shared";
  return std::filesystem::is_directory(folder + "/data") ? folder : "";
}

}  // namespace lshformer::testing
