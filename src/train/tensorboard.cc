#include "train/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/files.h"

namespace lshformer {
namespace {

static_assert(std::endian::native == std::endian::little, "records are little-endian");

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  constexpr uint32_t kPolynomial = 0x82F63B78;  // Castagnoli's, reflected
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

// The wire format of protocol buffers, as far as an Event needs it.
void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

template <class Number>
void AppendFixed(std::string& out, Number value) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(Number)>>(value);
  out.append(bytes.data(), bytes.size());
}

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
void AppendKey(std::string& out, uint32_t field, WireType type) { AppendVarint(out, field << 3 | type); }

void AppendBytes(std::string& out, uint32_t field, std::string_view bytes) {
  AppendKey(out, field, kBytes);
  AppendVarint(out, bytes.size());
  out += bytes;
}

std::string EventHead() {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::string event;
  AppendKey(event, 1, kFixed64);
  AppendFixed(event, now);
  return event;
}

uint32_t Masked(uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8; }

std::string HostName() {
  char name[256] = "";
  return gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

std::string TagOf(const std::string& key) {
  constexpr std::string_view kEval = "eval_", kTrain = "train_";
  if (key.starts_with(kEval)) return "eval/" + key.substr(kEval.size());
  return "train/" + (key.starts_with(kTrain) ? key.substr(kTrain.size()) : key);
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = MakeCrcTable();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

EventFile::EventFile(const std::string& folder) {
  MakeFolder(folder);
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  for (int attempt = 0; file_ < 0; ++attempt) {
    path_ = fmt::format("{}/{}{}.{}.{}.{}", folder, kEventFilePrefix, now.count(), HostName(), getpid(), attempt);
    file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    constexpr int kMostAttempts = 100;
    if (file_ < 0 && (errno != EEXIST || attempt == kMostAttempts))
      Fail("{}: cannot write: {}", Shown(path_, 160), std::strerror(errno));
  }
  std::string event = EventHead();
  AppendBytes(event, 3, "brain.Event:2");
  Write(event);
}

EventFile::~EventFile() {
  if (file_ >= 0) close(file_);
}

void EventFile::Add(const Json& log_entry) {
  std::string summary;
  for (const auto& [key, number] : log_entry.items()) {
    if (!number.is_number() || key == "step" || key == "epoch") continue;
    std::string value;
    AppendBytes(value, 1, TagOf(key));
    AppendKey(value, 2, kFixed32);
    AppendFixed(value, static_cast<float>(number.get<double>()));
    AppendBytes(summary, 1, value);
  }
  std::string event = EventHead();
  AppendKey(event, 2, kVarint);
  AppendVarint(event, static_cast<uint64_t>(log_entry.value("step", int64_t{0})));
  AppendBytes(event, 5, summary);
  Write(event);
}

// One write a record: a run that is killed leaves no half of one behind, unless the disk is full.
void EventFile::Write(std::string_view record) {
  std::string bytes;
  AppendFixed(bytes, static_cast<uint64_t>(record.size()));
  AppendFixed(bytes, Masked(Crc32c(bytes)));
  bytes += record;
  AppendFixed(bytes, Masked(Crc32c(record)));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t written = write(file_, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      Fail("{}: cannot write: {}", Shown(path_, 160), errno == ENOSPC ? "disk full" : std::strerror(errno));
    done += static_cast<size_t>(written);
  }
}

}  // namespace lshformer
