#include "jobs/inspect_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::lshformer::testing::ErrorOf;
using ::lshformer::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ModelConfig Config() {
  ModelConfig config;
  config.vocab_size = 50, config.max_position_embeddings = 4, config.num_labels = 3;
  return config;
}

std::shared_ptr<const Tokenizer> NoTokenizer() { Fail("no tokenizer here"); }

InspectBatch Read(const std::string& lines, LabelKind labels) {
  const TempFolder folder;
  return ReadInspectBatch(folder.Write("b.jsonl", lines), Config(), labels, NoTokenizer);
}

std::string ErrorIn(const std::string& lines, LabelKind labels = LabelKind::kNone) {
  return ErrorOf([&] { Read(lines, labels); });
}

TEST(InspectBatchTest, LinesBecomeSequences) {
  const auto [batch, labelled] = Read(
      "{\"input_ids\": [7, 8], \"token_type_ids\": [0, 1], \"labels\": [-100, 9]}\n{\"input_ids\": [1], \"extra\": "
      "{}}\n",
      LabelKind::kToken);
  EXPECT_THAT(batch.tokens.ids, ElementsAre(7, 8, 1));
  EXPECT_THAT(batch.tokens.type_ids, ElementsAre(0, 1, 0));
  EXPECT_THAT(batch.tokens.positions, ElementsAre(0, 1, 0));
  EXPECT_THAT(batch.tokens.cu_seqlens, ElementsAre(0, 2, 3));
  EXPECT_THAT(batch.labels.tokens, ElementsAre(-100, 9, -100));
  EXPECT_TRUE(labelled);
}

TEST(InspectBatchTest, ANumberForEveryLabel) {
  const std::string line = "{\"input_ids\": [7], \"labels\": [1, 0.5, false]}";
  EXPECT_THAT(Read(line, LabelKind::kFlags).batch.labels.flags, ElementsAre(1.0F, 0.5F, 0.0F));
  for (const char* bad : {"[1, 0]", "1", "\"a\""})
    EXPECT_THAT(ErrorIn(std::string("{\"input_ids\": [7], \"labels\": ") + bad + "}", LabelKind::kFlags),
                HasSubstr("b.jsonl:1: \"labels\": expected a list of 3 numbers"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [7], \"labels\": [1, 0, NaN]}", LabelKind::kFlags),
              HasSubstr("b.jsonl:1: \"labels\"[2] is NaN, expected a number from 0 to 1"));
}

TEST(InspectBatchTest, SpansOnAllLinesOrOnNone) {
  const std::string lines =
      "{\"input_ids\": [7, 8], \"start_positions\": 1, \"end_positions\": 9}\n"
      "{\"input_ids\": [8], \"start_positions\": -1, \"end_positions\": 0}";
  const auto [batch, labelled] = Read(lines, LabelKind::kSpan);
  EXPECT_TRUE(labelled);
  EXPECT_THAT(batch.labels.start_positions, ElementsAre(1, -1));
  EXPECT_THAT(batch.labels.end_positions, ElementsAre(9, 0));
  EXPECT_FALSE(Read("{\"input_ids\": [7]}", LabelKind::kSpan).labelled);
  EXPECT_THAT(ErrorIn("{\"input_ids\": [7], \"start_positions\": 0}", LabelKind::kSpan),
              HasSubstr("b.jsonl:1: expected both \"start_positions\" and \"end_positions\", or neither"));
  EXPECT_THAT(ErrorIn(lines + "\n{\"input_ids\": [7]}", LabelKind::kSpan),
              HasSubstr("b.jsonl:3: has no \"start_positions\", but the lines before have them"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [7], \"start_positions\": 0.5, \"end_positions\": 1}", LabelKind::kSpan),
              HasSubstr("b.jsonl:1: \"start_positions\": expected -2147483648 to 2147483647"));
}

TEST(InspectBatchTest, LabelsOfEveryKind) {
  const std::string lines = "{\"input_ids\": [7], \"labels\": 2}\n{\"input_ids\": [8], \"labels\": 0}";
  EXPECT_THAT(Read(lines, LabelKind::kClass).batch.labels.classes, ElementsAre(2, 0));
  EXPECT_THAT(Read(lines, LabelKind::kValue).batch.labels.values, ElementsAre(2.0f, 0.0f));
  EXPECT_FALSE(Read(lines, LabelKind::kNone).labelled);
  const auto none = Read("{\"input_ids\": [7]}", LabelKind::kToken);
  EXPECT_FALSE(none.labelled);
  EXPECT_THAT(none.batch.labels.tokens, IsEmpty());
}

TEST(InspectBatchTest, LabelsOfPretraining) {
  constexpr LabelKind kBoth = LabelKind::kTokenAndNext;
  const auto both = Read(
      "{\"input_ids\": [7, 8], \"labels\": [-100, 9], \"next_sentence_label\": 1}\n"
      "{\"input_ids\": [1], \"next_sentence_label\": 0}",
      kBoth);
  EXPECT_THAT(both.batch.labels.tokens, ElementsAre(-100, 9, -100));
  EXPECT_THAT(both.batch.labels.classes, ElementsAre(1, 0));
  const auto next = Read("{\"input_ids\": [7, 8], \"next_sentence_label\": 1}", kBoth);
  EXPECT_TRUE(next.labelled);
  EXPECT_THAT(next.batch.labels.tokens, IsEmpty());
  EXPECT_FALSE(Read("{\"input_ids\": [7]}", kBoth).labelled);
  EXPECT_THAT(ErrorIn("{\"input_ids\": [7]}\n{\"input_ids\": [8], \"next_sentence_label\": 1}", kBoth),
              HasSubstr(":2: has \"next_sentence_label\", but the lines before have none"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [8], \"next_sentence_label\": 1}\n{\"input_ids\": [7]}", kBoth),
              HasSubstr(":2: has no \"next_sentence_label\", but the lines before have them"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [8], \"next_sentence_label\": 2}", kBoth), HasSubstr("next_sentence_label"));
}

