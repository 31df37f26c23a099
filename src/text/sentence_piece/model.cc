#include "text/sentence_piece/model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "text/sentence_piece/message_reader.h"
#include "text/tokenizer.h"

namespace lshformer {
namespace {

class ModelParser {
 public:
  ModelParser(std::string_view file, const std::string& where) : file_(file), where_(where) {}

  SentencePieceModel Parse() {
    // Numbers of fields in sentencepiece_model.proto.
    constexpr uint32_t kPiece = 1, kTrainer = 2, kNormalizer = 3, kDenormalizer = 5;
    bool seen[kDenormalizer + 1] = {};
    Reader(file_, [&](const MessageReader& reader, const Field& field) {
      if (field.number < kPiece || field.number > kDenormalizer) return;
      reader.Expect(field, kBytes);
      if (field.number != kPiece && std::exchange(seen[field.number], true))
        Fail("{}: no SentencePiece model: its part {} is there twice", where_, field.number);
      switch (field.number) {
        case kPiece:
          AddPiece(field.bytes);
          break;
        case kTrainer:
          CheckTrainer(field.bytes);
          break;
        case kNormalizer:
          model_.normalizer = ReadNormalizer(field.bytes, "normalizer_spec");
          break;
        case kDenormalizer:
          ReadNormalizer(field.bytes, "denormalizer_spec");
          break;
        default:
          return;  // self-tests
      }
      model_.serialized += field.whole;
    });
    CheckPieces();
    return std::move(model_);
  }

 private:
  template <class Action>
  void Reader(std::string_view message, const Action& action) {
    MessageReader reader(message, file_, where_);
    for (Field field; reader.Next(field);) action(reader, field);
  }

  void AddPiece(std::string_view message) {
    std::string_view text;
    float score = 0;
    uint64_t type = 1;
    Reader(message, [&](const MessageReader& reader, const Field& field) {
      if (field.number == 1) {
        reader.Expect(field, kBytes);
        text = field.bytes;
      } else if (field.number == 2) {
        reader.Expect(field, kFixed32);
        score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
      } else if (field.number == 3) {
        reader.Expect(field, kVarint);
        type = field.value;
      }
    });
    const size_t id = model_.pieces.size();
    if (id == SentencePieceModel::kMaxPieces) Fail("{}: more than {} pieces", where_, id);
    if (text.empty() || text.size() > SentencePieceModel::kMaxPieceBytes || text.find('\0') != text.npos ||
        !IsValidUtf8(text)) {
      Fail("{}: piece {}: expected 1 to {} bytes of UTF-8 without NUL, got \"{}\"", where_, id,
           SentencePieceModel::kMaxPieceBytes, Shown(text));
    }
    // Sums of scores over a text of 2³¹ bytes stay finite.
    if (!(std::fabs(score) <= 1e9f)) Fail("{}: piece {}: the score is {}, expected −1e9 to 1e9", where_, id, score);
    if (type < 1 || type > 6) Fail("{}: piece {}: the type is {}, expected 1 to 6", where_, id, type);
    model_.pieces.emplace_back(text);
    model_.types.push_back(static_cast<PieceType>(type));
    model_.scores.push_back(score);
  }

  void CheckTrainer(std::string_view message) {
    constexpr uint32_t kModelType = 3, kUnknownSurface = 44;
    Reader(message, [&](const MessageReader& reader, const Field& field) {
      if (field.number == kModelType) {
        reader.Expect(field, kVarint);
        constexpr const char* kNames[] = {"unigram", "BPE", "word", "char"};
        if (field.value != 1) {
          Fail("{}: the model's type is {}, only unigram models are supported", where_,
               field.value >= 1 && field.value <= 4 ? kNames[field.value - 1] : std::to_string(field.value));
        }
      } else if (field.number == kUnknownSurface) {
        reader.Expect(field, kBytes);
        if (!IsValidUtf8(field.bytes)) Fail("{}: expected UTF-8 as text of unknown pieces", where_);
      }
    });
  }

  CharsMap ReadNormalizer(std::string_view message, const char* name) {
    constexpr uint32_t kCharsMap = 2;
    std::string_view table;
    Reader(message, [&](const MessageReader& reader, const Field& field) {
      if (field.number != kCharsMap) return;
      reader.Expect(field, kBytes);
      table = field.bytes;
    });
    return CharsMap(table, fmt::format("{}: {}.precompiled_charsmap", where_, name));
  }

  void CheckPieces() {
    if (model_.pieces.empty()) Fail("{}: no SentencePiece model: it has no pieces", where_);
    std::unordered_set<std::string_view> known;
    std::vector<std::string_view> user_defined;
    for (size_t id = 0; id < model_.pieces.size(); ++id) {
      const std::string& piece = model_.pieces[id];
      if (!known.insert(piece).second) Fail("{}: piece {}: \"{}\" is there twice", where_, id, Shown(piece));
      if (model_.types[id] == PieceType::kUserDefined) user_defined.push_back(piece);
      if (model_.types[id] != PieceType::kUnknown) continue;
      if (model_.unk_id >= 0) Fail("{}: pieces {} and {} are both unknown, expected one", where_, model_.unk_id, id);
      model_.unk_id = static_cast<int32_t>(id);
    }
    if (model_.unk_id < 0) Fail("{}: expected an unknown piece, got none among {}", where_, model_.pieces.size());
    CheckNested(std::move(user_defined));
  }

  // The library looks for those that a text begins with and has room for 64 of them.
  void CheckNested(std::vector<std::string_view> pieces) const {
    constexpr size_t kRoom = 64;
    std::sort(pieces.begin(), pieces.end());
    std::vector<std::string_view> nested;  // each begins with the one before it
    for (const std::string_view piece : pieces) {
      while (!nested.empty() && !piece.starts_with(nested.back())) nested.pop_back();
      nested.push_back(piece);
      if (nested.size() > kRoom) Fail("{}: more than {} user-defined pieces begin one another", where_, kRoom);
    }
  }

  const std::string_view file_;
  const std::string& where_;
  SentencePieceModel model_;
};

}  // namespace

SentencePieceModel ParseSentencePieceModel(std::string_view file, const std::string& where) {
  if (file.size() > SentencePieceModel::kMaxBytes)
    Fail("{}: expected at most {} bytes, got {}", where, SentencePieceModel::kMaxBytes, file.size());
  if (file.empty()) Fail("{}: expected a SentencePiece model, got an empty file", where);
  return ModelParser(file, where).Parse();
}

}  // namespace lshformer
