// Documents of a corpus as passages with a vector each.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/option_table.h"
#include "data/long_text.h"
#include "data/passages/retrieval.h"
#include "infer/pipeline.h"
#include "jobs/model_source.h"

namespace lshformer {

struct PassageOptions {
  // kWindows: each passage is read alone. kWhole: documents are read whole, and the vectors of their passages are made
  // of that (infer/late_chunks.h). Not kCut.
  LongText long_text = LongText::kWindows;
  // "tokens", and of whole documents "sentences" and "spans": data/passages/chunking.h. "none": a document is one
  // passage, of which the model reads the beginning.
  std::string chunking = "tokens";
  int64_t chunk_tokens = 0;  // tokens a passage, without special ones; 0: as many as the model reads, of whole
                             // documents ChunkOptions's
  std::string pooling;       // "": what a Sentence-Transformers folder says, else mean
  bool normalize = true;     // scores are cosines, else dot products
  // JSON: what stands before a "query", and before every passage of the "corpus"; of what is not there a
  // Sentence-Transformers folder's prompts of the names "query" and "document", "passage" or "corpus".
  std::string prompts;
  int max_seq_length = 0;
  int64_t batch_tokens = 4096;
};

// What becomes of documents where nothing is said of it: sentences and spans are chunks of whole ones.
inline LongText LongTextFor(const std::string& chunking) {
  return chunking == "sentences" || chunking == "spans" ? LongText::kWhole : LongText::kWindows;
}

// But long_text, max_seq_length and batch_tokens, which commands have among others.
const OptionTable<PassageOptions>& PassageTable();
// OptionError for a value that is none, and for those that do not go together.
void CheckPassageOptions(const PassageOptions& options);

// {"query": "query: ", "corpus": "passage: "}: text by name. "" is an empty object. OptionError of "prompts" for what
// is no such object, and for names that are not among `known`.
Json ParsePrompts(const std::string& prompts, const std::vector<std::string>& known);

// A model that makes vectors of queries and passages.
class PassageEncoder {
 public:
  // Warnings about its attention as every command has them. OptionError where the options do not fit the model or each
  // other.
  PassageEncoder(const ModelSource& model, const PassageOptions& options);

  // What decides the vectors of a corpus: settings by the names of their options and digests of model and tokenizer.
  Json settings() const;
  bool reads_spans() const { return options_.chunking == "spans"; }  // documents need some
  // Bytes of documents that are worth a call of Embed: seconds of work.
  size_t bytes_at_once() const;

  // [queries, width]; *cut is the number of those that the model did not read to their end. Error naming the query that
  // has no tokens, or whose vector is not finite.
  std::vector<float> EmbedQueries(std::span<const std::string> queries, int64_t* cut) const;
  void WarnOfCut(int64_t cut, int64_t queries) const;  // where some were

  // The passages of documents in order, with their places in the document's text: none of a document without text.
  // Passages that are read alone begin at words where a word fits into one. Error naming where(document).
  using TakePassage = std::function<void(size_t document, CodePointSpan place, std::span<const float> vector)>;
  void Embed(std::span<const CorpusDocument> documents, const std::function<std::string(size_t document)>& where,
             const TakePassage& take) const;

 private:
  void CheckPassageLength();
  EmbedOptions PromptOf(const char* name, const std::vector<std::string>& of_folder) const;
  // Places in title and text as one.
  std::vector<CodePointSpan> Split(const std::string& whole) const;
  void EmbedAlone(std::span<const CorpusDocument> documents, const std::function<std::string(size_t)>& where,
                  const TakePassage& take) const;
  void EmbedWhole(std::span<const CorpusDocument> documents, const std::function<std::string(size_t)>& where,
                  const TakePassage& take) const;

  ModelSource model_;
  PassageOptions options_;
  Json prompts_;
  Pipeline pipeline_;
  EmbedOptions query_, corpus_;
};

}  // namespace lshformer
