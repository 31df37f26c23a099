// Any bytes as spiece.model: an Error of one line, or a model that the library can use.
#include <cstdint>
#include <string>

#include "fuzz/parses.h"
#include "text/sentence_piece/sentence_piece.h"

namespace {

constexpr const char* kTexts[] = {"the house, 9, caf\u00e9 \uff26\ufb01 1,000 [MASK]",
                                  "",
                                  "  ",
                                  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                  "\u65e5\u672c9,\u2581\u1112\u1161\u11ab \U0001f468\u200d\U0001f469 \ufffd()--\"\"",
                                  "b\u00bd,\u2460,\x01\x7f\u00a0\u0663,"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  using testing::Check;
  const std::string file(reinterpret_cast<const char*>(data), size);
  testing::Parses([&] {
    const SentencePieceTokenizer tokenizer(file, "spiece.model", {}, {});
    for (const std::string text : kTexts) {
      const Encoding encoding = tokenizer.Encode(text + std::string(1, '\0') + text);
      int32_t last = 0;
      for (size_t i = 0; i < encoding.ids.size(); ++i) {
        Check(encoding.ids[i] >= 0 && encoding.ids[i] < tokenizer.vocab_size(), "ids are in range");
        const auto [begin, end] = encoding.offsets[i];
        Check(begin >= 0 && begin <= end && end <= static_cast<int32_t>(2 * text.size() + 1),
              "offsets are in the text");
        if (i == 0 || i + 1 == encoding.ids.size()) continue;
        Check(end >= last, "offsets ascend");
        last = end;
      }
      Check(IsValidUtf8(tokenizer.Decode(encoding.ids, false)), "decoded text is UTF-8");
    }
  });
  return 0;
}
