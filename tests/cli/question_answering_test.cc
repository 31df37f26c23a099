// Question answering from the shell: synthetic data, training, evaluation, scores of files alone, answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/json.h"
#include "cli/call.h"
#include "data/squad.h"
#include "util/temp_folder.h"

namespace lshformer::cli {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::CommandResult;
using ::lshformer::testing::TempFolder;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

// A tiny model trained for a few steps on synthetic questions, made once.
class QuestionAnsweringTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n,\n?\n\"\n";
    for (char letter = 'a'; letter <= 'z'; ++letter) vocabulary += std::string(1, letter) + "\n##" + letter + "\n";
    for (const char* word : {"hid", "did", "what", "where", "the", "it", "hide"})
      vocabulary += word + std::string("\n");
    folder_->Write("tokenizer/vocab.txt", vocabulary);
    for (const auto& [name, seed] : {std::pair("train", "1"), std::pair("dev", "2")}) {
      const CommandResult made = Call({"synth", "--task", "qa", "--examples", "6", "--length", "40", "--seed", seed,
                                       "--output", *folder_ / (std::string(name) + ".json")});
      ASSERT_EQ(made.status, 0) << made.err;
    }
    const CommandResult trained = Call(Train("run"));
    ASSERT_EQ(trained.status, 0) << trained.err;
    ASSERT_EQ(trained.err, "");
    results_ = new Json(ParseJson(trained.out, "stdout"));
  }
  static void TearDownTestSuite() {
    delete folder_;
    delete results_;
    folder_ = nullptr;
    results_ = nullptr;
  }

  static Words Train(const std::string& output, const Words& more = {}, const std::string& stride = "16") {
    Words words{"train",
                "--task",
                "question-answering",
                "--model_type",
                "bert",
                "--tokenizer_name",
                *folder_ / "tokenizer",
                "--config_overrides",
                "hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=24,"
                "max_position_embeddings=64",
                "--train_file",
                *folder_ / "train.json",
                "--validation_file",
                *folder_ / "dev.json",
                "--do_eval",
                "--do_predict",
                "--test_file",
                *folder_ / "dev.json",
                "--max_steps",
                "4",
                "--save_steps",
                "2",
                "--doc_stride",
                stride,
                "--version_2_with_negative",
                "--no_progress",
                "--output_dir",
                *folder_ / output};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static std::string Model() { return *folder_ / "run"; }
  static TempFolder* folder_;
  static Json* results_;
};
TempFolder* QuestionAnsweringTest::folder_ = nullptr;
Json* QuestionAnsweringTest::results_ = nullptr;

TEST_F(QuestionAnsweringTest, TrainLeavesWhatTransformersLeaves) {
  for (const char* name : {"config.json", "model.safetensors", "vocab.txt", "trainer_state.json", "eval_results.json",
                           "predictions.json", "nbest_predictions.json", "null_odds.json", "predict_predictions.json",
                           "predict_nbest_predictions.json", "predict_null_odds.json", "checkpoint-4"})
    EXPECT_TRUE(fs::exists(Model() + "/" + name)) << name;
  EXPECT_EQ(ReadJsonFile(Model() + "/config.json")["architectures"][0], "BertForQuestionAnswering");
  for (const char* key : {"eval_exact", "eval_f1", "eval_total", "eval_HasAns_f1", "eval_AvNA", "eval_best_f1",
                          "eval_best_f1_thresh", "eval_loss", "train_loss"})
    EXPECT_TRUE(results_->contains(key)) << key;
  EXPECT_EQ((*results_)["eval_total"], 6);
  EXPECT_GT((*results_)["eval_samples"].get<int>(), 6) << "documents are longer than a window";
  const Json answers = ReadJsonFile(Model() + "/predictions.json");
  EXPECT_EQ(answers, ReadJsonFile(Model() + "/predict_predictions.json"));
  const Json best = ReadJsonFile(Model() + "/nbest_predictions.json");
  ASSERT_EQ(best.size(), 6U);
  for (const auto& [id, list] : best.items()) {
    ASSERT_FALSE(list.empty());
    double sum = 0;
    for (const Json& candidate : list) sum += candidate["probability"].get<double>();
    EXPECT_NEAR(sum, 1, 1e-9);
    EXPECT_TRUE(answers.contains(id));
  }
}

