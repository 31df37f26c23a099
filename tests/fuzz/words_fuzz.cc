// Any bytes as the files of a folder of whole words, parted by 0xFF: words.txt, characters.txt, tokenizer_config.json,
// and a text. What loads gives every word of the text an id, a place and characters, and is saved byte for byte.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fuzz/parses.h"
#include "text/code_points.h"
#include "text/tokenizer.h"
#include "util/temp_folder.h"

namespace {

using namespace lshformer;
using testing::Check;

void CheckEncoding(const Tokenizer& tokenizer, std::string_view text) {
  Encoding encoding;
  if (!testing::Parses([&] { encoding = tokenizer.Encode(text); })) return;
  const int64_t length = CountCodePoints(text);
  int32_t last = 0;
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    Check(encoding.ids[i] >= 1 && encoding.ids[i] < tokenizer.vocab_size(), "ids are in range");
    const auto [begin, end] = encoding.offsets[i];
    Check(begin >= last && begin < end && end <= length, "places are in the text and ascend");
    last = end;
    const int32_t characters = encoding.cu_characters[i + 1] - encoding.cu_characters[i];
    Check(characters >= 1 && characters <= 16, "a word has 1 to 16 characters");
  }
  for (const int32_t id : encoding.characters)
    Check(id >= 1 && id < tokenizer.character_vocab_size(), "ids of characters are in range");
  tokenizer.Decode(encoding.ids, true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::array<std::string_view, 4> parts;
  for (std::string_view& part : parts) {
    part = rest.substr(0, rest.find('\xFF'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  }
  const testing::TempFolder folder, saved;
  folder.Write("words.txt", parts[0]);
  folder.Write("characters.txt", parts[1]);
  if (!parts[2].empty()) folder.Write("tokenizer_config.json", parts[2]);
  std::shared_ptr<const Tokenizer> tokenizer;
  if (!testing::Parses([&] { tokenizer = Tokenizer::Load(folder.path()); })) return 0;
  for (const std::string_view text : {parts[3], parts[0]}) CheckEncoding(*tokenizer, text);
  if (!testing::Parses([&] { tokenizer->Save(saved.path(), 0); })) return 0;
  for (const char* file : {"words.txt", "characters.txt"})
    Check(saved.Read(file) == folder.Read(file), "files are saved byte for byte");
  return 0;
}
