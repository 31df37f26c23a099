// Scalars in the event files that TensorBoard reads.
//
// A file is a sequence of TFRecords: uint64 length, uint32 masked CRC32C of the length, the record, uint32 masked
// CRC32C of the record; all little-endian. A record is a serialised tensorflow.Event: 1 wall_time double, 2 step int64,
// 3 file_version string (the first record: "brain.Event:2"), 5 summary {repeated 1 value {1 tag, 2 simple_value
// float}}. masked = rotate_right(crc, 15) + 0xa282ead8.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace lshformer {

inline constexpr const char* kEventFilePrefix = "events.out.tfevents.";

// CRC-32C (Castagnoli), as in RFC 3720.
uint32_t Crc32c(std::string_view bytes);

class EventFile {
 public:
  // Makes `folder` and in it events.out.tfevents.<seconds>.<host>.<process>. Error if it cannot be written.
  explicit EventFile(const std::string& folder);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Every number of a log entry ({"loss": …, "step": …} as in trainer_state.json) but "step" and "epoch", at its step.
  // Tags are those of transformers: "eval_loss" → "eval/loss", all others → "train/loss". Error on a full disk.
  void Add(const Json& log_entry);
  const std::string& path() const { return path_; }

 private:
  void Write(std::string_view record);
  std::string path_;
  int file_ = -1;
};

}  // namespace lshformer
