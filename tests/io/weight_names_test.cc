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

TEST(CanonicalWeightName, OldSpellingsAndBareModels) {
  EXPECT_EQ(CanonicalWeightName("bert.embeddings.LayerNorm.gamma"), "bert.embeddings.LayerNorm.weight");
  EXPECT_EQ(CanonicalWeightName("bert.encoder.layer.11.output.LayerNorm.beta"),
            "bert.encoder.layer.11.output.LayerNorm.bias");
  EXPECT_EQ(CanonicalWeightName("embeddings.word_embeddings.weight"), "bert.embeddings.word_embeddings.weight");
  EXPECT_EQ(CanonicalWeightName("encoder.layer.0.attention.self.query.bias"),
            "bert.encoder.layer.0.attention.self.query.bias");
  EXPECT_EQ(CanonicalWeightName("pooler.dense.weight"), "bert.pooler.dense.weight");
  EXPECT_EQ(CanonicalWeightName("encoder.layer.0.output.LayerNorm.gamma"),
            "bert.encoder.layer.0.output.LayerNorm.weight");
  EXPECT_EQ(CanonicalWeightName("cls.predictions.transform.LayerNorm.gamma"),
            "cls.predictions.transform.LayerNorm.weight");
}

TEST(CanonicalWeightName, LeavesOthersAlone) {
  for (const char* name : {"bert.encoder.layer.0.output.dense.weight", "cls.predictions.bias", "classifier.weight",
                           "qa_outputs.bias", "cls.seq_relationship.weight", "gamma", "other.gamma", "embeddingsx", ""})
    EXPECT_EQ(CanonicalWeightName(name), name);
}

TEST(FileWeightName, OnlyABareBertModelDropsThePrefix) {
  EXPECT_EQ(FileWeightName("bert.pooler.dense.weight", "BertModel"), "pooler.dense.weight");
  EXPECT_EQ(FileWeightName("bert.pooler.dense.weight", "BertForMaskedLM"), "bert.pooler.dense.weight");
  EXPECT_EQ(FileWeightName("cls.predictions.bias", "BertForMaskedLM"), "cls.predictions.bias");
  for (const char* name :
       {"bert.embeddings.LayerNorm.weight", "bert.encoder.layer.3.output.dense.bias", "bert.pooler.dense.bias"})
    EXPECT_EQ(CanonicalWeightName(FileWeightName(name, "BertModel")), name);
}

TEST(MapWeightNames, LeavesOutAliasesAndBuffers) {
  EXPECT_THAT(
      MapWeightNames({"embeddings.position_ids", "embeddings.word_embeddings.weight", "cls.predictions.decoder.weight",
                      "cls.predictions.bias", "cls.predictions.decoder.bias", "bert.embeddings.LayerNorm.gamma"},
                     "m"),
      ElementsAre(Pair("bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.gamma"),
                  Pair("bert.embeddings.word_embeddings.weight", "embeddings.word_embeddings.weight"),
                  Pair("cls.predictions.bias", "cls.predictions.bias")));
}

// Some old files keep only one of the two names of a tied tensor.
TEST(MapWeightNames, AnAliasStandsForTheTensorThatIsMissing) {
  EXPECT_THAT(MapWeightNames({"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}, "m"),
              ElementsAre(Pair("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
                          Pair("cls.predictions.bias", "cls.predictions.decoder.bias")));
}

TEST(MapWeightNames, RefusesTwoNamesForOneTensor) {
  EXPECT_EQ(ErrorOf([] {
              MapWeightNames({"bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.weight"}, "m");
            }),
            "m: \"bert.embeddings.LayerNorm.gamma\" and \"bert.embeddings.LayerNorm.weight\" name the same tensor");
  EXPECT_EQ(ErrorOf([] {
              MapWeightNames({"pooler.dense.bias", "bert.pooler.dense.bias"}, "m");
            }),
            "m: \"pooler.dense.bias\" and \"bert.pooler.dense.bias\" name the same tensor");
}

}  // namespace
}  // namespace lshformer
