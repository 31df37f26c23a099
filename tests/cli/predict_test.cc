// The command `predict` on small models with random weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/json.h"
#include "cli/random_models.h"
#include "kernels/isa.h"
#include "kernels/matmul.h"
#include "util/command.h"

namespace lshformer {
namespace {

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::RunCommand;
using testing::TempFolder;

// Checkpoints of the three heads and their tokenizer, made once.
class PredictTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    SaveRandomModels(*folder_, {{"lm", Task::kMaskedLm}, {"classes", Task::kSequenceClassification}},
                     {"negative", "positive"});
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static CommandResult Predict(const std::string& model, const std::string& task, std::vector<std::string> more,
                               const std::string& input = "/dev/null") {
    std::vector<std::string> words{LSHFORMER_BINARY, "predict", "--model_name_or_path",
                                   *folder_ / model, "--task",  task};
    words.insert(words.end(), more.begin(), more.end());
    return RunCommand(words, input);
  }

  // `count` lines of one to 60 words in no order of length.
  static std::string Lines(int count, const std::string& begin = "") {
    const std::string words = kModelWords;
    std::string lines;
    for (int i = 0; i < count; ++i) {
      std::string text = begin;
      for (int word = 0; word <= i * 17 % 13 * (i % 50 == 0 ? 5 : 1); ++word)
        text += words.substr(word % 7 * 3, 12) + " ";
      lines += "{\"id\": " + std::to_string(i) + ", \"text\": \"" + text + "\"}\n";
    }
    return lines;
  }

