// Questions on contexts of any length: excerpts of all questions share forward calls.
#include <algorithm>

#include "base/error.h"
#include "infer/pipeline.h"
#include "models/excerpt_answers.h"
#include "text/code_points.h"

namespace lshformer {
namespace {

using Answers = Outcome<std::vector<SpanAnswer>>;

// One forward call's excerpts.
struct ExcerptBatch {
  struct Place {
    size_t question;
    ContextExcerpt tokens;
  };
  PackedBatch packed;
  WordBatch streams;  // of a model that reads words
  std::vector<Place> places;
};

// The answer given first, then the others, best first; at most `count`. No-answer counts only with version_2.
FoundAnswer ForOutput(const FoundAnswer& all, const AnswerOptions& options, int count) {
  FoundAnswer found = WithoutRepetitions(all);
  const auto given = std::find_if(found.best.begin(), found.best.end(), [&](const AnswerCandidate& candidate) {
    return candidate.begin == found.answer.begin && candidate.end == found.answer.end;
  });
  const auto place = given - found.best.begin();
  std::rotate(found.best.begin(), given, given + 1);
  std::rotate(found.probabilities.begin(), found.probabilities.begin() + place,
              found.probabilities.begin() + place + 1);
  // Nothing was found, which is no opinion that there is nothing.
  if (!options.version_2 && found.answer.none()) found.probabilities[0] = 0;
  const auto kept = std::min(found.best.size(), static_cast<size_t>(count));
  found.best.resize(kept);
  found.probabilities.resize(kept);
  return found;
}

// Makes the span as wide as the words that it begins and ends in.
void WidenToWords(const QuestionQuery& query, const Tokenizer& tokenizer, AnswerCandidate& span) {
  const TokenPlaces& places = query.places;
  const auto& ids = query.context_ids;
  auto first = static_cast<size_t>(std::ranges::upper_bound(places, span.begin, {}, &TokenPlaces::value_type::second) -
                                   places.begin());
  auto last = static_cast<size_t>(std::ranges::lower_bound(places, span.end, {}, &TokenPlaces::value_type::first) -
                                  places.begin());
  while (first > 0 && tokenizer.ContinuesWord(ids[first])) --first;
  while (last < ids.size() && tokenizer.ContinuesWord(ids[last])) ++last;
  span.begin = std::min(span.begin, places[first].first);
  span.end = std::max(span.end, places[last - 1].second);
}

std::vector<SpanAnswer> Spans(const FoundAnswer& found, const QuestionQuery& query, const Tokenizer& tokenizer) {
  const CodePointIndex context(query.context);
  const bool widen = query.whole_words && tokenizer.character_vocab_size() == 0;  // else tokens are words
  std::vector<SpanAnswer> spans;
  for (size_t i = 0; i < found.best.size(); ++i) {
    AnswerCandidate best = found.best[i];
    if (widen && !best.none()) WidenToWords(query, tokenizer, best);
    const bool known = std::ranges::any_of(
        spans, [&](const SpanAnswer& span) { return span.start == best.begin && span.end == best.end; });
    if (known) continue;  // of two parts of the same words
    spans.push_back({std::string(context.Slice(best.begin, best.end)), static_cast<float>(found.probabilities[i]),
                     best.begin, best.end});
  }
  return spans;
}

// Collects excerpts of questions into forward calls, and their logits into answers, in the order of the questions.
class QuestionRun {
 public:
  QuestionRun(const Pipeline& pipeline, std::span<const QuestionQuery> queries, const Pipeline::QuestionsFound& found)
      : pipeline_(pipeline), options_(pipeline.options()), queries_(queries), found_(found), outcomes_(queries.size()) {
    for (const QuestionQuery& query : queries) searches_.emplace_back(query.answers);
  }

  void Add(size_t number, const ContextExcerpt& excerpt, const ExcerptSequence& sequence) {
    const auto tokens = batch_.packed.tokens.size() + static_cast<int64_t>(sequence.ids.size());
    if (!batch_.places.empty() && tokens > options_.batch_tokens) RunBatch(number);
    if (sequence.question.empty()) {
      AppendSequence(batch_.packed, sequence.ids, sequence.type_ids, batch_.places.size());
    } else {
      batch_.streams.Append(batch_.packed, queries_[number].words, sequence.ids, sequence.question,
                            batch_.places.size());
    }
    batch_.places.push_back({number, excerpt});
  }

  void Finish() {
    if (!batch_.places.empty()) RunBatch(queries_.size());
  }

