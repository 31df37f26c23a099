// A family that the library does not have, added by this folder and one row of the table: it reads its own config keys
// and two streams, trains, saves, loads and predicts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/philox.h"
#include "io/safetensors.h"
#include "models/model.h"
#include "models/toy_family/bag_of_words.h"
#include "train/tiny_run.h"
#include "train/trainer.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using testing::Copies;
using testing::Different;
using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::TempFolder;

ModelConfig Parse(const std::string& text) { return ParseModelConfig(ParseJson(text, "config.json"), "config.json"); }

// Example i is of class i % 2, told by its words in one half of the examples and by its characters in the other.
PackedBatch Batch(int64_t, std::span<const int64_t> examples) {
  PackedBatch batch;
  batch.further_streams.resize(1);
  for (const int64_t example : examples) {
    PhiloxStream stream(StreamKey(1, 0, 0, 0, Purpose::kSynthetic), static_cast<uint64_t>(example));
    const int label = static_cast<int>(example % 2);
    const bool by_words = example % 4 < 2;
    std::vector<int32_t> words(3 + stream.Below(5)), characters(4 + stream.Below(9));
    for (int32_t& word : words) word = static_cast<int32_t>(stream.Below(20)) + (by_words ? 20 * (1 + label) : 0);
    for (int32_t& c : characters) c = static_cast<int32_t>(stream.Below(10)) + (by_words ? 0 : 10 * (1 + label));
    AppendSequence(batch, words, {}, static_cast<uint64_t>(example));
    AppendSequence(batch.further_streams[0], characters);
    batch.labels.classes.push_back(label);
  }
  return batch;
}

TEST(ToyFamily, ReadsAndWritesItsOwnKeys) {
  const ModelConfig config = Parse(R"({"model_type": "bag_of_words", "character_weight": 2, "num_hidden_layers": 3})");
  EXPECT_EQ(config.vocab_size, 100) << "the family's default, not BERT's";
  EXPECT_EQ(config.own<BagOfWordsConfig>().character_weight, 2);
  EXPECT_EQ(config.own<BagOfWordsConfig>().character_vocab_size, 30);
  EXPECT_EQ(
      ToJson(config).dump(),
      R"({"architectures":[],"model_type":"bag_of_words","vocab_size":100,"hidden_size":8,)"
      R"("character_vocab_size":30,"character_weight":2.0,"fixed_words":false,"initializer_range":0.02,"pad_token_id":0,)"
      R"("torch_dtype":"float32","num_hidden_layers":3})")
      << "what is no key of the family is kept as any unknown key";
  EXPECT_EQ(ErrorOf([] { Parse(R"({"model_type": "bag_of_words", "character_vocab_size": 0})"); }),
            "config.json: \"character_vocab_size\": expected 1 to 1000, got 0");
  ModelConfig changed = config;
  ApplyOverrides(changed, "character_weight=0.25", "--config_overrides");
  EXPECT_EQ(changed.own<BagOfWordsConfig>().character_weight, 0.25);
  EXPECT_EQ(config.own<BagOfWordsConfig>().character_weight, 2) << "a config is a value";
  EXPECT_THAT(ErrorOf([&] { ApplyOverrides(changed, "character_wait=1", "--config_overrides"); }),
              HasSubstr("did you mean \"character_weight\"?"));
}

TEST(ToyFamily, StandsInTheTableBesideTheOthers) {
  EXPECT_THAT(ModelTypes(), ElementsAre("bag_of_words", "bert"));
  EXPECT_EQ(ModelConfig().model_type, "bert");
  EXPECT_EQ(ErrorOf([] { Parse(R"({"model_type": "bag_of_word"})"); }),
            "config.json: \"model_type\": expected \"bag_of_words\" or \"bert\", got \"bag_of_word\" (did you mean "
            "\"bag_of_words\"?)");
  ModelConfig config = DefaultModelConfig("bag_of_words", "test");
  config.architectures = {"BagOfWordsForSequenceClassification"};
  EXPECT_EQ(TaskFromArchitectures(config, "config.json"), Task::kSequenceClassification);
  config.architectures = {"BertForMaskedLM"};
  EXPECT_EQ(ErrorOf([&] { TaskFromArchitectures(config, "config.json"); }),
            "config.json: architectures names \"BertForMaskedLM\", expected BagOfWordsForSequenceClassification");
  EXPECT_EQ(ErrorOf([&] { CreateModel(config, Task::kMaskedLm, 1); }),
            "a model of type \"bag_of_words\" has no head for this task, only BagOfWordsForSequenceClassification");
  const std::vector<int64_t> examples{0, 1};
  PackedBatch one = Batch(0, examples);
  one.further_streams.clear();
  EXPECT_EQ(ErrorOf([&] { CreateModel(config, Task::kSequenceClassification, 1)->Forward(one, {}); }),
            "the batch has 1 streams of ids, this model reads 2: words, characters");
}

