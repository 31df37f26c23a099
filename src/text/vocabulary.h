// vocab.txt: one token a line, its id is the number of the line from 0.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace lshformer {

class Vocabulary {
 public:
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 28, kMaxTokenBytes = uint64_t{1} << 20;

  // Line ends LF or CRLF, the last may lack one. Error, naming `where` and the line, for an empty file, a blank line,
  // a token seen before, invalid UTF-8, a token of more than kMaxTokenBytes, or more than kMaxBytes.
  Vocabulary(std::string_view contents, std::string_view where);
  explicit Vocabulary(std::deque<std::string> tokens);  // no two alike
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  const std::string& Token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  int32_t Id(std::string_view token) const;  // −1 if absent
  int32_t Add(std::string_view token);       // the id it has, or a new one at the end

 private:
  std::deque<std::string> tokens_;  // a deque, because the index points into its strings
  std::unordered_map<std::string_view, int32_t> ids_;
};

}  // namespace lshformer
