#include "cli/other_names.h"

#include <algorithm>
#include <string_view>

#include "base/lower_case.h"

namespace lshformer::cli {
namespace {

using Names = std::vector<std::string_view>;

// What is typed, and what it may be called here: the first that the command has.
struct OtherName {
  Names typed, ours;
};

constexpr std::string_view kModelFolder = "model_name_or_path";

const std::vector<OtherName>& Flags() {
  static const std::vector<OtherName> flags{
      {{"model", "model_name", "model_path", "model_dir", "model_id", "model_folder", "pretrained", "pretrained_model",
        "checkpoint", "checkpoint_path", "ckpt"},
       {kModelFolder, "tokenizer"}},
      {{"tokenizer", "tokenizer_path", "tokenizer_dir", "vocab", "vocab_file"},
       {"tokenizer_name", "tokenizer", kModelFolder}},
      {{"config", "config_file", "config_path"}, {"config_name"}},
      {{"architecture", "arch"}, {"model_type"}},
      {{"hidden_size", "num_hidden_layers", "num_layers", "num_attention_heads", "intermediate_size", "dropout",
        "vocab_size", "num_labels"},
       {"config_overrides"}},
      {{"attention_type", "attn", "attn_implementation"}, {"attention"}},
      {{"lr", "rate"}, {"learning_rate"}},
      {{"batch_size", "batch", "bs", "train_batch_size", "micro_batch_size"},
       {"per_device_train_batch_size", "per_device_eval_batch_size", "batch_tokens", "batch_size", "batch"}},
      {{"eval_batch_size", "per_device_batch_size"},
       {"per_device_eval_batch_size", "batch_tokens", "batch_size", "batch"}},
      {{"epochs", "epoch", "num_epochs", "n_epochs", "train_epochs", "max_epochs"}, {"num_train_epochs", "epochs"}},
      {{"steps", "num_steps", "train_steps", "num_train_steps", "max_train_steps"}, {"max_steps", "recover_steps"}},
      {{"max_length", "max_len", "max_seq_len", "seq_length", "seq_len", "sequence_length", "max_tokens",
        "model_max_length", "block_size", "length"},
       {"max_seq_length", "lengths", "max_length", "length"}},
      {{"stride"}, {"doc_stride"}},
      {{"train", "train_data", "train_path", "train_dataset", "train_files", "training_data", "training_file"},
       {"train_file"}},
      {{"dev", "dev_file", "dev_data", "eval", "eval_file", "eval_data", "eval_dataset", "valid", "valid_file",
        "valid_data", "validation", "validation_data", "val", "val_file", "val_data"},
       {"validation_file"}},
      {{"test", "test_data", "test_dataset"}, {"test_file", "validation_file", "input"}},
      {{"dataset", "dataset_name", "data", "data_file", "data_path", "corpus", "file", "files", "filename"},
       {"train_file", "validation_file", "input", "calibrate"}},
      {{"input", "inputs", "in", "input_file", "input_path", "texts"}, {"input", "train_file", "validation_file"}},
      {{"output", "out", "output_file", "output_path", "out_file", "save_path", "save_to"}, {"output", "output_dir"}},
      {{"output_dir", "out_dir", "save_dir", "output_folder", "outdir"}, {"output_dir", "output"}},
      {{"overwrite", "force"}, {"overwrite_output_dir"}},
      {{"resume", "resume_from", "resume_from_checkpoint"}, {"resume", "resume_from_checkpoint"}},
      {{"warmup", "num_warmup_steps"}, {"warmup_steps"}},
      {{"warmup_proportion"}, {"warmup_ratio"}},
      {{"scheduler", "lr_scheduler", "schedule"}, {"lr_scheduler_type"}},
      {{"optimizer"}, {"optim"}},
      {{"grad_accum", "accumulation_steps", "gradient_accumulation", "accumulate_grad_batches"},
       {"gradient_accumulation_steps"}},
      {{"clip", "grad_clip", "max_norm", "gradient_clip_val", "clip_grad_norm"}, {"max_grad_norm"}},
      {{"log_steps", "log_every", "logging_interval"}, {"logging_steps"}},
      {{"eval_every", "eval_interval"}, {"eval_steps"}},
      {{"save_every", "save_interval", "checkpoint_every"}, {"save_steps"}},
      {{"metric"}, {"metric_for_best_model"}},
      {{"tensorboard"}, {"report_to"}},
      {{"fp16", "half", "bfloat16", "amp", "mixed_precision"}, {"bf16", "dtype"}},
      {{"int8", "quantize", "quantization", "quantized"}, {"int8", "dtype"}},
      {{"precision", "torch_dtype", "dtype"}, {"dtype", "bf16"}},
      {{"k", "topk", "top_n", "n_best"}, {"top_k", "n_best_size"}},
      {{"pool", "pooling_mode", "pooling_strategy"}, {"pooling"}},
      {{"normalise", "normalize_embeddings", "l2_normalize"}, {"normalize"}},
      {{"query"}, {"question", "text"}},
      {{"passage", "document", "paragraph", "article"}, {"context"}},
      {{"sentence", "prompt"}, {"text"}},
      {{"glue", "glue_task"}, {"task_name"}},
      {{"task_type"}, {"task"}},
      {{"workers", "num_workers", "num_threads", "n_threads", "nthreads", "num_proc", "cpus", "cores"}, {"threads"}},
      {{"random_seed", "random_state"}, {"seed"}},
      {{"verbose", "verbosity", "debug"}, {"log_level"}},
      {{"silent"}, {"quiet"}},
  };
  return flags;
}

const std::vector<OtherName>& Commands() {
  static const std::vector<OtherName> commands{
      {{"embed", "embedding", "embeddings", "vectorize", "feature_extraction"}, {"predict --task feature-extraction"}},
      {{"encode"}, {"predict --task feature-extraction\" (vectors) or \"tokenizer encode"}},
      {{"tokenize"}, {"tokenizer encode"}},
      {{"decode", "detokenize"}, {"tokenizer decode"}},
      {{"finetune", "fine_tune", "fit", "training"}, {"train"}},
      {{"pre_train", "pretraining"}, {"pretrain"}},
      {{"classify", "classification", "text_classification"}, {"predict --task text-classification"}},
      {{"answer", "ask", "qa", "question_answering"}, {"predict --task question-answering"}},
      {{"fill_mask", "unmask"}, {"predict --task fill-mask"}},
      {{"infer", "inference", "run", "pipeline"}, {"predict"}},
      {{"eval", "evaluation", "test", "score", "validate"}, {"evaluate"}},
      {{"benchmark", "benchmarks"}, {"bench"}},
      {{"show", "describe", "summary"}, {"info"}},
      {{"recipe", "recipes"}, {"reproduce"}},
      {{"demo"}, {"quickstart"}},
  };
  return commands;
}

// Tasks of other programs; "ner" and others that no model does here are not among them.
const std::vector<OtherName>& Values() {
  static const std::vector<OtherName> values{
      {{"sentiment_analysis", "sentiment", "classification", "sequence_classification", "text_classifier", "classify",
        "glue"},
       {"text-classification", "classification"}},
      {{"qa", "squad", "extractive_qa", "question_answer", "answer"}, {"question-answering", "qa"}},
      {{"mlm", "masked_lm", "masked_language_modeling", "masked_language_modelling", "unmask"}, {"fill-mask", "mlm"}},
      {{"text_embedding", "text_embeddings", "sentence_embedding", "sentence_embeddings", "embedding", "embeddings",
        "embed", "encode", "features"},
       {"feature-extraction", "sentence-similarity"}},
      {{"similarity", "semantic_similarity", "sts", "stsb"}, {"sentence-similarity"}},
      {{"race", "swag", "multiplechoice", "mcq"}, {"multiple-choice"}},
  };
  return values;
}

std::string Underscored(std::string_view word) {
  std::string name(word);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool Has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string FlagCalled(const std::string& flag, const std::vector<std::string>& known) {
  constexpr std::string_view kDashes = "--";
  const std::string name = Underscored(std::string_view(flag).substr(kDashes.size()));
  const auto ours = [&](std::string_view other) {
    const std::string ours = std::string(kDashes) + std::string(other);
    return std::find(known.begin(), known.end(), ours) != known.end() ? ours : "";
  };
  if (const std::string same = ours(name); !same.empty()) return same;
  for (const OtherName& other : Flags()) {
    if (!Has(other.typed, name)) continue;
    for (const std::string_view candidate : other.ours)
      if (std::string found = ours(candidate); !found.empty()) return found;
  }
  return "";
}

bool MeansModelFolder(const std::string& flag) {
  const OtherName& folder = Flags().front();
  return Has(folder.typed, Underscored(flag.substr(2))) || flag.substr(2) == kModelFolder;
}

std::string ValueCalled(const std::string& value, const std::vector<std::string>& names) {
  const std::string typed = Underscored(LowerCase(value));
  for (const std::string& name : names)
    if (Underscored(LowerCase(name)) == typed) return name;
  for (const OtherName& other : Values()) {
    if (!Has(other.typed, typed)) continue;
    for (const std::string_view candidate : other.ours)
      if (std::find(names.begin(), names.end(), candidate) != names.end()) return std::string(candidate);
  }
  return "";
}

std::string CommandCalled(const std::string& word, const std::vector<std::string>& commands) {
  for (const OtherName& other : Commands()) {
    if (!Has(other.typed, Underscored(word))) continue;
    const std::string_view line = other.ours.front();
    const std::string_view command = line.substr(0, line.find_first_of(" \""));
    if (std::find(commands.begin(), commands.end(), command) != commands.end()) return "\"" + std::string(line) + "\"";
  }
  return "";
}

}  // namespace lshformer::cli
