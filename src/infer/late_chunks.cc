#include "infer/late_chunks.h"

#include <algorithm>

#include "base/error.h"
#include "infer/text_queries.h"
#include "nn/pooling.h"
#include "text/code_points.h"

namespace lshformer {
namespace {

// A pass has so much of its length, or more with the last, in common with each of its neighbours, half of which each
// counts.
constexpr size_t kOverlapShare = 4;

Encoding PassOf(const Encoding& tokens, size_t begin, size_t end, const TextTemplate::Form& around) {
  Encoding pass;
  for (const TextTemplate::Token& token : around.before) pass.Push(token.id, token.type, 0, 0);
  for (size_t i = begin; i < end; ++i)
    pass.Push(tokens.ids[i], around.first_type, tokens.offsets[i].first, tokens.offsets[i].second);
  for (const TextTemplate::Token& token : around.after) pass.Push(token.id, token.type, 0, 0);
  return pass;
}

std::vector<ChunkQuery::Pass> PassesOf(const Encoding& tokens, const TextTemplate::Form& around, int longest) {
  const size_t size = tokens.ids.size(), room = static_cast<size_t>(longest) - around.tokens();
  if (size <= room) return {{PassOf(tokens, 0, size, around), 0, 0, size}};
  const size_t overlap = room / kOverlapShare, step = std::max<size_t>(1, room - overlap);
  std::vector<ChunkQuery::Pass> passes;
  for (size_t begin = 0, first = 0; first < size;) {
    const size_t end = std::min(begin + room, size), next = std::min(begin + step, size - room);
    // The middle of what this pass and the next have in common. The last one is as long as the others, and so has more.
    const size_t last = end == size ? size : std::max(first + 1, end - (end - next) / 2);
    passes.push_back({PassOf(tokens, begin, end, around), begin, first, last});
    first = last;
    begin = next;
  }
  return passes;
}

int PassLength(const Pipeline& pipeline) {
  if (pipeline.options().long_text == LongText::kWhole) return pipeline.options().max_seq_length;
  return static_cast<int>(std::min<int64_t>(pipeline.config().max_position_embeddings, INT32_MAX));
}

// Takes the states of a text's tokens in their order.
class ChunkRows {
 public:
  ChunkRows(const Pipeline& pipeline, const ChunkQuery& query) : pipeline_(pipeline), query_(query) {}
  void Take(size_t token, std::span<const float> row) {
    if (done_.size() == query_.chunks.size() || token < Current().first) return;
    rows_.insert(rows_.end(), row.begin(), row.end());
    if (token + 1 == Current().last) Close();
  }
  std::vector<ChunkVector> Done() && { return std::move(done_); }

 private:
  const TextChunk& Current() const { return query_.chunks[done_.size()]; }
  void Close() {
    const int64_t hidden = pipeline_.config().hidden_size;
    const std::optional<bool> normalize = query_.options.normalize;
    const SentenceModules* modules = pipeline_.modules();
    done_.push_back({Current().place, modules != nullptr
                                          ? modules->Vector(rows_, hidden, 0, {Pooling::kMean, normalize})
                                          : PoolRows(rows_, hidden, Pooling::kMean, normalize.value_or(false))});
    rows_.clear();
  }

  const Pipeline& pipeline_;
  const ChunkQuery& query_;
  std::vector<float> rows_;  // of the chunk that is not done
  std::vector<ChunkVector> done_;
};

}  // namespace

Outcome<ChunkQuery> PrepareChunks(const Pipeline& pipeline, const std::string& text, const EmbedOptions& options,
                                  const ChunkOptions& chunks, std::span<const CodePointSpan> spans) {
  return Prepared<ChunkQuery>([&](Outcome<ChunkQuery>& outcome) {
    if (text.empty()) Fail("\"text\" is empty");
    if (!IsValidUtf8(text)) Fail("\"text\": expected UTF-8");
    const SentenceModules* modules = pipeline.modules();
    if (options.prompt_name && modules == nullptr) Fail("\"prompt_name\": the folder has no prompts");
    if (options.pooling && *options.pooling != Pooling::kMean)
      Fail("\"pooling\": a chunk's vector is the mean of its own tokens");
    const std::string prompt = pipeline.PromptOf(options);
    EncodeOptions encode;
    encode.add_special_tokens = false;
    encode.lower_case = modules != nullptr && modules->lower_cases();
    const Tokenizer& tokenizer = pipeline.tokenizer();
    Encoding tokens = tokenizer.Encode(prompt + text, {}, encode);
    ChunkQuery& query = outcome.value;
    query.options = options;
    query.passes = PassesOf(tokens, tokenizer.text_template().Of(1), PassLength(pipeline));
    const auto shift = static_cast<int32_t>(CountCodePoints(prompt));
    size_t own = 0;  // tokens of the prompt
    while (own < tokens.ids.size() && tokens.offsets[own].first < shift) ++own;
    tokens.Remove(0, own);
    for (auto& [begin, end] : tokens.offsets) begin -= shift, end -= shift;
    query.chunks = ChunksOf(text, tokens, tokenizer, chunks, spans);
    for (TextChunk& chunk : query.chunks) chunk.first += own, chunk.last += own;
    if (query.chunks.empty()) Fail("\"text\" has no tokens");
  });
}

std::vector<Outcome<std::vector<ChunkVector>>> RunChunks(const Pipeline& pipeline,
                                                         std::span<const ChunkQuery> queries) {
  // Whose states are kept: of several forward calls, as similar lengths share one.
  const int64_t most = std::max<int64_t>(pipeline.options().batch_tokens, 32768);
  const auto lead = pipeline.tokenizer().text_template().Of(1).before.size();
  const auto width = static_cast<size_t>(pipeline.config().hidden_size);
  std::vector<Outcome<std::vector<ChunkVector>>> outcomes(queries.size());
  std::vector<ChunkRows> rows;
  for (const ChunkQuery& query : queries) rows.emplace_back(pipeline, query);
  std::vector<EmbedQuery> pending;
  std::vector<std::pair<size_t, const ChunkQuery::Pass*>> of;
  int64_t tokens = 0;
  const auto run = [&] {
    const auto states = pipeline.Run(pending);
    for (size_t i = 0; i < states.size(); ++i) {
      const auto& [number, pass] = of[i];
      if (!states[i].ok()) outcomes[number].error = states[i].error;
      if (!outcomes[number].ok()) continue;
      const std::span<const float> all = states[i].value.values;
      for (size_t token = pass->first; token < pass->last; ++token)
        rows[number].Take(token, all.subspan((lead + token - pass->begin) * width, width));
    }
    pending.clear(), of.clear();
    tokens = 0;
  };
  for (size_t number = 0; number < queries.size(); ++number)
    for (const ChunkQuery::Pass& pass : queries[number].passes) {
      EmbedQuery query;
      query.text = pass.text;
      query.options.pooling = Pooling::kNone;
      tokens += std::ssize(pass.text.ids);
      pending.push_back(std::move(query));
      of.emplace_back(number, &pass);
      if (tokens >= most) run();
    }
  run();
  for (size_t number = 0; number < queries.size(); ++number)
    if (outcomes[number].ok()) outcomes[number].value = std::move(rows[number]).Done();
  return outcomes;
}

}  // namespace lshformer
