// Models that read words, from the shell: each learns to answer synthetic questions; vectors, resuming, answers, raw
// numbers, and what is wrong.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "base/json.h"
#include "base/philox.h"
#include "cli/call.h"
#include "io/safetensors.h"
#include "util/temp_folder.h"

namespace lshformer::cli {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::CommandResult;
using ::lshformer::testing::TempFolder;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

// Who has what: four people and things in a context, one of them asked for. What is learned is to find a word of the
// question in the context and to give what stands beside it.
Json WhoHasWhat(uint64_t seed, int examples) {
  constexpr std::array kPeople{"Ada", "Bob", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal"};
  constexpr std::array kThings{"amber", "birch", "coral", "dusk", "ember", "fern", "gold", "haze"};
  constexpr size_t kFacts = 4;
  Json articles = Json::array();
  for (int example = 0; example < examples; ++example) {
    PhiloxStream stream(StreamKey(seed, 0, 0, 0, Purpose::kSynthetic), static_cast<uint64_t>(example));
    std::array<size_t, kPeople.size()> people{0, 1, 2, 3, 4, 5, 6, 7}, things = people;
    for (auto* order : {&people, &things})
      for (size_t i = 0; i < kFacts; ++i) std::swap((*order)[i], (*order)[i + stream.Below(order->size() - i)]);
    const size_t asked = stream.Below(kFacts);
    std::string context;
    size_t start = 0;
    for (size_t i = 0; i < kFacts; ++i) {
      context += std::string(i == 0 ? "" : " ") + kPeople[people[i]] + " has the ";
      if (i == asked) start = context.size();
      context += std::string(kThings[things[i]]) + ".";
    }
    const std::string id = std::to_string(example);
    const Json answer{{"text", kThings[things[asked]]}, {"answer_start", start}};
    const Json question{{"id", id},
                        {"question", std::string("What does ") + kPeople[people[asked]] + " have?"},
                        {"answers", Json::array({answer})}};
    const Json paragraph{{"context", context}, {"qas", Json::array({question})}};
    articles.push_back({{"title", id}, {"paragraphs", Json::array({paragraph})}});
  }
  return {{"version", "1.1"}, {"data", articles}};
}

constexpr const char* kNoDropout = "hidden_dropout_prob=0,word_dropout=0,character_dropout=0";
constexpr const char* kSmallWords = "embedding_size=24,character_embedding_size=8,character_filters=8";
const std::string kBidaf = fmt::format("hidden_size=24,{},{}", kSmallWords, kNoDropout);
const std::string kQanet = fmt::format(
    "hidden_size=32,num_attention_heads=2,num_hidden_layers=1,layer_dropout=0,attention_probs_dropout_prob=0,{},{}",
    kSmallWords, kNoDropout);

class WordModelsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    folder_->Write("train.json", WhoHasWhat(1, 800).dump());
    folder_->Write("dev.json", WhoHasWhat(2, 60).dump());
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static Words Train(const std::string& output, const std::string& type, const std::string& overrides,
                     const std::string& steps, const Words& more = {}) {
    Words words{"train",
                "--task=question-answering",
                "--model_type=" + type,
                "--config_overrides=" + overrides,
                "--train_file=" + *folder_ / "train.json",
                "--validation_file=" + *folder_ / "dev.json",
                "--do_eval",
                "--optim=adam",
                "--adam_beta1=0.8",
                "--learning_rate=3e-3",
                "--lr_scheduler_type=constant",
                "--warmup_type=logarithmic",
                "--warmup_steps=50",
                "--ema_decay=0.99",
                "--max_steps=" + steps,
                "--per_device_train_batch_size=16",
                "--per_device_eval_batch_size=16",
                "--no_progress",
                "--output_dir=" + *folder_ / output};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static TempFolder* folder_;
};
TempFolder* WordModelsTest::folder_ = nullptr;

struct Variant {
  const char* name;
  const char* type;
  std::string overrides;
  Words more;
};

class Learning : public WordModelsTest, public ::testing::WithParamInterface<Variant> {};

TEST_P(Learning, AnswersQuestionsItHasNotSeen) {
  const Variant& variant = GetParam();
  const CommandResult trained = Call(Train(variant.name, variant.type, variant.overrides, "800", variant.more));
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(trained.err, "");
  const Json results = ParseJson(trained.out, "stdout");
  EXPECT_GE(results["eval_f1"].get<double>(), 95) << results.dump();
}

// Exact QANet and BiDAF as it is by default learn in tests/train/word_models_test.cc.
INSTANTIATE_TEST_SUITE_P(WordModels, Learning,
                         ::testing::Values(Variant{"bidaf_paper",
                                                   "bidaf",
                                                   kBidaf + ",question_to_context=maximum,end_pointer=attended_start",
                                                   {}},
                                           Variant{"reversible",
                                                   "qanet",
                                                   kQanet + ",reversible=true",
                                                   {"--attention=reformer", "--lsh_chunk=8", "--lsh_rounds=4"}},
                                           Variant{"simhash", "qanet", kQanet, {"--attention=simhash"}}),
                         [](const auto& test) { return test.param.name; });

// A run of a few steps: folder, evaluation, answers and raw numbers agree with each other.
TEST_F(WordModelsTest, LeavesAFolderThatAllCommandsRead) {
  const CommandResult trained = Call(Train("few", "qanet", kQanet, "6"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const std::string model = *folder_ / "few";
  for (const char* name : {"config.json", "model.safetensors", "words.txt", "characters.txt", "predictions.json"})
    EXPECT_TRUE(fs::exists(model + "/" + name)) << name;
  EXPECT_EQ(ReadJsonFile(model + "/config.json")["architectures"][0], "QanetForQuestionAnswering");
  const CommandResult evaluated =
      Call({"evaluate", "--model_name_or_path", model, "--validation_file", *folder_ / "dev.json",
            "--per_device_eval_batch_size", "16", "--output_dir", *folder_ / "evaluated"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  const Json results = ParseJson(trained.out, "stdout"), again = ParseJson(evaluated.out, "stdout");
  for (const char* key : {"eval_loss", "eval_f1", "eval_exact"}) EXPECT_EQ(again[key], results[key]) << key;
  const Json answers = ReadJsonFile(*folder_ / "evaluated/predictions.json");
  EXPECT_EQ(answers, ReadJsonFile(model + "/predictions.json"));

  const Json paragraph = ReadJsonFile(*folder_ / "dev.json")["data"][0]["paragraphs"][0];
  const std::string context = paragraph["context"], question = paragraph["qas"][0]["question"];
  const CommandResult predicted = Call({"predict", "--task", "question-answering", "--model_name_or_path", model,
                                        "--question", question, "--context", context});
  ASSERT_EQ(predicted.status, 0) << predicted.err;
  EXPECT_EQ(ParseJson(predicted.out, "answer")["results"][0]["answer"], answers["0"]);

  folder_->Write("lines.jsonl", Json{{"text", question}, {"text_pair", context}}.dump() + "\n");
  const CommandResult inspected = Call({"inspect", "--model_name_or_path", model, "--input", *folder_ / "lines.jsonl",
                                        "--output", *folder_ / "raw.safetensors", "--attentions", "--hidden_states"});
  ASSERT_EQ(inspected.status, 0) << inspected.err;
  const SafetensorsFile raw(*folder_ / "raw.safetensors");
  EXPECT_EQ(raw.Find("start_logits")->shape, (std::vector<int64_t>{21}))
      << "four facts of five words, behind the start";
  EXPECT_NE(raw.Find("attentions.1.0"), nullptr);
}

TEST_F(WordModelsTest, AnswersInsideWordsAreCounted) {
  Json data = WhoHasWhat(3, 4);
  Json& answer = data["data"][0]["paragraphs"][0]["qas"][0]["answers"][0];
  answer["text"] = answer["text"].get<std::string>().substr(1);
  answer["answer_start"] = answer["answer_start"].get<int>() + 1;
  Words words = Train("inside", "bidaf", kBidaf, "1");
  for (std::string& word : words)
    if (word.starts_with("--train_file")) word = "--train_file=" + folder_->Write("inside.json", data.dump());
  const CommandResult trained = Call(words);
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("training questions whose answer begins or ends inside a word: 1;"));
}

TEST_F(WordModelsTest, ResumedItIsTheSameRun) {
  const Words more{"--save_steps=3", "--save_total_limit=2"};
  ASSERT_EQ(Call(Train("whole", "bidaf", kBidaf, "6", more)).status, 0);
  ASSERT_EQ(Call(Train("stopped", "bidaf", kBidaf, "6", more)).status, 0);
  for (const char* name : {"trainer_state.json", "model.safetensors", "predictions.json"})
    fs::remove(*folder_ / "stopped" + "/" + name);
  fs::remove_all(*folder_ / "stopped" + "/checkpoint-6");
  Words again = Train("stopped", "bidaf", kBidaf, "6", more);
  again.push_back("--resume_from_checkpoint=auto");
  const CommandResult resumed = Call(again);
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(folder_->Read("stopped/model.safetensors"), folder_->Read("whole/model.safetensors"));
}

TEST_F(WordModelsTest, GivenVectorsDecideTheVocabularyAndStay) {
  folder_->Write("vectors.txt", "ada 1 2 3\nGold 4 5 6\nzebra 7 8 9\nhas -1 -2 -3\n");
  const std::string overrides =
      fmt::format("hidden_size=24,character_embedding_size=8,character_filters=8,{}", kNoDropout);
  const Words words = Train("vectors", "bidaf", overrides, "3", {"--word_vectors=" + *folder_ / "vectors.txt"});
  const CommandResult trained = Call(words);
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(folder_->Read("vectors/words.txt"), "[PAD]\n[UNK]\nada\nGold\nhas\n") << "no zebra in the data";
  const Json config = ReadJsonFile(*folder_ / "vectors/config.json");
  EXPECT_EQ(config["embedding_size"], 3);
  EXPECT_EQ(config["fixed_word_embeddings"], true);
  const SafetensorsFile weights(*folder_ / "vectors/model.safetensors");
  std::vector<float> values(15);
  ConvertTo(weights.Get("embeddings.word_embeddings.weight", DType::kF32, std::array<int64_t, 2>{5, 3}), values,
            "table");
  EXPECT_EQ(std::vector<float>(values.begin() + 6, values.end()), (std::vector<float>{1, 2, 3, 4, 5, 6, -1, -2, -3}));
  EXPECT_NE(weights.Find("embeddings.unknown_word.weight"), nullptr);
}

TEST_F(WordModelsTest, WhatDoesNotFitIsNamed) {
  const auto vectors = [&](const char* text, const Words& more = {}) {
    Words words = Train("wrong", "bidaf", "hidden_size=24", "3",
                        {"--word_vectors=" + folder_->Write("bad.txt", text), "--overwrite_output_dir"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  EXPECT_THAT(Wrong(vectors("ada 1 2\nbob 1\n"), 1), HasSubstr("bad.txt:2: "));
  EXPECT_THAT(Wrong(vectors("zebra 1 2\n"), 1), HasSubstr("has a vector of none of the words"));
  EXPECT_THAT(Wrong(vectors("ada 1 nan\n"), 1), HasSubstr("bad.txt:1: "));
  Words width = vectors("ada 1 2\n");
  for (std::string& word : width)
    if (word.starts_with("--config_overrides")) word += ",embedding_size=7";
  EXPECT_THAT(Wrong(width, 2), HasSubstr("\"embedding_size\" follows from --word_vectors"));
  const Words few = Train("wrong", "bidaf", "hidden_size=24", "3", {"--attention=reformer"});
  EXPECT_THAT(Wrong(few, 2), HasSubstr("--attention: a model of type \"bidaf\" has no self-attention"));
  EXPECT_THAT(Wrong(Train("wrong", "bidaf", "fixed_word_embeddings=true", "3"), 2),
              HasSubstr("\"fixed_word_embeddings\" follows from --word_vectors"));
  Words bert = Train("wrong", "bert", "hidden_size=24,num_attention_heads=2", "3");
  EXPECT_THAT(Wrong(bert, 2), HasSubstr("--tokenizer_name: required"));
  EXPECT_THAT(Wrong({"pretrain", "--model_type", "qanet", "--train_file", *folder_ / "train.json", "--output_dir",
                     *folder_ / "wrong"},
                    2),
              HasSubstr("no masked-LM head"));
  EXPECT_THAT(Wrong({"train", "--model_type", "bidaf", "--task_name", "sst2", "--data_dir", *folder_ / "x",
                     "--output_dir", *folder_ / "wrong"},
                    2),
              HasSubstr("--model_type: a model that reads words is for --task question-answering"));
}

}  // namespace
}  // namespace lshformer::cli
