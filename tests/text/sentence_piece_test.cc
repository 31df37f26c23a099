// ALBERT's tokenizer: equality with the sentencepiece library and HF's rules on answers made by
// tools/make_sentencepiece_golden.py, and what a model file must not do.
#include "text/sentence_piece/sentence_piece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "text/code_points.h"
#include "text/sentence_piece/model.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::TempFolder;

const std::string kSentencePieceFolder = std::string(LSHFORMER_SOURCE_DIR) + "/tests/golden/sentencepiece/";

std::string ModelFile() { return ReadFile(kSentencePieceFolder + "spiece.model"); }

// A folder with this model, and these settings where there are any.
std::shared_ptr<const Tokenizer> Load(const std::string& model, const std::string& config = "") {
  const TempFolder folder;
  folder.Write("spiece.model", model);
  if (!config.empty()) folder.Write("tokenizer_config.json", config);
  return Tokenizer::Load(folder.path());
}

class SentencePieceGoldenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SentencePieceGoldenTest, IdsTypesOffsetsAndDecodedText) {
  std::istringstream lines(ReadFile(kSentencePieceFolder + GetParam() + ".jsonl"));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const auto tokenizer = Load(ModelFile(), line);
  int cases = 0;
  for (; std::getline(lines, line); ++cases) {
    SCOPED_TRACE(line.substr(0, 400));
    const Json expected = ParseJson(line, "golden");
    const std::string pair = expected["text_pair"];  // "": none
    const Encoding encoding =
        tokenizer->Encode(expected["text"].get<std::string>(), pair.empty() ? std::nullopt : std::optional(pair), {});
    EXPECT_EQ(Json(encoding.ids), expected["input_ids"]);
    EXPECT_EQ(Json(encoding.type_ids), expected["token_type_ids"]);
    EXPECT_EQ(Json(encoding.offsets), expected["offsets"]);
    EXPECT_EQ(tokenizer->Decode(encoding.ids, false), expected["decoded"]);
    EXPECT_EQ(tokenizer->Decode(encoding.ids, true), expected["decoded_plain"]);
  }
  EXPECT_GT(cases, 250);
}

INSTANTIATE_TEST_SUITE_P(Configs, SentencePieceGoldenTest, ::testing::Values("uncased", "cased", "accents", "spaces"),
                         [](const auto& info) { return std::string(info.param); });

TEST(SentencePieceTest, SpecialTokensHaveTheModelsIds) {
  const auto tokenizer = Load(ModelFile());
  EXPECT_EQ(tokenizer->vocab_size(), 400);
  EXPECT_EQ(tokenizer->pad_id(), 0);
  EXPECT_EQ(tokenizer->unk_id(), 1);
  EXPECT_EQ(tokenizer->cls_id(), 2);
  EXPECT_EQ(tokenizer->sep_id(), 3);
  EXPECT_EQ(tokenizer->mask_id(), 4);
  for (int32_t id = 0; id < 400; ++id) {
    EXPECT_EQ(tokenizer->IsSpecial(id), id < 5);
    EXPECT_EQ(tokenizer->Id(tokenizer->Token(id)), id);
  }
  EXPECT_EQ(tokenizer->Id("no such piece"), -1);
  EXPECT_THAT(ErrorOf([&] { tokenizer->Token(400); }), HasSubstr("expected 0 to 399, got 400"));
  EXPECT_THAT(ErrorOf([&] { tokenizer->Decode({400}, false); }), HasSubstr("expected 0 to 399, got 400"));
}

TEST(SentencePieceTest, TokensThatTheModelLacksComeAfterItsPieces) {
  const auto tokenizer = Load(ModelFile(), R"({"mask_token": "<mask>", "additional_special_tokens": ["[E1]"]})");
  EXPECT_EQ(tokenizer->vocab_size(), 402);
  EXPECT_THAT(tokenizer->Encode("[E1] a<mask>").ids, ElementsAre(2, 401, tokenizer->Id("▁a"), 400, 3));
  EXPECT_EQ(tokenizer->Decode({401, tokenizer->Id("▁a"), 400}, false), "[E1] a<mask>");
  EXPECT_THAT(ErrorOf([] { Load(ModelFile(), R"({"unk_token": "[UNK]"})"); }),
              HasSubstr("expected the unknown token \"[UNK]\", the model's is \"<unk>\""));
}