 private:
  // After it the excerpts of all questions before `complete` have been run.
  void RunBatch(size_t complete) {
    if (!batch_.packed.further_streams.empty()) batch_.streams.Finish(batch_.packed);
    ForwardOptions forward;
    forward.stop = &StopOnSignal();
    if (options_.adjust_forward) options_.adjust_forward(forward);
    const ModelOutput output = pipeline_.model().Forward(batch_.packed, forward);
    const ExcerptAnswers answers(batch_.packed, output);
    for (size_t b = 0; b < batch_.places.size(); ++b) {
      const auto [number, tokens] = batch_.places[b];
      const QuestionQuery& query = queries_[number];
      const auto first = static_cast<int32_t>(query.first);
      if (!answers.AddTo(searches_[number], static_cast<int>(b), {0, first, tokens}, query.places))
        outcomes_[number].error = "the model's output for this question is not finite";
    }
    batch_ = {};
    const size_t begin = answered_;
    for (; answered_ < complete; ++answered_) {
      const QuestionQuery& query = queries_[answered_];
      Answers& outcome = outcomes_[answered_];
      if (outcome.ok())
        outcome.value =
            Spans(ForOutput(searches_[answered_].Finish(), query.answers, query.top_k), query, pipeline_.tokenizer());
    }
    found_(begin, {outcomes_.data() + begin, answered_ - begin});
    for (size_t number = begin; number < answered_; ++number) outcomes_[number] = Answers();
  }

  const Pipeline& pipeline_;
  const PredictOptions& options_;
  const std::span<const QuestionQuery> queries_;
  const Pipeline::QuestionsFound& found_;
  std::vector<AnswerSearch> searches_;
  std::vector<Answers> outcomes_;
  ExcerptBatch batch_;
  size_t answered_ = 0;  // questions
};

// `name`: the field, for errors.
Encoding EncodeField(const Tokenizer& tokenizer, const std::string& text, const char* name) {
  if (!IsValidUtf8(text)) Fail("\"{}\": expected UTF-8", name);
  Encoding encoding = EncodeBare(tokenizer, text);
  if (encoding.ids.empty()) Fail("\"{}\" has no tokens: it is blank", name);
  return encoding;
}

}  // namespace

Outcome<QuestionQuery> Pipeline::PrepareQuestion(QuestionInput input, const QuestionOptions& options) const {
  RequireTask(PredictTask::kQuestionAnswering);
  Outcome<QuestionQuery> outcome;
  QuestionQuery& query = outcome.value;
  try {
    query.answers = options.answers.value_or(options_.answers);
    query.whole_words = options.whole_words;
    query.top_k = options.top_k == 0 ? options_.top_k : options.top_k;
    if (query.top_k < 1 || query.top_k > query.answers.n_best_size)
      Fail("\"top_k\": expected 1 to {}, got {}", query.answers.n_best_size, query.top_k);
    const int longest = options.max_seq_length == 0 ? options_.max_seq_length : options.max_seq_length;
    CheckMaxSeqLength(longest, /*texts=*/2, tokenizer_.get(), options_.max_seq_length);
    Encoding question = EncodeField(*tokenizer_, input.question, "question");
    if (input.context.size() > kLongestContext)
      Fail("\"context\" has {} bytes, expected at most {}", input.context.size(), kLongestContext);
    Encoding context = EncodeField(*tokenizer_, input.context, "context");
    TrimPlaces(input.context, context.offsets);
    if (tokenizer_->character_vocab_size() > 0)
      for (Encoding* encoding : {&context, &question}) encoding->ids = query.words.Numbers(*encoding);
    query.context = std::move(input.context);
    const ExcerptOptions excerpt = query.answers.Excerpts(longest);
    query.question = std::move(question.ids);
    CutQuestion(excerpt, *tokenizer_, query.question);
    query.context_ids = std::move(context.ids);
    query.places = std::move(context.offsets);
    const auto tokens = static_cast<int64_t>(query.question.size());
    const ExcerptLayout layout = LayoutOf(*tokenizer_, tokens);
    query.first = layout.first;
    query.excerpts = CutContext(tokens, static_cast<int64_t>(query.context_ids.size()), layout, excerpt);
    if (!layout.apart)
      RequireTypes(MakeExcerpt(query.question, query.context_ids, query.excerpts.front(), *tokenizer_).type_ids,
                   "context");
  } catch (const Error& error) {
    query = QuestionQuery();
    outcome.error = error.what();
  }
  return outcome;
}

void Pipeline::Run(std::span<const QuestionQuery> queries, const QuestionsFound& found) const {
  RequireTask(PredictTask::kQuestionAnswering);
  torch::NoGradGuard no_gradients;
  QuestionRun run(*this, queries, found);
  for (size_t number = 0; number < queries.size(); ++number) {
    const QuestionQuery& query = queries[number];
    for (const ContextExcerpt& excerpt : query.excerpts)
      run.Add(number, excerpt, MakeExcerpt(query.question, query.context_ids, excerpt, *tokenizer_));
  }
  run.Finish();
}

}  // namespace lshformer
