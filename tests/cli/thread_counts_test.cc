// An answer has the same bits whatever the number of threads, in every precision, under every instruction set of oneDNN
// that the machine has: what packed weights look like, how rows are cut and who computes them differ in each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <oneapi/dnnl/dnnl.hpp>
#include <sstream>

#include "base/json.h"
#include "kernels/matmul.h"
#include "models/model.h"
#include "util/command.h"

namespace lshformer {
namespace {

using testing::CommandResult;
using testing::RunCommand;
using testing::TempFolder;

struct InstructionSet {
  const char* name;  // value of ONEDNN_MAX_CPU_ISA
  dnnl::cpu_isa isa;
};
const InstructionSet kSets[] = {{"AVX2", dnnl::cpu_isa::avx2},
                                {"AVX512_CORE", dnnl::cpu_isa::avx512_core},
                                {"AVX512_CORE_VNNI", dnnl::cpu_isa::avx512_core_vnni},
                                {"AVX512_CORE_BF16", dnnl::cpu_isa::avx512_core_bf16},
                                {"AVX512_CORE_AMX", dnnl::cpu_isa::avx512_core_amx}};
// Widths that fill vectors and tiles, and one that does not.
const int64_t kWidths[] = {24, 312, 384};

bool Has(dnnl::cpu_isa isa) {
  const auto bits = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

class ThreadCountsTest : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    ModelConfig config;
    config.hidden_size = GetParam();
    config.num_hidden_layers = 1;
    config.num_attention_heads = 6;
    config.intermediate_size = 2 * config.hidden_size;
    config.max_position_embeddings = 64;
    config.initializer_range = 0.1;
    const std::string words = "[PAD] [UNK] [CLS] [SEP] [MASK] the of and to in a is that it was for on are as with";
    std::string vocabulary;
    std::istringstream in(words);
    config.vocab_size = 0;
    for (std::string word; in >> word; ++config.vocab_size) vocabulary += word + "\n";
    folder_.Write("model/vocab.txt", vocabulary);
    SaveModel(*CreateModel(config, Task::kEncoder, 1), folder_ / "model");
    std::string lines;
    for (int i = 0; i < 48; ++i) {
      std::string text;
      for (int word = 0; word <= i * 7 % 53; ++word)
        text += (word * i) % 3 == 0 ? " the" : (word % 2 == 0 ? " was" : " in");
      lines += R"({"pooling": "mean", "text": ")" + text + "\"}\n";
    }
    folder_.Write("texts.jsonl", lines);
  }

  CommandResult Predict(int threads, const char* flag) const {
    std::vector<std::string> words{
        LSHFORMER_BINARY,     "predict", "--model_name_or_path",  folder_ / "model", "--task",
        "feature-extraction", "--input", folder_ / "texts.jsonl", "--threads",       std::to_string(threads)};
    if (*flag != 0) words.emplace_back(flag);
    return RunCommand(words);
  }

  CommandResult Pretrain(int threads, const char* flag) const {
    std::vector<std::string> words{LSHFORMER_BINARY,
                                   "pretrain",
                                   "--no_progress",
                                   "--model_name_or_path",
                                   folder_ / "model",
                                   "--train_file",
                                   folder_ / "text.txt",
                                   "--line_by_line",
                                   "--overwrite_output_dir",
                                   "--output_dir",
                                   folder_ / "run",
                                   "--max_steps",
                                   "2",
                                   "--per_device_train_batch_size",
                                   "64",
                                   "--threads",
                                   std::to_string(threads)};
    if (*flag != 0) words.emplace_back(flag);
    return RunCommand(words);
  }

  TempFolder folder_;
};

double LeastCosine(const std::string& a, const std::string& b) {
  std::istringstream in_a(a), in_b(b);
  double least = 1;
  for (std::string line_a, line_b; std::getline(in_a, line_a) && std::getline(in_b, line_b);) {
    const Json x = Json::parse(line_a)["embedding"], y = Json::parse(line_b)["embedding"];
    double xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double p = x[i].get<double>(), q = y[i].get<double>();
      xy += p * q, xx += p * p, yy += q * q;
    }
    least = std::min(least, xy / std::sqrt(xx * yy));
  }
  return least;
}

TEST_P(ThreadCountsTest, ChangeNoBit) {
  if (std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr) GTEST_SKIP() << "oneDNN is limited already";
  int compared = 0, sets = 0;
  for (const InstructionSet& set : kSets) {
    if (!Has(set.isa)) continue;
    ++sets;
    setenv("ONEDNN_MAX_CPU_ISA", set.name, 1);
    std::string exact;
    for (const char* flag : {"", "--int8", "--bf16"}) {
      SCOPED_TRACE(std::string(set.name) + " " + flag);
      const CommandResult one = Predict(1, flag);
      if (*flag != 0 && one.status == 2) continue;  // no such instructions: refused, as predict's own tests see
      ASSERT_EQ(one.status, 0) << one.err;
      if (*flag == 0) exact = one.out;
      EXPECT_GE(LeastCosine(exact, one.out), *flag != 0 && flag[2] == 'i' ? 0.99 : 0.999);
      for (const int threads : {2, 5, 48}) {
        EXPECT_EQ(Predict(threads, flag).out, one.out) << threads << " threads";
        ++compared;
      }
    }
    unsetenv("ONEDNN_MAX_CPU_ISA");
  }
  EXPECT_GE(sets, 1);
  EXPECT_GE(compared, 3 * sets);  // float32 at least, under each
}

// Weights' gradients are sums over tokens, here of more than one piece of them.
TEST_P(ThreadCountsTest, ChangeNoBitOfTraining) {
  if (std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr) GTEST_SKIP() << "oneDNN is limited already";
  std::string text;
  for (int line = 0; line < 64; ++line) {
    for (int word = 0; word <= 20 + line % 17; ++word) text += (word * line) % 3 == 0 ? "the " : "was ";
    text += "\n";
  }
  folder_.Write("text.txt", text);
  for (const InstructionSet& set : kSets) {
    if (!Has(set.isa)) continue;
    setenv("ONEDNN_MAX_CPU_ISA", set.name, 1);
    for (const char* flag : {"", "--bf16"}) {
      SCOPED_TRACE(std::string(set.name) + " " + flag);
      const CommandResult one = Pretrain(1, flag);
      if (*flag != 0 && one.status == 2) continue;  // no such instructions
      ASSERT_EQ(one.status, 0) << one.err;
      const std::string weights = folder_.Read("run/model.safetensors");
      for (const int threads : {2, 5, 16}) {
        ASSERT_EQ(Pretrain(threads, flag).status, 0);
        EXPECT_TRUE(folder_.Read("run/model.safetensors") == weights) << threads << " threads";
      }
    }
    unsetenv("ONEDNN_MAX_CPU_ISA");
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, ThreadCountsTest, ::testing::ValuesIn(kWidths));

}  // namespace
}  // namespace lshformer
