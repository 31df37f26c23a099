#include "models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "base/parallel.h"
#include "base/signals.h"
#include "io/safetensors.h"
#include "ops/threads.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::testing::AllOf;
using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TempFolder;

ModelConfig SmallConfig() {
  ModelConfig config;
  config.vocab_size = 60, config.hidden_size = 16, config.num_hidden_layers = 2, config.num_attention_heads = 2;
  config.intermediate_size = 20, config.max_position_embeddings = 40, config.num_labels = 3,
  config.initializer_range = 0.5;
  return config;
}

int64_t Total(const ModelConfig& config, Task task) {
  int64_t total = 0;
  for (const auto& [block, count] : ParametersByBlock(config, task)) total += count;
  return total;
}

struct Size {
  const char* name;
  int64_t layers, hidden, heads, inner, with_pooler, without_pooler, masked_lm;
};

// spec of BERT's published sizes: vocabulary 30,522.
TEST(ParameterCountTest, PublishedSizes) {
  const Size sizes[] = {{"tiny", 2, 128, 2, 512, 4385920, 4369408, 4416698},
                        {"mini", 4, 256, 4, 1024, 11170560, 11104768, 11201594},
                        {"small", 4, 512, 8, 2048, 28763648, 28500992, 28795194},
                        {"medium", 8, 512, 8, 2048, 41373184, 41110528, 41404730},
                        {"base", 12, 768, 12, 3072, 109482240, 108891648, 109514298},
                        {"large", 24, 1024, 16, 4096, 335141888, 334092288, 335174458}};
  for (const Size& size : sizes) {
    SCOPED_TRACE(size.name);
    ModelConfig config;
    config.num_hidden_layers = size.layers, config.hidden_size = size.hidden;
    config.num_attention_heads = size.heads, config.intermediate_size = size.inner;
    EXPECT_EQ(Total(config, Task::kEncoder), size.with_pooler);
    const auto blocks = ParametersByBlock(config, Task::kEncoder);
    EXPECT_EQ(blocks.back().first, "pooler");
    EXPECT_EQ(size.with_pooler - blocks.back().second, size.without_pooler);
    EXPECT_EQ(Total(config, Task::kMaskedLm), size.masked_lm);
  }
}

TEST(ParameterCountTest, BertLshPaper) {
  ModelConfig config;
  config.vocab_size = 32000, config.num_hidden_layers = 2, config.hidden_size = 128;
  config.num_attention_heads = 2, config.intermediate_size = 512;
  const auto blocks = ParametersByBlock(config, Task::kMaskedLm);
  ASSERT_EQ(blocks.size(), 4u);
  EXPECT_EQ(blocks[0], (std::pair<std::string, int64_t>("embeddings", 4162048)));
  EXPECT_EQ(blocks[1], (std::pair<std::string, int64_t>("encoder.layer.0", 198272)));
  EXPECT_EQ(Total(config, Task::kMaskedLm), 4607360);
  EXPECT_EQ(Total(config, Task::kEncoder), 4575104);
  const auto encoder = ParametersByBlock(config, Task::kEncoder);
  EXPECT_EQ(encoder.back(), (std::pair<std::string, int64_t>("pooler", 16512)));
  EXPECT_EQ(Total(config, Task::kEncoder) - encoder.back().second, 4558592);  // the count without a pooler
  EXPECT_EQ(Total(config, Task::kSequenceClassification), 4575362);
  EXPECT_EQ(Total(config, Task::kQuestionAnswering), 4558850);
  const ModelPtr model = CreateModel(config, Task::kMaskedLm, 1);
  int64_t counted = 0;
  for (const auto& [name, parameter] : model->NamedParameters()) counted += parameter.numel();
  EXPECT_EQ(counted, 4607360);
  EXPECT_EQ(ParametersByBlock(*model), blocks);
}