  static TempFolder* folder_;
};
TempFolder* PredictTest::folder_ = nullptr;

TEST_F(PredictTest, OneTextOfEachTask) {
  const CommandResult mask = Predict("lm", "fill-mask", {"--text", "the [MASK] of", "--top_k", "3"});
  EXPECT_EQ(mask.status, 0) << mask.err;
  EXPECT_EQ(mask.err, "");
  EXPECT_EQ(ParseJson(mask.out, "out")["results"].size(), 3U);
  const CommandResult label = Predict("classes", "text-classification", {"--text", "the of", "--text_pair", "it was"});
  EXPECT_EQ(label.status, 0) << label.err;
  EXPECT_THAT(ParseJson(label.out, "out")["results"][0]["label"].get<std::string>(),
              ::testing::AnyOf("negative", "positive"));
  const CommandResult vector = Predict("lm", "feature-extraction", {"--text", "the of", "--pooling", "mean"});
  EXPECT_EQ(vector.status, 0) << vector.err;
  EXPECT_EQ(ParseJson(vector.out, "out")["embedding"].size(), 32U);
}

// A Sentence-Transformers folder says how embeddings are made; flags go over it, and other tasks do not look at it.
TEST_F(PredictTest, ModulesOfTheFolderMakeEmbeddings) {
  const TempFolder copy;
  std::filesystem::copy(*folder_ / "lm", copy / "model", std::filesystem::copy_options::recursive);
  copy.Write("model/modules.json", R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
      {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
  copy.Write("model/1_Pooling/config.json", R"({"word_embedding_dimension": 32, "pooling_mode_cls_token": true,
      "pooling_mode_mean_tokens": true})");
  copy.Write("model/config_sentence_transformers.json", R"({"prompts": {"q": "it was "}})");
  const auto predict = [&](const std::string& folder, std::vector<std::string> more) {
    std::vector<std::string> words{LSHFORMER_BINARY,     "predict", "--model_name_or_path", folder, "--task",
                                   "feature-extraction", "--text"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = RunCommand(words);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return ParseJson(result.out, "out")["embedding"].get<std::vector<float>>();
  };
  const std::string plain = *folder_ / "lm";
  const std::vector<float> cls = predict(plain, {"the of", "--pooling", "cls"}),
                           mean = predict(plain, {"the of", "--pooling", "mean"});
  std::vector<float> both = cls;
  both.insert(both.end(), mean.begin(), mean.end());
  EXPECT_EQ(predict(copy / "model", {"the of"}), both);
  EXPECT_EQ(predict(copy / "model", {"the of", "--pooling", "mean"}), mean);
  EXPECT_EQ(predict(copy / "model", {"the of", "--pooling", "max", "--prompt_name", "q"}),
            predict(plain, {"it was the of", "--pooling", "max"}));
  copy.Write("model/modules.json", "[]");
  const CommandResult mask = RunCommand({LSHFORMER_BINARY, "predict", "--model_name_or_path", copy / "model", "--task",
                                         "fill-mask", "--text", "the [MASK]"});
  EXPECT_EQ(mask.status, 0) << mask.err;
  const CommandResult refused = RunCommand({LSHFORMER_BINARY, "predict", "--model_name_or_path", copy / "model",
                                            "--task", "feature-extraction", "--text", "the of"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("modules.json: the first module is no Transformer"));
}

TEST_F(PredictTest, TextsLoseTheirBeginningWhereTheFolderSaysSo) {
  const TempFolder copy;
  std::filesystem::copy(*folder_ / "classes", copy / "model", std::filesystem::copy_options::recursive);
  copy.Write("model/tokenizer_config.json", R"({"truncation_side": "left"})");
  const auto classify = [&](const std::string& folder, const char* text) {
    const CommandResult result = RunCommand({LSHFORMER_BINARY, "predict", "--model_name_or_path", folder, "--task",
                                             "text-classification", "--text", text, "--max_seq_length", "5"});
    return ParseJson(result.out, "out")["results"];
  };
  const Json end = classify(copy / "model", "the of and to in a is that");
  EXPECT_EQ(end, classify(*folder_ / "classes", "a is that"));
  EXPECT_NE(end, classify(*folder_ / "classes", "the of and to in a is that"));
}

TEST_F(PredictTest, APairIsEmbeddedAsOneSequence) {
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--pooling", "mean"});
    const CommandResult result = Predict("lm", "feature-extraction", more);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  const std::string alone = with({"--text", "the of"}), pair = with({"--text", "the of", "--text_pair", "it was"});
  EXPECT_NE(pair, alone);
  const std::string lines = folder_->Write("pairs.jsonl", R"({"text": "the of", "text_pair": "it was"})");
  EXPECT_EQ(with({"--input", lines}), pair);
  const CommandResult refused = Predict("lm", "fill-mask", {"--text", "[MASK]", "--text_pair", "it"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("--text_pair: is for --task text-classification and feature-extraction"));
}

TEST_F(PredictTest, ChunksAreOfTheWholeText) {
  const auto chunks = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--text", "the of and to in a is that", "--chunking", "tokens", "--chunk_tokens", "3"});
    return Predict("classes", "feature-extraction", more);
  };
  const CommandResult plain = chunks({});
  EXPECT_EQ(ParseJson(plain.out, "answer")["chunks"].size(), 3U) << plain.err;
  EXPECT_EQ(plain.out, chunks({"--long_text", "whole"}).out);
  const std::string lines = folder_->Write("lines.txt", "the of and to in a is that\n");
  const CommandResult plain_lines =
      Predict("classes", "feature-extraction", {"--text_file", lines, "--chunking", "tokens", "--chunk_tokens", "3"});
  EXPECT_EQ(ParseJson(plain_lines.out, "answer")["chunks"], ParseJson(plain.out, "answer")["chunks"]);
  const CommandResult cut = chunks({"--long_text", "cut"});
  EXPECT_EQ(cut.status, 2);
  EXPECT_THAT(cut.err, HasSubstr("--chunking: needs --long_text whole"));
}

// The same bytes whatever the batches and threads are, for exact and for hashed attention.
TEST_F(PredictTest, AnswersDependOnTheirLineAlone) {
  const std::string input = folder_->Write("alone.jsonl", Lines(200));
  for (const char* attention : {"dense", "simhash", R"({"type": "reformer", "chunk": 4})"}) {
    const std::vector<std::string> common{"--input", input, "--pooling", "none", "--attention", attention};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.end(), common.begin(), common.end());
      const CommandResult result = Predict("lm", "feature-extraction", more);
      EXPECT_EQ(result.status, 0) << result.err;
      return result.out;
    };
    const std::string batched = with({"--threads", "2"});
    EXPECT_EQ(std::count(batched.begin(), batched.end(), '\n'), 200);
    EXPECT_EQ(with({"--threads", "1", "--batch_tokens", "1"}), batched) << attention;
  }
}

// --bf16 and --int8 change the numbers, not what they depend on; a CPU without the instructions refuses them.
TEST_F(PredictTest, LowPrecision) {
  const std::string input = folder_->Write("low.jsonl", Lines(60));
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--input", input, "--pooling", "mean"});
    return Predict("lm", "feature-extraction", more);
  };
  const std::string plain = with({}).out;
  for (const auto& [flag, precision] : {std::pair("--bf16", Precision::kBFloat16), {"--int8", Precision::kInt8}}) {
    if (!SupportsProducts(precision)) GTEST_SKIP() << "this CPU has no instructions for " << flag;
    const CommandResult low = with({flag, "--threads", "2"});
    EXPECT_EQ(low.status, 0) << low.err;
    EXPECT_NE(low.out, plain);
    EXPECT_EQ(with({flag, "--threads", "1", "--batch_tokens", "1"}).out, low.out) << flag;
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    const CommandResult refused = with({flag});
    unsetenv("ONEDNN_MAX_CPU_ISA");
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr(std::string(flag) + ": this CPU has no instructions for"));
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  }
  EXPECT_THAT(with({"--bf16", "--int8"}).err, HasSubstr("--bf16 and --int8: expected one of them"));
}

