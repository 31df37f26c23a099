#include "train/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace lshformer {
namespace {

struct Case {
  const char* name;
  Schedule schedule;
  std::vector<std::pair<int64_t, double>> rates;  // (finished steps, rate)
};

void PrintTo(const Case& c, std::ostream* stream) { *stream << c.name; }

// Printed by transformers 5.23: the rate of a torch optimizer under get_*_schedule_with_warmup before each step.
const Case kCases[] = {
    {"linear",
     {ScheduleType::kLinear, 2e-4, 10, 100},
     {{0, 0.0},
      {1, 2e-05},
      {9, 0.00018},
      {10, 0.0002},
      {11, 0.00019777777777777778},
      {50, 0.00011111111111111112},
      {99, 2.2222222222222225e-06},
      {100, 0.0},
      {102, 0.0}}},
    {"linear_without_warmup",
     {ScheduleType::kLinear, 2e-4, 0, 7},
     {{0, 0.0002}, {1, 0.00017142857142857143}, {3, 0.00011428571428571428}, {6, 2.857142857142857e-05}, {7, 0.0}}},
    {"linear_warmup_longer_than_the_run",
     {ScheduleType::kLinear, 2e-4, 20, 10},
     {{0, 0.0}, {1, 1e-05}, {9, 9e-05}, {11, 0.00011000000000000002}}},
    {"cosine",
     {ScheduleType::kCosine, 2e-4, 10, 100},
     {{0, 0.0},
      {1, 2e-05},
      {10, 0.0002},
      {11, 0.0001999390827019096},
      {50, 0.00011736481776669306},
      {99, 6.09172980904238e-08}}},
    {"cosine_without_warmup",
     {ScheduleType::kCosine, 2e-4, 0, 7},
     {{0, 0.0002}, {1, 0.0001900968867902419}, {3, 0.00012225209339563145}, {6, 9.903113209758096e-06}}},
    {"constant",
     {ScheduleType::kConstant, 2e-4, 4, 7},
     {{0, 0.0}, {1, 5e-05}, {3, 0.00015}, {5, 0.0002}, {100, 0.0002}}},
    // 0.001 · ln(step + 1) / ln 1000, as implementations of QANet in PyTorch have it.
    {"logarithmic",
     {ScheduleType::kConstant, 1e-3, 999, 5000, WarmupType::kLogarithmic},
     {{0, 0.0},
      {1, 0.00010034333188799374},
      {9, 0.0003333333333333334},
      {99, 0.0006666666666666668},
      {998, 0.0009998551627419942},
      {999, 0.001},
      {4000, 0.001}}},
    {"logarithmic_then_linear",
     {ScheduleType::kLinear, 1e-3, 3, 7, WarmupType::kLogarithmic},
     {{1, 0.0005}, {3, 0.001}, {5, 0.0005}, {7, 0.0}}},
};

class ScheduleTest : public ::testing::TestWithParam<Case> {};

TEST_P(ScheduleTest, IsThatOfTransformers) {
  for (const auto& [step, rate] : GetParam().rates)
    EXPECT_NEAR(LearningRate(GetParam().schedule, step), rate, 1e-15 * 2e-4 + 1e-14 * rate) << "step " << step;
}

INSTANTIATE_TEST_SUITE_P(All, ScheduleTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Schedule, WarmupStepsWinOverTheRatioWhichRoundsUp) {
  TrainingOptions options;
  options.warmup_ratio = 0.06;
  EXPECT_EQ(MakeSchedule(options, 101).warmup_steps, 7);
  options.warmup_steps = 3;
  EXPECT_EQ(MakeSchedule(options, 101).warmup_steps, 3);
  EXPECT_EQ(MakeSchedule(options, 101).warmup, WarmupType::kLinear);
  options.warmup_type = WarmupType::kLogarithmic;
  EXPECT_EQ(MakeSchedule(options, 101).warmup, WarmupType::kLogarithmic);
}

// The three runs of the BERT-LSH paper: 235,314 rows by 8, 63,981 by 32, 83,219 by 32, three epochs each.
TEST(Schedule, CountsTheStepsOfTheWholeRun) {
  TrainingOptions options;
  EXPECT_EQ(TotalSteps(options, 29415), 88245);
  EXPECT_EQ(TotalSteps(options, 2000), 6000);
  EXPECT_EQ(TotalSteps(options, 2601), 7803);
  options.num_train_epochs = 0.5;
  EXPECT_EQ(TotalSteps(options, 7), 4);
  options.max_steps = 11;
  EXPECT_EQ(TotalSteps(options, 7), 11);
}

struct BadOption {
  const char* flag;
  void (*spoil)(TrainingOptions&);
};

void PrintTo(const BadOption& option, std::ostream* stream) { *stream << option.flag; }

class BadOptionTest : public ::testing::TestWithParam<BadOption> {};

TEST_P(BadOptionTest, IsRefusedByName) {
  TrainingOptions options;
  EXPECT_NO_THROW(ValidateTrainingOptions(options));
  GetParam().spoil(options);
  EXPECT_THAT(
      [&] { ValidateTrainingOptions(options); },
      ::testing::ThrowsMessage<UsageError>(::testing::StartsWith(std::string(GetParam().flag) + ": expected ")));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadOptionTest,
    ::testing::Values(
        BadOption{"per_device_train_batch_size", [](TrainingOptions& o) { o.per_device_train_batch_size = 0; }},
        BadOption{"per_device_eval_batch_size", [](TrainingOptions& o) { o.per_device_eval_batch_size = -1; }},
        BadOption{"gradient_accumulation_steps", [](TrainingOptions& o) { o.gradient_accumulation_steps = 0; }},
        BadOption{"learning_rate", [](TrainingOptions& o) { o.learning_rate = -1; }},
        BadOption{"learning_rate", [](TrainingOptions& o) { o.learning_rate = NAN; }},
        BadOption{"weight_decay", [](TrainingOptions& o) { o.weight_decay = INFINITY; }},
        BadOption{"adam_beta1", [](TrainingOptions& o) { o.adam_beta1 = 1; }},
        BadOption{"adam_beta2", [](TrainingOptions& o) { o.adam_beta2 = -0.1; }},
        BadOption{"adam_epsilon", [](TrainingOptions& o) { o.adam_epsilon = -1e-8; }},
        BadOption{"adadelta_rho", [](TrainingOptions& o) { o.adadelta_rho = 1; }},
        BadOption{"adadelta_epsilon", [](TrainingOptions& o) { o.adadelta_epsilon = 0; }},
        BadOption{"max_grad_norm", [](TrainingOptions& o) { o.max_grad_norm = -1; }},
        BadOption{"warmup_ratio", [](TrainingOptions& o) { o.warmup_ratio = 1.5; }},
        BadOption{"warmup_steps", [](TrainingOptions& o) { o.warmup_steps = -1; }},
        BadOption{"num_train_epochs", [](TrainingOptions& o) { o.num_train_epochs = -1; }},
        BadOption{"max_steps", [](TrainingOptions& o) { o.max_steps = -2; }},
        BadOption{"logging_steps", [](TrainingOptions& o) { o.logging_steps = -1; }},
        BadOption{"refresh_directions_steps", [](TrainingOptions& o) { o.refresh_directions_steps = -1; }},
        BadOption{"ema_decay", [](TrainingOptions& o) { o.ema_decay = 1; }},
        BadOption{"ema_decay", [](TrainingOptions& o) { o.ema_decay = -0.5; }},
        BadOption{"ema_decay", [](TrainingOptions& o) { o.ema_decay = NAN; }},
        BadOption{"save_total_limit", [](TrainingOptions& o) { o.save_total_limit = -1; }}));

TEST(TrainingOptions, AWarmUpIsSaidOnce) {
  TrainingOptions options;
  options.warmup_ratio = 0.1;
  EXPECT_NO_THROW(ValidateTrainingOptions(options));
  options.warmup_steps = 5;
  EXPECT_THAT([&] { ValidateTrainingOptions(options); },
              ::testing::ThrowsMessage<UsageError>(::testing::StartsWith("warmup_steps: not beside warmup_ratio")));
}

TEST(TrainingOptions, ATypoGetsASuggestion) {
  const auto* schedule = FindOption(TrainingTable(), "lr_scheduler_type");
  ASSERT_NE(schedule, nullptr);
  EXPECT_EQ(TextError(TrainingTable(), *schedule, "cosine"), "");
  EXPECT_EQ(TextError(TrainingTable(), *schedule, "linaer"),
            "expected linear, cosine or constant, got \"linaer\" (did you mean \"linear\"?)");
}

// What an optimizer does not read is neither taken nor kept.
TEST(TrainingOptions, BelongToTheirOptimizerAndWarmUp) {
  TrainingOptions options;
  const auto reason = [&](const char* name) { return FindOption(TrainingTable(), name)->without_meaning(options); };
  EXPECT_EQ(reason("adam_beta1"), "");
  EXPECT_EQ(reason("adadelta_rho"), "is for " + Marked("optim") + " adadelta");
  EXPECT_EQ(reason("warmup_type"), "needs " + Marked("warmup_steps") + " or " + Marked("warmup_ratio"));
  options.optim = OptimizerType::kAdadelta;
  options.warmup_ratio = 0.1;
  for (const char* name : {"adam_beta1", "adam_beta2", "adam_epsilon"})
    EXPECT_EQ(reason(name), "is not for " + Marked("optim") + " adadelta");
  EXPECT_EQ(reason("adadelta_epsilon"), "");
  EXPECT_EQ(reason("warmup_type"), "");
}

// Of every option a resumed run knows whether it may have another value; what only says when to look changes nothing.
TEST(TrainingOptions, EveryOptionSaysWhatItChanges) {
  const auto effect = [](const char* name) { return FindOption(TrainingTable(), name)->effect; };
  EXPECT_EQ(effect("per_device_train_batch_size"), Effect::kRun);
  EXPECT_EQ(effect("seed"), Effect::kRun);
  EXPECT_EQ(effect("refresh_directions_steps"), Effect::kRun);
  EXPECT_EQ(effect("learning_rate"), Effect::kCourse);
  EXPECT_EQ(effect("max_steps"), Effect::kCourse);
  EXPECT_EQ(effect("warmup_type"), Effect::kCourse);
  EXPECT_EQ(effect("adadelta_rho"), Effect::kCourse);
  EXPECT_EQ(effect("logging_steps"), Effect::kNone);
  EXPECT_EQ(effect("gradient_checkpointing"), Effect::kNone);
}

TEST(TrainingOptions, ValuesOutOfRangeAreNamed) {
  TrainingOptions options;
  EXPECT_NO_THROW(ValidateTrainingOptions(options));
  options.adam_beta2 = 1;
  EXPECT_THAT([&] { ValidateTrainingOptions(options); },
              ::testing::ThrowsMessage<OptionError>("adam_beta2: expected at least 0 and below 1, got 1"));
  options = {};
  options.learning_rate = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(ValidateTrainingOptions(options), OptionError);
  options = {};
  options.max_steps = -2;
  EXPECT_THROW(ValidateTrainingOptions(options), OptionError);
}

}  // namespace
}  // namespace lshformer
