#include "data/sequence_set.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "base/error.h"

namespace lshformer {

// One growing array of ids, in memory or in an unlinked file that is mapped.
class SequenceSet::Tokens {
 public:
  explicit Tokens(int64_t in_memory) : in_memory_(in_memory) {}
  ~Tokens() {
    if (mapping_ != nullptr) munmap(mapping_, static_cast<size_t>(capacity_) * sizeof(int32_t));
    if (file_ >= 0) close(file_);
  }
  Tokens(const Tokens&) = delete;
  Tokens& operator=(const Tokens&) = delete;

  int64_t size() const { return size_; }
  const int32_t* data() const { return mapping_ != nullptr ? mapping_ : memory_.data(); }
  void Append(std::span<const int32_t> ids) {
    const int64_t end = size_ + static_cast<int64_t>(ids.size());
    if (mapping_ == nullptr && end <= in_memory_) {
      memory_.insert(memory_.end(), ids.begin(), ids.end());
    } else {
      if (end > capacity_ || mapping_ == nullptr) Grow(std::max(end, 2 * size_));
      std::copy(ids.begin(), ids.end(), mapping_ + size_);
    }
    size_ = end;
  }

 private:
  void Grow(int64_t capacity) {
    const char* set = std::getenv("TMPDIR");
    // /var/tmp and not /tmp: the latter is often memory.
    const std::string folder = set != nullptr && *set != '\0' ? set : "/var/tmp";
    if (file_ < 0) {
      std::string name = folder + "/lshformer-XXXXXX";
      file_ = mkostemp(name.data(), O_CLOEXEC);
      if (file_ < 0)
        Fail("{}: no temporary file for token ids: {} (TMPDIR names another folder)", folder, std::strerror(errno));
      unlink(name.c_str());
    }
    const size_t bytes = static_cast<size_t>(capacity) * sizeof(int32_t);
    // Blocks are reserved now: a full disk is an error here and not a SIGBUS on a later write.
    if (const int code = posix_fallocate(file_, 0, static_cast<off_t>(bytes)); code != 0) {
      Fail("{}: {} bytes of token ids do not fit: {} (TMPDIR names another folder)", folder, bytes,
           std::strerror(code));
    }
    if (mapping_ != nullptr) munmap(mapping_, static_cast<size_t>(capacity_) * sizeof(int32_t));
    void* mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    mapping_ = mapping == MAP_FAILED ? nullptr : static_cast<int32_t*>(mapping);
    if (mapping_ == nullptr) Fail("{}: cannot map {} bytes of token ids: {}", folder, bytes, std::strerror(errno));
    capacity_ = capacity;
    if (!memory_.empty()) {
      std::copy(memory_.begin(), memory_.end(), mapping_);
      std::vector<int32_t>().swap(memory_);
    }
  }

