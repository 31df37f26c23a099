// `lshformer serve` as its users run it: started, asked over the wire, stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "cli/random_models.h"
#include "serve/client.h"
#include "serve/server_process.h"
#include "util/command.h"

namespace lshformer {
namespace {

using testing::Client;
using testing::CommandResult;
using ::testing::HasSubstr;
using testing::Reply;
using testing::RunCommand;
using testing::ServerProcess;
using ::testing::StartsWith;
using testing::TempFolder;

class ServeProgramTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    models_ = new TempFolder;
    SaveRandomModels(*models_, {{"vectors", Task::kEncoder},
                                {"labels", Task::kSequenceClassification},
                                {"masks", Task::kMaskedLm},
                                {"questions", Task::kQuestionAnswering}});
    // A Sentence-Transformers folder with prompts.
    std::filesystem::copy(Folder("vectors"), Folder("sentences"), std::filesystem::copy_options::recursive);
    models_->Write("sentences/modules.json", R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])");
    models_->Write("sentences/1_Pooling/config.json",
                   R"({"word_embedding_dimension": 32, "pooling_mode_mean_tokens": true})");
    models_->Write("sentences/config_sentence_transformers.json",
                   R"({"prompts": {"query": "in a ", "passage": "it was "}, "default_prompt_name": "passage"})");
  }
  static void TearDownTestSuite() {
    delete models_;
    models_ = nullptr;
  }
  static std::string Folder(const std::string& name) { return *models_ / name; }

  // What `predict` answers to one text, its one key's value.
  static Json Predicted(std::vector<std::string> words) {
    words.insert(words.begin(), {LSHFORMER_BINARY, "predict"});
    words.insert(words.end(), {"--output", "-"});
    const CommandResult result = RunCommand(words);
    EXPECT_EQ(result.status, 0) << result.err;
    const Json answer = ParseJson(result.out, "predict");
    return answer.begin().value();
  }

  static inline TempFolder* models_ = nullptr;
};

Json Body(const Reply& reply) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  return ParseJson(reply.body, "answer");
}

// Alone, in a batch, beside the load of other connections, over every route: the digits of predict.
TEST_F(ServeProgramTest, AnswersAreThoseOfPredictWhateverIsAskedBeside) {
  const Json vector = Predicted({"--model_name_or_path", Folder("vectors"), "--task", "feature-extraction", "--pooling",
                                 "mean", "--normalize", "--text", "the of that it was"});
  ServerProcess server({Folder("vectors")});
  EXPECT_THAT(server.line(), StartsWith("listening on http://127.0.0.1:"));
  std::atomic<bool> done = false;
  std::vector<std::thread> load;
  for (int t = 0; t < 3; ++t)
    load.emplace_back([&, t] {
      Client client(server.port());
      for (int i = 0; !done; ++i) {
        std::string text = "to";
        for (int word = 0; word < (i * 7 + t) % 40; ++word) text += " and";
        EXPECT_EQ(client.Post("/embed", R"({"inputs": [")" + text + R"(", "in a is"]})").status, 200);
      }
    });
  Client client(server.port());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Body(client.Post("/embed", R"({"inputs": "the of that it was"})"))[0], vector);
    EXPECT_EQ(Body(client.Post("/embed", R"({"inputs": ["on are", "the of that it was", "as"]})"))[1], vector);
    EXPECT_EQ(Body(client.Post("/", R"({"inputs": "the of that it was"})"))[0], vector);
    EXPECT_EQ(Body(client.Post("/v1/embeddings", R"({"input": "the of that it was"})"))["data"][0]["embedding"],
              vector);
  }
  done = true;
  for (std::thread& thread : load) thread.join();
}

