// spiece.model, SentencePiece's file: a protocol buffer ModelProto (sentencepiece_model.proto). It is read here before
// the library sees it, which trusts it: sizes, offsets and indices in a damaged file lead it out of its memory.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "text/sentence_piece/chars_map.h"

namespace lshformer {

enum class PieceType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct SentencePieceModel {
  static constexpr size_t kMaxBytes = size_t{64} << 20, kMaxPieces = size_t{1} << 20, kMaxPieceBytes = 256;

  std::deque<std::string> pieces;  // in order of their ids; no two alike
  std::vector<PieceType> types;    // [pieces]
  std::vector<float> scores;       // [pieces]
  int32_t unk_id = -1;             // the only unknown piece
  CharsMap normalizer;
  // What the library is given: the parts that encoding and decoding need. Self-tests are left out: the library would
  // run them and print what they say.
  std::string serialized;
};

// Error, which begins with `where`, if the file is larger than kMaxBytes, is no such protocol buffer, or is not a
// unigram model of at most kMaxPieces different pieces, each of 1 to kMaxPieceBytes bytes of UTF-8 without NUL and with
// a score between ±10⁹, exactly one of them unknown; or if its table of characters is not safe (chars_map.h).
SentencePieceModel ParseSentencePieceModel(std::string_view file, const std::string& where);

}  // namespace lshformer