// Only what predicts words has a decoder that could have weights of its own.
TEST(CreateModelTest, UntiedDecodersAreRefused) {
  ModelConfig config = SmallConfig();
  config.other = {{"tie_word_embeddings", false}};
  CreateModel(config, Task::kSequenceClassification, 1);
  for (const Task task : {Task::kMaskedLm, Task::kPretraining})
    EXPECT_THAT(ErrorOf([&] { CreateModel(config, task, 1); }),
                ::testing::HasSubstr("\"tie_word_embeddings\": expected true, got false"));
}

TEST(CreateModelTest, DrawsFromSeedAndNameAlone) {
  ModelConfig config = SmallConfig();
  const ModelPtr first = CreateModel(config, Task::kMaskedLm, 7), again = CreateModel(config, Task::kMaskedLm, 7);
  const ModelPtr other = CreateModel(config, Task::kMaskedLm, 8),
                 head = CreateModel(config, Task::kSequenceClassification, 7);
  const auto a = first->NamedParameters(), b = again->NamedParameters(), c = other->NamedParameters(),
             d = head->NamedParameters();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].second.equal(b[i].second)) << a[i].first;
  EXPECT_FALSE(a[0].second.equal(c[0].second));
  EXPECT_EQ(a[0].first, "bert.embeddings.word_embeddings.weight");
  EXPECT_TRUE(a[0].second.equal(d[0].second));  // the encoder is the same under another head
  EXPECT_EQ(a[0].second[0].abs().max().item<float>(), 0);
  EXPECT_NEAR(a[0].second.slice(0, 1).std().item<float>(), 0.5, 0.05);
  EXPECT_TRUE(a[3].second.eq(1).all().item<bool>()) << a[3].first;
  EXPECT_TRUE(a[4].second.eq(0).all().item<bool>()) << a[4].first;
}

PackedBatch MakeBatch(const std::vector<int>& lengths, uint64_t first_id = 0) {
  PackedBatch batch;
  for (size_t s = 0; s < lengths.size(); ++s) {
    std::vector<int32_t> ids, types;
    for (int i = 0; i < lengths[s]; ++i) {
      ids.push_back(static_cast<int32_t>(1 + (first_id + s) * 17 + i * 7) % 60);
      types.push_back(i * 2 / lengths[s]);
    }
    AppendSequence(batch, ids, types, first_id + s);
  }
  return batch;
}

std::vector<AttentionSpec> Specs() {
  AttentionSpec hash;
  hash.kind = SimHashAttention{};
  AttentionSpec mean = hash;
  mean.kind = SimHashAttention{.hashes = 2, .fill = Fill::kMean, .center_keys = true};
  AttentionSpec reformer;
  reformer.kind = ReformerAttention{.rounds = 2, .chunk = 16};
  return {AttentionSpec{}, hash, mean, reformer};
}

// Hidden states and logits of a sequence are the same bits alone and in any batch, at one thread and at two. Lengths of
// less than one and of several tiles of 64 rows.
TEST(ForwardTest, BatchMatesAndThreadsChangeNoBit) {
  const std::vector<int> lengths{5, 1, 300, 17, 129, 64, 2};
  for (const AttentionSpec& spec : Specs())
    for (const Task task : {Task::kMaskedLm, Task::kSequenceClassification, Task::kQuestionAnswering}) {
      ModelConfig config = SmallConfig();
      config.max_position_embeddings = 300;
      config.attention = {spec};
      const ModelPtr model = CreateModel(config, task, 3);
      const torch::NoGradGuard no_grad;
      SetAllThreads(1);
      const ModelOutput all = model->Forward(MakeBatch(lengths), {});
      SetAllThreads(2);
      const ModelOutput shared = model->Forward(MakeBatch(lengths), {});
      EXPECT_TRUE(shared.last_hidden_state.equal(all.last_hidden_state));
      const auto logits = [&](const ModelOutput& output) {
        return task == Task::kQuestionAnswering ? torch::stack({output.start_logits, output.end_logits}, 1)
                                                : output.logits;
      };
      EXPECT_TRUE(logits(shared).equal(logits(all)));
      int64_t begin = 0;
      for (size_t s = 0; s < lengths.size(); ++s) {
        SetAllThreads(s % 2 == 0 ? 1 : 2);
        const ModelOutput alone = model->Forward(MakeBatch({lengths[s]}, s), {});
        const int64_t end = begin + lengths[s];
        EXPECT_TRUE(alone.last_hidden_state.equal(all.last_hidden_state.slice(0, begin, end))) << s;
        const bool tokens = task != Task::kSequenceClassification;
        EXPECT_TRUE(logits(alone).equal(logits(all).slice(0, tokens ? begin : s, tokens ? end : s + 1))) << s;
        begin = end;
      }
    }
  SetAllThreads(HardwareThreads());
}

