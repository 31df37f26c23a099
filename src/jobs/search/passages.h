// Documents of a corpus as passages with a vector each.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/option_table.h"
#include "data/passages/retrieval.h"
#include "infer/pipeline.h"
#include "jobs/model_source.h"

namespace lshformer {

struct PassageOptions {
  // "none": a document is one passage, of which the model reads the beginning. "tokens": it is cut into passages, each
  // of which is read alone.
  std::string chunking = "tokens";
  int64_t chunk_tokens = 0;  // tokens a passage, without special ones; 0: as many as the model reads
  std::string pooling;       // "": what a Sentence-Transformers folder says, else mean
  bool normalize = true;     // scores are cosines, else dot products
  // JSON: what stands before a "query", and before every passage of the "corpus"; of what is not there a
  // Sentence-Transformers folder's prompts of the names "query" and "document", "passage" or "corpus".
  std::string prompts;
  int max_seq_length = 0;
  int64_t batch_tokens = 4096;
};

// But max_seq_length and batch_tokens, which commands have among others.
const OptionTable<PassageOptions>& PassageTable();

// {"query": "query: ", "corpus": "passage: "}: text by name. "" is an empty object. OptionError of "prompts" for what
// is no such object, and for names that are not among `known`.
Json ParsePrompts(const std::string& prompts, const std::vector<std::string>& known);

// A model that makes vectors of queries and passages.
class PassageEncoder {
 public:
  // Warnings about its attention as every command has them. OptionError where the options do not fit the model.
  PassageEncoder(const ModelSource& model, const PassageOptions& options);

  // What decides the vectors of a corpus: settings by the names of their options and digests of model and tokenizer.
  Json settings() const;

  // [queries, width]. Error naming the query that has no tokens or is cut, or whose vector is not finite.
  std::vector<float> EmbedQueries(std::span<const std::string> queries) const;

  struct Part {
    int32_t start = 0, end = 0;  // code points of the document's text
    std::string text;            // what the model reads
  };
  // None of a document without text. Passages begin at words where a word fits into one.
  std::vector<Part> Split(const CorpusDocument& document) const;
  // The vectors of passages, one after another; `take` gets them in order. Error naming where(i).
  void Embed(std::span<const Part> parts, const std::function<std::string(size_t part)>& where,
             const std::function<void(size_t part, std::span<const float> vector)>& take) const;

 private:
  // What stands before a text: one of our own, or the folder's, which the pipeline puts there.
  struct Prompt {
    std::string text;
    EmbedOptions options;
  };
  Prompt PromptOf(const char* name, const std::vector<std::string>& of_folder) const;

  ModelSource model_;
  PassageOptions options_;
  Json prompts_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  Pipeline pipeline_;
  Prompt query_, corpus_;
};

}  // namespace lshformer
