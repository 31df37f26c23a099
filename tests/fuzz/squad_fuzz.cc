// Any bytes as SQuAD: questions whose answers are where they say, and excerpts of them, or an Error of one line.
#include "data/answer_search.h"
#include "data/small_tokenizer.h"
#include "data/squad.h"
#include "data/squad_excerpts.h"
#include "fuzz/memory_file.h"
#include "fuzz/parses.h"
#include "text/code_points.h"

namespace {

using namespace lshformer;
using testing::Check;

void CheckData(const SquadData& data) {
  Check(!data.questions.empty(), "there are questions");
  int32_t last = 0;
  for (const SquadQuestion& question : data.questions) {
    Check(question.context >= last && question.context < static_cast<int32_t>(data.contexts.size()), "contexts ascend");
    last = question.context;
    const CodePointIndex context(data.contexts[static_cast<size_t>(last)]);
    for (const SquadAnswer& answer : question.answers) {
      const int64_t end = answer.start + CountCodePoints(answer.text);
      Check(end <= context.size() && context.Slice(answer.start, end) == answer.text, "answers are in their context");
    }
  }
}

void CheckExcerpts(const SquadData& data, const ExcerptOptions& options) {
  static const std::shared_ptr<const Tokenizer> tokenizer = testing::SmallTokenizer();
  SquadExcerpts excerpts;
  excerpts.keep_places = true;
  AddSquadExcerpts(data, *tokenizer, options, excerpts);
  AnswerSearch search({5, 3, true, 0});
  for (size_t i = 0; i < excerpts.excerpts.size(); ++i) {
    const SquadExcerpt& excerpt = excerpts.excerpts[i];
    const int length = excerpts.set.length(static_cast<int64_t>(i));
    const auto [start, end] = excerpts.set.span(static_cast<int64_t>(i));
    Check(length <= options.max_seq_length, "excerpts fit");
    Check(start >= 0 && end < length && (start == 0) == (end == 0), "labels are tokens");
    const TokenPlaces& places =
        excerpts.places[static_cast<size_t>(data.questions[static_cast<size_t>(excerpt.question)].context)];
    std::vector<float> logits(static_cast<size_t>(length));
    for (size_t t = 0; t < logits.size(); ++t) logits[t] = static_cast<float>((t * 7 + i) % 5);
    search.AddExcerpt(logits, logits, excerpt, places);
  }
  const FoundAnswer found = search.Finish();
  Check(!found.best.empty() && found.best.size() == found.probabilities.size(), "something is found");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const testing::MemoryFile file(data, size, "a.json");
  for (const SquadUse use : {SquadUse::kAnswerable, SquadUse::kMayHaveNone, SquadUse::kQuestionsOnly}) {
    testing::Parses([&] {
      const SquadData read = ReadSquad(file.path(), use);
      CheckData(read);
      CheckExcerpts(read, {12, 2});
    });
  }
  testing::Parses([&] { Check(!ReadSquadReferences(file.path()).empty(), "there are references"); });
  return 0;
}