std::vector<torch::Tensor> TrainingGradients(const ModelPtr& model, const PackedBatch& batch, int64_t step,
                                             int64_t micro_step = 0) {
  ForwardOptions options;
  options.train = true, options.step = step, options.micro_step = micro_step;
  for (const auto& [name, parameter] : model->NamedParameters()) parameter.mutable_grad().reset();
  model->Forward(batch, options).loss.backward();
  std::vector<torch::Tensor> gradients;
  for (const auto& [name, parameter] : model->NamedParameters()) gradients.push_back(parameter.grad().clone());
  return gradients;
}

// Equal batch, seed and step: equal gradients bit for bit; another step or micro step: other dropout.
TEST(ForwardTest, TrainingIsReproducible) {
  const ModelPtr model = CreateModel(SmallConfig(), Task::kMaskedLm, 3);
  PackedBatch batch = MakeBatch({20, 30});
  for (size_t i = 0; i < batch.tokens.ids.size(); ++i)
    batch.labels.tokens.push_back(i % 4 == 0 ? batch.tokens.ids[i] : -100);
  const auto once = TrainingGradients(model, batch, 5), again = TrainingGradients(model, batch, 5);
  const auto next = TrainingGradients(model, batch, 6), micro = TrainingGradients(model, batch, 5, 1);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(once[i].equal(again[i])) << i;
  EXPECT_FALSE(once[0].equal(next[0]));
  EXPECT_FALSE(once[0].equal(micro[0]));
}

// Asked before each layer, what it throws ends the call there.
TEST(ForwardTest, AStopTokenEndsTheCallBetweenLayers) {
  const ModelPtr model = CreateModel(SmallConfig(), Task::kMaskedLm, 3);
  const int64_t layers = model->config().num_hidden_layers;
  ASSERT_GE(layers, 2);
  struct Enough {};
  int64_t asked = 0, most = layers;
  const StopToken stop = [&] {
    if (++asked > most) throw Enough();
  };
  AttentionCounts counts;
  const ForwardOptions options{.counts = &counts, .stop = &stop};
  model->Forward(MakeBatch({20}), options);
  EXPECT_EQ(asked, layers);
  const int64_t pairs = counts.pairs_computed;
  asked = 0, most = 1, counts = {};
  EXPECT_THROW(model->Forward(MakeBatch({20}), options), Enough);
  EXPECT_EQ(counts.pairs_computed, pairs / layers);  // of the first layer
}

// A signal is looked at by the stop token for signals alone: a call without one is finished.
TEST(ForwardDeathTest, ASignalStopsTheCallsThatAreToldSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // forked alone, a child would wait for threads that it lacks
  const auto stopped = [](bool told) {
    InstallSignalHandlers();
    const ModelPtr model = CreateModel(SmallConfig(), Task::kMaskedLm, 3);
    std::raise(SIGTERM);
    ForwardOptions options;
    if (told) options.stop = &StopOnSignal();
    try {
      model->Forward(MakeBatch({20}), options);
    } catch (const Interrupted& stop) {
      return stop.signal();
    }
    return 0;
  };
  EXPECT_EXIT(_exit(stopped(true)), ::testing::ExitedWithCode(SIGTERM), "");
  EXPECT_EXIT(_exit(stopped(false)), ::testing::ExitedWithCode(0), "");
}

