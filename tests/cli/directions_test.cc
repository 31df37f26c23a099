// Training with clustered attention whose directions follow the model, from the command line.
#include <filesystem>

#include "cli/training_run.h"
#include "io/safetensors.h"
#include "kernels/matmul.h"

namespace lshformer::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

constexpr const char* kKeys = "lshformer.attention.1.key_directions";

class RefreshedDirectionsTest : public TrainingRunTest {
 protected:
  // Blocks of 32 tokens in clusters of 4.
  Flags Refreshed(const std::string& output, Flags more = {}, const char* steps = "7") const {
    for (const char* word : {"--attention", "clustered", "--lsh_cluster", "4", "--lsh_open", "1"}) more.push_back(word);
    if (steps != nullptr) more.insert(more.end(), {"--refresh_directions_steps", steps});
    return Pretrain(output, more);
  }
  Json Attention(const std::string& run) const { return Results(run + "/config.json")["attention"]; }
  // "" where there is no such tensor.
  std::string Tensor(const std::string& run, const char* name) const {
    const SafetensorsFile file(folder_ / (run + "/model.safetensors"));
    const TensorView* view = file.Find(name);
    return view == nullptr ? "" : std::string(reinterpret_cast<const char*>(view->bytes.data()), view->bytes.size());
  }
};

// Checkpoints lie every 5 updates, refreshes every 7 of them: a run that goes on from one has directions that are some
// updates old.
TEST_F(RefreshedDirectionsTest, AKilledRunEndsAtTheSameBits) {
  Succeeds(Refreshed("whole"));
  EXPECT_EQ(Attention("whole")["directions"], "stored");
  EXPECT_NE(Tensor("whole", kKeys), "");
  const Flags words = Refreshed("killed", {"--resume_from_checkpoint", "auto"});
  int killed = 0;
  for (const int step : {5, 30, 45}) {
    const auto there = [&] { return fs::exists(folder_ / ("killed/checkpoint-" + std::to_string(step))); };
    const testing::CommandResult result = Interrupt(words, SIGKILL, std::chrono::minutes(2), there);
    if (result.status == 0) break;
    EXPECT_EQ(result.status, 128 + SIGKILL) << result.err;
    ++killed;
  }
  EXPECT_GE(killed, 1);
  Succeeds(words);
  EXPECT_EQ(Weights("killed"), Weights("whole"));
  EXPECT_THAT(Fails(Refreshed("killed", {"--resume_from_checkpoint", "auto"}, "8"), 2),
              AllOf(HasSubstr("--refresh_directions_steps: "), HasSubstr("was made with 7, got 8")));
}

// The object has no directions, and is laid over a checkpoint that has.
TEST_F(RefreshedDirectionsTest, AnObjectOnTheCommandLineIsResumedToo) {
  const Flags object{"--attention", R"({"type": "clustered", "cluster": 4, "open": 1})", "--refresh_directions_steps",
                     "7"};
  const auto run = [&](const std::string& output, Flags more) {
    more.insert(more.end(), object.begin(), object.end());
    Succeeds(Pretrain(output, more));
  };
  run("whole", {"--max_steps", "12"});
  run("part", {"--max_steps", "12", "--save_total_limit", "9"});
  run("resumed", {"--max_steps", "12", "--resume_from_checkpoint", folder_ / "part/checkpoint-5"});
  EXPECT_EQ(Weights("resumed"), Weights("whole"));
}

TEST_F(RefreshedDirectionsTest, RandomOnesForEverWithoutTheFlag) {
  Succeeds(Refreshed("random", {"--max_steps", "8"}, nullptr));
  EXPECT_EQ(Attention("random")["directions"], "random");
  EXPECT_EQ(Tensor("random", kKeys), "");
  Succeeds(Refreshed("never", {"--max_steps", "8"}, "0"));
  EXPECT_EQ(Weights("never"), Weights("random"));
  Succeeds(Refreshed("refreshed", {"--max_steps", "8"}));
  const char* weight = "bert.encoder.layer.0.attention.self.key.weight";
  EXPECT_NE(Tensor("refreshed", weight), Tensor("random", weight));
}

