#include "io/passage_index.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/parallel.h"
#include "base/signals.h"

namespace lshformer {
namespace {

static_assert(std::endian::native == std::endian::little && sizeof(Passage) == 32, "the file is mapped as it is");

constexpr const char* kFormat = "lshformer passages";
constexpr int64_t kVersion = 2, kMostColumns = 1 << 20;

int64_t RowBytes(int64_t columns) { return kPassageHeadBytes + columns * int64_t{sizeof(float)}; }

// Of the bytes of a passage and its vector: FNV-1a's step on words of 8 bytes, in lanes side by side, which takes less
// time than memory does. Each step can be undone, so that one other word makes another sum.
class RowChecksum {
 public:
  RowChecksum(const Passage& passage, const float* vector, int64_t columns) {
    Add(&passage, sizeof(Passage) / kWord);
    Add(vector, columns / 2);
    if (columns % 2 == 1) lanes_[0] = Step(lanes_[0], std::bit_cast<uint32_t>(vector[columns - 1]));
  }
  uint64_t Sum() const {
    uint64_t sum = kBasis;
    for (const uint64_t lane : lanes_) sum = Step(std::rotl(sum, 29), lane);
    return sum;
  }

 private:
  static constexpr uint64_t kPrime = 0x100000001B3, kBasis = 0xCBF29CE484222325;
  static constexpr int64_t kWord = 8, kLanes = 4;
  static uint64_t Step(uint64_t lane, uint64_t word) { return (lane ^ word) * kPrime; }
  void Add(const void* bytes, int64_t words) {
    const auto word = [&](int64_t i) {
      uint64_t value;
      std::memcpy(&value, static_cast<const char*>(bytes) + i * kWord, sizeof(value));
      return value;
    };
    int64_t i = 0;
    for (; i + kLanes <= words; i += kLanes)
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes_[lane] = Step(lanes_[lane], word(i + lane));
    for (; i < words; ++i) lanes_[i % kLanes] = Step(lanes_[i % kLanes], word(i));
  }
  std::array<uint64_t, kLanes> lanes_{kBasis, kBasis + 1, kBasis + 2, kBasis + 3};
};

std::string FrontText(const IndexFront& front, const std::string& path) {
  const Json object{{"format", kFormat},
                    {"version", kVersion},
                    {"columns", front.columns},
                    {"settings", front.settings},
                    {"complete", front.complete}};
  std::string text = object.dump();
  if (std::ssize(text) >= kIndexFrontBytes)
    Fail("{}: the settings take more than {} bytes", Shown(path, 120), kIndexFrontBytes);
  text.resize(kIndexFrontBytes - 1, ' ');
  return text + "\n";
}

IndexFront ParseFront(std::string_view text, const std::string& path) {
  const std::string where = Shown(path, 120);
  Json object;
  try {
    object = ParseJson(text, where);
  } catch (const Error&) {
    object = Json();
  }
  if (!object.is_object() || object.value("format", Json()) != kFormat) Fail("{}: is no index of passages", where);
  if (object.value("version", Json()) != kVersion)
    Fail("{}: is an index of version {}, this program has {}; another name makes a new one", where,
         ShownValue(object.value("version", Json())), kVersion);
  IndexFront front;
  front.columns = GetInt(object, "columns", where, 1, kMostColumns);
  front.settings = object.value("settings", Json::object());
  front.complete = object.value("complete", Json());
  if (front.complete.is_null()) return front;
  for (const char* count : {"rows", "documents"}) GetInt(front.complete, count, where, 0);
  GetString(front.complete, "corpus", where);
  return front;
}

}  // namespace

class PassageIndex::Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) Fail("{}: cannot open: {}", Shown(path, 120), std::strerror(errno));
    struct stat status {};
    fstat(file, &status);
    if (!S_ISREG(status.st_mode) || status.st_size < kIndexFrontBytes) {
      close(file);
      Fail("{}: is no index of passages", Shown(path, 120));
    }
    bytes_ = static_cast<size_t>(status.st_size);
    data_ = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file, 0);
    const int error = errno;
    close(file);
    if (data_ == MAP_FAILED) Fail("{}: cannot map: {}", Shown(path, 120), std::strerror(error));
    guard_.emplace(data_, bytes_, path);
  }
  ~Mapping() {
    guard_.reset();
    munmap(data_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  const char* data() const { return static_cast<const char*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
  std::optional<GuardedMapping> guard_;
};

PassageIndex::PassageIndex(const std::string& path) : path_(path), mapping_(std::make_unique<Mapping>(path)) {
  front_ = ParseFront({mapping_->data(), static_cast<size_t>(kIndexFrontBytes)}, path);
  row_bytes_ = RowBytes(front_.columns);
  rows_ = (static_cast<int64_t>(mapping_->bytes()) - kIndexFrontBytes) / row_bytes_;
  if (!front_.complete.is_null() && front_.complete["rows"].get<int64_t>() > rows_)
    Fail("{}: is cut: it has {} passages of {}", Shown(path, 120), rows_, front_.complete["rows"].get<int64_t>());
}

PassageIndex::~PassageIndex() = default;

void PassageIndex::Check() const {
  constexpr int64_t kRowsAtOnce = 1024;
  const auto is_place = [](const Passage& passage) {
    return passage.document >= 0 && passage.line > 0 && 0 <= passage.start && passage.start <= passage.end;
  };
  const auto has_its_checksum = [&](int64_t row, const Passage& own) {
    uint64_t checksum;
    std::memcpy(&checksum, mapping_->data() + bytes_of(row) + sizeof(Passage), sizeof(checksum));
    return checksum == RowChecksum(own, vectors() + row * stride(), front_.columns).Sum();
  };
  // By the exponent's bits, all of which only infinities and NaN have set: whole numbers, near the speed of memory.
  const auto are_finite = [&](int64_t row) {
    constexpr uint32_t kExponent = 0x7F800000;
    const float* vector = vectors() + row * stride();
    uint32_t found = 0;
    for (int64_t i = 0; i < front_.columns; ++i)
      found |= static_cast<uint32_t>((std::bit_cast<uint32_t>(vector[i]) & kExponent) == kExponent);
    return found == 0;
  };
  ParallelFor(rows_, kRowsAtOnce, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Passage own = passage(row), before = row == 0 ? Passage() : passage(row - 1);
      if (!has_its_checksum(row, own) || !is_place(own) || own.document < before.document || own.line < before.line ||
          !are_finite(row))
        Fail("{}: is damaged at passage {} of {}; another name makes a new one", Shown(path_, 120), row + 1, rows_);
    }
  });
}

