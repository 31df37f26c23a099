#include "data/sentence_pairs.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "base/progress.h"
#include "base/signals.h"
#include "data/file_kind.h"
#include "data/squad_excerpts.h"
#include "text/sentences.h"

namespace lshformer {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;  // of text, tokenised at once on all cores

// Rows → sentences → ids, in pieces that keep all cores busy.
class SentenceReader {
 public:
  SentenceReader(const Tokenizer& tokenizer, int64_t in_memory)
      : tokenizer_(tokenizer), corpus_{SequenceSet(in_memory), {0}} {}

  void AddRow(const std::string& row) {
    for (const std::string_view sentence : SplitSentences(row)) texts_.emplace_back(sentence);
    bytes_ += row.size();
    if (bytes_ >= kPieceBytes) Encode();
  }
  void EndDocument() { ends_.push_back(texts_.size()); }
  SentenceCorpus Take() {
    Encode();
    return std::move(corpus_);
  }

 private:
  void Encode() {
    EncodeOptions plain;
    plain.add_special_tokens = false;
    const std::vector<Encoding> encodings = EncodeAll(tokenizer_, texts_, {}, plain);
    size_t next = 0;
    for (size_t i = 0; i <= encodings.size(); ++i) {
      for (; next < ends_.size() && ends_[next] == i; ++next) Close();
      if (i < encodings.size() && !encodings[i].ids.empty()) corpus_.sentences.Add(encodings[i].ids);
    }
    texts_.clear();
    ends_.clear();
    bytes_ = 0;
  }

  void Close() {
    if (corpus_.sentences.size() > corpus_.documents.back()) corpus_.documents.push_back(corpus_.sentences.size());
  }

  const Tokenizer& tokenizer_;
  SentenceCorpus corpus_;
  std::vector<std::string> texts_;
  std::vector<size_t> ends_;  // of documents, in texts_
  size_t bytes_ = 0;
};

// The pairs of one document.
class PairMaker {
 public:
  PairMaker(const SentenceCorpus& corpus, const Tokenizer& tokenizer, const SentencePairOptions& options,
            int64_t document, int pass, SentencePairs& pairs)
      : corpus_(corpus),
        tokenizer_(tokenizer),
        kind_(options.kind),
        limit_(options.max_seq_length - static_cast<int64_t>(tokenizer.text_template().two.tokens())),
        document_(document),
        random_(StreamKey(options.seed, static_cast<uint64_t>(pass), 0, 0, Purpose::kSentencePairs),
                static_cast<uint64_t>(document)),
        pairs_(pairs) {
    target_ = random_.Uniform() < options.short_seq_prob ? 2 + Below(limit_ - 1) : limit_;
  }

  void Run() {
    const int64_t end = corpus_.documents[static_cast<size_t>(document_) + 1];
    int64_t begin = corpus_.documents[static_cast<size_t>(document_)];
    while (begin < end) {
      int64_t next = begin, tokens = 0;
      while (next < end && (next == begin || tokens < target_)) tokens += corpus_.sentences.length(next++);
      begin = AddPair(begin, next);
    }
  }

 private:
  int64_t Below(int64_t bound) { return static_cast<int64_t>(random_.Below(static_cast<uint64_t>(bound))); }

  // One pair of the chunk [begin, end); returns the first sentence that was not used.
  int64_t AddPair(int64_t begin, int64_t end) {
    const int64_t middle = begin + (end - begin > 1 ? 1 + Below(end - begin - 1) : 1);
    first_.clear();
    second_.clear();
    for (int64_t i = begin; i < middle; ++i) Append(i, first_);
    const bool single = end - begin == 1, changed = single || random_.Uniform() < 0.5;
    const bool elsewhere = single || (changed && kind_ == PairKind::kNextSentence);
    if (elsewhere) {
      AppendFromElsewhere();
    } else {
      for (int64_t i = middle; i < end; ++i) Append(i, second_);
    }
    if (changed && !elsewhere) std::swap(first_, second_);
    Truncate();
    Add(changed ? 1 : 0);
    if (single) ++pairs_.single_sentences;
    return elsewhere ? middle : end;
  }

