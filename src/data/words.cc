#include "data/words.h"

#include <cstring>

namespace lshformer {
namespace {

constexpr int32_t kUnknown = 1;  // word and character of the start word

std::string KeyOf(int32_t id, std::span<const int32_t> characters) {
  std::string key((characters.size() + 1) * sizeof(int32_t), '\0');
  std::memcpy(key.data(), &id, sizeof(int32_t));
  if (!characters.empty()) std::memcpy(key.data() + sizeof(int32_t), characters.data(), characters.size_bytes());
  return key;
}

}  // namespace

DistinctWords::DistinctWords() {
  const int32_t character = kUnknown;
  Number(kUnknown, {&character, 1});
}

int32_t DistinctWords::Number(int32_t id, std::span<const int32_t> characters) {
  const auto [found, added] = known_.try_emplace(KeyOf(id, characters), size());
  if (added) {
    ids_.push_back(id);
    characters_.insert(characters_.end(), characters.begin(), characters.end());
    ends_.push_back(characters_.size());
  }
  return found->second;
}

std::vector<int32_t> DistinctWords::Numbers(const Encoding& encoding) {
  std::vector<int32_t> numbers;
  numbers.reserve(encoding.ids.size());
  for (size_t token = 0; token < encoding.ids.size(); ++token) {
    const auto begin = static_cast<size_t>(encoding.cu_characters[token]);
    const auto end = static_cast<size_t>(encoding.cu_characters[token + 1]);
    numbers.push_back(Number(encoding.ids[token], std::span(encoding.characters).subspan(begin, end - begin)));
  }
  return numbers;
}

std::span<const int32_t> DistinctWords::characters(int32_t number) const {
  const auto at = static_cast<size_t>(number);
  const size_t begin = at == 0 ? 0 : ends_[at - 1];
  return std::span(characters_).subspan(begin, ends_[at] - begin);
}

std::vector<int32_t> WordBatch::Places(const DistinctWords& table, std::span<const int32_t> numbers) {
  std::vector<int32_t> places;
  places.reserve(numbers.size());
  for (const int32_t number : numbers) places.push_back(distinct_.Number(table.id(number), table.characters(number)));
  return places;
}

void WordBatch::Append(PackedBatch& batch, const DistinctWords& table, std::span<const int32_t> context,
                       std::span<const int32_t> question, uint64_t sequence_id) {
  if (batch.further_streams.empty()) batch.further_streams.resize(1);
  AppendSequence(batch, Places(table, context), {}, sequence_id);
  AppendSequence(batch.further_streams[0], Places(table, question));
}

void WordBatch::Finish(PackedBatch& batch) const {
  TokenStream words, characters;
  std::vector<int32_t> ids;
  for (int32_t number = 0; number < distinct_.size(); ++number) {
    ids.push_back(distinct_.id(number));
    const std::span<const int32_t> own = distinct_.characters(number);
    AppendSequence(characters, {own.begin(), own.end()});
  }
  AppendSequence(words, ids);
  batch.further_streams.resize(1);
  batch.further_streams.push_back(std::move(words));
  batch.further_streams.push_back(std::move(characters));
}

}  // namespace lshformer
