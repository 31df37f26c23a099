// From flags to a model: a checkpoint or a new one, its tokenizer, and the limits that the two set.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "jobs/jobs.h"
#include "models/model.h"
#include "text/tokenizer.h"

namespace lshformer {

// UsageError where this CPU has no instructions for it.
void CheckPrecision(Precision precision);

// UsageError if neither or both ways of naming a model are given.
void CheckModelSource(const ModelSource& source);

// --config_name: a config.json, or the one of a folder.
std::string ConfigPath(const std::string& config_name);

// tokenizer_name, else the model's folder.
std::shared_ptr<const Tokenizer> LoadTokenizer(const ModelSource& source);

// A checkpoint of its own (resuming), else model_name_or_path, else a new model: config_name or the defaults of
// model_type, then config_overrides, vocab_size of the tokenizer unless overridden. Attention flags are applied, then
// `adjust`. Error if the tokenizer has more tokens than the model.
ModelPtr MakeModel(const ModelSource& source, const std::string& resume_from, Task task, const Tokenizer& tokenizer,
                   uint64_t seed, const std::function<void(ModelConfig&)>& adjust = {});

// --max_seq_length within the position table; 0: the whole table. UsageError.
int SequenceLimit(int max_seq_length, const ModelConfig& config);

// The flags that name the model, for run_folder.h.
Json Settings(const ModelSource& source);

// A path as settings keep it: the same from every working folder. "" and "-" stay.
std::string CanonicalPath(const std::string& path);

}  // namespace lshformer