TEST(SentencePieceTest, CutsLikeWordPiece) {
  const auto tokenizer = Load(ModelFile());
  EncodeOptions options;
  options.max_length = 4;
  const Encoding cut = tokenizer->Encode("the house the house", {}, options);
  EXPECT_EQ(cut.ids.size(), 4u);
  EXPECT_TRUE(cut.truncated);
  EXPECT_FALSE(tokenizer->Encode("the house", {}, options).truncated);
}

// Masking of whole words asks for it.
TEST(SentencePieceTest, AWordBeginsWithItsSpace) {
  const auto tokenizer = Load(ModelFile());
  const auto continues = [&](const char* piece) { return tokenizer->ContinuesWord(tokenizer->Id(piece)); };
  for (const char* piece : {"s", "ly", "ing"}) EXPECT_TRUE(continues(piece)) << piece;
  for (const char* piece : {"▁the", "▁", "-", ".", "(", ",", "£", "<pad>", "1", "0,", "000"})
    EXPECT_FALSE(continues(piece)) << piece;
}

TEST(SentencePieceTest, AFolderIsSavedAsItWas) {
  const TempFolder folder, saved;
  folder.Write("spiece.model", ModelFile());
  folder.Write("added_tokens.json", "{}");
  folder.Write("tokenizer_config.json", R"({"do_lower_case": false, "other": [1]})");
  saved.Write("vocab.txt", "[UNK]\n");
  Tokenizer::Load(folder.path())->Save(saved.path(), 128);
  EXPECT_EQ(ReadFile(saved / "spiece.model"), ModelFile());
  EXPECT_EQ(ReadFile(saved / "added_tokens.json"), "{}");
  EXPECT_FALSE(std::filesystem::exists(saved / "vocab.txt"));
  const Json config = ReadJsonObject(saved / "tokenizer_config.json");
  EXPECT_EQ(config["other"], Json::array({1}));
  const auto again = Tokenizer::Load(saved.path());
  EXPECT_EQ(again->model_max_length(), 128);
  EXPECT_THAT(again->Encode("The").ids,
              ElementsAre(2, again->Id("▁"), again->unk_id(), again->Id("h"), again->Id("e"), 3));
}

TEST(SentencePieceTest, WhatAFolderLacksIsMade) {
  const TempFolder saved;
  Load(ModelFile())->Save(saved.path(), 0);
  const Json config = ReadJsonObject(saved / "tokenizer_config.json");
  EXPECT_EQ(config["tokenizer_class"], "AlbertTokenizer");
  EXPECT_EQ(config["do_lower_case"], true);
  EXPECT_EQ(config["keep_accents"], false);
  EXPECT_EQ(config["added_tokens_decoder"]["4"]["content"], "[MASK]");
  EXPECT_EQ(ReadJsonObject(saved / "special_tokens_map.json")["pad_token"], "<pad>");
  EXPECT_EQ(Tokenizer::Load(saved.path())->Encode("the [MASK]").ids, Load(ModelFile())->Encode("the [MASK]").ids);
}

TEST(SentencePieceTest, AFolderHoldsOneTokenizer) {
  const TempFolder folder;
  folder.Write("spiece.model", ModelFile());
  folder.Write("vocab.txt", "[UNK]\n");
  EXPECT_THAT(ErrorOf([&] { Tokenizer::Load(folder.path()); }), HasSubstr("both vocab.txt and spiece.model"));
}

// A long text is cut into parts at spaces, which nobody sees.
TEST(SentencePieceTest, ALongTextIsEncodedAsItsWordsAre) {
  const auto tokenizer = Load(ModelFile());
  const std::string words = "the house of 9, letters  and café ";
  const Encoding one = tokenizer->Encode(words, {}, {.add_special_tokens = false});
  std::string text;
  const int copies = 120000;  // 4 MiB
  for (int i = 0; i < copies; ++i) text += words;
  const Encoding all = tokenizer->Encode(text, {}, {.add_special_tokens = false});
  ASSERT_EQ(all.ids.size(), copies * one.ids.size());
  const auto length = static_cast<int32_t>(CountCodePoints(words));
  for (size_t i = one.ids.size(); i < all.ids.size(); ++i) {
    const size_t k = i % one.ids.size();
    const int32_t begin = static_cast<int32_t>(i / one.ids.size()) * length;
    const int32_t space = k == 0 ? 1 : 0;  // of a first word, which is not the text's first
    ASSERT_EQ(all.ids[i], one.ids[k]) << i;
    ASSERT_THAT(all.offsets[i], Pair(begin + one.offsets[k].first - space, begin + one.offsets[k].second)) << i;
  }
  EncodeOptions options;
  options.max_length = 10;
  EXPECT_TRUE(tokenizer->Encode(text, {}, options).truncated);
}

