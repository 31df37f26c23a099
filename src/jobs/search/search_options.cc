// What `search` has without a model: its options, and its answers as text.
#include <utility>

#include "base/error.h"
#include "jobs/search/search.h"
#include "jobs/shared_options.h"

namespace lshformer {

const OptionTable<PassageOptions>& PassageTable() {
  using P = PassageOptions;
  static const OptionTable<P> table{
      {Names(
           "chunking", &P::chunking, kChunkingNames,
           "passages: so many tokens; of whole documents also sentences, or the \"spans\" of a document's line; none: "
           "a document's beginning alone"),
       Integer("chunk_tokens", &P::chunk_tokens, 0, INT32_MAX,
               "tokens a passage without special ones; 0: as many as the model reads, of whole documents 256")
           .MeaninglessIf([](const P& options) {
             return options.chunking == "tokens" ? "" : fmt::format("is for {} tokens", OptionName{"chunking"});
           }),
       Names("pooling", &P::pooling, {"cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken"},
             "how states become a vector; default: what a Sentence-Transformers folder says, else mean")
           .OrNone(),
       Boolean("normalize", &P::normalize, "scores are cosines; =false: dot products"),
       Text("prompts", &P::prompts,
            "what stands before a query and a passage, '{\"query\": \"query: \", \"corpus\": \"passage: \"}'")
           .Syntax("JSON")},
      nullptr,
      {},
      "Passages"};
  return table;
}

void CheckPassageOptions(const PassageOptions& options) {
  ValidateOptions(PassageTable(), options);
  const bool whole = options.long_text == LongText::kWhole;
  if (options.long_text == LongText::kCut)
    FailOption("long_text", "expected windows or whole; {} none reads the beginning of documents alone",
               OptionName{"chunking"});
  if (whole && options.chunking == "none")
    FailOption("chunking", "none reads the beginning of documents alone, {} whole all of them",
               OptionName{"long_text"});
  if (!whole && LongTextFor(options.chunking) == LongText::kWhole)
    FailOption("chunking", "{} needs {} whole: chunks are made of the whole text", options.chunking,
               OptionName{"long_text"});
}

const OptionTable<SearchJob>& SearchTable() {
  using S = SearchJob;
  static const OptionTable<S> table{
      {Path("corpus", &S::corpus, "FILE", "JSON lines {\"_id\", \"title\", \"text\"}, or lines of text; plain or .gz")
           .Required(),
       Path("index", &S::index, "FILE", "its vectors: made once, then used and extended; default: CORPUS.index"),
       Text("query", &S::query, "what to look for").Syntax("TEXT"),
       Path("query_file", &S::query_file, "FILE",
            "or lines, a query each, or JSON lines {\"_id\", \"text\"}; plain or .gz; - is stdin"),
       Integer("top_k", &S::top_k, 1, 100000, "passages a query")},
      nullptr,
      {},
      kDataOptions};
  return table;
}

Json ToJson(const SearchAnswer& answer) {
  Json results = Json::array();
  for (const FoundPassage& found : answer.results) {
    Json result{{"score", found.score}, {"id", found.id}};
    if (!found.title.empty()) result["title"] = found.title;
    result.update({{"start", found.start}, {"end", found.end}, {"text", found.text}});
    results.push_back(std::move(result));
  }
  Json object = Json::object();
  if (!answer.id.is_null()) object["id"] = answer.id;
  object.update({{"query", answer.query}, {"results", std::move(results)}});
  return object;
}

std::string ToText(const SearchAnswer& answer) {
  constexpr size_t kLongest = 400;  // bytes of a passage
  std::string text = "query: " + Shown(answer.query, kLongest) + "\n";
  for (size_t i = 0; i < answer.results.size(); ++i) {
    const FoundPassage& found = answer.results[i];
    text +=
        fmt::format("\n{}. {:.4f}  {}  [{}, {}){}\n   {}\n", i + 1, found.score, Shown(found.id), found.start,
                    found.end, found.title.empty() ? "" : "  " + Shown(found.title, 120), Shown(found.text, kLongest));
  }
  return text;
}

}  // namespace lshformer