TEST_F(QuestionAnsweringTest, TheFirstShareOfTheQuestionsValidates) {
  Words words = Train("split", {"--validation_split_percentage", "50"});
  const auto file = std::find(words.begin(), words.end(), "--validation_file");
  words.erase(file, file + 2);
  const CommandResult result = Call(words);
  ASSERT_EQ(result.status, 0) << result.err;
  const SquadData all = ReadSquad(*folder_ / "train.json", SquadUse::kMayHaveNone);
  const Json answers = ReadJsonFile(*folder_ / "split/predictions.json");
  ASSERT_EQ(answers.size(), all.questions.size() / 2);
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_TRUE(answers.contains(all.questions[i].id)) << i;
}

TEST_F(QuestionAnsweringTest, EvaluateAgreesWithTrainAndWithTheFilesAlone) {
  const std::string output = *folder_ / "evaluated";
  const CommandResult result =
      Call({"evaluate", "--task", "question-answering", "--model_name_or_path", Model(), "--validation_file",
            *folder_ / "dev.json", "--doc_stride", "16", "--version_2_with_negative", "--output_dir", output});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json figures = ParseJson(result.out, "stdout");
  for (const char* key : {"eval_exact", "eval_f1", "eval_loss", "eval_best_f1", "eval_AvNA", "eval_samples"})
    EXPECT_EQ(figures[key], (*results_)[key]) << key;
  EXPECT_EQ(ReadJsonFile(output + "/nbest_predictions.json"), ReadJsonFile(Model() + "/nbest_predictions.json"));
  const CommandResult scored =
      Call({"evaluate", "--task", "question-answering", "--predictions", Model() + "/predictions.json", "--references",
            *folder_ / "dev.json", "--version_2_with_negative", "--na_prob_file", Model() + "/null_odds.json",
            "--na_prob_thresh", "1e9"});
  ASSERT_EQ(scored.status, 0) << scored.err;
  const Json scores = ParseJson(scored.out, "stdout");
  for (const char* key : {"exact", "f1", "total", "AvNA", "best_exact", "best_f1", "best_f1_thresh"})
    EXPECT_EQ(scores[key], figures[std::string("eval_") + key]) << key;
}