TEST_F(ServeProgramTest, EachFolderHasItsTask) {
  ServerProcess server({Folder("labels"), Folder("masks"), Folder("questions")});
  Client client(server.port());
  EXPECT_EQ(Body(client.Post("/predict", R"({"model": "labels", "inputs": "the of"})")),
            Predicted({"--model_name_or_path", Folder("labels"), "--task", "text-classification", "--text", "the of"}));
  EXPECT_EQ(Body(client.Post("/fill_mask", R"({"model": "masks", "inputs": "the [MASK] of"})")),
            Predicted({"--model_name_or_path", Folder("masks"), "--task", "fill-mask", "--text", "the [MASK] of"}));
  const Json asked = Predicted({"--model_name_or_path", Folder("questions"), "--task", "question-answering",
                                "--question", "in a", "--context", "the of and to in a is that it"});
  EXPECT_EQ(
      Body(client.Post("/question_answering",
                       R"({"model": "questions", "question": "in a", "context": "the of and to in a is that it"})")),
      asked[0]);
  EXPECT_EQ(client.Post("/predict", R"({"model": "nothing", "inputs": "the"})").status, 404);
  EXPECT_EQ(Body(client.Get("/v1/models"))["data"].size(), 3U);
}

// The folder's prompts: its default, the server's, the request's; each as `predict` has it.
TEST_F(ServeProgramTest, PromptsAreThoseOfTheFolder) {
  const auto predicted = [](const std::vector<std::string>& prompt) {
    std::vector<std::string> words{
        "--model_name_or_path", Folder("sentences"), "--task", "feature-extraction", "--text", "the of"};
    words.insert(words.end(), prompt.begin(), prompt.end());
    return Predicted(words);
  };
  const Json passage = predicted({}), query = predicted({"--prompt_name", "query"});
  EXPECT_NE(passage, query);
  const std::string named = R"({"inputs": "the of", "prompt_name": "query"})";
  {
    ServerProcess server({Folder("sentences")});
    Client client(server.port());
    EXPECT_EQ(Body(client.Post("/embed", R"({"inputs": "the of"})"))[0], passage);
    for (const char* path : {"/embed", "/"}) EXPECT_EQ(Body(client.Post(path, named))[0], query) << path;
    const Json texts = Body(client.Post("/v1/embeddings", R"({"input": ["on", "the of"], "prompt_name": "query"})"));
    EXPECT_EQ(texts["data"][1]["embedding"], query);
    const Reply unknown = client.Post("/embed", R"({"inputs": "the of", "prompt_name": "quary"})");
    EXPECT_EQ(unknown.status, 422);
    EXPECT_THAT(unknown.body, HasSubstr(R"(\"prompt_name\": expected one of passage, query, got \"quary\")"));
  }
  ServerProcess server({Folder("sentences")}, {"DEFAULT_PROMPT_NAME=query"});
  Client client(server.port());
  EXPECT_EQ(Body(client.Post("/embed", R"({"inputs": "the of"})"))[0], query);
  EXPECT_EQ(Body(client.Post("/embed", R"({"inputs": "the of", "prompt_name": "passage"})"))[0], passage);
}

// Of a text that the model reads at once and of one that takes passes: the digits of `predict`, prompt and all.
TEST_F(ServeProgramTest, ChunksAreThoseOfPredict) {
  std::string text = "the of and to. in a is that it was";
  const auto predicted = [&](const std::string& folder, std::vector<std::string> words) {
    words.insert(words.begin(), {"--model_name_or_path", Folder(folder), "--task", "feature-extraction", "--text", text,
                                 "--long_text", "whole", "--chunking"});
    return Predicted(words);
  };
  ServerProcess server({Folder("vectors"), Folder("sentences")});
  // Each on a connection of its own, as `predict` runs in between.
  const auto ask = [&](const std::string& body) { return Body(Client(server.port()).Post("/embed_chunks", body))[0]; };
  for (const bool long_text : {false, true}) {
    for (int i = 0; long_text && i < 60; ++i) text += i % 7 == 0 ? " on are." : " as with his";
    const std::string begin = R"({"inputs": [")" + text + R"("], "model": )";
    EXPECT_EQ(ask(begin + R"("vectors", "chunk_tokens": 5, "normalize": false})"),
              predicted("vectors", {"tokens", "--chunk_tokens", "5"}));
    EXPECT_EQ(ask(begin + R"("sentences", "chunking": "sentences"})"), predicted("sentences", {"sentences"}));
    EXPECT_EQ(ask(begin + R"("sentences", "chunk_tokens": 9, "prompt_name": "query"})"),
              predicted("sentences", {"tokens", "--chunk_tokens", "9", "--prompt_name", "query"}));
  }
}

