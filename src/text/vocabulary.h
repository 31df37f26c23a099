// Tokens and their ids. vocab.txt: one token a line, its id is the number of the line from 0.
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
  static constexpr int32_t kMaxTokens = int32_t{1} << 22;

  Vocabulary() = default;
  // Line ends LF or CRLF, the last may lack one. As Hugging Face reads it: a blank line is a token of its own number,
  // which no text gives; of a token that is there twice the later number counts. Error, naming `where` and the line,
  // for an empty file, invalid UTF-8, a token of more than kMaxTokenBytes, or more than kMaxBytes or kMaxTokens.
  Vocabulary(std::string_view contents, std::string_view where);
  explicit Vocabulary(std::deque<std::string> tokens);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  Vocabulary(Vocabulary&&) = default;  // a deque's elements stay where they are
  Vocabulary& operator=(Vocabulary&&) = default;

  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }  // one more than the greatest id
  int32_t different() const { return static_cast<int32_t>(ids_.size()); }
  const std::string& Token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }  // "" of an id without one
  int32_t Id(std::string_view token) const;                                                // −1 if absent
  bool Has(int32_t id) const;           // whether a token has this id
  int32_t Add(std::string_view token);  // the id it has, or a new one at the end
  // Gives a token that is absent an id below kMaxTokens. Ids between the old end and it are holes: no token has them.
  // An id that another token has is from then on that of both, and Token() is still the other one.
  void Set(std::string_view token, int32_t id);

 private:
  std::deque<std::string> tokens_;  // deques, because the index points into their strings
  std::deque<std::string> second_;  // tokens whose id another one had before them
  std::unordered_map<std::string_view, int32_t> ids_;
};

}  // namespace lshformer
