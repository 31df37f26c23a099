#include "train/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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
};

class ScheduleTest : public testing::TestWithParam<Case> {};

TEST_P(ScheduleTest, IsThatOfTransformers) {
  for (const auto& [step, rate] : GetParam().rates)
    EXPECT_NEAR(LearningRate(GetParam().schedule, step), rate, 1e-15 * 2e-4 + 1e-14 * rate) << "step " << step;
}

INSTANTIATE_TEST_SUITE_P(All, ScheduleTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Schedule, WarmupStepsWinOverTheRatioWhichRoundsUp) {
  TrainingOptions options;
  options.warmup_ratio = 0.06;
  EXPECT_EQ(MakeSchedule(options, 101).warmup_steps, 7);
  options.warmup_steps = 3;
  EXPECT_EQ(MakeSchedule(options, 101).warmup_steps, 3);
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

class BadOptionTest : public testing::TestWithParam<BadOption> {};

TEST_P(BadOptionTest, IsRefusedByName) {
  TrainingOptions options;
  EXPECT_NO_THROW(ValidateTrainingOptions(options));
  GetParam().spoil(options);
  EXPECT_THAT([&] { ValidateTrainingOptions(options); },
              testing::ThrowsMessage<UsageError>(testing::StartsWith(std::string(GetParam().flag) + ": expected ")));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadOptionTest,
    testing::Values(
        BadOption{"per_device_train_batch_size", [](TrainingOptions& o) { o.per_device_train_batch_size = 0; }},
        BadOption{"per_device_eval_batch_size", [](TrainingOptions& o) { o.per_device_eval_batch_size = -1; }},
        BadOption{"gradient_accumulation_steps", [](TrainingOptions& o) { o.gradient_accumulation_steps = 0; }},
        BadOption{"learning_rate", [](TrainingOptions& o) { o.learning_rate = -1; }},
        BadOption{"learning_rate", [](TrainingOptions& o) { o.learning_rate = NAN; }},
        BadOption{"weight_decay", [](TrainingOptions& o) { o.weight_decay = INFINITY; }},
        BadOption{"adam_beta1", [](TrainingOptions& o) { o.adam_beta1 = 1; }},
        BadOption{"adam_beta2", [](TrainingOptions& o) { o.adam_beta2 = -0.1; }},
        BadOption{"adam_epsilon", [](TrainingOptions& o) { o.adam_epsilon = -1e-8; }},
        BadOption{"max_grad_norm", [](TrainingOptions& o) { o.max_grad_norm = -1; }},
        BadOption{"warmup_ratio", [](TrainingOptions& o) { o.warmup_ratio = 1.5; }},
        BadOption{"warmup_steps", [](TrainingOptions& o) { o.warmup_steps = -1; }},
        BadOption{"num_train_epochs", [](TrainingOptions& o) { o.num_train_epochs = -1; }},
        BadOption{"max_steps", [](TrainingOptions& o) { o.max_steps = -2; }},
        BadOption{"logging_steps", [](TrainingOptions& o) { o.logging_steps = -1; }},
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
              testing::ThrowsMessage<UsageError>(testing::StartsWith("--warmup_steps: not beside --warmup_ratio")));
}

TEST(TrainingOptions, NamesAreParsedAndTyposGetASuggestion) {
  for (const auto type : {ScheduleType::kLinear, ScheduleType::kCosine, ScheduleType::kConstant})
    EXPECT_EQ(ParseScheduleType(Name(type)), type);
  EXPECT_EQ(ParseOptimizerType("adamw"), OptimizerType::kAdamW);
  EXPECT_THAT([] { ParseScheduleType("linaer"); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr("did you mean \"linear\"?")));
}

}  // namespace
}  // namespace lshformer