// The library takes quadratic time for a run of unknown characters.
TEST(SentencePieceTest, ALongWordIsCut) {
  const auto tokenizer = Load(ModelFile());
  std::string word;
  for (int i = 0; i < 100000; ++i) word += "\u0416";
  const Encoding encoding = tokenizer->Encode("a " + word + " b", {}, {.add_special_tokens = false});
  int32_t last = 0;
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    EXPECT_GE(encoding.offsets[i].first, i == 0 ? 0 : last - 1);
    last = encoding.offsets[i].second;
  }
  EXPECT_EQ(last, 100004);
  EXPECT_EQ(std::count(encoding.ids.begin(), encoding.ids.end(), tokenizer->unk_id()), 25);  // of 8 KiB each
}

// Parts of a protocol buffer.
std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string Bytes(int field, std::string_view bytes) {
  return Varint(static_cast<uint64_t>(field) << 3 | 2) + Varint(bytes.size()) + std::string(bytes);
}
std::string Little(uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}
std::string Piece(std::string_view text, float score = -1, int type = 1) {
  return Bytes(1, Bytes(1, text) + '\x15' + Little(std::bit_cast<uint32_t>(score)) + '\x18' +
                      Varint(static_cast<uint64_t>(type)));
}
const std::string kUnknown = Piece("<unk>", 0, 2), kPieces = kUnknown + Piece("▁") + Piece("a");
std::string ErrorOfModel(const std::string& file) {
  return ErrorOf([&] { Load(file); });
}

TEST(SentencePieceModelTest, ASmallModelLoads) {
  const auto tokenizer = Load(kPieces);
  EXPECT_EQ(tokenizer->vocab_size(), 3 + 4);
  EXPECT_THAT(tokenizer->Encode("aa b", {}, {.add_special_tokens = false}).ids, ElementsAre(1, 2, 2, 1, 0));
}

TEST(SentencePieceModelTest, ForeignFilesAreOneLine) {
  for (const std::string file : {"", "[PAD]\n[UNK]\nhello\n", "{\"model\": {}}",
                                 "version https://git-lfs.github.com/spec/v1\n", "\x1f\x8b\x08", "PK\x03\x04zip"}) {
    const std::string error = ErrorOfModel(file);
    EXPECT_THAT(error, HasSubstr("spiece.model: ")) << file;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
  const std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  EXPECT_THAT(ErrorOfModel(Little(static_cast<uint32_t>(header.size())) + std::string(4, '\0') + header + "1234"),
              HasSubstr("no SentencePiece model"));
}

TEST(SentencePieceModelTest, EveryTruncationIsAnErrorOrASmallerModel) {
  const std::string file = ModelFile();
  for (size_t size = 0; size < file.size(); size += size < 300 ? 1 : 37) {
    const TempFolder folder;
    folder.Write("spiece.model", file.substr(0, size));
    try {
      EXPECT_LT(Tokenizer::Load(folder.path())->vocab_size(), 406);  // cut between two pieces
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("spiece.model"));
    }
  }
}

