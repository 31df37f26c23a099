// The encoder of a checkpoint, timed; and what that shares with the timing of training: variants of one model that
// differ in attention, and their rows.
#pragma once
#include <string>
#include <vector>

#include "attention/spec_changes.h"
#include "base/json.h"
#include "bench/attention_meter.h"
#include "data/batch.h"
#include "jobs/measure.h"
#include "kernels/precision.h"
#include "models/config.h"
#include "models/task.h"

namespace lshformer {

struct BenchModelOptions {
  std::string model_name_or_path;
  std::vector<int> lengths{128, 512};  // of random sequences, `batch_size` in a call; or
  int batch_size = 1;
  std::string input;            // JSONL of "text" and "text_pair": all of them in one run, batched as predict does
  int max_seq_length = 0;       // longer texts are cut; 0: the position table
  int64_t batch_tokens = 4096;  // a forward call of texts, as predict has it
  std::vector<std::string> attention = {};  // each a variant; empty: the model's own
  AttentionChanges lsh = {};
  std::vector<Precision> precisions{Precision::kFloat32};
  int runs = 5;
  bool probe_machine = true;
  uint64_t seed = 42;
};

// Rows as ModelRow, one a length (or one for all texts) and variant, in the order of the options. Variants take turns.
BenchResult RunBenchModel(const BenchModelOptions& options);

struct ModelVariant {
  std::string name;  // unique
  ModelConfig config;
  Precision precision = Precision::kFloat32;
};

// The config with each of `attention` in place of its own (none: as it is), then `lsh`, and each of them with each
// precision. `where` names it in errors.
std::vector<ModelVariant> ModelVariants(const ModelConfig& config, const std::vector<std::string>& attention,
                                        const AttentionChanges& lsh, const std::vector<Precision>& precisions,
                                        const std::string& where);

// `wanted` where models of the config's type have its head, else their first head's.
Task TaskOf(const ModelConfig& config, Task wanted);

// `sequences` sequences of `length` random ids; of a model of words contexts of so many words, and questions.
inline constexpr int kBenchQuestion = 12;  // words of a question, about SQuAD's mean
PackedBatch RandomBatch(const ModelConfig& config, int sequences, int length, uint64_t seed);

// UsageError: a length beyond the position table, or a batch of too many tokens (`batch_name` sets its sequences).
void CheckLengths(const std::vector<int>& lengths, int batch, const ModelConfig& config, const char* batch_name);

// A row of the benchmark's JSON, of sequences of so many tokens each. `length` is 0 where texts have lengths of their
// own. "gflops" are those of EncoderFlops, with a backward three times as many; null, as the figures of attention,
// where a model has none.
Json ModelRow(const ModelVariant& variant, bool backward, int64_t length, const std::vector<int64_t>& sequences,
              const AttentionMeter& attention, const Timing& timing);

}  // namespace lshformer