// The loss is the same whether logits are asked for, gradients are on, or only labelled rows are looked at.
TEST(ForwardTest, MaskedLmLossDoesNotDependOnHowItIsAsked) {
  const ModelPtr model = CreateModel(SmallConfig(), Task::kMaskedLm, 3);
  PackedBatch batch = MakeBatch({20, 30});
  for (size_t i = 0; i < batch.tokens.ids.size(); ++i)
    batch.labels.tokens.push_back(i % 4 == 0 ? batch.tokens.ids[i] : -100);
  ForwardOptions every;
  every.all_logits = true;
  const ModelOutput with_gradient = model->Forward(batch, {}), with_all = model->Forward(batch, every);
  const torch::NoGradGuard no_grad;
  const ModelOutput labelled = model->Forward(batch, {}), all = model->Forward(batch, every);
  const float loss = with_gradient.loss.item<float>();
  EXPECT_NEAR(with_all.loss.item<float>(), loss, 1e-6 * loss);
  EXPECT_NEAR(labelled.loss.item<float>(), loss, 1e-6 * loss);
  EXPECT_NEAR(all.loss.item<float>(), loss, 1e-6 * loss);
  EXPECT_EQ(labelled.logits.sizes(), (std::vector<int64_t>{13, 60}));
  EXPECT_EQ(all.logits.sizes(), (std::vector<int64_t>{50, 60}));
  EXPECT_TRUE(labelled.logits[1].equal(all.logits[4]));
  batch.labels.tokens.assign(batch.tokens.ids.size(), -100);
  EXPECT_EQ(model->Forward(batch, {}).loss.item<float>(), 0);
}

TEST(ForwardTest, BadBatchesAreNamed) {
  const ModelPtr model = CreateModel(SmallConfig(), Task::kSequenceClassification, 3);
  const auto error = [&](PackedBatch batch) { return ErrorOf([&] { model->Forward(batch, {}); }); };
  EXPECT_THAT(error(MakeBatch({3, 2, 41})), HasSubstr("sequence 2 has 41 tokens, max_position_embeddings is 40"));
  EXPECT_THAT(error(MakeBatch({3, 0, 4})), HasSubstr("sequence 1 is empty"));
  EXPECT_THAT(error(PackedBatch{}), HasSubstr("no sequence"));
  PackedBatch batch = MakeBatch({3, 4});
  batch.tokens.ids[5] = 60;
  EXPECT_THAT(error(batch), HasSubstr("sequence 1, token 2: id 60 is out of range, expected 0 to 59"));
  batch.tokens.ids[5] = -1;
  EXPECT_THAT(error(batch), HasSubstr("id -1"));
  batch.tokens.ids[5] = 1, batch.tokens.type_ids[0] = 2;
  EXPECT_THAT(error(batch), HasSubstr("sequence 0, token 0: token type 2"));
  batch.tokens.type_ids[0] = 0, batch.labels.classes = {0, 3};
  EXPECT_THAT(error(batch), HasSubstr("sequence 1: label 3 is out of range, expected 0 to 2"));
  batch.labels.classes = {0};
  EXPECT_THAT(error(batch), HasSubstr("1 labels for 2 sequences"));
}

TEST(SaveLoadTest, RoundTripIsExact) {
  for (const Task task : {Task::kEncoder, Task::kMaskedLm, Task::kSequenceClassification, Task::kQuestionAnswering}) {
    const TempFolder folder;
    ModelConfig config = SmallConfig();
    config.attention = {Specs()[2], Specs()[3]};
    const ModelPtr model = CreateModel(config, task, 3);
    SaveModel(*model, folder / "model");
    const ModelPtr loaded = LoadModel(folder / "model", task, 0, true);
    const auto a = model->NamedParameters(), b = loaded->NamedParameters();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].second.equal(b[i].second)) << a[i].first;
    EXPECT_EQ(loaded->config().attention, config.attention);
    EXPECT_EQ(TaskFromArchitectures(loaded->config(), "config.json"), task);
    const SafetensorsFile file(folder / "model/model.safetensors");
    EXPECT_EQ(file.tensors().size(), a.size());
    EXPECT_EQ(file.Find("embeddings.word_embeddings.weight") != nullptr, task == Task::kEncoder);  // as HF: no "bert."
    EXPECT_EQ(file.Find("cls.predictions.decoder.weight"), nullptr);
  }
}

