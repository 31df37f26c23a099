// Two real encoders for long text, of Nomic BERT's and ModernBERT's form, where ../shared has them: the loss of masked
// words on a novel that they were not trained on. A model with one wrong layer, angle or window is far above it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "data/masking.h"
#include "data/shared_folder.h"
#include "models/model.h"
#include "text/tokenizer.h"

namespace lshformer {
namespace {

struct Encoder {
  const char* folder;
  double loss;  // of transformers 5.24 on three blocks like the one below
};

class SharedLongEncoderTest : public ::testing::TestWithParam<Encoder> {};

TEST_P(SharedLongEncoderTest, FindsHiddenWords) {
  const std::string shared = testing::SharedFolder(), folder = shared + "/models/" + GetParam().folder;
  if (shared.empty() || !std::filesystem::exists(folder)) GTEST_SKIP() << "no ../shared/models/" << GetParam().folder;
  constexpr int kBegin = 5000, kTokens = 2048;
  const auto tokenizer = Tokenizer::Load(folder);
  const std::string text = CleanUtf8(ReadFile(shared + "/data/pretrain/books/valid/Austen_Pride_1813.txt"), nullptr);
  const Encoding encoding = tokenizer->Encode(text, {}, {.add_special_tokens = false, .max_length = kBegin + kTokens});
  std::vector<int32_t> ids(encoding.ids.begin() + kBegin, encoding.ids.end());
  ASSERT_EQ(ids.size(), size_t{kTokens});
  PackedBatch batch;
  batch.labels.tokens.resize(kTokens);
  Masker(*tokenizer, 0.3, /*seed=*/1).Mask(0, 0, ids, batch.labels.tokens);
  AppendSequence(batch, ids, {}, 0);
  const torch::NoGradGuard no_grad;
  const ModelPtr model = LoadModel(folder, Task::kMaskedLm, 0, /*require_head=*/true);
  // One block of 2,048 tokens has some 600 hidden words: their mean loss is off by 0.1.
  EXPECT_NEAR(model->Forward(batch, {}).loss.item<double>(), GetParam().loss, 0.35);
}

INSTANTIATE_TEST_SUITE_P(Shared, SharedLongEncoderTest,
                         ::testing::Values(Encoder{"long-encoder", 2.70}, Encoder{"long-encoder-local", 2.91}),
                         [](const auto& info) {
                           std::string name = info.param.folder;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lshformer
