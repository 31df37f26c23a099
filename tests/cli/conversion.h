// A small model for the command `convert`, and the command on it.
#pragma once
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/call.h"
#include "synth/synth.h"
#include "util/temp_folder.h"

namespace lshformer::cli {

class ConvertTest : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;
  static constexpr int kPositions = 160, kHeads = 2, kHeadDim = 16, kLayers = 2;

  // One small model for all tests, whose attention is not flat: its random weights are large.
  static void SetUpTestSuite() {
    shared_ = new testing::TempFolder;
    std::string corpus, texts;
    for (uint64_t i = 0; i < 40; ++i) corpus += SyntheticDocument(/*seed=*/1, i) + "\n\n";
    for (uint64_t i = 0; i < 12; ++i) {
      std::string text = SyntheticDocument(/*seed=*/2, i) + " " + SyntheticDocument(/*seed=*/3, i);
      std::replace(text.begin(), text.end(), '\n', ' ');
      texts += Json{{"text", text}}.dump() + "\n";
    }
    shared_->Write("corpus.txt", corpus);
    shared_->Write("texts.jsonl", texts);
    Made({"tokenizer", "train", "--input", *shared_ / "corpus.txt", "--vocab_size", "400", "--output_dir",
          *shared_ / "tokenizer"});
    Made({"pretrain", "--model_type", "bert", "--tokenizer_name", *shared_ / "tokenizer", "--config_overrides",
          fmt::format("hidden_size={},num_hidden_layers={},num_attention_heads={},intermediate_size=48,"
                      "max_position_embeddings={},initializer_range=0.3",
                      kHeads * kHeadDim, kLayers, kHeads, kPositions),
          "--train_file", *shared_ / "corpus.txt", "--output_dir", *shared_ / "model", "--max_steps", "1",
          "--learning_rate", "1e-9", "--max_seq_length", "128"});
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  static void Made(const Words& words) {
    Words all = words;
    all.insert(all.end(), {"--quiet"});
    const testing::CommandResult result = Call(all);
    ASSERT_EQ(result.status, 0) << result.err;
  }
  std::string Model() const { return *shared_ / "model"; }
  std::string Texts() const { return *shared_ / "texts.jsonl"; }
  Words Command(const std::string& output, const Words& more) const {
    Words words{"convert",        "--model_name_or_path", Model(), "--output_dir",
                folder_ / output, "--calibrate",          Texts(), "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Json Convert(const std::string& output, const Words& more) const {
    Words words = Command(output, more);
    words.push_back("--json");
    const testing::CommandResult result = Call(words);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return ParseJson(result.out, "report");
  }
  std::vector<float> Embedding(const std::string& model, const Words& more = {}) const {
    Words words{"predict", "--task", "feature-extraction", "--pooling", "mean",   "--model_name_or_path", model,
                "--input", Texts(),  "--output",           "-",         "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    const testing::CommandResult result = Call(words);
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<float> all;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      const Json answer = ParseJson(line, "answer");
      for (const Json& x : answer["embedding"]) all.push_back(x.get<float>());
    }
    return all;
  }
  Json Config(const std::string& output) const { return ReadJsonFile(folder_ / (output + "/config.json")); }
  bool WroteNothing(const std::string& output) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      if (entry.path().filename().string().find(output) != std::string::npos) return false;
    return true;
  }

  static inline testing::TempFolder* shared_ = nullptr;
  testing::TempFolder folder_;
};

}  // namespace lshformer::cli
