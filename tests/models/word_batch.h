// Batches of models that read words and characters.
#pragma once
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/philox.h"
#include "data/batch.h"

namespace lshformer::testing {

struct Word {
  int32_t id;
  std::vector<int32_t> characters;
  auto operator<=>(const Word&) const = default;
};
inline const Word kStartWord{1, {1}};

struct WordExample {
  std::vector<Word> context, question;  // each begins with kStartWord
  int32_t start = 0, end = 0;
};

// As the library's own: a list of distinct words in order of first occurrence, context and question as places in it.
inline PackedBatch BatchOf(const std::vector<WordExample>& examples, uint64_t first_id = 0) {
  PackedBatch batch;
  batch.further_streams.resize(3);
  std::map<Word, int32_t> places;
  std::vector<int32_t> ids;
  const auto place = [&](const Word& word) {
    const auto [found, fresh] = places.try_emplace(word, static_cast<int32_t>(places.size()));
    if (fresh) ids.push_back(word.id), AppendSequence(batch.further_streams[2], word.characters);
    return found->second;
  };
  const auto placed = [&](const std::vector<Word>& words) {
    std::vector<int32_t> all;
    for (const Word& word : words) all.push_back(place(word));
    return all;
  };
  for (size_t i = 0; i < examples.size(); ++i) {
    AppendSequence(batch, placed(examples[i].context), {}, first_id + i);
    AppendSequence(batch.further_streams[0], placed(examples[i].question));
    batch.labels.start_positions.push_back(examples[i].start);
    batch.labels.end_positions.push_back(examples[i].end);
  }
  AppendSequence(batch.further_streams[1], ids);
  return batch;
}

// Random words of a vocabulary of 40 and their spelling, of 20 characters; a fifth is unknown, in one of six spellings.
inline WordExample RandomExample(uint64_t number, int context, int question) {
  PhiloxStream stream(StreamKey(11, 0, 0, 0, Purpose::kSynthetic), number);
  const auto word = [&]() -> Word {
    if (stream.Below(5) == 0) return {1, {static_cast<int32_t>(2 + stream.Below(6)), 3}};
    const auto id = static_cast<int32_t>(2 + stream.Below(38));
    std::vector<int32_t> characters;
    for (int32_t i = 0; i <= id % 16; ++i) characters.push_back(1 + (id * 7 + i * 3) % 19);
    return {id, characters};
  };
  const auto text = [&](int length) {
    std::vector<Word> words{kStartWord};
    while (static_cast<int>(words.size()) < length) words.push_back(word());
    return words;
  };
  WordExample example{text(context), text(question), 0, 0};
  example.start = static_cast<int32_t>(stream.Below(static_cast<uint64_t>(context)));
  example.end = example.start + static_cast<int32_t>(stream.Below(static_cast<uint64_t>(context - example.start)));
  return example;
}

// {"words", "characters", "contexts", "questions", "start_positions", "end_positions"}, as tools/make_*_golden.py
// write.
inline PackedBatch ReadWordBatch(const std::string& path) {
  const Json json = ReadJsonFile(path, {});
  PackedBatch batch;
  batch.further_streams.resize(3);
  for (const Json& ids : json.at("contexts"))
    AppendSequence(batch, ids.get<std::vector<int32_t>>(), {}, static_cast<uint64_t>(batch.sequences()));
  for (const Json& ids : json.at("questions"))
    AppendSequence(batch.further_streams[0], ids.get<std::vector<int32_t>>());
  AppendSequence(batch.further_streams[1], json.at("words").get<std::vector<int32_t>>());
  for (const Json& ids : json.at("characters"))
    AppendSequence(batch.further_streams[2], ids.get<std::vector<int32_t>>());
  batch.labels.start_positions = json.at("start_positions").get<std::vector<int32_t>>();
  batch.labels.end_positions = json.at("end_positions").get<std::vector<int32_t>>();
  return batch;
}

}  // namespace lshformer::testing
