// The command `info` on model folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "util/command.h"
#include "util/temp_folder.h"

namespace lshformer::cli {
namespace {

using ::lshformer::testing::CommandResult;
using ::lshformer::testing::RunCommand;
using ::lshformer::testing::TempFolder;
using ::testing::HasSubstr;
using ::testing::Not;

class InfoTest : public ::testing::Test {
 protected:
  CommandResult Info(const std::string& attention, const std::vector<std::string>& more) {
    folder_.Write("config.json",
                  R"({"vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
                      "intermediate_size": 24, "attention": )" +
                      attention + "}");
    std::vector<std::string> words{LSHFORMER_BINARY, "info", folder_.path()};
    words.insert(words.end(), more.begin(), more.end());
    return RunCommand(words);
  }
  TempFolder folder_;
};

TEST_F(InfoTest, LengthsWithCommasOrSpaces) {
  for (const std::vector<std::string>& lengths :
       std::vector<std::vector<std::string>>{{"--lengths", "128,512"}, {"--lengths", "128", "512"}}) {
    std::vector<std::string> words = lengths;
    words.push_back("--json");
    const CommandResult result = Info("\"dense\"", words);
    ASSERT_EQ(result.status, 0) << result.err;
    const Json costs = ParseJson(result.out, "info")["costs"];
    ASSERT_EQ(costs.size(), 2u);
    EXPECT_EQ(costs[0]["length"], 128);
    EXPECT_EQ(costs[1]["length"], 512);
  }
}

// No numbers of a model that nobody has described.
TEST_F(InfoTest, AConfigWithoutAModelIsNone) {
  const auto error = [&](const std::string& config) {
    folder_.Write("config.json", config);
    const CommandResult result = RunCommand({LSHFORMER_BINARY, "info", folder_.path()});
    EXPECT_EQ(result.status, 1) << config;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_THAT(error("{}"), HasSubstr("config.json: no model's config: \"model_type\", \"hidden_size\", "
                                     "\"num_hidden_layers\", \"num_attention_heads\", \"intermediate_size\", "
                                     "\"vocab_size\" are missing"));
  EXPECT_THAT(error(R"({"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
                        "intermediate_size": 24})"),
              HasSubstr("no model's config: \"vocab_size\" is missing"));
  EXPECT_THAT(error(R"({"model_type": "albert", "hidden_size": 16})"), HasSubstr("no model's config: \"num_hidden"));
}

TEST_F(InfoTest, SaysFromWhichLengthOnSequencesAreHashed) {
  const auto from = [&](const std::string& attention) {
    return ParseJson(Info(attention, {"--json"}).out, "info")["hashed_from"];
  };
  EXPECT_EQ(from("\"dense\""), Json::array({"never"}));
  EXPECT_EQ(from("\"simhash\""), Json::array({0}));
  EXPECT_EQ(from("\"reformer\""), Json::array({65}));
  EXPECT_EQ(from(R"({"type": "simhash", "min_length": "auto", "tuned_lengths": {"forward": 96}})"), Json::array({96}));
  EXPECT_EQ(from(R"([{"type": "simhash", "min_length": "auto", "tuned_lengths": {"forward": "never"}},
                     {"type": "reformer", "min_length": 200}])"),
            Json::array({"never", 200}));
  EXPECT_THAT(Info(R"({"type": "simhash", "min_length": 40})", {}).out,
              HasSubstr("hashed from this many tokens on (0: every sequence): 40"));
  EXPECT_THAT(Info("\"dense\"", {}).out, Not(HasSubstr("hashed from")));
}