TEST(SentencePieceModelTest, BadPiecesAreNamed) {
  EXPECT_THAT(ErrorOfModel(Piece("a")), HasSubstr("expected an unknown piece, got none among 1"));
  EXPECT_THAT(ErrorOfModel(kPieces + Piece("<u>", 0, 2)), HasSubstr("pieces 0 and 3 are both unknown"));
  EXPECT_THAT(ErrorOfModel(kPieces + Piece("a")), HasSubstr("piece 3: \"a\" is there twice"));
  EXPECT_THAT(ErrorOfModel(kPieces + Piece("")), HasSubstr("piece 3: expected 1 to 256 bytes of UTF-8"));
  EXPECT_THAT(ErrorOfModel(kPieces + Piece("\xFF")), HasSubstr("piece 3: expected 1 to 256 bytes of UTF-8"));
  EXPECT_THAT(ErrorOfModel(kPieces + Piece(std::string("a\0b", 3))), HasSubstr("piece 3: expected 1 to 256 bytes"));
  EXPECT_THAT(ErrorOfModel(kPieces + Piece(std::string(257, 'a'))), HasSubstr("piece 3: expected 1 to 256 bytes"));
  for (const float score : {NAN, INFINITY, -INFINITY, 1e30f})
    EXPECT_THAT(ErrorOfModel(kPieces + Piece("b", score)), HasSubstr("piece 3: the score is"));
  EXPECT_THAT(ErrorOfModel(kPieces + Piece("b", -1, 7)), HasSubstr("piece 3: the type is 7, expected 1 to 6"));
  EXPECT_THAT(ErrorOfModel(kPieces + Piece("b", -1, 6)), HasSubstr("the SentencePiece library refuses: byte piece b"));
}

TEST(SentencePieceModelTest, OtherKindsOfModelsAreRefused) {
  EXPECT_THAT(ErrorOfModel(kPieces + Bytes(2, "\x18\x02")), HasSubstr("the model's type is BPE, only unigram models"));
  EXPECT_THAT(ErrorOfModel(kPieces + Bytes(2, "\x18\x04")), HasSubstr("the model's type is char"));
  EXPECT_THAT(ErrorOfModel(kPieces + Bytes(2, "\x18\x09")), HasSubstr("the model's type is 9"));
  EXPECT_THAT(ErrorOfModel(kPieces + Bytes(2, "\x18\x01") + Bytes(2, "\x18\x01")),
              HasSubstr("its part 2 is there twice"));
  EXPECT_THAT(ErrorOfModel(kPieces + "\x08\x01"), HasSubstr("a field of another type"));
}

// A user-defined piece of n letters a, for each n.
TEST(SentencePieceModelTest, TheLibrarysRoomForNestedPiecesIsNotLeft) {
  std::string file = kUnknown + Piece("▁");
  for (size_t n = 1; n <= 64; ++n) file += Piece(std::string(n, 'a'), 0, 4);
  EXPECT_THAT(Load(file)->Encode(std::string(64, 'a'), {}, {.add_special_tokens = false}).ids, ElementsAre(1, 65));
  file += Piece(std::string(65, 'a'), 0, 4);
  EXPECT_THAT(ErrorOfModel(file), HasSubstr("more than 64 user-defined pieces begin one another"));
}

// A model with this table of characters, in which each unit of the trie is given.
std::string WithTable(const std::vector<uint32_t>& units, std::string_view replacements) {
  std::string table = Little(static_cast<uint32_t>(4 * units.size()));
  for (const uint32_t unit : units) table += Little(unit);
  return kPieces + Bytes(3, Bytes(2, table + std::string(replacements)));
}
// A trie with the key "b": the root's children are at 256 ^ byte.
std::vector<uint32_t> TrieOfB(uint32_t value) {
  std::vector<uint32_t> units(768, 0x80000000);
  units[0] = 256 << 10;
  units[256 ^ 'b'] = (256u ^ 'b' ^ 512u) << 10 | 0x100 | 'b';
  units[512] = 0x80000000 | value;
  return units;
}

TEST(SentencePieceModelTest, ATableOfCharactersReplaces) {
  EXPECT_THAT(
      Load(WithTable(TrieOfB(1), std::string_view("\0a\0", 3)))->Encode("ab", {}, {.add_special_tokens = false}).ids,
      ElementsAre(1, 2, 2));
}

