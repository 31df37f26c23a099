// Any bytes as vocab.txt: a tokenizer whose tokens are the lines, or an Error of one line.
#include <string>
#include <string_view>

#include "fuzz/parses.h"
#include "text/wordpiece/wordpiece.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  using testing::Check;
  const std::string_view vocab(reinterpret_cast<const char*>(data), size);
  testing::Parses([&] {
    const WordPieceTokenizer tokenizer(Vocabulary(vocab, "vocab.txt"), "vocab.txt", {});
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      const std::string& token = tokenizer.Token(id);
      Check(tokenizer.Id(token) >= id, "of a token that is there twice the later number counts");
      // Each token as text: pieces of the vocabulary, in places within the text and in order.
      const Encoding encoding = tokenizer.Encode(token);
      int32_t last = 0;
      for (size_t i = 1; i + 1 < encoding.ids.size(); ++i) {
        Check(encoding.ids[i] >= 0 && encoding.ids[i] < tokenizer.vocab_size(), "ids are in range");
        Check(encoding.offsets[i].first >= last - 1 && encoding.offsets[i].second > encoding.offsets[i].first,
              "offsets ascend");
        Check(static_cast<size_t>(encoding.offsets[i].second) <= token.size(), "offsets are in the text");
        last = encoding.offsets[i].second;
      }
      tokenizer.Decode(encoding.ids, true);
    }
  });
  return 0;
}
