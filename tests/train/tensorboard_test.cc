#include "train/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "base/files.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::TempFolder;

// RFC 3720, B.4.
TEST(Crc32c, PublishedValues) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  std::string rising(32, '\0');
  for (size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<char>(i);
  EXPECT_EQ(Crc32c(rising), 0x46DD794Eu);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

// A reader of its own, written from the formats' definitions.
struct Message {
  std::map<uint64_t, std::vector<std::string>> fields;  // number → contents (fixed: their bytes, varint: 8 bytes)
};

uint64_t Varint(const std::string& bytes, size_t& at) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(at++));
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
}

Message Parse(const std::string& bytes) {
  Message message;
  for (size_t at = 0; at < bytes.size();) {
    const uint64_t key = Varint(bytes, at);
    std::string value;
    if ((key & 7) == 0) {
      const uint64_t number = Varint(bytes, at);
      value.assign(reinterpret_cast<const char*>(&number), 8);
    } else {
      const size_t size = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : Varint(bytes, at);
      value = bytes.substr(at, size);
      at += size;
    }
    message.fields[key >> 3].push_back(value);
  }
  return message;
}

template <class Number>
Number As(const std::string& bytes) {
  Number number;
  EXPECT_EQ(bytes.size(), sizeof(number));
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

std::vector<Message> Events(const std::string& path) {
  const std::string file = ReadFile(path);
  std::vector<Message> events;
  const auto masked = [](const std::string& bytes) {
    const uint32_t crc = Crc32c(bytes);
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
  };
  for (size_t at = 0; at < file.size();) {
    const std::string head = file.substr(at, 8);
    const auto size = As<uint64_t>(head);
    EXPECT_EQ(As<uint32_t>(file.substr(at + 8, 4)), masked(head));
    const std::string record = file.substr(at + 12, size);
    EXPECT_EQ(As<uint32_t>(file.substr(at + 12 + size, 4)), masked(record));
    at += 16 + size;
    events.push_back(Parse(record));
  }
  return events;
}

TEST(EventFile, HoldsEveryNumberOfAnEntry) {
  const TempFolder folder;
  std::string path;
  {
    EventFile file(folder / "run/runs");
    path = file.path();
    file.Add({{"loss", 2.5}, {"learning_rate", 1e-3}, {"epoch", 0.5}, {"step", 300}, {"note", "text"}});
    file.Add({{"eval_loss", 1.25}, {"train_runtime", 7}, {"step", 70000}});
  }
  const std::vector<Message> events = Events(path);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_THAT(events[0].fields.at(3), ElementsAre("brain.Event:2"));
  const auto scalars = [](const Message& event) {
    std::vector<std::pair<std::string, float>> values;
    const Message summary = Parse(event.fields.at(5).at(0));
    for (const std::string& value : summary.fields.at(1)) {
      const Message scalar = Parse(value);
      values.emplace_back(scalar.fields.at(1).at(0), As<float>(scalar.fields.at(2).at(0)));
    }
    return values;
  };
  EXPECT_EQ(As<uint64_t>(events[1].fields.at(2).at(0)), 300u);
  EXPECT_THAT(scalars(events[1]), ElementsAre(Pair("train/loss", 2.5f), Pair("train/learning_rate", 1e-3f)));
  EXPECT_EQ(As<uint64_t>(events[2].fields.at(2).at(0)), 70000u);
  EXPECT_THAT(scalars(events[2]), ElementsAre(Pair("eval/loss", 1.25f), Pair("train/runtime", 7.f)));
  EXPECT_GT(As<double>(events[2].fields.at(1).at(0)), 1.7e9);  // seconds since 1970
}

TEST(EventFile, EachRunHasItsOwn) {
  const TempFolder folder;
  const EventFile one(folder.path()), other(folder.path());
  EXPECT_NE(one.path(), other.path());
  folder.Write("file", "");
  EXPECT_THAT(ErrorOf([&] { EventFile blocked(folder / "file"); }), HasSubstr("file: is a file, expected a folder"));
  EXPECT_THAT(ErrorOf([&] { EventFile nowhere("/proc/nope"); }), HasSubstr("/proc/nope"));
}

}  // namespace
}  // namespace lshformer