  void Append(int64_t sentence, std::vector<int32_t>& ids) const {
    const auto more = corpus_.sentences.ids(sentence);
    ids.insert(ids.end(), more.begin(), more.end());
  }

  void AppendFromElsewhere() {
    const auto documents = static_cast<int64_t>(corpus_.documents.size()) - 1;
    // Uniform over the others; BERT's script draws up to ten times until it meets another.
    int64_t other = Below(documents - 1);
    if (other >= document_) ++other;
    const int64_t begin = corpus_.documents[static_cast<size_t>(other)],
                  end = corpus_.documents[static_cast<size_t>(other) + 1];
    const int64_t wanted = target_ - static_cast<int64_t>(first_.size());
    int64_t sentence = begin + Below(end - begin);
    do {
      Append(sentence++, second_);
    } while (sentence < end && static_cast<int64_t>(second_.size()) < wanted);
  }

  // Borders move; nothing is copied a token at a time.
  void Truncate() {
    const auto cut = [](std::vector<int32_t>& ids, size_t front, size_t back) {
      ids.resize(ids.size() - back);
      ids.erase(ids.begin(), ids.begin() + static_cast<int64_t>(front));
    };
    size_t lengths[2] = {first_.size(), second_.size()}, front[2] = {0, 0}, back[2] = {0, 0};
    while (lengths[0] + lengths[1] > static_cast<size_t>(limit_)) {
      const int longer = lengths[0] > lengths[1] ? 0 : 1;
      --lengths[longer];
      ++(random_.Uniform() < 0.5 ? front : back)[longer];
    }
    cut(first_, front[0], back[0]);
    cut(second_, front[1], back[1]);
  }

  void Add(int32_t label) {
    const ExcerptSequence pair =
        MakeExcerpt(first_, second_, {0, static_cast<int32_t>(second_.size())}, tokenizer_);  // all of B
    pairs_.set.Add(pair.ids, pair.type_ids);
    pairs_.set.AddLabel(label);
  }

  const SentenceCorpus& corpus_;
  const Tokenizer& tokenizer_;
  PairKind kind_;
  int64_t limit_, target_ = 0, document_;
  PhiloxStream random_;
  SentencePairs& pairs_;
  std::vector<int32_t> first_, second_;
};

}  // namespace

const char* NameOf(PairKind kind) { return kind == PairKind::kNextSentence ? "nsp" : "sop"; }

SentenceCorpus ReadSentences(const std::vector<std::string>& paths, const Tokenizer& tokenizer, int64_t in_memory) {
  SentenceReader reader(tokenizer, in_memory);
  Progress progress("reading text", 0, "rows");
  int64_t rows = 0;
  for (const std::string& path : paths) {
    const bool row_is_document = paths.size() == 1 || HoldsJson(path);
    RowReader lines(path, /*line_by_line=*/false);
    const int64_t before = rows;
    for (std::string row; lines.Next(row);) {
      reader.AddRow(row);
      if (row_is_document) reader.EndDocument();
      progress.Update(++rows);
      if (rows % 1024 == 0) ThrowIfStopped("reading text");
    }
    if (rows == before) Fail("{}: holds no text", path);
    reader.EndDocument();
  }
  SentenceCorpus corpus = reader.Take();
  if (corpus.documents.size() < 3)
    Fail(
        "{}: pairs of sentences need at least two documents (files, rows of JSON lines, or paragraphs of the only "
        "file), got {}",
        paths.empty() ? "corpus" : paths.front(), corpus.documents.size() - 1);
  return corpus;
}

SentencePairs MakeSentencePairs(const SentenceCorpus& corpus, const Tokenizer& tokenizer,
                                const SentencePairOptions& options) {
  CheckMaxSeqLength(options.max_seq_length, /*texts=*/2, &tokenizer);
  SentencePairs pairs;
  for (int pass = 0; pass < options.dupe_factor; ++pass) {
    for (size_t document = 0; document + 1 < corpus.documents.size(); ++document) {
      if (document % 1024 == 0) ThrowIfStopped("making pairs");
      PairMaker(corpus, tokenizer, options, static_cast<int64_t>(document), pass, pairs).Run();
    }
  }
  return pairs;
}

}  // namespace lshformer