// Exact below the length in force, so costs what exact attention does.
TEST_F(InfoTest, CostsFollowTheLengthInForce) {
  const CommandResult result = Info(R"({"type": "simhash", "min_length": "auto", "tuned_lengths": {"forward": 256}})",
                                    {"--json", "--lengths", "255,256"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json costs = ParseJson(result.out, "info")["costs"];  // dense and simhash at each length
  EXPECT_EQ(costs[0]["attention_flops"], costs[1]["attention_flops"]);
  EXPECT_GT(costs[2]["attention_flops"].get<double>(), 2 * costs[3]["attention_flops"].get<double>());
}

TEST_F(InfoTest, LengthsBeyondThePositionTableAreMarked) {
  const Json costs = ParseJson(Info("\"dense\"", {"--json", "--lengths", "512,513"}).out, "info")["costs"];
  EXPECT_EQ(costs[0]["beyond_positions"], false);
  EXPECT_EQ(costs[1]["beyond_positions"], true);
  const std::string text = Info("\"dense\"", {"--lengths", "512,513"}).out;
  EXPECT_THAT(text, HasSubstr("513 *"));
  EXPECT_THAT(text, Not(HasSubstr("512 *")));
  EXPECT_THAT(text, HasSubstr("* beyond the 512 positions of this model"));
  EXPECT_THAT(Info("\"dense\"", {"--lengths", "512"}).out, Not(HasSubstr("beyond")));
}

// What the model is, what runs it, and what a text takes of this machine.
TEST_F(InfoTest, TellsLayersUsesAndEstimates) {
  folder_.Write("config.json", R"({"model_type": "modernbert", "architectures": ["ModernBertForMaskedLM"],
      "vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 5, "num_attention_heads": 2,
      "intermediate_size": 24, "local_attention": 8, "pad_token_id": 0})");
  const CommandResult json = RunCommand({LSHFORMER_BINARY, "info", folder_.path(), "--json"});
  ASSERT_EQ(json.status, 0) << json.err;
  const Json info = ParseJson(json.out, "info");
  ASSERT_EQ(info["layers"].size(), 2U);
  EXPECT_EQ(info["layers"][0]["layers"], Json::array({0, 3}));
  EXPECT_EQ(info["layers"][0]["attention"], "exact");
  EXPECT_EQ(info["layers"][1]["attention"], "local, window 4");
  EXPECT_EQ(info["layers"][0]["rotary"]["rope_theta"], 160000);
  EXPECT_EQ(info["uses"]["predict"], Json::array({"fill-mask", "feature-extraction"}));
  EXPECT_EQ(info["uses"]["evaluate"], Json::array({"fill-mask", "sentence-similarity", "retrieval"}));
  EXPECT_EQ(info["uses"]["train"][info["uses"]["train"].size() - 1], "sentence-similarity");
  for (const char* command : {"convert", "search", "serve"}) EXPECT_EQ(info["uses"][command], true) << command;
  EXPECT_EQ(info["uses"]["tune"], false) << "exact attention has nothing to tune";
  EXPECT_TRUE(info["sentence_folder"].is_null());
  const Json& texts = info["estimates"]["texts"];
  ASSERT_EQ(texts.size(), 3U);
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(texts[i]["length"], (std::vector<int>{512, 8192, 32768})[i]);
    EXPECT_EQ(texts[i]["beyond_positions"], i == 2);
    EXPECT_GT(texts[i]["seconds"].get<double>(), i == 0 ? 0 : texts[i - 1]["seconds"].get<double>());
    EXPECT_GT(texts[i]["bytes"].get<double>(), i == 0 ? 1e6 : texts[i - 1]["bytes"].get<double>());
  }
  const std::string text = RunCommand({LSHFORMER_BINARY, "info", folder_.path()}).out;
  EXPECT_THAT(text, HasSubstr("layers 0, 3: exact, rotary positions with base 160000\n"));
  EXPECT_THAT(text, HasSubstr("layers 1, 2, 4: local, window 4, rotary positions with base 10000\n"));
  EXPECT_THAT(text, HasSubstr("runs in: predict --task fill-mask, feature-extraction; evaluate --task fill-mask, "));
  EXPECT_THAT(text, HasSubstr("one text here, estimated"));
}

TEST_F(InfoTest, WeightsThatAreNotReadAreNamed) {
  folder_.Write("pytorch_model.bin", "pickle");
  EXPECT_THAT(Info("\"dense\"", {}).out, HasSubstr("weights: pytorch_model.bin, a format that is not read"));
  EXPECT_EQ(ParseJson(Info("\"dense\"", {"--json"}).out, "info")["weights"],
            Json({{"unreadable", "pytorch_model.bin"}}));
}

// A model without encoder layers has parameters, and none of the costs of such layers.
TEST_F(InfoTest, ModelsWithoutEncoderLayersHaveNoSuchCosts) {
  folder_.Write("config.json", R"({"model_type": "bidaf", "architectures": ["BidafForQuestionAnswering"],
                                   "vocab_size": 1000, "character_filters": 0, "second_biases": true})");
  const CommandResult json = RunCommand({LSHFORMER_BINARY, "info", folder_.path(), "--json"});
  ASSERT_EQ(json.status, 0) << json.err;
  const Json info = ParseJson(json.out, "info");
  EXPECT_EQ(info["parameters_total"], 1439405 + 300000);
  EXPECT_EQ(info["costs"], Json::array());
  EXPECT_EQ(info["hashed_from"], Json::array());
  const CommandResult text = RunCommand({LSHFORMER_BINARY, "info", folder_.path()});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("bidaf, 100 wide, 1000 words in the vocabulary\n"));
  EXPECT_THAT(text.out, HasSubstr("1739405"));
  EXPECT_THAT(text.out, Not(HasSubstr("MFLOP")));
}

TEST_F(InfoTest, ModelsOfWordsHaveNoTableOfPositions) {
  folder_.Write("config.json", R"({"model_type": "qanet", "vocab_size": 1000, "num_hidden_layers": 1,
                                   "hidden_size": 16, "num_attention_heads": 2})");
  const CommandResult text = RunCommand({LSHFORMER_BINARY, "info", folder_.path()});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("qanet with 1 layer, 16 wide, 2 heads, 1000 words in the vocabulary\n"));
}

}  // namespace
}  // namespace lshformer::cli