TEST(ToyFamily, TrainsSavesLoadsAndPredicts) {
  constexpr int64_t kExamples = 64;
  const ModelPtr model = CreateModel(DefaultModelConfig("bag_of_words", "test"), Task::kSequenceClassification, 7);
  TrainingOptions options;
  options.per_device_train_batch_size = 8, options.gradient_accumulation_steps = 2;
  options.learning_rate = 0.05, options.max_steps = 40, options.logging_steps = 0, options.save_steps = 0;
  const TrainResult result = Train(*model, {kExamples, Batch}, options, {}, {});
  // Two logits of 8 numbers and a bias; the tables are looked up. 40 updates of 16 examples with words in one stream.
  std::vector<int64_t> all(kExamples);
  for (int64_t i = 0; i < kExamples; ++i) all[static_cast<size_t>(i)] = i;
  const PackedBatch batch = Batch(0, all);
  EXPECT_EQ(result.total_flos, 6.0 * 18 * 10 * static_cast<double>(batch.tokens.size()));

  const TempFolder folder;
  SaveModel(*model, folder.path());
  const ModelPtr loaded = LoadModel(folder.path(), Task::kSequenceClassification, 0, /*require_head=*/true);
  const torch::NoGradGuard no_grad;
  const torch::Tensor logits = loaded->Forward(batch, {}).logits;
  EXPECT_TRUE(logits.equal(model->Forward(batch, {}).logits));
  const torch::Tensor best = logits.argmax(1);
  int64_t right = 0;
  for (int64_t i = 0; i < kExamples; ++i) right += best[i].item<int64_t>() == i % 2;
  EXPECT_EQ(right, kExamples);
}

// A table that is given stays as it is: no gradient, no decay, no state, no average; but it is part of the model.
TEST(ToyFamily, AParameterThatIsNotTrainedIsLeftAlone) {
  ModelConfig config = DefaultModelConfig("bag_of_words", "test");
  ApplyOverrides(config, "fixed_words=true", "test");
  TrainingOptions options;
  options.learning_rate = 0.05, options.weight_decay = 0.1, options.max_grad_norm = 0.5, options.ema_decay = 0.5;
  options.max_steps = 6, options.logging_steps = 1, options.save_steps = 3;
  for (const OptimizerType optim : {OptimizerType::kAdamW, OptimizerType::kAdamWBert, OptimizerType::kLamb,
                                    OptimizerType::kAdam, OptimizerType::kAdadelta}) {
    SCOPED_TRACE(Name(optim));
    options.optim = optim;
    const TempFolder folder;
    const ModelPtr model = CreateModel(config, Task::kSequenceClassification, 7);
    const torch::Tensor words = model->NamedParameters()[0].second, given = words.detach().clone();
    EXPECT_FALSE(words.requires_grad());
    const auto version = words._version();
    const TrainResult result = Train(*model, {64, Batch}, options, {.output_dir = folder / "run"}, {});
    EXPECT_TRUE(words.equal(given));
    EXPECT_EQ(words._version(), version) << "a packed copy of it would have to be made again";
    EXPECT_FALSE(words.grad().defined());
    EXPECT_FALSE(model->NamedParameters()[1].second.detach().equal(
        CreateModel(config, Task::kSequenceClassification, 7)->NamedParameters()[1].second.detach()))
        << "the other table is trained";
    // The norm is that of what is clipped and updated.
    for (const Json& entry : result.trainer_state["log_history"]) EXPECT_GT(entry["grad_norm"].get<double>(), 0);

    const SafetensorsFile state(folder / "run/checkpoint-3/optimizer.safetensors");
    for (const auto& [name, tensor] : state.tensors()) EXPECT_THAT(name, Not(HasSubstr("words")));
    EXPECT_NE(state.Find("weight.characters"), nullptr);
    EXPECT_NE(SafetensorsFile(folder / "run/checkpoint-3/model.safetensors").Find("words"), nullptr);

    // Another model takes the table from the checkpoint, and goes on to the same bits.
    const ModelPtr resumed = CreateModel(config, Task::kSequenceClassification, 99);
    Train(*resumed, {64, Batch}, options,
          {.output_dir = folder / "resumed", .resume_from = folder / "run/checkpoint-3"}, {});
    EXPECT_THAT(Different(Copies(*model), Copies(*resumed)), IsEmpty());
    const ModelPtr loaded = LoadModel(folder / "run/checkpoint-6", Task::kSequenceClassification, 0, true);
    EXPECT_FALSE(loaded->NamedParameters()[0].second.requires_grad());
    EXPECT_TRUE(loaded->NamedParameters()[1].second.requires_grad());
  }
}

}  // namespace
}  // namespace lshformer