// A head's exact map, whose rows sum to 1, beside one of fewer pairs.
TEST_F(ServeProgramTest, InspectsAttention) {
  ServerProcess server({Folder("masks"), "--enable_inspect"});
  Client client(server.port());
  const std::string text = R"({"inputs": "the of and to in a is that it was for on are as", "head": 1)";
  const Json look = Body(client.Post("/inspect", text + R"(, "attention": "simhash"})"));
  ASSERT_EQ(look["tokens"].size(), 16U);
  for (const Json& row : look["exact"]["map"]) {
    double sum = 0;
    for (const Json& value : row) sum += value.get<double>();
    EXPECT_NEAR(sum, 1, 1e-4);
  }
  EXPECT_EQ(look["exact"]["attention"], "dense");
  EXPECT_EQ(look["exact"]["pairs"], 2 * 16 * 16);
  EXPECT_EQ(look["other"]["attention"], "simhash");
  EXPECT_LT(look["other"]["pairs"].get<int>(), 2 * 16 * 16);
  const Json own = Body(client.Post("/inspect", text + "}"));
  EXPECT_EQ(own["other"]["map"], own["exact"]["map"]);
  EXPECT_NEAR(own["cosine"].get<double>(), 1, 1e-6);
  EXPECT_EQ(client.Post("/inspect", text + R"(, "layer": 1})").status, 422);
  EXPECT_EQ(client.Post("/inspect", text + R"(, "attention": "none"})").status, 422);
}

TEST_F(ServeProgramTest, FlagsInBothSpellingsAndFromTheEnvironment) {
  ServerProcess server({"--model-id", Folder("vectors"), "--hostname", "127.0.0.1", "--max-client-batch-size", "2",
                        "--payload_limit", "200"},
                       {"MAX_CLIENT_BATCH_SIZE=7", "API_KEY=secret", "AUTO_TRUNCATE=true"});
  Client client(server.port());
  const std::string key = "Authorization: Bearer secret\r\n";
  EXPECT_EQ(client.Post("/embed", R"({"inputs": "the"})").status, 401);
  const Json info = Body(client.Get("/info", key));
  EXPECT_EQ(info["max_client_batch_size"], 2);
  EXPECT_EQ(info["auto_truncate"], true);
  EXPECT_EQ(client.Post("/embed", R"({"inputs": ["the", "of", "and"]})", key).status, 422);
  EXPECT_EQ(client.Post("/embed", std::string(201, ' '), key).status, 413);
}

TEST_F(ServeProgramTest, TheFolderAndItsNameMayComeFromTheEnvironment) {
  ServerProcess server({}, {"MODEL_ID=" + Folder("vectors"), "SERVED_MODEL_NAME=mine"});
  Client client(server.port());
  EXPECT_EQ(Body(client.Get("/info"))["model_id"], "mine");
  ServerProcess other({Folder("labels")}, {"MODEL_ID=" + Folder("vectors")});
  EXPECT_EQ(Body(Client(other.port()).Get("/info"))["model_id"], "labels");
}

// What was accepted is answered after the signal, and the status is that of the signal.
TEST_F(ServeProgramTest, StopsWhenWhatItAcceptedIsDone) {
  std::string context;
  for (int i = 0; i < 20'000; ++i) context += "the of and to in a ";
  for (const int signal : {SIGTERM, SIGINT}) {
    ServerProcess server({Folder("questions")});
    Client idle(server.port()), asks(server.port());
    std::thread ask([&] {
      const Reply reply = asks.Post("/question_answering", R"({"question": "in a", "context": ")" + context + "\"}");
      EXPECT_EQ(reply.status, 200) << reply.body;
      EXPECT_EQ(reply.Header("connection"), "close");
    });
    while (idle.Get("/metrics").body.find("\nlshformer_inputs_running 1\n") == std::string::npos) {
    }
    server.Signal(signal);
    ask.join();
    EXPECT_EQ(server.Wait(), 128 + signal) << server.Errors();
    EXPECT_TRUE(idle.IsClosed());
    EXPECT_THAT(server.Errors(), HasSubstr(signal == SIGTERM ? "stopped by SIGTERM; 1 requests were answered"
                                                             : "stopped by SIGINT; 1 requests were answered"));
    EXPECT_THROW(Client(server.port()), std::exception);
  }
}

