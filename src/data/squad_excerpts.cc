#include "data/squad_excerpts.h"

#include <algorithm>

#include "base/error.h"
#include "data/words.h"
#include "text/albert_text.h"
#include "text/code_points.h"
#include "text/utf8.h"

namespace lshformer {
namespace {

constexpr size_t kBytesAtOnce = size_t{4} << 20;  // of contexts encoded together

// Contexts [begin, end) and the questions on them.
struct Piece {
  size_t begin = 0, end = 0, first_question = 0, end_question = 0;
};

Piece NextPiece(const SquadData& data, const Piece& last) {
  Piece piece{last.end, last.end, last.end_question, last.end_question};
  for (size_t bytes = 0; piece.end < data.contexts.size() && bytes < kBytesAtOnce; ++piece.end)
    bytes += data.contexts[piece.end].size();
  while (piece.end_question < data.questions.size() &&
         static_cast<size_t>(data.questions[piece.end_question].context) < piece.end)
    ++piece.end_question;
  return piece;
}

// Whether an answer begins and ends where words do.
bool BetweenWords(const SquadAnswer& answer, const TokenPlaces& places) {
  const int32_t end = answer.start + static_cast<int32_t>(CountCodePoints(answer.text));
  const auto begins = [&](const auto& place) { return place.first == answer.start; };
  const auto ends = [&](const auto& place) { return place.second == end; };
  return std::any_of(places.begin(), places.end(), begins) && std::any_of(places.begin(), places.end(), ends);
}

void AddQuestion(const SquadData& data, size_t number, const Encoding& question, const Encoding& context,
                 const Tokenizer& tokenizer, const ExcerptOptions& options, SquadExcerpts& out) {
  const SquadQuestion& asked = data.questions[number];
  const auto fail = [&](const char* what) { Fail("{}: question \"{}\": {}", data.path, Shown(asked.id, 60), what); };
  if (question.ids.empty()) fail("\"question\" has no tokens");
  if (context.ids.empty()) fail("\"context\" has no tokens");
  const auto question_tokens = static_cast<int64_t>(question.ids.size());
  const ExcerptLayout layout = LayoutOf(tokenizer, question_tokens);
  const auto first = static_cast<int32_t>(layout.first);
  if (layout.apart && !asked.answers.empty()) out.within_words += !BetweenWords(asked.answers[0], context.offsets);
  std::vector<ContextExcerpt> excerpts;
  try {
    excerpts = CutContext(question_tokens, static_cast<int64_t>(context.ids.size()), layout, options);
  } catch (const Error& error) {
    fail(error.what());
  }
  for (const ContextExcerpt& excerpt : excerpts) {
    const ExcerptSequence sequence = MakeExcerpt(question.ids, context.ids, excerpt, tokenizer);
    if (layout.apart) {
      out.set.AddWords(sequence.ids, sequence.question);
    } else {
      out.set.Add(sequence.ids, sequence.type_ids);
    }
    const auto [start, end] = LabelExcerpt(asked, context.offsets, excerpt, first);
    out.set.AddSpan(start, end);
    out.excerpts.push_back({static_cast<int32_t>(number), first, excerpt});
  }
}

// Whether this code point is white space.
bool IsWhiteSpace(std::string_view code_point) {
  const char* next = code_point.data();
  return IsPythonSpace(NextCodePoint(next));
}

}  // namespace

int DocStride(const ExcerptOptions& options) {
  constexpr int kHfStride = 128;
  return options.doc_stride >= 0 ? options.doc_stride : std::min(kHfStride, options.max_seq_length / 3);
}

void CutQuestion(const ExcerptOptions& options, const Tokenizer& tokenizer, std::vector<int32_t>& ids) {
  if (options.max_query_length == 0 || std::ssize(ids) <= options.max_query_length) return;
  if (tokenizer.truncates_left()) ids.erase(ids.begin(), ids.end() - options.max_query_length);
  ids.resize(static_cast<size_t>(options.max_query_length));
}

ExcerptLayout LayoutOf(const Tokenizer& tokenizer, int64_t question_tokens) {
  const bool from_end = tokenizer.truncates_left();
  if (tokenizer.character_vocab_size() > 0) return {/*apart=*/true, /*first=*/1, /*others=*/1, from_end};
  const TextTemplate::Form& form = tokenizer.text_template().two;
  const auto first = static_cast<int64_t>(form.before.size() + form.between.size()) + question_tokens;
  return {/*apart=*/false, first, first + static_cast<int64_t>(form.after.size()), from_end};
}

std::vector<ContextExcerpt> CutContext(int64_t question_tokens, int64_t context_tokens, const ExcerptLayout& layout,
                                       const ExcerptOptions& options) {
  const int64_t room = options.max_seq_length - layout.others, stride = DocStride(options);
  if (layout.apart && question_tokens >= options.max_seq_length)
    Fail("the question has {} tokens, expected at most {} (max_seq_length {})", question_tokens,
         options.max_seq_length - 1, options.max_seq_length);
  if (room >= context_tokens) return {{0, static_cast<int32_t>(context_tokens)}};
  if (room <= stride && layout.apart)
    Fail("the context has {} tokens and excerpts of it would not get on: max_seq_length {}, doc_stride {}",
         context_tokens, options.max_seq_length, stride);
  if (room <= stride)
    Fail(
        "the question has {} tokens, at most {} leave room for the context (max_seq_length {}, doc_stride {}); {} cuts "
        "it",
        question_tokens, std::max<int64_t>(0, question_tokens + room - stride - 1), options.max_seq_length, stride,
        OptionName{"max_query_length"});
  std::vector<ContextExcerpt> excerpts;
  for (int64_t begin = 0, end = 0; end < context_tokens; begin += room - stride) {
    end = std::min(begin + room, context_tokens);
    excerpts.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(end)});
  }
  if (layout.from_end) {
    const auto tokens = static_cast<int32_t>(context_tokens);
    for (ContextExcerpt& excerpt : excerpts) excerpt = {tokens - excerpt.end, tokens - excerpt.begin};
    std::reverse(excerpts.begin(), excerpts.end());
  }
  return excerpts;
}