// Weights in the mapped file are those of the copy, outlive the file's name, and are checked as the copy is.
TEST(SaveLoadTest, MappedWeights) {
  const TempFolder folder;
  const std::string path = folder / "model";
  SaveModel(*CreateModel(SmallConfig(), Task::kMaskedLm, 3), path);
  const auto load = [&](WeightPlace place) { return LoadModel(path, Task::kMaskedLm, 0, true, {}, place); };
  const PackedBatch batch = MakeBatch({3, 17, 40});
  const torch::NoGradGuard no_grad;
  const auto hidden = [&](const ModelPtr& model) { return model->Forward(batch, {}).last_hidden_state; };
  const ModelPtr mapped = load(WeightPlace::kMappedFile), copied = load(WeightPlace::kMemory);
  SaveModel(*CreateModel(SmallConfig(), Task::kMaskedLm, 4), path);  // by rename
  const torch::Tensor before = hidden(copied);
  EXPECT_TRUE(before.equal(hidden(mapped)));
  EXPECT_FALSE(before.equal(hidden(load(WeightPlace::kMappedFile))));
  // Half precision is converted, and so copied.
  SaveModel(*copied, path, DType::kBF16);
  EXPECT_TRUE(hidden(load(WeightPlace::kMappedFile)).equal(hidden(load(WeightPlace::kMemory))));
}

