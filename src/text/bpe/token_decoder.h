// "decoder" of a tokenizer.json whose model is BPE: tokens back to text.
//
//   ByteLevel     the bytes that the characters of all tokens stand for (byte_level.h); what is no UTF-8 becomes U+FFFD
//   Replace       a string in each token by another
//   ByteFallback  tokens <0x00> … in a row are their bytes, each U+FFFD where these are no UTF-8
//   Fuse          all tokens become one
//   Strip         at most so many of a character at the beginning and end of each
//   Sequence      several of them
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"

namespace lshformer {

class TokenDecoder {
 public:
  TokenDecoder() = default;  // tokens with a space between them
  static TokenDecoder ByteLevel();
  // `json` is the object "decoder", or null. Error, which begins with `path`, names what is not supported.
  TokenDecoder(const Json& json, const std::string& path);

  std::string Join(std::vector<std::string> tokens) const;

 private:
  struct Bytes {};
  struct Replace {
    std::string pattern, content;
  };
  struct ByteFallback {};
  struct Fuse {};
  struct Strip {
    std::string content;
    int64_t start, stop;
  };
  using Step = std::variant<Bytes, Replace, ByteFallback, Fuse, Strip>;
  using Tokens = std::vector<std::string>;

  void Add(const Json& json, const std::string& where, bool inside);
  static void Apply(const Bytes&, Tokens& tokens);
  static void Apply(const Replace& step, Tokens& tokens);
  static void Apply(const ByteFallback&, Tokens& tokens);
  static void Apply(const Fuse&, Tokens& tokens);
  static void Apply(const Strip& step, Tokens& tokens);

  std::vector<Step> steps_;
};

}  // namespace lshformer