ExcerptSequence MakeExcerpt(std::span<const int32_t> question, std::span<const int32_t> context,
                            const ContextExcerpt& excerpt, const Tokenizer& tokenizer) {
  ExcerptSequence sequence;
  std::vector<int32_t>& ids = sequence.ids;
  const auto part =
      context.subspan(static_cast<size_t>(excerpt.begin), static_cast<size_t>(excerpt.end - excerpt.begin));
  if (LayoutOf(tokenizer, /*question_tokens=*/0).apart) {
    sequence.question.push_back(DistinctWords::kStart);
    sequence.question.insert(sequence.question.end(), question.begin(), question.end());
    ids.push_back(DistinctWords::kStart);
    ids.insert(ids.end(), part.begin(), part.end());
    return sequence;
  }
  const TextTemplate::Form& form = tokenizer.text_template().two;
  ids.reserve(question.size() + part.size() + form.tokens());
  const auto put = [&](const std::vector<TextTemplate::Token>& tokens) {
    for (const TextTemplate::Token& token : tokens) {
      ids.push_back(token.id);
      sequence.type_ids.push_back(token.type);
    }
  };
  const auto put_text = [&](std::span<const int32_t> text, int32_t type) {
    ids.insert(ids.end(), text.begin(), text.end());
    sequence.type_ids.resize(ids.size(), type);
  };
  put(form.before);
  put_text(question, form.first_type);
  put(form.between);
  put_text(part, form.second_type);
  put(form.after);
  return sequence;
}

std::pair<int32_t, int32_t> LabelExcerpt(const SquadQuestion& question, const TokenPlaces& places,
                                         const ContextExcerpt& excerpt, int32_t first) {
  if (question.answers.empty()) return {0, 0};
  const SquadAnswer& answer = question.answers[0];
  const int32_t begin = answer.start, end = begin + static_cast<int32_t>(CountCodePoints(answer.text));
  if (places[static_cast<size_t>(excerpt.begin)].first > begin ||
      places[static_cast<size_t>(excerpt.end) - 1].second < end)
    return {0, 0};
  // Both are sorted, as tokens follow one another.
  const auto from = places.begin() + excerpt.begin, to = places.begin() + excerpt.end;
  const auto after_start =
      std::upper_bound(from, to, begin, [](int32_t at, const auto& place) { return at < place.first; });
  const auto at_end = std::lower_bound(from, to, end, [](const auto& place, int32_t at) { return place.second < at; });
  return {first + static_cast<int32_t>(after_start - from) - 1, first + static_cast<int32_t>(at_end - from)};
}

void TrimPlaces(std::string_view text, TokenPlaces& places) {
  const CodePointIndex index(text);
  for (auto& [begin, end] : places) {
    while (begin < end && IsWhiteSpace(index.Slice(begin, begin + 1))) ++begin;
  }
}

Encoding EncodeBare(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.Encode(text, {}, {.add_special_tokens = false});
}

void AddSquadExcerpts(const SquadData& data, const Tokenizer& tokenizer, const ExcerptOptions& options,
                      SquadExcerpts& excerpts) {
  const EncodeOptions bare{.add_special_tokens = false};
  for (Piece piece = NextPiece(data, {}); piece.begin < data.contexts.size(); piece = NextPiece(data, piece)) {
    const std::vector<std::string> texts(data.contexts.begin() + static_cast<int64_t>(piece.begin),
                                         data.contexts.begin() + static_cast<int64_t>(piece.end));
    std::vector<std::string> asked;
    for (size_t q = piece.first_question; q < piece.end_question; ++q) asked.push_back(data.questions[q].text);
    std::vector<Encoding> contexts = EncodeAll(tokenizer, texts, {}, bare);
    for (size_t i = 0; i < texts.size(); ++i) TrimPlaces(texts[i], contexts[i].offsets);
    std::vector<Encoding> questions = EncodeAll(tokenizer, asked, {}, bare);
    if (tokenizer.character_vocab_size() > 0) {
      for (std::vector<Encoding>* encodings : {&contexts, &questions})
        for (Encoding& encoding : *encodings) encoding.ids = excerpts.set.words().Numbers(encoding);
    }
    for (size_t q = 0; q < questions.size(); ++q) {
      CutQuestion(options, tokenizer, questions[q].ids);
      const size_t number = piece.first_question + q;
      const auto context = static_cast<size_t>(data.questions[number].context) - piece.begin;
      AddQuestion(data, number, questions[q], contexts[context], tokenizer, options, excerpts);
    }
    if (!excerpts.keep_places) continue;
    for (Encoding& context : contexts) excerpts.places.push_back(std::move(context.offsets));
  }
}

}  // namespace lshformer
