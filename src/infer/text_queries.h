// What tasks that take texts have in common: an input becomes a query of one sequence or of windows, and what the model
// makes of those becomes an answer.
#pragma once
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/not_finite.h"
#include "infer/pipeline.h"

namespace lshformer {

// A query, or what its input lacks.
template <class Query, class Make>
Outcome<Query> Prepared(const Make& make) {
  Outcome<Query> outcome;
  try {
    make(outcome);
  } catch (const Error& error) {
    outcome.value = Query();
    outcome.error = error.what();
  }
  return outcome;
}

// The first sequence of a text, and its windows behind that.
template <class Query>
void TakeSequences(std::vector<Encoding> sequences, Query& query) {
  query.text = std::move(sequences.front());
  query.further.assign(std::make_move_iterator(sequences.begin() + 1), std::make_move_iterator(sequences.end()));
}
template <class Query>
std::span<const Encoding> FurtherOf(const Query& query) {
  if constexpr (requires { query.further; }) return query.further;
  return {};
}

template <class Query, class SequenceOf, class PartOf, class AnswerOf>
std::vector<Outcome<typename Query::Answer>> Pipeline::RunTexts(std::span<const Query> queries,
                                                                const SequenceOf& sequence_of, const PartOf& part_of,
                                                                const AnswerOf& answer_of) const {
  std::vector<Sequence> sequences;
  std::vector<std::pair<size_t, size_t>> places;       // of each sequence: its query, and which window of that
  std::vector<std::vector<std::vector<float>>> parts;  // [queries][windows] numbers
  std::vector<size_t> missing;                         // [queries] windows that are still to come
  for (const Query& query : queries) {
    const std::span<const Encoding> further = FurtherOf(query);
    for (size_t window = 0; window <= further.size(); ++window) {
      sequences.push_back(sequence_of(query, window == 0 ? query.text : further[window - 1]));
      places.emplace_back(parts.size(), window);
    }
    parts.emplace_back(further.size() + 1);
    missing.push_back(further.size() + 1);
  }
  std::vector<Outcome<typename Query::Answer>> outcomes(queries.size());
  ForEachOutput(sequences, [&](size_t number, std::span<const float> rows) {
    const auto [place, window] = places[number];
    auto& outcome = outcomes[place];
    std::vector<std::vector<float>>& own = parts[place];
    outcome.truncated = queries[place].text.truncated;
    if (!AllFinite(rows)) outcome.error = "the model's output for this text is not finite";
    if (outcome.ok()) own[window] = part_of(queries[place], rows);
    if (--missing[place] > 0 || !outcome.ok()) return;
    outcome.value =
        answer_of(queries[place], own.size() == 1 ? std::move(own[0]) : JoinWindows(own, options_.window_pooling));
    own.clear();
  });
  return outcomes;
}

}  // namespace lshformer