TEST(InspectBatchTest, BadLinesAreNamed) {
  const std::string good = "{\"input_ids\": [7]}\n";
  EXPECT_THAT(ErrorIn(""), HasSubstr("b.jsonl: has no line"));
  EXPECT_THAT(ErrorIn(good + "\n"), HasSubstr("b.jsonl:2: the line is blank"));
  EXPECT_THAT(ErrorIn(good + " \t\n" + good), HasSubstr("b.jsonl:2: the line is blank"));
  EXPECT_THAT(ErrorIn(good + "{\"input_ids\": [}"), HasSubstr("b.jsonl:2"));
  EXPECT_THAT(ErrorIn("[1]"), HasSubstr("b.jsonl:1: expected a JSON object"));
  EXPECT_THAT(ErrorIn(good + "{\"input_ids\": []}"), HasSubstr("b.jsonl:2: the sequence is empty"));
  EXPECT_THAT(ErrorIn("{}"), HasSubstr("expected \"input_ids\" or \"text\", got neither"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1], \"text\": \"a\"}"), HasSubstr("got both"));
  EXPECT_THAT(ErrorIn("{\"text\": \"a\"}"), HasSubstr("no tokenizer here"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": 5}"), HasSubstr("expected a list of integers"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1, 50]}"),
              HasSubstr("\"input_ids\"[1] is 50, expected an integer from 0 to 49"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [-1]}"), HasSubstr("\"input_ids\"[0] is -1"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1.5]}"), HasSubstr("\"input_ids\"[0] is 1.5"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [99999999999999999999]}"), HasSubstr("\"input_ids\"[0]"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1, 2, 3, 4, 5]}"),
              HasSubstr("b.jsonl:1: the sequence has 5 tokens, max_position_embeddings is 4"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1, 2], \"token_type_ids\": [0]}"),
              HasSubstr("1 \"token_type_ids\" for 2 \"input_ids\""));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1], \"token_type_ids\": [2]}"), HasSubstr("\"token_type_ids\"[0] is 2"));
}

TEST(InspectBatchTest, BadLabelsAreNamed) {
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1, 2], \"labels\": [1]}", LabelKind::kToken),
              HasSubstr("1 \"labels\" for 2 tokens"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1], \"labels\": [-1]}", LabelKind::kToken), HasSubstr("\"labels\"[0] is -1"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1], \"labels\": 3}", LabelKind::kClass), HasSubstr("b.jsonl:1"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1], \"labels\": \"x\"}", LabelKind::kValue), HasSubstr("b.jsonl:1"));
  EXPECT_THAT(ErrorIn("{\"input_ids\": [1], \"labels\": 1}\n{\"input_ids\": [1]}", LabelKind::kClass),
              HasSubstr("b.jsonl:2: has no \"labels\", but the lines before have them"));
}

TEST(InspectBatchTest, ALineOfChoicesIsSeveralSequences) {
  const std::string lines =
      "{\"input_ids\": [[7, 8], [9]], \"token_type_ids\": [[0, 1], [1]], \"labels\": 1}\n"
      "{\"input_ids\": [[1], [2], [3, 4]], \"labels\": 2}";
  const auto [batch, labelled] = Read(lines, LabelKind::kChoice);
  EXPECT_TRUE(labelled);
  EXPECT_THAT(batch.tokens.cu_seqlens, ElementsAre(0, 2, 3, 4, 5, 7));
  EXPECT_THAT(batch.tokens.type_ids, ElementsAre(0, 1, 1, 0, 0, 0, 0));
  EXPECT_THAT(batch.labels.cu_choices, ElementsAre(0, 2, 5));
  EXPECT_THAT(batch.labels.classes, ElementsAre(1, 2));
  EXPECT_FALSE(Read("{\"input_ids\": [[7], [8]]}", LabelKind::kChoice).labelled);
  const auto error = [&](const std::string& line) { return ErrorIn(line, LabelKind::kChoice); };
  EXPECT_THAT(error("{\"text\": \"a\"}"), HasSubstr("b.jsonl:1: expected \"input_ids\", a list for each option"));
  EXPECT_THAT(error("{\"input_ids\": [[7]]}"), HasSubstr("b.jsonl:1: \"input_ids\": expected 2 to 26 options, got 1"));
  EXPECT_THAT(error("{\"input_ids\": [7, 8]}"), HasSubstr("b.jsonl:1: option 0: \"input_ids\": expected a list"));
  EXPECT_THAT(error("{\"input_ids\": [[7], []]}"), HasSubstr("b.jsonl:1: option 1: the sequence is empty"));
  EXPECT_THAT(error("{\"input_ids\": [[7], [8]], \"labels\": 2}"), HasSubstr("b.jsonl:1: \"labels\""));
  EXPECT_THAT(error("{\"input_ids\": [[7], [8]], \"token_type_ids\": [[0]]}"), HasSubstr("of 1 options for"));
  EXPECT_THAT(error(lines + "\n{\"input_ids\": [[7], [8]]}"), HasSubstr("b.jsonl:3: has no \"labels\", but the lines"));
}

}  // namespace
}  // namespace lshformer
