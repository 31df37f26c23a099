// Gradients that are sparse by rows make the updates that dense ones make, bit for bit.
#include "train/gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/progress.h"
#include "kernels/isa.h"
#include "kernels/matmul.h"
#include "kernels/updates.h"
#include "ops/tensor_memory.h"
#include "ops/threads.h"
#include "train/optimizer.h"
#include "train/tiny_run.h"
#include "util/errors.h"
#include "util/temp_folder.h"

namespace lshformer {
namespace {

using ::lshformer::testing::Copies;
using ::lshformer::testing::Different;
using ::lshformer::testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using torch::Tensor;

// Rows `ids`, of many magnitudes, of a [rows, columns] matrix.
Tensor Sparse(const std::vector<int64_t>& ids, int64_t rows, int64_t columns, uint64_t seed) {
  torch::manual_seed(seed);
  const auto count = static_cast<int64_t>(ids.size());
  const Tensor values = torch::randn({count, columns}) * torch::pow(10, torch::randn({count, columns}));
  return torch::_sparse_coo_tensor_unsafe(torch::tensor(ids, torch::kInt64).unsqueeze(0), values, {rows, columns});
}

// As to_dense, but adds up rows that stand several times in their order.
Tensor Dense(const Tensor& sparse) {
  Tensor dense = torch::zeros(sparse.sizes());
  for (int64_t i = 0; i < sparse._nnz(); ++i) dense[sparse._indices()[0][i].item<int64_t>()].add_(sparse._values()[i]);
  return dense;
}

struct Shape {
  int64_t rows, columns;
  std::vector<int64_t> ids;
};

// Rows shorter and longer than a period of the sums and than the optimizer's blocks (32,768 elements), aligned with
// neither; the first and the last row, neighbours, none at all; rows that stand twice.
std::vector<Shape> Shapes() {
  return {{1, 1, {0}},
          {1000, 1, {0, 1, 63, 64, 128, 129, 400, 999}},
          {1000, 3, {2, 3, 20, 21, 22, 64, 500, 998}},
          {5000, 17, {0, 7, 1927, 1928, 3000, 4999}},
          {999, 70, {467, 468, 469, 936}},
          {300, 384, {0, 84, 85, 86, 170, 299}},
          {3, 40001, {1}},
          {50, 64, {}},
          {400, 100, {9, 3, 9, 399, 3, 3, 0, 328}}};
}

TEST(GradientTest, SumsOfSquaresAreThoseOfADenseTensor) {
  for (const std::string& isa : SupportedIsas()) {
    ForceIsa(isa);
    for (const Shape& shape : Shapes()) {
      const Tensor sparse = Sparse(shape.ids, shape.rows, shape.columns, 3), dense = Dense(sparse);
      const Gradient rows(sparse), all(dense);
      const int64_t count = shape.rows * shape.columns;
      for (const auto& [begin, end] : {std::pair(int64_t{0}, count), std::pair(count / 3, count / 3 + (count + 1) / 2),
                                       std::pair(count - 1, count), std::pair(count / 2, count)}) {
        const double want = SumOfSquares(dense.data_ptr<float>() + begin, end - begin);
        EXPECT_EQ(rows.SumOfSquares(begin, end), want)
            << isa << ", " << shape.rows << " x " << shape.columns << ", " << begin << " to " << end;
        EXPECT_EQ(all.SumOfSquares(begin, end), want);
      }
    }
  }
  ForceIsa("auto");
}

TEST(GradientTest, PiecesCoverEveryElementOnce) {
  for (const Shape& shape : Shapes()) {
    const Tensor sparse = Sparse(shape.ids, shape.rows, shape.columns, 5);
    const Gradient gradient(sparse);
    for (const int64_t step : {int64_t{1}, int64_t{37}, shape.columns, int64_t{1} << 15}) {
      if (shape.rows * shape.columns / step > 10000) continue;
      Tensor copy = torch::full({shape.rows, shape.columns}, 7.0f);
      for (int64_t begin = 0; begin < copy.numel(); begin += step) {
        int64_t next = begin;
        const int64_t end = std::min(copy.numel(), begin + step);
        gradient.ForEachPiece(begin, end, [&](int64_t place, const float* values, int64_t count) {
          EXPECT_EQ(place, next);
          EXPECT_GT(count, 0);
          for (int64_t i = 0; i < count; ++i) copy.data_ptr<float>()[place + i] = values ? values[i] : 0;
          next = place + count;
        });
        EXPECT_EQ(next, end);
      }
      EXPECT_TRUE(copy.equal(Dense(sparse))) << shape.rows << " x " << shape.columns << " by " << step;
    }
  }
}

TEST(GradientTest, AreReadInOnePieceWithTheZerosBetween) {
  for (const Shape& shape : Shapes()) {
    const Tensor sparse = Sparse(shape.ids, shape.rows, shape.columns, 7), dense = Dense(sparse);
    const Gradient rows(sparse), all(dense);
    std::vector<float> room(3, 7.0f);  // used before
    for (const int64_t step : {shape.columns, int64_t{1000}, int64_t{1} << 15}) {
      for (int64_t begin = 0; begin < dense.numel(); begin += step) {
        const int64_t end = std::min(dense.numel(), begin + step);
        const float *want = dense.data_ptr<float>() + begin, *got = rows.InOnePiece(begin, end, room);
        if (got == nullptr) {
          EXPECT_EQ(std::count(want, want + (end - begin), 0.0f), end - begin);
        } else {
          EXPECT_TRUE(std::equal(want, want + (end - begin), got)) << shape.rows << " x " << shape.columns;
        }
        EXPECT_EQ(all.InOnePiece(begin, end, room), want);  // itself
      }
    }
  }
}

TEST(GradientTest, OtherLayoutsAndTypesAreRefused) {
  const Tensor elements = torch::eye(3).to_sparse();
  EXPECT_THAT(ErrorOf([&] { Gradient{elements}; }), HasSubstr("gradient of [3, 3]: expected a dense one"));
  EXPECT_THAT(ErrorOf([] { Gradient{torch::zeros({2, 2}, torch::kFloat64)}; }), HasSubstr("expected float32"));
  EXPECT_FALSE(Gradient{Tensor()}.defined());
}

// Norm, clipping and updates over steps that touch other rows each time: moments of the rest decay and move the
// weights.
TEST(GradientTest, AnUpdateByRowsIsThatOfTheTable) {
  TrainingOptions options;
  options.weight_decay = 0.1;
  for (const OptimizerType optim : {OptimizerType::kAdamW, OptimizerType::kAdamWBert, OptimizerType::kLamb,
                                    OptimizerType::kAdam, OptimizerType::kAdadelta, OptimizerType::kMuon}) {
    options.optim = optim;
    for (const Shape& shape : Shapes()) {
      const auto run = [&](bool sparse, int threads) {
        SetAllThreads(threads);
        torch::manual_seed(1);
        const NamedTensors parameters{{"table.weight", torch::randn({shape.rows, shape.columns}).requires_grad_()},
                                      {"other.bias", torch::randn({77}).requires_grad_()}};
        const auto optimizer =
            MakeOptimizer(options, parameters, {{.decays = true, .layer_map = true}, {.decays = false}});
        for (int64_t step = 0; step < 4; ++step) {
          std::vector<int64_t> ids = shape.ids;
          for (int64_t& id : ids) id = (id + step / 2 * 5) % shape.rows;
          const Tensor rows = Sparse(ids, shape.rows, shape.columns, 10 + static_cast<uint64_t>(step));
          parameters[0].second.mutable_grad() = sparse ? rows : Dense(rows);
          parameters[1].second.mutable_grad() = torch::randn({77});
          optimizer->Step(1e-2, ClipScale(GradientNorm(parameters), 1));
        }
        NamedTensors result = optimizer->State();
        result.insert(result.end(), parameters.begin(), parameters.end());
        return result;
      };
      const NamedTensors want = run(false, 1);
      for (const int threads : {1, 2, 3})
        EXPECT_THAT(Different(run(true, threads), want), IsEmpty())
            << Name(optim) << ", " << shape.rows << " x " << shape.columns << ", " << threads << " threads";
    }
  }
  SetAllThreads(HardwareThreads());
}

TEST(GradientTest, ABadNumberInOneRowIsFound) {
  for (const double bad : {std::nan(""), -std::numeric_limits<double>::infinity()}) {
    const NamedTensors parameters{{"table.weight", torch::zeros({40000, 3}).requires_grad_()}};
    const Tensor rows = Sparse({0, 17, 39999}, 40000, 3, 1);
    parameters[0].second.mutable_grad() = rows;
    EXPECT_TRUE(std::isfinite(GradientNorm(parameters)));
    rows._values()[2][2] = bad;
    EXPECT_FALSE(std::isfinite(GradientNorm(parameters)));
  }
}

struct TaskCase {
  const char* name;
  Task task;
  bool reversible = false, gradient_checkpointing = false;
  Precision precision = Precision::kFloat32;
  bool sparse = true;  // what the word table's gradient is
};
void PrintTo(const TaskCase& c, std::ostream* stream) { *stream << c.name; }

class WordGradientTest : public ::testing::TestWithParam<TaskCase> {
 protected:
  void SetUp() override {
    SetProgressStyle(ProgressStyle::kOff);
    if (!SupportsProducts(GetParam().precision)) GTEST_SKIP() << "this CPU has no bfloat16 instructions";
  }
  ModelPtr NewModel(int64_t vocabulary = testing::kTinyVocabulary, uint64_t seed = 7) const {
    ModelConfig config = testing::TinyConfig(0.1);
    config.vocab_size = vocabulary;
    config.reversible = GetParam().reversible;
    if (GetParam().task == Task::kSequenceClassification) config.architectures = {"BertForSequenceClassification"};
    if (GetParam().task == Task::kQuestionAnswering) config.architectures = {"BertForQuestionAnswering"};
    ModelPtr model = CreateModel(config, GetParam().task, seed);
    model->set_precision(GetParam().precision);
    return model;
  }
  TrainingData Data() const {
    return {18, [task = GetParam().task](int64_t epoch, std::span<const int64_t> examples) {
              PackedBatch batch = testing::TinyBatch(epoch, examples);
              if (task == Task::kMaskedLm) return batch;
              batch.labels.tokens.clear();
              for (const int64_t example : examples) {
                if (task == Task::kSequenceClassification) batch.labels.classes.push_back(example % 2);
                if (task == Task::kQuestionAnswering)
                  batch.labels.start_positions.push_back(static_cast<int32_t>(example % 3));
                if (task == Task::kQuestionAnswering)
                  batch.labels.end_positions.push_back(static_cast<int32_t>(3 + example % 2));
              }
              return batch;
            }};
  }
};

// The trainer, against its steps written out with dense gradients: three micro-batches a step, clipping, dropout.
TEST_P(WordGradientTest, TrainingIsThatWithADenseTable) {
  const TaskCase& c = GetParam();
  TrainingOptions options = testing::TinyOptions();
  options.gradient_accumulation_steps = 3;
  options.gradient_checkpointing = c.gradient_checkpointing;
  options.per_device_train_batch_size = 2;  // 3 steps an epoch, in each every example once
  options.max_steps = 3;
  options.lr_scheduler_type = ScheduleType::kConstant;
  const ModelPtr trained = NewModel(), stepped = NewModel();
  std::vector<std::vector<std::vector<int64_t>>> steps;
  TrainingData data = Data();
  const auto batch_of = data.batch;
  std::vector<PackedBatch> batches;
  data.batch = [&](int64_t epoch, std::span<const int64_t> examples) {
    batches.push_back(batch_of(epoch, examples));
    return batches.back();
  };
  Train(*trained, data, options, {}, {});
  ASSERT_EQ(batches.size(), 9u);

  const NamedTensors parameters = stepped->NamedParameters();
  const Tensor words = parameters[0].second;
  ASSERT_EQ(parameters[0].first, "bert.embeddings.word_embeddings.weight");
  const auto optimizer = MakeOptimizer(options, parameters, Roles(*stepped));
  for (int64_t step = 0; step < 3; ++step) {
    for (const auto& [name, parameter] : parameters) parameter.mutable_grad().reset();
    int64_t labelled = 0;
    const auto items = [&](const PackedBatch& batch) {
      if (c.task != Task::kMaskedLm) return int64_t{batch.sequences()};
      return std::count_if(batch.labels.tokens.begin(), batch.labels.tokens.end(),
                           [](int32_t label) { return label != kIgnoredLabel; });
    };
    for (int64_t micro = 0; micro < 3; ++micro) labelled += items(batches[3 * step + micro]);
    for (int64_t micro = 0; micro < 3; ++micro) {
      const PackedBatch& batch = batches[3 * step + micro];
      if (items(batch) == 0) continue;
      ForwardOptions forward;
      forward.train = true, forward.seed = options.seed, forward.step = step, forward.micro_step = micro;
      forward.head_only = true;  // sums over rows that no head reads are sums of zeros, but longer: rounded otherwise
      const double share = static_cast<double>(items(batch)) / static_cast<double>(labelled);
      (stepped->Forward(batch, forward).loss * share).backward();
      ASSERT_EQ(words.grad().is_sparse(), c.sparse && micro == 0) << "micro-batch " << micro;
      if (words.grad().is_sparse()) words.mutable_grad() = words.grad().to_dense();
    }
    optimizer->Step(options.learning_rate, ClipScale(GradientNorm(parameters), options.max_grad_norm));
  }
  EXPECT_THAT(Different(Copies(*trained), Copies(*stepped)), IsEmpty());
}

TEST_P(WordGradientTest, AResumedRunEndsAtTheSameBits) {
  const testing::TempFolder folder;
  TrainingOptions options = testing::TinyOptions();
  options.gradient_accumulation_steps = 2;
  options.gradient_checkpointing = GetParam().gradient_checkpointing;
  options.max_steps = 6;
  options.save_steps = 3;
  const ModelPtr whole = NewModel(), resumed = NewModel(testing::kTinyVocabulary, /*seed=*/99);
  Train(*whole, Data(), options, {.output_dir = folder / "whole"}, {});
  Train(*resumed, Data(), options, {.output_dir = folder / "resumed", .resume_from = folder / "whole/checkpoint-3"},
        {});
  EXPECT_THAT(Different(Copies(*whole), Copies(*resumed)), IsEmpty());
}

// A step needs memory for the words of its batch, not for the vocabulary.
TEST_P(WordGradientTest, NoTensorIsAsLargeAsTheTable) {
  if (!GetParam().sparse) GTEST_SKIP() << "the decoder's gradient is as large as the table";
  constexpr int64_t kVocabulary = 100000;
  const ModelPtr model = NewModel(kVocabulary);
  const NamedTensors parameters = model->NamedParameters();
  const auto optimizer = MakeOptimizer(testing::TinyOptions(), parameters, Roles(*model));
  const std::vector<int64_t> examples{0, 1, 2, 3};
  const PackedBatch batch = Data().batch(0, examples);
  const TensorMemory memory;
  model->Forward(batch, {}).loss.backward();
  optimizer->Step(1e-3, ClipScale(GradientNorm(parameters), 1));
  EXPECT_LT(memory.peak(), kVocabulary * 16 * static_cast<int64_t>(sizeof(float)) / 4);
}

INSTANTIATE_TEST_SUITE_P(
    All, WordGradientTest,
    ::testing::Values(TaskCase{"classification", Task::kSequenceClassification},
                      TaskCase{"classification_checkpointed", Task::kSequenceClassification, false, true},
                      TaskCase{"classification_reversible", Task::kSequenceClassification, true},
                      TaskCase{"classification_bf16", Task::kSequenceClassification, false, false,
                               Precision::kBFloat16},
                      TaskCase{"question_answering", Task::kQuestionAnswering},
                      TaskCase{"tied_decoder", Task::kMaskedLm, false, false, Precision::kFloat32, false}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lshformer
