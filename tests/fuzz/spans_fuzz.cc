// Any bytes as a line of JSON with a text and its spans: chunks that cover the tokens of each, or an Error of one line.
#include <string>

#include "base/json.h"
#include "data/file_kind.h"
#include "data/passages/chunking.h"
#include "data/small_tokenizer.h"
#include "fuzz/parses.h"
#include "text/code_points.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  using testing::Check;
  static const std::shared_ptr<const Tokenizer> tokenizer = testing::SmallTokenizer();
  const std::string line(reinterpret_cast<const char*>(data), size);
  testing::Parses([&] {
    const Json object = ParseJson(line, "a.jsonl:1", kJsonLineLimits);
    const std::vector<CodePointSpan> spans = ReadSpans(object, "a.jsonl:1");
    Check(!spans.empty(), "there are spans");
    const std::string text = GetString(object, "text", "a.jsonl:1");
    const Encoding tokens = tokenizer->Encode(text, {}, {.add_special_tokens = false});
    const std::vector<TextChunk> chunks = ChunksOf(text, tokens, *tokenizer, {Chunking::kSpans}, spans);
    Check(chunks.size() == spans.size(), "a chunk a span");
    size_t token = 0;
    for (size_t i = 0; i < chunks.size(); ++i) {
      Check(chunks[i].place == spans[i] && spans[i].second <= CountCodePoints(text), "where it was asked for");
      Check(chunks[i].first >= token && chunks[i].last > chunks[i].first, "tokens of its own, in order");
      Check(chunks[i].last <= tokens.ids.size(), "tokens of the text");
      token = chunks[i].last;
    }
    for (const Chunking chunking : {Chunking::kTokens, Chunking::kSentences})
      for (const TextChunk& chunk : ChunksOf(text, tokens, *tokenizer, {chunking, 3}, {}))
        Check(chunk.last > chunk.first && chunk.last <= tokens.ids.size(), "chunks have tokens");
  });
  return 0;
}
