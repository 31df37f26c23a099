// What `bench model` and `bench train` share: variants of one model that differ in attention, and their rows.
#pragma once
#include <string>
#include <vector>

#include "cli/commands.h"
#include "data/batch.h"
#include "io/model_config.h"
#include "jobs/measure.h"
#include "ops/precision.h"

namespace lshformer::cli {

struct ModelVariant {
  std::string name;  // unique
  ModelConfig config;
  Precision precision = Precision::kFloat32;
};

// The config with each --attention in place of its own (none: as it is), then --lsh_*, and each of them with each
// --dtype. `where` names it in errors.
std::vector<ModelVariant> ModelVariants(const ModelConfig& config, const std::vector<std::string>& attention,
                                        const AttentionChanges& lsh, const std::vector<std::string>& dtypes,
                                        const std::string& where);

// `sequences` sequences of `length` random ids.
PackedBatch RandomBatch(const ModelConfig& config, int sequences, int length, uint64_t seed);

// UsageError: a length beyond the position table, or a batch of too many tokens (`batch_flag` sets its sequences).
void CheckLengths(const std::vector<int>& lengths, int batch, const ModelConfig& config, const char* batch_flag);

// A row of the benchmark's JSON. `length` is 0 where texts have lengths of their own.
Json ModelRow(const ModelVariant& variant, const char* direction, int64_t batch, int64_t length, int64_t tokens,
              const Timing& timing);

}  // namespace lshformer::cli