TEST(SentencePieceModelTest, ATableThatLeadsOutOfItselfIsRefused) {
  const std::string_view replacements("\0a\0", 3);
  EXPECT_THAT(ErrorOfModel(WithTable(TrieOfB(3), replacements)), HasSubstr("a replacement is at byte 3"));
  EXPECT_THAT(ErrorOfModel(WithTable(TrieOfB(1), "xa")), HasSubstr("each ending in NUL"));
  EXPECT_THAT(ErrorOfModel(WithTable(TrieOfB(0), std::string_view("\xC3\0", 2))), HasSubstr("replacements in UTF-8"));
  EXPECT_THAT(ErrorOfModel(WithTable(TrieOfB(1), std::string_view("\u00e9\0", 3))),
              HasSubstr("a replacement is at byte 1"));
  std::vector<uint32_t> units = TrieOfB(0);
  units[256 ^ 'b'] = (256u ^ 'b' ^ 1024u) << 10 | 'b';
  EXPECT_THAT(ErrorOfModel(WithTable(units, replacements)), HasSubstr("the trie leads out of its 768 units"));
  units[256 ^ 'b'] = static_cast<uint32_t>('b') << 10 | 'b';  // back to the root's children
  EXPECT_THAT(ErrorOfModel(WithTable(units, replacements)), HasSubstr("the trie has a circle"));
  const auto with_size = [](uint32_t size) { return kPieces + Bytes(3, Bytes(2, Little(size) + "12345678")); };
  for (const uint32_t size : {0u, 3u, 8u, 12u, 0xFFFFFFFFu})
    EXPECT_THAT(ErrorOfModel(with_size(size)), HasSubstr("the size of the trie is")) << size;
  EXPECT_THAT(ErrorOfModel(kPieces + Bytes(3, Bytes(2, "1"))), HasSubstr("the size of the trie is 0"));
}

// Keys "a", "aa", … : each node's children are in a block of its own.
TEST(SentencePieceModelTest, TheLibrarysRoomForNestedKeysIsNotLeft) {
  const auto nested = [](uint32_t keys) {
    std::vector<uint32_t> units(256 * (keys + 2), 0x80000000);
    uint32_t base = 256;
    units[0] = base << 10;
    for (uint32_t key = 0; key < keys; ++key, base += 256)
      units[base ^ 'a'] = (base ^ 'a' ^ (base + 256)) << 10 | 0x100 | 'a';
    return WithTable(units, std::string_view("\0", 1));
  };
  EXPECT_EQ(ErrorOf([&] { Load(nested(32))->Encode(std::string(40, 'a')); }), "(nothing thrown)");
  EXPECT_THAT(ErrorOfModel(nested(33)), HasSubstr("more than 32 keys of the trie begin one another"));
}

TEST(SentencePieceModelTest, SelfTestsAreNotRun) {
  EXPECT_EQ(Load(kPieces + Bytes(4, Bytes(1, Bytes(1, "a") + Bytes(2, "b"))))->vocab_size(), 7);
}

// Google's model of 30,000 pieces, with every line of a file of text beside it or, without one, with what is here.
TEST(AlbertTest, EveryOffsetCoversThePiece) {
  const char* folder = std::getenv("LSHFORMER_ALBERT_DIR");
  if (folder == nullptr)
    GTEST_SKIP() << "no ALBERT tokenizer here (LSHFORMER_ALBERT_DIR names a folder with its spiece.model)";
  const auto tokenizer = Tokenizer::Load(folder);
  EXPECT_EQ(tokenizer->vocab_size(), 30000);
  const auto tokens = [&](const char* text) {
    std::string joined;
    for (const int32_t id : tokenizer->Encode(text).ids) joined += tokenizer->Token(id) + "|";
    return joined;
  };
  // As HF's AlbertTokenizer of transformers 4.40.
  EXPECT_EQ(tokens("I was born in 92000, and this is falsé."),
            "[CLS]|▁i|▁was|▁born|▁in|▁9|2000|,|▁and|▁this|▁is|▁false|.|[SEP]|");
  EXPECT_EQ(tokens("1,000,000 “ok” [MASK]"), "[CLS]|▁1|,000,000|▁|<unk>|ok|<unk>|[MASK]|[SEP]|");
  const std::string text = "The quick brown fox, 9, jumps over 1,000,000 lazy dogs in 1990, and 23,456,789, times";
  const Encoding encoding = tokenizer->Encode(text, {}, {.add_special_tokens = false});
  std::string lower = text;
  for (char& c : lower) c = static_cast<char>(std::tolower(c));
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    std::string piece = tokenizer->Token(encoding.ids[i]);
    if (piece.starts_with("▁")) piece = (i == 0 ? "" : " ") + piece.substr(3);
    const auto [begin, end] = encoding.offsets[i];
    EXPECT_EQ(lower.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), piece);
  }
}

}  // namespace
}  // namespace lshformer