TEST_F(QuestionAnsweringTest, PredictAnswersInOrderWithPlacesInTheContext) {
  const Json data = ReadJsonFile(*folder_ / "dev.json")["data"];
  std::string lines;
  std::vector<std::string> contexts;
  for (const Json& article : data) {
    const Json& paragraph = article["paragraphs"][0];
    contexts.push_back("東京 " + paragraph["context"].get<std::string>());
    lines += Json{{"id", paragraph["qas"][0]["id"]},
                  {"question", paragraph["qas"][0]["question"]},
                  {"context", contexts.back()},
                  {"top_k", 3}}
                 .dump() +
             "\n";
  }
  const std::string input = folder_->Write("in.jsonl", lines + "{\"id\": 9, \"question\": \"what?\"}\n");
  const CommandResult result = Call(
      {"predict", "--task", "question-answering", "--model_name_or_path", Model(), "--input", input, "--no_progress"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("1 of 7 lines could not be answered, the first: "));
  std::istringstream stream(result.out);
  std::string line;
  for (size_t i = 0; i < contexts.size(); ++i) {
    ASSERT_TRUE(std::getline(stream, line));
    const Json answer = ParseJson(line, "answer");
    EXPECT_EQ(answer["id"], data[i]["paragraphs"][0]["qas"][0]["id"]);
    for (const Json& one : answer["results"]) {
      // Two ideographs of three bytes come before: bytes = code points + 4.
      const size_t start = one["start"].get<size_t>(), end = one["end"].get<size_t>();
      if (start >= 3) {
        EXPECT_EQ(contexts[i].substr(start + 4, end - start), one["answer"].get<std::string>());
      }
    }
  }
  ASSERT_TRUE(std::getline(stream, line));
  EXPECT_THAT(line, HasSubstr("\"error\""));
}

TEST_F(QuestionAnsweringTest, OneQuestionOnTheCommandLine) {
  const CommandResult result = Call({"predict", "--task", "question-answering", "--model_name_or_path", Model(),
                                     "--question", "Where?", "--context", "over the sea", "--top_k", "2"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_LE(ParseJson(result.out, "answer")["results"].size(), 2U);
}

TEST_F(QuestionAnsweringTest, AFinishedRunIsLeftAloneUnlessAnswersAreAskedForDifferently) {
  const CommandResult again = Call(Train("run", {"--resume_from_checkpoint", "auto"}));
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(ParseJson(again.out, "stdout")["train_runtime"], (*results_)["train_runtime"]) << "nothing was done";
  EXPECT_THAT(Wrong(Train("run", {"--resume_from_checkpoint", "auto"}, "8"), 2), HasSubstr("--doc_stride: "));
}

TEST_F(QuestionAnsweringTest, ResumedItIsTheSameRun) {
  const Words words = Train("stopped", {"--n_best_size", "5"});
  ASSERT_EQ(Call(words).status, 0);
  for (const char* name : {"trainer_state.json", "model.safetensors", "predictions.json"})
    fs::remove(*folder_ / "stopped" + "/" + name);
  fs::remove_all(*folder_ / "stopped" + "/checkpoint-4");
  // Other answers may be asked for; the training is the same.
  const CommandResult result = Call(Train("stopped", {"--resume_from_checkpoint", "auto", "--n_best_size", "20"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(folder_->Read("stopped/model.safetensors"), folder_->Read("run/model.safetensors"));
  EXPECT_EQ(folder_->Read("stopped/predictions.json"), folder_->Read("run/predictions.json"));
}

// ALBERT's own head for SQuAD 2.0, asked for beside a checkpoint that has HF's: from training to raw numbers.
TEST_F(QuestionAnsweringTest, AHeadWhoseEndsDependOnStarts) {
  Words spans = Train("albert");
  *std::find(spans.begin(), spans.end(), "bert") = "albert";
  std::find(spans.begin(), spans.end(), "--config_overrides")[1] += ",embedding_size=8";
  ASSERT_EQ(Call(spans).status, 0);
  Words words = Train("conditional");
  const auto type = std::find(words.begin(), words.end(), "--model_type");
  type[0] = "--model_name_or_path", type[1] = *folder_ / "albert";
  std::find(words.begin(), words.end(), "--config_overrides")[1] = "question_answering_head=conditional";
  const CommandResult trained = Call(words);
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("a new one is drawn from the seed: start_logits.dense.weight"));
  const std::string model = *folder_ / "conditional";
  EXPECT_EQ(ReadJsonFile(model + "/config.json")["question_answering_head"], "conditional");
  const Json results = ParseJson(trained.out, "stdout"), odds = ReadJsonFile(model + "/null_odds.json");
  const Json texts = ReadJsonFile(model + "/predictions.json"), best = ReadJsonFile(model + "/nbest_predictions.json");
  ASSERT_EQ(texts.size(), 6U);
  for (const auto& [id, list] : best.items()) {
    double score = 0;  // of the best span
    bool found = false;
    for (const Json& one : list) {
      if (one["text"] == "" || found) continue;
      score = one["start_logit"].get<double>() + one["end_logit"].get<double>(), found = true;
      EXPECT_LE(score, 0) << "a probability";
    }
    for (const Json& one : list) {
      if (one["text"] != "") continue;
      EXPECT_NEAR(one["start_logit"].get<double>(), odds[id].get<double>() + score, 1e-4);
    }
    EXPECT_EQ(texts[id] == "", !found || odds[id].get<double>() > 0);
  }
  const CommandResult evaluated =
      Call({"evaluate", "--task", "question-answering", "--model_name_or_path", model, "--validation_file",
            *folder_ / "dev.json", "--doc_stride", "16", "--version_2_with_negative"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  for (const char* key : {"eval_exact", "eval_loss", "eval_best_f1"})
    EXPECT_EQ(ParseJson(evaluated.out, "stdout")[key], results[key]) << key;
  const CommandResult asked = Call({"predict", "--task", "question-answering", "--model_name_or_path", model,
                                    "--question", "Where?", "--context", "over the sea", "--top_k", "3"});
  ASSERT_EQ(asked.status, 0) << asked.err;
  EXPECT_FALSE(ParseJson(asked.out, "answer")["results"].empty());
  const std::string line =
      R"({"text": "where", "text_pair": "over the sea", "start_positions": 4, "end_positions": 5})";
  const std::string raw = *folder_ / "raw.safetensors";
  const CommandResult inspected = Call({"inspect", "--model_name_or_path", model, "--input",
                                        folder_->Write("inspect.jsonl", line + "\n"), "--output", raw, "--gradients"});
  ASSERT_EQ(inspected.status, 0) << inspected.err;
  const std::string header = folder_->Read("raw.safetensors");
  for (const char* name : {"\"start_logits\"", "\"end_logits\"", "\"no_answer_logits\"", "\"loss\"",
                           "\"gradients.end_logits.dense_0.weight\"", "\"gradients.answer_class.dense_1.weight\""})
    EXPECT_THAT(header, HasSubstr(name));
  // Tensors that are no head's stay what they are.
  std::find(words.begin(), words.end(), "--config_overrides")[1] = "embedding_size=4";
  std::find(words.begin(), words.end(), "--output_dir")[1] = *folder_ / "refused";
  EXPECT_THAT(Wrong(words, 2), HasSubstr("a checkpoint's tensors stay as they are"));
}

// The documents of one article, so that each question may be asked of another.
TEST_F(QuestionAnsweringTest, UnanswerablePairsAreTrainedOn) {
  Json data = ReadJsonFile(*folder_ / "train.json");
  Json article = {{"title", "all"}, {"paragraphs", Json::array()}};
  for (const Json& one : data["data"]) article["paragraphs"].push_back(one["paragraphs"][0]);
  data["data"] = Json::array({article});
  const std::string path = folder_->Write("article.json", data.dump());
  const auto samples = [&](const std::string& name, const Words& more) {
    Words words = Train(name, more);
    *(std::find(words.begin(), words.end(), "--train_file") + 1) = path;
    const CommandResult result = Call(words);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("unanswerable_pairs")));
    const Json results = ReadJsonFile(*folder_ / (name + "/all_results.json"));
    EXPECT_EQ(results["eval_total"], 6) << "what is evaluated stays as it is";
    return ReadJsonFile(*folder_ / (name + "/training_args.json")).value("unanswerable_pairs", -1.0);
  };
  EXPECT_EQ(samples("without", {}), 0);
  EXPECT_EQ(samples("with", {"--unanswerable_pairs", "1"}), 1);
  EXPECT_NE(folder_->Read("without/model.safetensors"), folder_->Read("with/model.safetensors"));
  // Articles of one paragraph leave nothing to pair with, and that is said.
  const CommandResult alone = Call(Train("alone", {"--unanswerable_pairs", "1"}));
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_THAT(alone.err, HasSubstr("--unanswerable_pairs: of 6 questions drawn 6 are not asked again"));
  Words words = Train("refused", {"--unanswerable_pairs", "0.5"});
  words.erase(std::find(words.begin(), words.end(), "--version_2_with_negative"));
  EXPECT_THAT(Wrong(words, 2), HasSubstr("--unanswerable_pairs: needs --version_2_with_negative"));
}

// The threshold that was best for one evaluation is taken for others.
TEST_F(QuestionAnsweringTest, TheThresholdOfAnotherEvaluation) {
  const auto evaluate = [&](const Words& more) {
    Words words{"evaluate",
                "--task",
                "question-answering",
                "--model_name_or_path",
                Model(),
                "--validation_file",
                *folder_ / "dev.json",
                "--doc_stride",
                "16",
                "--version_2_with_negative"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const auto results = [&](const Words& more) {
    const CommandResult result = Call(evaluate(more));
    EXPECT_EQ(result.status, 0) << result.err;
    Json json = ParseJson(result.out, "stdout");
    for (const char* key : {"eval_runtime", "eval_samples_per_second", "eval_steps_per_second"}) json.erase(key);
    return json;
  };
  const std::string nothing = folder_->Write("nothing.json", R"({"eval_best_f1_thresh": -1e9})"),
                    all = folder_->Write("all.json", R"({"eval_best_f1_thresh": 1e9, "eval_f1": 3})");
  EXPECT_EQ(results({"--null_score_diff_threshold_from", nothing}), results({"--null_score_diff_threshold", "-1e9"}));
  const Json answered = results({"--null_score_diff_threshold_from", all});
  EXPECT_EQ(answered, results({"--null_score_diff_threshold", "1e9"}));
  EXPECT_NE(answered, results({"--null_score_diff_threshold", "-1e9"}));
  EXPECT_THAT(
      Wrong(evaluate({"--null_score_diff_threshold_from", folder_->Write("none.json", R"({"eval_f1": 3})")}), 1),
      HasSubstr("none.json: no \"eval_best_f1_thresh\""));
  EXPECT_THAT(Wrong(evaluate({"--null_score_diff_threshold_from", all, "--null_score_diff_threshold", "2"}), 2),
              HasSubstr("--null_score_diff_threshold: --null_score_diff_threshold_from has one"));
  const auto asked = [&](const std::string& from) {
    const CommandResult result =
        Call({"predict", "--task", "question-answering", "--model_name_or_path", Model(), "--question", "Where?",
              "--context", "over the sea", "--version_2_with_negative", "--null_score_diff_threshold_from", from});
    EXPECT_EQ(result.status, 0) << result.err;
    return ParseJson(result.out, "answer")["results"][0]["answer"].get<std::string>();
  };
  EXPECT_EQ(asked(nothing), "");
  EXPECT_NE(asked(all), "");
  // A run reads it once, and keeps the number.
  const CommandResult trained =
      Call({"train", "--task", "question-answering", "--model_name_or_path", Model(), "--train_file",
            *folder_ / "dev.json", "--doc_stride", "16", "--version_2_with_negative", "--max_steps", "1",
            "--output_dir", *folder_ / "threshold", "--quiet", "--null_score_diff_threshold_from", nothing});
  EXPECT_EQ(trained.status, 0) << trained.err;
  const Json arguments = ReadJsonFile(*folder_ / "threshold/training_args.json");
  EXPECT_EQ(arguments["null_score_diff_threshold"], -1e9);
  EXPECT_EQ(arguments.value("null_score_diff_threshold_from", ""), "");
}

TEST_F(QuestionAnsweringTest, WrongFlagsAreNamed) {
  const Words predict{"predict", "--task", "question-answering", "--model_name_or_path", Model()};
  const auto wrong = [&](Words words, const Words& more, int status = 2) {
    words.insert(words.end(), more.begin(), more.end());
    return Wrong(words, status);
  };
  EXPECT_THAT(wrong(predict, {}), HasSubstr("--input: expected a JSONL file"));
  EXPECT_THAT(wrong(predict, {"--question", "x"}), HasSubstr("--question and --context: expected both"));
  EXPECT_THAT(wrong(predict, {"--text", "x"}), HasSubstr("--text: --task question-answering takes --question"));
  EXPECT_THAT(wrong(predict, {"--question", "x", "--context", "y", "--null_score_diff_threshold", "1"}),
              HasSubstr("--null_score_diff_threshold: needs --version_2_with_negative"));
  EXPECT_THAT(wrong(predict, {"--question", "x", "--context", " "}, 1), HasSubstr("--context: \"context\" has no"));
  EXPECT_THAT(wrong(predict, {"--question", " ", "--context", "x"}, 1), HasSubstr("--question: \"question\" has no"));
  EXPECT_THAT(
      Wrong({"predict", "--task", "fill-mask", "--model_name_or_path", Model(), "--text", "x", "--n_best_size", "3"},
            2),
      HasSubstr("--n_best_size: is for --task question-answering"));
  EXPECT_THAT(Wrong({"predict", "--task", "fill-mask", "--model_name_or_path", Model(), "--text", "[MASK]"}, 1),
              HasSubstr("it has no head for the task"));
  EXPECT_THAT(Wrong(Train("other", {"--task_name", "sst2"}), 2), HasSubstr("--task_name: is for"));
  EXPECT_THAT(Wrong({"synth", "--task", "text", "--output", ""}, 2), HasSubstr("--output: expected a file, got"));
  EXPECT_THAT(Wrong({"synth", "--task", "text", "--length", "9", "--output", "-"}, 2),
              HasSubstr("--length: does not belong to --task text"));
}

TEST_F(QuestionAnsweringTest, BadDataNamesFileAndQuestion) {
  const std::string bad =
      folder_->Write("bad.json", R"({"data": [{"paragraphs": [{"context": "short", "qas": [{"id": "q8", "question": "?",
                     "answers": [{"text": "x", "answer_start": 640}]}]}]}]})");
  EXPECT_THAT(
      Wrong({"evaluate", "--task", "question-answering", "--model_name_or_path", Model(), "--validation_file", bad}, 1),
      HasSubstr("bad.json: question \"q8\": answers[0]: \"answer_start\" is 640, the context has 5 characters"));
}

