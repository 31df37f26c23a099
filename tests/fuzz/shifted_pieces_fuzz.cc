// Any bytes as XLM-R's sentencepiece.bpe.model: an Error of one line, or a tokenizer that works.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fuzz/parses.h"
#include "text/tokenizer.h"
#include "util/temp_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  using testing::Check;
  const testing::TempFolder folder;
  folder.Write("sentencepiece.bpe.model", std::string_view(reinterpret_cast<const char*>(data), size));
  testing::Parses([&] {
    const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Load(folder.path());
    for (const char* text :
         {"the house, 9, caf\u00e9 \uff26\ufb01 1,000 <mask>", "", "  ", "\u65e5\u672c9,\u2581\u00bd"}) {
      const Encoding encoding = tokenizer->Encode(text, "a", {});
      Check(encoding.ids.size() >= 4, "<s> A </s></s> B </s>");
      for (const int32_t id : encoding.ids) Check(id >= 0 && id < tokenizer->vocab_size(), "ids are in range");
      Check(IsValidUtf8(tokenizer->Decode(encoding.ids, false)), "decoded text is UTF-8");
    }
  });
  return 0;
}
