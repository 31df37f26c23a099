#include "io/weight_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "util/errors.h"

namespace lshformer {
namespace {

using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::Pair;

// As BERT's.
constexpr std::string_view kParts[] = {"embeddings.", "encoder.", "pooler."};
constexpr WeightAlias kAliases[] = {{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
                                    {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
constexpr WeightNames kNames{.prefix = "bert.",
                             .bare_architecture = "BertModel",
                             .parts = kParts,
                             .aliases = kAliases,
                             .buffer = "embeddings.position_ids"};

TEST(CanonicalWeightName, OldSpellingsAndBareModels) {
  EXPECT_EQ(CanonicalWeightName(kNames, "bert.embeddings.LayerNorm.gamma"), "bert.embeddings.LayerNorm.weight");
  EXPECT_EQ(CanonicalWeightName(kNames, "bert.encoder.layer.11.output.LayerNorm.beta"),
            "bert.encoder.layer.11.output.LayerNorm.bias");
  EXPECT_EQ(CanonicalWeightName(kNames, "embeddings.word_embeddings.weight"), "bert.embeddings.word_embeddings.weight");
  EXPECT_EQ(CanonicalWeightName(kNames, "encoder.layer.0.attention.self.query.bias"),
            "bert.encoder.layer.0.attention.self.query.bias");
  EXPECT_EQ(CanonicalWeightName(kNames, "pooler.dense.weight"), "bert.pooler.dense.weight");
  EXPECT_EQ(CanonicalWeightName(kNames, "encoder.layer.0.output.LayerNorm.gamma"),
            "bert.encoder.layer.0.output.LayerNorm.weight");
  EXPECT_EQ(CanonicalWeightName(kNames, "cls.predictions.transform.LayerNorm.gamma"),
            "cls.predictions.transform.LayerNorm.weight");
}

TEST(CanonicalWeightName, LeavesOthersAlone) {
  for (const char* name : {"bert.encoder.layer.0.output.dense.weight", "cls.predictions.bias", "classifier.weight",
                           "qa_outputs.bias", "cls.seq_relationship.weight", "gamma", "other.gamma", "embeddingsx", ""})
    EXPECT_EQ(CanonicalWeightName(kNames, name), name);
}

TEST(FileWeightName, OnlyABareBertModelDropsThePrefix) {
  EXPECT_EQ(FileWeightName(kNames, "bert.pooler.dense.weight", "BertModel"), "pooler.dense.weight");
  EXPECT_EQ(FileWeightName(kNames, "bert.pooler.dense.weight", "BertForMaskedLM"), "bert.pooler.dense.weight");
  EXPECT_EQ(FileWeightName(kNames, "cls.predictions.bias", "BertForMaskedLM"), "cls.predictions.bias");
  for (const char* name :
       {"bert.embeddings.LayerNorm.weight", "bert.encoder.layer.3.output.dense.bias", "bert.pooler.dense.bias"})
    EXPECT_EQ(CanonicalWeightName(kNames, FileWeightName(kNames, name, "BertModel")), name);
}

TEST(MapWeightNames, LeavesOutAliasesAndBuffers) {
  EXPECT_THAT(
      MapWeightNames(kNames,
                     {"embeddings.position_ids", "embeddings.word_embeddings.weight", "cls.predictions.decoder.weight",
                      "cls.predictions.bias", "cls.predictions.decoder.bias", "bert.embeddings.LayerNorm.gamma"},
                     "m"),
      ElementsAre(Pair("bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.gamma"),
                  Pair("bert.embeddings.word_embeddings.weight", "embeddings.word_embeddings.weight"),
                  Pair("cls.predictions.bias", "cls.predictions.bias")));
}

TEST(MapWeightNames, OfAFamilyWithoutPrefixAndAliases) {
  EXPECT_THAT(MapWeightNames({}, {"words.weight", "position_ids", "norm.LayerNorm.beta"}, "m"),
              ElementsAre(Pair("norm.LayerNorm.bias", "norm.LayerNorm.beta"), Pair("position_ids", "position_ids"),
                          Pair("words.weight", "words.weight")));
  EXPECT_EQ(FileWeightName({}, "words.weight", ""), "words.weight");
}

// Some old files keep only one of the two names of a tied tensor.
TEST(MapWeightNames, AnAliasStandsForTheTensorThatIsMissing) {
  EXPECT_THAT(MapWeightNames(kNames, {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}, "m"),
              ElementsAre(Pair("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
                          Pair("cls.predictions.bias", "cls.predictions.decoder.bias")));
}

TEST(MapWeightNames, RefusesTwoNamesForOneTensor) {
  EXPECT_EQ(ErrorOf([] {
              MapWeightNames(kNames, {"bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.weight"}, "m");
            }),
            "m: \"bert.embeddings.LayerNorm.gamma\" and \"bert.embeddings.LayerNorm.weight\" name the same tensor");
  EXPECT_EQ(ErrorOf([] {
              MapWeightNames(kNames, {"pooler.dense.bias", "bert.pooler.dense.bias"}, "m");
            }),
            "m: \"pooler.dense.bias\" and \"bert.pooler.dense.bias\" name the same tensor");
}

}  // namespace
}  // namespace lshformer
