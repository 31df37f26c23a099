// A model whose outputs can be worked out by hand, over a real tokenizer.
//
//   masked LM:        logit(position, v) = v if v = 5 + position mod 8, else −v / 8
//   classification:   logit(label)       = label · (tokens of the sequence)
//   multiple choice:  logit              = (tokens of the sequence) / 4, times `scale`
//   questions:        start, end logit   = id(t), times `scale`
//   encoder:          hidden[t][h]       = id(t) + h / 10
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "infer/stream.h"
#include "util/temp_folder.h"

namespace lshformer::testing {

class FakeModel : public Model {
 public:
  FakeModel(const ModelConfig& config, Task task) : Model(config, task) {}

  ModelOutput Run(const PackedBatch& batch, const ForwardOptions& options) override {
    calls.push_back(batch.tokens.size());
    ModelOutput output;
    if (task_ == Task::kEncoder) {
      output.last_hidden_state = torch::empty({batch.tokens.size(), config_.hidden_size});
      auto hidden = output.last_hidden_state.accessor<float, 2>();
      for (int64_t t = 0; t < batch.tokens.size(); ++t) {
        for (int64_t h = 0; h < config_.hidden_size; ++h) {
          hidden[t][h] = static_cast<float>(batch.tokens.ids[static_cast<size_t>(t)]) + static_cast<float>(h) / 10;
        }
      }
      return output;
    }
    std::vector<float> logits;
    if (task_ == Task::kQuestionAnswering) {
      for (const int32_t id : batch.tokens.ids) logits.push_back(scale * static_cast<float>(id));
      output.start_logits = output.end_logits = torch::tensor(logits);
      return output;
    }
    if (task_ == Task::kMaskedLm) {
      for (int64_t t = 0; t < batch.tokens.size(); ++t) {
        if (batch.labels.tokens[static_cast<size_t>(t)] < 0) continue;
        const int32_t best = 5 + batch.tokens.positions[static_cast<size_t>(t)] % 8;
        for (int64_t v = 0; v < config_.vocab_size; ++v) {
          logits.push_back(v == best ? static_cast<float>(v) : -static_cast<float>(v) / 8);
        }
      }
      output.logits = torch::tensor(logits).view({-1, config_.vocab_size});
      return output;
    }
    if (task_ == Task::kMultipleChoice) {
      for (size_t b = 1; b < batch.tokens.cu_seqlens.size(); ++b)
        logits.push_back(scale * static_cast<float>(batch.tokens.cu_seqlens[b] - batch.tokens.cu_seqlens[b - 1]) / 4);
      output.logits = torch::tensor(logits);
      return output;
    }
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      const auto tokens = static_cast<float>(batch.tokens.cu_seqlens[static_cast<size_t>(b) + 1] -
                                             batch.tokens.cu_seqlens[static_cast<size_t>(b)]);
      for (int64_t label = 0; label < config_.num_labels; ++label)
        logits.push_back(scale * static_cast<float>(label) * tokens);
    }
    output.logits = torch::tensor(logits).view({-1, config_.num_labels});
    return output;
  }
  std::vector<std::pair<std::string, torch::Tensor>> NamedParameters() const override { return {}; }

  std::vector<int64_t> calls;  // tokens of each forward
  float scale = 1;             // infinity: outputs that are not finite
};

// Ids 0 to 12: the special tokens, then the words.
inline const std::vector<std::string> kFakeVocabulary{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat",
                                                      "##s",   "sat",   "on",    "a",     "mat",    "."};

struct FakeSetup {
  explicit FakeSetup(PredictTask predict_task) {
    options.task = predict_task;
    if (predict_task != PredictTask::kQuestionAnswering) options.top_k = 2;
    config.vocab_size = static_cast<int64_t>(kFakeVocabulary.size());
    config.hidden_size = 4;
    config.num_attention_heads = 1;
    config.max_position_embeddings = 16;
    config.labels = {"bad", "good"};
    std::string vocabulary;
    for (const std::string& token : kFakeVocabulary) vocabulary += token + "\n";
    folder.Write("vocab.txt", vocabulary);
  }
  Pipeline Make() {
    const Task task = options.task == PredictTask::kFillMask             ? Task::kMaskedLm
                      : options.task == PredictTask::kTextClassification ? Task::kSequenceClassification
                      : options.task == PredictTask::kMultipleChoice     ? Task::kMultipleChoice
                      : options.task == PredictTask::kQuestionAnswering  ? Task::kQuestionAnswering
                                                                         : Task::kEncoder;
    model = std::make_shared<FakeModel>(config, task);
    return Pipeline(model, Tokenizer::Load(folder.path()), options);
  }

  TempFolder folder;
  ModelConfig config;
  PredictOptions options;
  std::shared_ptr<FakeModel> model;
};

// What PredictLines writes for one line, which is in:1, without its end.
inline std::string Written(const Pipeline& pipeline, const std::string& line) {
  const TempFolder folder;
  LineReader reader(folder.Write("in", line + "\n"));
  std::string out;
  PredictLines(pipeline, reader, {[&](std::string_view piece) { out += piece; }, [] {}});
  return out.substr(0, out.size() - 1);
}

// The answer to one line.
inline Json Answer(const Pipeline& pipeline, const std::string& line) {
  return ParseJson(Written(pipeline, line), "answer");
}

}  // namespace lshformer::testing