  int64_t in_memory_;
  std::vector<int32_t> memory_;
  int32_t* mapping_ = nullptr;
  int64_t capacity_ = 0, size_ = 0;
  int file_ = -1;
};

SequenceSet::SequenceSet(int64_t in_memory) : tokens_(std::make_shared<Tokens>(in_memory)) {}
SequenceSet::~SequenceSet() = default;
SequenceSet::SequenceSet(SequenceSet&&) noexcept = default;
SequenceSet& SequenceSet::operator=(SequenceSet&&) noexcept = default;

void SequenceSet::Add(std::span<const int32_t> ids, std::span<const int32_t> type_ids) {
  if (tokens_->size() != offsets_.back()) throw std::logic_error("SequenceSet::Add after KeepFirst or SplitFront");
  tokens_->Append(ids);
  offsets_.push_back(tokens_->size());
  const auto first_one = std::find_if(type_ids.begin(), type_ids.end(), [](int32_t type) { return type != 0; });
  first_type_.push_back(static_cast<int32_t>(type_ids.empty() ? ids.size() : first_one - type_ids.begin()));
}

void SequenceSet::AddChoices(std::span<const Encoding> options) {
  if (choices_.back() != sequences()) throw std::logic_error("SequenceSet::AddChoices after Add");
  for (const Encoding& option : options) Add(option.ids, option.type_ids);
  choices_.push_back(sequences());
}

void SequenceSet::AddWords(std::span<const int32_t> context, std::span<const int32_t> question) {
  if (!questions_) questions_ = std::make_unique<SequenceSet>();
  if (questions_->sequences() != sequences()) throw std::logic_error("SequenceSet::AddWords after Add");
  Add(context);
  questions_->Add(question);
}

void SequenceSet::AddFlags(std::span<const float> flags) {
  if (flag_count_ == 0) flag_count_ = static_cast<int64_t>(flags.size());
  if (static_cast<int64_t>(flags.size()) != flag_count_)
    throw std::logic_error("SequenceSet::AddFlags of another number");
  flags_.insert(flags_.end(), flags.begin(), flags.end());
}

std::pair<int64_t, int64_t> SequenceSet::SequencesOf(int64_t example) const {
  if (!has_choices()) return {example, example + 1};
  return {choices_[example], choices_[example + 1]};
}

int64_t SequenceSet::TokensOf(int64_t example) const {
  const auto [first, end] = SequencesOf(example);
  return offsets_[end] - offsets_[first];
}

void SequenceSet::KeepFirst(int64_t examples) {
  if (examples == 0 || examples >= size()) return;
  const auto sequences = static_cast<size_t>(SequencesOf(examples).first);
  if (has_choices()) choices_.resize(static_cast<size_t>(examples) + 1);
  offsets_.resize(sequences + 1);
  first_type_.resize(sequences);
  if (has_words()) questions_->KeepFirst(static_cast<int64_t>(sequences));
  if (labelled()) labels_.resize(static_cast<size_t>(examples));
  if (has_values()) values_.resize(static_cast<size_t>(examples));
  if (has_flags()) flags_.resize(static_cast<size_t>(examples * flag_count_));
  if (has_spans()) spans_.resize(static_cast<size_t>(examples));
}

SequenceSet SequenceSet::SplitFront(int64_t examples) {
  examples = std::min(examples, size());
  SequenceSet front(0);
  front.tokens_ = tokens_;
  const int64_t sequences = examples < size() ? SequencesOf(examples).first : this->sequences();
  if (has_choices()) {
    front.choices_.assign(choices_.begin(), choices_.begin() + examples + 1);
    choices_.erase(choices_.begin(), choices_.begin() + examples);
    for (int64_t& border : choices_) border -= sequences;
  }
  front.offsets_.assign(offsets_.begin(), offsets_.begin() + sequences + 1);
  offsets_.erase(offsets_.begin(), offsets_.begin() + sequences);
  front.first_type_.assign(first_type_.begin(), first_type_.begin() + sequences);
  first_type_.erase(first_type_.begin(), first_type_.begin() + sequences);
  front.words_ = words_;
  if (has_words()) front.questions_ = std::make_unique<SequenceSet>(questions_->SplitFront(sequences));
  if (labelled()) {
    front.labels_.assign(labels_.begin(), labels_.begin() + examples);
    labels_.erase(labels_.begin(), labels_.begin() + examples);
  }
  if (has_values()) {
    front.values_.assign(values_.begin(), values_.begin() + examples);
    values_.erase(values_.begin(), values_.begin() + examples);
  }
  if (has_flags()) {
    const auto border = flags_.begin() + examples * flag_count_;
    front.flag_count_ = flag_count_;
    front.flags_.assign(flags_.begin(), border);
    flags_.erase(flags_.begin(), border);
  }
  if (has_spans()) {
    front.spans_.assign(spans_.begin(), spans_.begin() + examples);
    spans_.erase(spans_.begin(), spans_.begin() + examples);
  }
  return front;
}

uint64_t SequenceSet::Fingerprint() const {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a, a number at a time
  const auto add = [&hash](uint64_t number) { hash = (hash ^ number) * 0x100000001B3; };
  for (int64_t i = 0; i < size(); ++i) {
    const auto [first, end] = SequencesOf(i);
    if (has_choices()) add(static_cast<uint64_t>(end - first));
    for (int64_t s = first; s < end; ++s) {
      add(static_cast<uint64_t>(length(s)));
      for (const int32_t id : ids(s)) add(static_cast<uint32_t>(id));
      add(static_cast<uint32_t>(first_type_[s]));
      if (has_words())
        for (const int32_t number : question(s)) add(static_cast<uint32_t>(number));
    }
    if (labelled()) add(static_cast<uint32_t>(labels_[i]));
    if (has_values()) add(std::bit_cast<uint32_t>(values_[i]));
    if (has_flags())
      for (const float flag : flags(i)) add(std::bit_cast<uint32_t>(flag));
    if (has_spans()) {
      add(static_cast<uint32_t>(spans_[i].first));
      add(static_cast<uint32_t>(spans_[i].second));
    }
  }
  for (int32_t number = 0; has_words() && number < words_->size(); ++number) {
    add(static_cast<uint32_t>(words_->id(number)));
    for (const int32_t character : words_->characters(number)) add(static_cast<uint32_t>(character));
  }
  return hash;
}

int SequenceSet::max_length() const {
  int longest = 0;
  for (int64_t i = 0; i < sequences(); ++i) longest = std::max(longest, length(i));
  return longest;
}

std::span<const int32_t> SequenceSet::ids(int64_t i) const {
  return {tokens_->data() + offsets_[i], static_cast<size_t>(length(i))};
}

std::vector<int32_t> SequenceSet::type_ids(int64_t i) const {
  std::vector<int32_t> types(static_cast<size_t>(length(i)), 1);
  std::fill_n(types.begin(), first_type_[i], 0);
  return types;
}

PackedBatch MakeBatch(const SequenceSet& set, std::span<const int64_t> examples) {
  PackedBatch batch;
  WordBatch streams;
  if (set.has_choices()) batch.labels.cu_choices.push_back(0);
  for (const int64_t example : examples) {
    const auto [first, end] = set.SequencesOf(example);
    for (int64_t sequence = first; sequence < end; ++sequence) {
      const std::span<const int32_t> ids = set.ids(sequence);
      if (set.has_words()) {
        streams.Append(batch, set.words(), ids, set.question(sequence), static_cast<uint64_t>(sequence));
        continue;
      }
      AppendSequence(batch, {ids.begin(), ids.end()}, set.type_ids(sequence), static_cast<uint64_t>(sequence));
    }
    if (set.has_choices()) batch.labels.cu_choices.push_back(batch.sequences());
    if (set.labelled()) batch.labels.classes.push_back(set.label(example));
    if (set.has_values()) batch.labels.values.push_back(set.value(example));
    if (set.has_flags())
      batch.labels.flags.insert(batch.labels.flags.end(), set.flags(example).begin(), set.flags(example).end());
    if (!set.has_spans()) continue;
    batch.labels.start_positions.push_back(set.span(example).first);
    batch.labels.end_positions.push_back(set.span(example).second);
  }
  if (set.has_words()) streams.Finish(batch);
  return batch;
}

PackedBatch MakeMaskedBatch(const SequenceSet& set, std::span<const int64_t> examples, const Masker& masker,
                            uint64_t visit) {
  PackedBatch batch = MakeBatch(set, examples);
  batch.labels.tokens.resize(batch.tokens.ids.size());
  for (int b = 0; b < batch.sequences(); ++b) {
    const size_t begin = static_cast<size_t>(batch.tokens.cu_seqlens[b]);
    const size_t length = static_cast<size_t>(batch.tokens.cu_seqlens[b + 1]) - begin;
    masker.Mask(visit, batch.sequence_ids[b], std::span(batch.tokens.ids).subspan(begin, length),
                std::span(batch.labels.tokens).subspan(begin, length));
  }
  return batch;
}

}  // namespace lshformer