// An exact checkpoint, and one whose heads differ and whose directions come from elsewhere.
TEST_F(RefreshedDirectionsTest, FromAModelThatWasMadeOtherwise) {
  Succeeds(Pretrain("exact", {"--attention", "dense", "--max_steps", "4"}));
  const auto from = [&](const std::string& model, const std::string& output, Flags more) {
    Flags words{LSHFORMER_BINARY,
                "pretrain",
                "--no_progress",
                "--quiet",
                "--model_name_or_path",
                folder_ / model,
                "--train_file",
                folder_ / "text.txt",
                "--output_dir",
                folder_ / output,
                "--max_steps",
                "4",
                "--refresh_directions_steps",
                "2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Flags clustered{"--attention", "clustered", "--lsh_cluster", "4", "--lsh_open", "1"};
  const auto with = [&](Flags more) {
    more.insert(more.end(), clustered.begin(), clustered.end());
    return more;
  };
  EXPECT_EQ(testing::RunCommand(from("exact", "tuned", clustered)).status, 0);
  EXPECT_EQ(Attention("tuned")["directions"], "stored");
  EXPECT_NE(Tensor("tuned", kKeys), "");
  EXPECT_EQ(testing::RunCommand(from("exact", "said", with({"--lsh_directions", "stored"}))).status, 0);
  EXPECT_EQ(Weights("said"), Weights("tuned"));

  Json config = Results("tuned/config.json");
  Json one = config["attention"], other = one;
  other["open"] = 2;
  config["attention"] =
      Json::array({Json::array({one, other}), Json::array({Json{{"type", "dense"}, {"seed", 0}}, one})});
  folder_.Write("tuned/config.json", config.dump());
  Succeeds(from("tuned", "again", {}));
  EXPECT_EQ(Attention("again"), config["attention"]);
  EXPECT_NE(Tensor("again", kKeys), Tensor("tuned", kKeys));
  EXPECT_NE(Tensor("again", "lshformer.attention.0.query_directions"),
            Tensor("tuned", "lshformer.attention.0.query_directions"));
}

TEST_F(RefreshedDirectionsTest, InFineTuningAndWithSeveralSeeds) {
  const Flags attention{
      "--attention", "clustered", "--lsh_cluster", "2", "--lsh_open", "0", "--refresh_directions_steps", "10"};
  Flags more{"--seeds", "1,2"};
  if (SupportsProducts(Precision::kBFloat16)) more.push_back("--bf16");
  more.insert(more.end(), attention.begin(), attention.end());
  Succeeds(Train("runs", more));
  EXPECT_NE(Tensor("runs/seed-1", kKeys), "");
  EXPECT_NE(Tensor("runs/seed-1", kKeys), Tensor("runs/seed-2", kKeys));
}

TEST_F(RefreshedDirectionsTest, WhereTheyHaveNoMeaning) {
  const auto wrong = [&](const Flags& more) { return Fails(Pretrain("run", more), 2); };
  EXPECT_THAT(wrong({"--refresh_directions_steps", "5"}),
              HasSubstr("--refresh_directions_steps: is for clustered attention, that of the model is simhash"));
  EXPECT_THAT(wrong({"--attention", "clustered", "--lsh_directions", "random", "--refresh_directions_steps", "5"}),
              HasSubstr("--refresh_directions_steps: not beside directions that are \"random\""));
  EXPECT_THAT(
      wrong({"--attention", R"({"type": "clustered", "directions": "random"})", "--refresh_directions_steps", "5"}),
      HasSubstr("--refresh_directions_steps: not beside directions that are \"random\""));
  EXPECT_THAT(wrong({"--attention", "clustered", "--refresh_directions_steps", "-1"}),
              HasSubstr("--refresh_directions_steps: expected"));
  EXPECT_FALSE(fs::exists(folder_ / "run/config.json"));
}

}  // namespace
}  // namespace lshformer::cli