// Its numbers are gone, and a thread that blocks signals finds that out.
TEST_F(ServeProgramTest, AModelThatIsCutWhileItIsServedIsNamed) {
  const TempFolder folder;
  std::filesystem::copy(Folder("vectors"), folder / "cut", std::filesystem::copy_options::recursive);
  ServerProcess server({folder / "cut"});
  std::filesystem::resize_file(folder / "cut/model.safetensors", 0);
  EXPECT_EQ(Client(server.port()).Post("/embed", R"({"inputs": "the of and"})").status, 0);
  EXPECT_EQ(server.Wait(), 1);
  EXPECT_THAT(server.Errors(), HasSubstr("model.safetensors: became shorter while it was being used\n"));
}

TEST_F(ServeProgramTest, NamesAreOfTheFoldersInOrder) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {Folder("vectors"), Folder("masks"), "--served_model_name", "a", "b"},
           {"--served_model_name", "a", "--served_model_name", "b", Folder("vectors"), Folder("masks")}}) {
    ServerProcess server(words);
    const Json models = Body(Client(server.port()).Get("/v1/models"))["data"];
    ASSERT_EQ(models.size(), 2);
    EXPECT_EQ(models[0]["id"], "a");
    EXPECT_EQ(models[1]["id"], "b");
  }
}

TEST_F(ServeProgramTest, WhatKeepsItFromStartingIsOneLine) {
  ServerProcess server({Folder("vectors")});
  const auto wrong = [](std::vector<std::string> words, int status) {
    words.insert(words.begin(), {LSHFORMER_BINARY, "serve"});
    const CommandResult result = RunCommand(words);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_THAT(wrong({Folder("vectors"), "--port", std::to_string(server.port())}, 1), HasSubstr("cannot listen on"));
  EXPECT_THAT(wrong({Folder("missing"), "--port", "0"}, 1), HasSubstr("missing"));
  EXPECT_THAT(wrong({"--port", "0"}, 2), HasSubstr("DIR"));
  EXPECT_THAT(wrong({Folder("vectors"), "--port", "70000"}, 2), HasSubstr("--port: expected 0 to 65535"));
  EXPECT_THAT(wrong({Folder("vectors"), Folder("vectors"), "--port", "0"}, 2), HasSubstr("--served_model_name"));
  EXPECT_THAT(wrong({Folder("vectors"), "--port", "0", "--served_model_name", ""}, 2),
              HasSubstr("--served_model_name: expected a name"));
  EXPECT_THAT(wrong({Folder("vectors"), "--max-client-batch-size", "9999", "--port", "0"}, 2),
              HasSubstr("--max_client_batch_size: expected at most 512"));
  EXPECT_THAT(wrong({Folder("labels"), "--port", "0", "--pooling", "cls"}, 2),
              HasSubstr("--pooling: is for models of --task feature-extraction, of which there is none"));
  EXPECT_THAT(wrong({Folder("masks"), "--port", "0", "--default_prompt_name", "query"}, 2),
              HasSubstr("--default_prompt_name: is for models of --task feature-extraction"));
  EXPECT_THAT(wrong({Folder("vectors"), "--port", "0", "--default_prompt_name", "query"}, 2),
              HasSubstr("--default_prompt_name: the model \"vectors\" has no prompts, got \"query\""));
  EXPECT_THAT(wrong({Folder("sentences"), "--port", "0", "--default_prompt_name", "quary"}, 2),
              HasSubstr("--default_prompt_name: expected one of passage, query, got \"quary\""));
  EXPECT_THAT(wrong({Folder("vectors"), "--port", "0", "--hostname", "nowhere.invalid"}, 2),
              HasSubstr("--host: nowhere.invalid: "));
  EXPECT_THAT(wrong({Folder("vectors"), "--model-id", Folder("labels"), "--port", "0"}, 2),
              HasSubstr("--model_id: is another name of DIR"));
  EXPECT_THAT(wrong({"--model-id", "", "--port", "0"}, 2), HasSubstr("--model-id: expected a folder, got \"\""));
  // What a script's unset variable leaves: neither a server for the whole network nor one that asks for no key.
  EXPECT_THAT(wrong({Folder("vectors"), "--port", "0", "--host", ""}, 2), HasSubstr("--host: expected an address"));
  EXPECT_THAT(wrong({Folder("vectors"), "--port", "0", "--api_key", ""}, 2), HasSubstr("--api_key: expected a key"));
}

}  // namespace
}  // namespace lshformer
