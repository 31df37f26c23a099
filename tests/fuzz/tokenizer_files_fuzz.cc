// Any bytes as the JSON files of a tokenizer's folder, parted by 0xFF: tokenizer.json, tokenizer_config.json,
// special_tokens_map.json, added_tokens.json. What loads is a tokenizer that works, and reads back as itself when it is
// saved.
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "fuzz/parses.h"
#include "text/tokenizer.h"
#include "util/temp_folder.h"

namespace {

using namespace lshformer;
using testing::Check;

constexpr const char* kFiles[] = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                                  "added_tokens.json"};
constexpr const char* kText =
    "The [MASK] cat's [E] caf\u00e9 \u65e5\u672c [SEP] sat. KAYAK\u0301 ``ab\u200d''  \u2581a \ufb01<e2>";

void CheckTokenizer(const Tokenizer& tokenizer) {
  for (const int32_t id :
       {tokenizer.pad_id(), tokenizer.unk_id(), tokenizer.cls_id(), tokenizer.sep_id(), tokenizer.mask_id()}) {
    if (id < 0) continue;  // a generic tokenizer has those that its files name
    Check(id < tokenizer.vocab_size() && tokenizer.IsSpecial(id), "the special tokens have ids");
  }
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const int32_t found = tokenizer.Id(tokenizer.Token(id));
    Check(found < tokenizer.vocab_size(), "ids are in range");
  }
  const Encoding encoding = tokenizer.Encode(kText, "a", {});
  for (const int32_t id : encoding.ids) Check(id >= 0 && id < tokenizer.vocab_size(), "ids are in range");
  tokenizer.Decode(encoding.ids, false);
}

// Whether the folder holds a tokenizer.
bool CheckFolder(const testing::TempFolder& folder) {
  std::shared_ptr<const Tokenizer> tokenizer;
  if (!testing::Parses([&] { tokenizer = Tokenizer::Load(folder.path()); })) return false;
  CheckTokenizer(*tokenizer);
  const testing::TempFolder saved;
  if (!testing::Parses([&] { tokenizer->Save(saved.path(), 512); })) return true;
  const std::shared_ptr<const Tokenizer> again = Tokenizer::Load(saved.path());
  Check(again->vocab_size() == tokenizer->vocab_size(), "a saved tokenizer has as many tokens");
  Check(again->Encode(kText).ids == tokenizer->Encode(kText).ids, "a saved tokenizer gives the same ids");
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::array<std::string_view, std::size(kFiles)> files;
  for (std::string_view& file : files) {
    file = rest.substr(0, rest.find('\xFF'));
    rest.remove_prefix(std::min(rest.size(), file.size() + 1));
  }
  const testing::TempFolder alone, with_vocabulary;
  with_vocabulary.Write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\n##s\nsat\n.\na\n");
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i].empty()) continue;
    alone.Write(kFiles[i], files[i]);
    if (i > 0) with_vocabulary.Write(kFiles[i], files[i]);
  }
  CheckFolder(alone);
  if (!files[1].empty() || !files[2].empty() || !files[3].empty()) CheckFolder(with_vocabulary);
  return 0;
}