// Tensors whose bytes lie at odd places are copied; writers align them, but nothing says that they must.
TEST(SaveLoadTest, MappedWeightsAtOddPlaces) {
  const TempFolder folder;
  SaveModel(*CreateModel(SmallConfig(), Task::kMaskedLm, 3), folder / "model");
  const std::string file = folder.Read("model/model.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof(header));
  const uint64_t longer = header + 1;
  std::string odd(reinterpret_cast<const char*>(&longer), sizeof(longer));
  odd += file.substr(8, header) + " " + file.substr(8 + header);
  const PackedBatch batch = MakeBatch({5});
  const torch::NoGradGuard no_grad;
  const auto hidden = [&] {
    return LoadModel(folder / "model", Task::kMaskedLm, 0, true, {}, WeightPlace::kMappedFile)
        ->Forward(batch, {})
        .last_hidden_state;
  };
  const torch::Tensor want = hidden();
  folder.Write("model/model.safetensors", odd);
  EXPECT_TRUE(hidden().equal(want));
}

TEST(SaveLoadTest, HalfPrecisionRoundsToNearestEven) {
  const TempFolder folder;
  const ModelPtr model = CreateModel(SmallConfig(), Task::kMaskedLm, 3);
  const std::pair<DType, torch::ScalarType> kinds[] = {{DType::kF16, torch::kHalf}, {DType::kBF16, torch::kBFloat16}};
  for (const auto& [dtype, type] : kinds) {
    const std::string path = folder / Name(dtype);
    SaveModel(*model, path, dtype);
    EXPECT_EQ(SafetensorsFile(path + "/model.safetensors").Find("cls.predictions.bias")->dtype, dtype);
    EXPECT_EQ(ReadJsonFile(path + "/config.json")["torch_dtype"], dtype == DType::kF16 ? "float16" : "bfloat16");
    const auto loaded = LoadModel(path, Task::kMaskedLm, 0, true)->NamedParameters();
    for (size_t i = 0; i < loaded.size(); ++i) {
      const torch::Tensor expected = model->NamedParameters()[i].second.to(type).to(torch::kFloat32);
      EXPECT_TRUE(loaded[i].second.equal(expected)) << loaded[i].first;
    }
  }
  {
    const torch::NoGradGuard no_grad;
    model->NamedParameters()[0].second[3][2] = 70000;
  }
  EXPECT_THAT(ErrorOf([&] { SaveModel(*model, folder / "large", DType::kF16); }), HasSubstr("beyond 65504"));
  SaveModel(*model, folder / "large", DType::kBF16);
}

TEST(SaveLoadTest, ShardsAreOneModel) {
  const TempFolder folder;
  const ModelPtr model = CreateModel(SmallConfig(), Task::kMaskedLm, 3);
  SaveModel(*model, folder / "model");
  std::vector<NamedTensor> halves[2];
  Json map = Json::object();
  {
    const SafetensorsFile whole(folder / "model/model.safetensors");
    size_t next = 0;
    for (const auto& [name, view] : whole.tensors()) {
      map[name] = fmt::format("part-{}.safetensors", next % 2);
      halves[next++ % 2].push_back({name, view});
    }
    for (int part : {0, 1}) WriteSafetensors(folder / fmt::format("model/part-{}.safetensors", part), halves[part]);
  }
  std::filesystem::remove(folder / "model/model.safetensors");
  folder.Write("model/model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  const ModelPtr loaded = LoadModel(folder / "model", Task::kMaskedLm, 0, true);
  for (size_t i = 0; i < loaded->NamedParameters().size(); ++i)
    EXPECT_TRUE(loaded->NamedParameters()[i].second.equal(model->NamedParameters()[i].second));
}

TEST(SaveLoadTest, AnotherHeadIsDrawnFromTheSeed) {
  const TempFolder folder;
  const ModelPtr model = CreateModel(SmallConfig(), Task::kMaskedLm, 3);
  SaveModel(*model, folder / "model");
  EXPECT_THAT(ErrorOf([&] { LoadModel(folder / "model", Task::kSequenceClassification, 5, true); }),
              HasSubstr("no head for the task"));
  EXPECT_THAT(ErrorOf([&] { LoadModel(folder / "none", Task::kMaskedLm, 5, true); }),
              HasSubstr("none: no such folder"));
  const ModelPtr first = LoadModel(folder / "model", Task::kSequenceClassification, 5, false);
  const ModelPtr second = LoadModel(folder / "model", Task::kSequenceClassification, 6, false);
  EXPECT_TRUE(first->NamedParameters()[0].second.equal(model->NamedParameters()[0].second));
  const size_t last = first->NamedParameters().size() - 2;
  EXPECT_EQ(first->NamedParameters()[last].first, "classifier.weight");
  EXPECT_FALSE(first->NamedParameters()[last].second.equal(second->NamedParameters()[last].second));
}

// From three labels to two: an error that names tensor, shapes and the way out, or a new classifier on the same
// encoder.
TEST(SaveLoadTest, AHeadForOtherLabelsIsDrawnOnlyWhereAsked) {
  const TempFolder folder;
  ModelConfig three = SmallConfig();
  three.num_labels = 3;
  const ModelPtr model = CreateModel(three, Task::kSequenceClassification, 3);
  SaveModel(*model, folder / "model");
  const auto load = [&](bool require_head, bool ignore, int64_t labels) {
    const auto adjust = [&](ModelConfig& config) {
      config.labels.clear();
      config.num_labels = labels;
    };
    return LoadModel(folder / "model", Task::kSequenceClassification, 5, require_head, adjust, WeightPlace::kMemory,
                     ignore);
  };
  const std::string error = ErrorOf([&] { load(false, false, 2); });
  EXPECT_THAT(error, AllOf(HasSubstr("model.safetensors: tensor \"classifier.weight\" has shape [3, "),
                           HasSubstr("expected [2, "), HasSubstr("2 labels"),
                           HasSubstr("ignore_mismatched_sizes draws a new head")));
  // Who needs the head that is there gets no other.
  EXPECT_THAT(ErrorOf([&] { load(true, true, 2); }),
              AllOf(HasSubstr("\"classifier.weight\" has shape [3, "), Not(HasSubstr("ignore_mismatched_sizes"))));
  for (const int64_t labels : {1, 2}) {
    const ModelPtr loaded = load(false, true, labels);
    const auto parameters = loaded->NamedParameters();
    const size_t last = parameters.size() - 2;
    for (size_t i = 0; i < last; ++i) EXPECT_TRUE(parameters[i].second.equal(model->NamedParameters()[i].second));
    EXPECT_EQ(parameters[last].first, "classifier.weight");
    EXPECT_EQ(parameters[last].second.size(0), labels);
    EXPECT_GT(parameters[last].second.std().item<float>(), 0);
    EXPECT_EQ(parameters[last + 1].second.size(0), labels);
  }
  // One that fits is kept.
  EXPECT_TRUE(load(false, true, 3)->NamedParameters().back().second.equal(model->NamedParameters().back().second));
}

// A saved model with one tensor replaced: (name, bytes of zero in another shape or with a NaN).
std::string ErrorWith(const std::string& name, const std::vector<int64_t>& shape, DType dtype, float value) {
  const TempFolder folder;
  SaveModel(*CreateModel(SmallConfig(), Task::kMaskedLm, 3), folder / "model");
  const std::string path = folder / "model/model.safetensors";
  {
    const SafetensorsFile file(path);
    std::vector<NamedTensor> tensors;
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= size;
    std::vector<float> values(elements, value);
    for (const auto& [key, view] : file.tensors()) {
      if (key != name) tensors.push_back({key, view});
      if (key == name && !shape.empty()) tensors.push_back({key, {dtype, shape, std::as_bytes(std::span(values))}});
    }
    WriteSafetensors(folder / "new.safetensors", tensors);
  }
  std::filesystem::rename(folder / "new.safetensors", path);
  const std::string error = ErrorOf([&] { LoadModel(folder / "model", Task::kMaskedLm, 0, true); });
  EXPECT_EQ(ErrorOf([&] { LoadModel(folder / "model", Task::kMaskedLm, 0, true, {}, WeightPlace::kMappedFile); }),
            error);
  return error;
}

TEST(SaveLoadTest, BadTensorsAreNamed) {
  const std::string wide = "bert.encoder.layer.1.intermediate.dense.weight";
  EXPECT_THAT(ErrorWith(wide, {20, 15}, DType::kF32, 0),
              HasSubstr("model.safetensors: tensor \"" + wide +
                        "\" has shape [20, 15], expected [20, 16] (config.json: "
                        "intermediate_size 20, hidden_size 16)"));
  EXPECT_THAT(ErrorWith(wide, {}, DType::kF32, 0), HasSubstr("tensor \"" + wide + "\" is missing"));
  EXPECT_THAT(ErrorWith(wide, {20, 16}, DType::kI32, 0), HasSubstr("dtype I32"));
  EXPECT_THAT(ErrorWith(wide, {20, 16}, DType::kF32, NAN),
              HasSubstr("tensor \"" + wide + "\" has the value nan at element 0"));
  EXPECT_THAT(ErrorWith("cls.predictions.bias", {60}, DType::kF32, INFINITY), HasSubstr("has the value inf"));
}

TEST(SaveLoadTest, UnknownModelTypesAreRefused) {
  ModelConfig config = SmallConfig();
  config.model_type = "gpt2";
  EXPECT_THAT(ErrorOf([&] { CreateModel(config, Task::kEncoder, 1); }), HasSubstr("model_type"));
  config.model_type = "bert", config.architectures = {"BertForNothing"};
  EXPECT_THAT(ErrorOf([&] { TaskFromArchitectures(config, "config.json"); }), HasSubstr("BertForNothing"));
}

}  // namespace
}  // namespace lshformer
