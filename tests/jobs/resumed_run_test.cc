// What a resumed run compares before it changes anything in its folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/json.h"
#include "jobs/train.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;
using ::lshformer::testing::ErrorOf;
using ::lshformer::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ResumedRunTest : public ::testing::Test {
 protected:
  TrainOptions Options() const {
    TrainOptions options;
    options.model.model_type = "bert";
    options.model.tokenizer_name = folder_ / "tokenizer";
    options.model.config_overrides =
        "hidden_size=8,num_hidden_layers=1,num_attention_heads=1,intermediate_size=8,max_position_embeddings=16";
    options.folder.output_dir = folder_ / "run";
    options.folder.resume_from_checkpoint = "auto";
    options.folder.keep_optimizer_states = true;
    options.train_files = {folder_ / "train.tsv"};
    options.validation_file = folder_ / "dev.tsv";
    options.training.per_device_train_batch_size = 4;
    options.training.max_steps = 4;
    options.training.eval_steps = options.training.save_steps = 2;
    return options;
  }
  void WriteRows(const std::string& name, int count) const {
    std::string rows = "sentence\tlabel\n";
    for (int i = 0; i < count; ++i) rows += i % 2 == 0 ? "good\tup\n" : "bad\tdown\n";
    folder_.Write(name, rows);
  }
  void SetUp() override {
    folder_.Write("tokenizer/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\n");
    WriteRows("train.tsv", 20);
    WriteRows("dev.tsv", 6);
    RunTrain(Options());
  }
  Json EvaluationData() const {
    return ReadJsonFile(folder_ / "run/trainer_state.json")["lshformer"]["run_settings"]["evaluation data"];
  }
  TempFolder folder_;
};

TEST_F(ResumedRunTest, FewerUpdatesThanWereMadeAreRefused) {
  TrainOptions options = Options();
  options.training.max_steps = 3;
  EXPECT_THAT(ErrorOf([&] { RunTrain(options); }),
              AllOf(StartsWith("max_steps: asks for 3 updates"), HasSubstr("checkpoint-4 has made 4")));
  options.training.max_steps = -1;
  options.training.num_train_epochs = 0.5;  // of 5 updates
  EXPECT_THAT(ErrorOf([&] { RunTrain(options); }), StartsWith("num_train_epochs: asks for 3 updates"));
  EXPECT_TRUE(fs::exists(folder_ / "run/trainer_state.json")) << "the run is still finished";
  options.folder.resume_from_checkpoint = folder_ / "run/checkpoint-2";
  EXPECT_EQ(RunTrain(options).log_history.back()["step"], 3);
}

// What is learnt from must be the same; what is measured on in between decides the log and the best model, and is kept.
TEST_F(ResumedRunTest, DataAreCompared) {
  const Json before = EvaluationData();
  EXPECT_EQ(before["sequences"], 6);
  TrainOptions options = Options();
  options.training.max_steps = 6;
  WriteRows("dev.tsv", 10);
  RunTrain(options);
  EXPECT_EQ(EvaluationData()["sequences"], 10);
  EXPECT_NE(EvaluationData()["fingerprint"], before["fingerprint"]);
  options.training.max_steps = 8;
  WriteRows("train.tsv", 24);
  EXPECT_THAT(ErrorOf([&] { RunTrain(options); }), StartsWith("training data: "));
}

}  // namespace
}  // namespace lshformer
