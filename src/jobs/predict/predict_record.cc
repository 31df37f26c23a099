#include "jobs/predict/predict_record.h"

#include "base/digest.h"
#include "jobs/model_digest.h"
#include "jobs/model_source.h"

namespace lshformer {

Json PredictRecord(const PredictJob& job) {
  const PredictOptions& options = job.options;
  const EmbedOptions& embedding = options.embedding;
  Json record{{"task", Name(options.task)},
              {"max_seq_length", options.max_seq_length},
              {"long_text", kLongTextNames[static_cast<size_t>(options.long_text)]},
              {"chunking", kChunkingNames[static_cast<size_t>(options.chunks.chunking)]},
              {"chunk_tokens", options.chunks.chunk_tokens},
              {"window_pooling", kWindowPoolingNames[static_cast<size_t>(options.window_pooling)]},
              {"top_k", options.top_k},
              {"pooling", embedding.pooling ? Json(Name(*embedding.pooling)) : Json()},
              {"normalize", embedding.normalize ? Json(*embedding.normalize) : Json()},
              {"prompt_name", embedding.prompt_name ? Json(*embedding.prompt_name) : Json()},
              {"bf16", options.precision == Precision::kBFloat16},
              {"int8", options.precision == Precision::kInt8},
              {"float32_matmul_precision", Name(ActiveMatmulPrecision())},
              {"text_file", !job.text_file.empty()}};
  record.update(AttentionSettings(job.attention));
  for (const Option<AnswerOptions>& option : AnswerTable().options) record[option.name] = option.write(options.answers);
  const std::string& lines = job.text_file.empty() ? job.input : job.text_file;
  record["input digest"] = lines.empty() ? Json() : Json(DigestOfFiles({lines}));
  record["model digest"] = DigestOfModel(job.model_name_or_path, job.output);
  record["tokenizer digest"] =
      job.tokenizer_name.empty() ? Json() : Json(DigestOfModel(job.tokenizer_name, job.output));
  return record;
}

}  // namespace lshformer