Passage PassageIndex::passage(int64_t row) const {
  Passage passage;
  std::memcpy(&passage, mapping_->data() + bytes_of(row), sizeof(passage));
  return passage;
}

const float* PassageIndex::vectors() const {
  return reinterpret_cast<const float*>(mapping_->data() + kIndexFrontBytes + kPassageHeadBytes);
}

PassageWriter::PassageWriter(const std::string& path, const IndexFront& front, int64_t rows)
    : front_(front), file_(path, path, rows == 0 ? 0 : kIndexFrontBytes + rows * RowBytes(front.columns)) {
  front_.complete = Json();
  // A front that says "complete" of fewer rows stays true while rows come behind them.
  if (rows > 0) return;
  try {
    file_.Write(FrontText(front_, path));
    file_.Flush();
  } catch (...) {  // a part of a front, on a full disk, would be in the next run's way
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    throw;
  }
}

void PassageWriter::Write(const Passage& passage, std::span<const float> vector) {
  std::array<char, kPassageHeadBytes> head{};
  const uint64_t checksum = RowChecksum(passage, vector.data(), std::ssize(vector)).Sum();
  std::memcpy(head.data(), &passage, sizeof(passage));
  std::memcpy(head.data() + sizeof(passage), &checksum, sizeof(checksum));
  file_.Write({head.data(), head.size()});
  file_.Write({reinterpret_cast<const char*>(vector.data()), vector.size_bytes()});
}

void PassageWriter::Flush() { file_.Flush(); }

void PassageWriter::Complete(const Json& complete) {
  front_.complete = complete;
  file_.WriteBeginning(FrontText(front_, ""));
}

}  // namespace lshformer