class ScoreSquadTest : public ::testing::Test {
 protected:
  CommandResult Score(const Words& more) {
    Words words{"evaluate", "--task", "question-answering", "--predictions", predictions_, "--references", references_};
    words.insert(words.end(), more.begin(), more.end());
    return Call(words);
  }
  TempFolder folder_;
  const std::string references_ =
      folder_.Write("R.json", R"({"data": [{"paragraphs": [{"context": "c", "qas": [{"id": "a", "question": "?",
        "answers": [{"text": "The Cat", "answer_start": 0}]}, {"id": "b", "question": "?",
        "answers": [{"text": "mat", "answer_start": 0}]}]}]}]})");
  const std::string predictions_ = folder_.Write("P.json", R"({"a": "cat!", "b": "a red mat"})");
};

TEST_F(ScoreSquadTest, ByTheOldRules) {
  const CommandResult result = Score({});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const Json scores = ParseJson(result.out, "stdout");
  EXPECT_DOUBLE_EQ(scores["exact"].get<double>(), 50);
  EXPECT_DOUBLE_EQ(scores["f1"].get<double>(), 50 * (1 + 2.0 / 3));
  EXPECT_EQ(scores["total"], 2);
}

TEST_F(ScoreSquadTest, ByTheNewRulesWithProbabilities) {
  const std::string na = folder_.Write("N.json", R"({"b": 0.9, "a": 0.1})");
  const CommandResult result = Score({"--version_2_with_negative", "--na_prob_file", na, "--na_prob_thresh", "0.5"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json scores = ParseJson(result.out, "stdout");
  EXPECT_DOUBLE_EQ(scores["exact"].get<double>(), 50);
  EXPECT_DOUBLE_EQ(scores["f1"].get<double>(), 50) << "the second counts as unanswered";
  EXPECT_DOUBLE_EQ(scores["best_exact_thresh"].get<double>(), 0.1);
  EXPECT_DOUBLE_EQ(scores["best_f1_thresh"].get<double>(), 0.9);
}

TEST_F(ScoreSquadTest, WrongFlagsAreNamed) {
  const auto wrong = [&](const Words& more) {
    const CommandResult result = Score(more);
    EXPECT_EQ(result.status, 2);
    return result.err;
  };
  EXPECT_THAT(wrong({"--na_prob_file", "x"}), HasSubstr("--na_prob_file: needs --version_2_with_negative"));
  EXPECT_THAT(wrong({"--model_name_or_path", "x"}), HasSubstr("--model_name_or_path: --predictions are scored"));
  EXPECT_THAT(wrong({"--task_name", "sst2"}), HasSubstr("--task_name: is for --task text-classification"));
}

}  // namespace
}  // namespace lshformer::cli