// Without AMX tiles the words for float32 products are all `highest`, which one line says.
TEST_F(PredictTest, Float32MatmulPrecision) {
  const std::vector<std::string> isas = SupportedIsas();
  const std::string isa = isas.front() == "amx" ? isas[1] : isas.front();
  const std::string input = folder_->Write("matmul.jsonl", Lines(20));
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--input", input, "--isa", isa});
    return Predict("lm", "feature-extraction", more);
  };
  const CommandResult plain = with({}), highest = with({"--float32_matmul_precision", "highest"});
  ASSERT_EQ(plain.status, 0) << plain.err;
  EXPECT_EQ(highest.out, plain.out);
  EXPECT_EQ(highest.err, plain.err);
  for (const char* word : {"high", "medium"}) {
    const CommandResult result = with({"--float32_matmul_precision", word});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, plain.out) << word;
    EXPECT_THAT(result.err, HasSubstr(std::string("--float32_matmul_precision ") + word));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'),
              1 + std::count(plain.err.begin(), plain.err.end(), '\n'))
        << result.err;
    for (const char* flag : {"--bf16", "--int8"}) {
      const CommandResult refused = with({"--float32_matmul_precision", word, flag});
      EXPECT_EQ(refused.status, 2);
      EXPECT_THAT(refused.err,
                  HasSubstr(std::string("--float32_matmul_precision: is for float32, not beside ") + flag));
    }
  }
  const CommandResult unknown = with({"--float32_matmul_precision", "low"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--float32_matmul_precision: expected highest, high or medium, got \"low\""));
}

TEST_F(PredictTest, BadLinesEndWithStatusOneAndALineEach) {
  const std::string input = folder_->Write("bad.jsonl", "{\"text\": \"the\", \"id\": \"a\"}\n{\"id\": \"b\"}\n\xff\n");
  const std::string output = *folder_ / "bad.out.jsonl";
  const CommandResult result = Predict("classes", "text-classification", {"--input", input, "--output", output});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("2 of 3 lines"));
  EXPECT_THAT(result.err, HasSubstr("bad.jsonl:2"));
  const std::string answers = folder_->Read("bad.out.jsonl");
  EXPECT_EQ(std::count(answers.begin(), answers.end(), '\n'), 3);
  EXPECT_THAT(answers, HasSubstr("{\"id\": \"b\", \"error\": "));
}

TEST_F(PredictTest, CutTextsAreOneWarning) {
  const std::string input = folder_->Write("long.jsonl", Lines(120));
  const CommandResult result = Predict("classes", "text-classification", {"--input", input, "--max_seq_length", "10"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("were cut to 10 tokens"));
}

TEST_F(PredictTest, StdinToStdout) {
  const std::string input = folder_->Write("stdin.jsonl", Lines(5));
  const CommandResult result = Predict("classes", "text-classification", {"--input", "-"}, input);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 5);
}

TEST_F(PredictTest, WrongUseIsOneLineThatNamesTheFlag) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "--input"},
      {{"--text", "a", "--input", "b"}, "--text"},
      {{"--text_pair", "a", "--input", "b"}, "--text_pair"},
      {{"--text", "the [MASK]", "--top_k", "0"}, "--top_k"},
      {{"--text", "the [MASK]", "--top_k", "26"}, "--top_k: expected 1 to 25"},
      {{"--text", "the [MASK]", "--pooling", "cls"}, "--pooling"},
      {{"--text", "the [MASK]", "--max_seq_length", "65"}, "--max_seq_length"},
      {{"--text", "the [MASK]", "--batch_tokens", "0"}, "--batch_tokens"},
  };
  for (const auto& [flags, expected] : cases) {
    const CommandResult result = Predict("lm", "fill-mask", flags);
    EXPECT_EQ(result.status, 2) << expected << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr(expected));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST_F(PredictTest, WhatCannotBeAnsweredIsStatusOne) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--text", "no mask"}, "--text: \"text\" has no [MASK]"},
      {{"--text", ""}, "--text"},
      {{"--text", "\xff [MASK]"}, "--text"},
      {{"--input", "/nowhere/in.jsonl"}, "/nowhere/in.jsonl"},
      {{"--text", "[MASK]", "--output", "/nowhere/out.jsonl"}, "/nowhere/out.jsonl"},
  };
  for (const auto& [flags, expected] : cases) {
    const CommandResult result = Predict("lm", "fill-mask", flags);
    EXPECT_EQ(result.status, 1) << expected << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr(expected));
    EXPECT_EQ(result.out, "");
  }
  const CommandResult head = Predict("lm", "text-classification", {"--text", "the"});
  EXPECT_EQ(head.status, 1);
  EXPECT_THAT(head.err, HasSubstr("lm is a fill-mask model (BertForMaskedLM): it has no head for the task"));
}

// Whatever the file's size: 40 MB of lines, some of the longest texts among them.
TEST_F(PredictTest, MemoryStaysBounded) {
  std::string input = Lines(300000);
  for (int i = 0; i < 20; ++i) {
    input += "{\"text\": \"" + std::string(1 << 20, 'a') + " ";
    for (int word = 0; word < 50000; ++word) input += "the of ";
    input += "\"}\n";
  }
  ASSERT_GT(input.size(), size_t{40} << 20);
  const std::string path = folder_->Write("large.jsonl", input);
  input.clear();
  input.shrink_to_fit();
  const CommandResult result =
      Predict("classes", "text-classification", {"--input", path, "--output", *folder_ / "large.out.jsonl"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_LT(result.max_resident_mb, 400);
}

}  // namespace
}  // namespace lshformer
