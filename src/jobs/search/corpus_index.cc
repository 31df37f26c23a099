#include "jobs/search/corpus_index.h"

#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/folder_lock.h"
#include "base/logging.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/writing.h"
#include "data/file_kind.h"
#include "io/gzip.h"

namespace lshformer {
namespace {

constexpr size_t kDocumentsAtOnce = 1024;

uint64_t DigestOf(const CorpusDocument& document) {
  Json parts{document.id, document.title, document.text};
  if (!document.spans.empty()) parts.push_back(document.spans);
  const std::string hex = DigestOfText(parts.dump());
  uint64_t digest = 0;
  std::from_chars(hex.data(), hex.data() + 16, digest, 16);
  return digest;
}

void RequireSettings(const IndexFront& front, const Json& settings, const std::string& index) {
  Json all = settings;
  all.update(front.settings);
  // What others follow from comes first: a model, and a prompt, which leaves less room for a passage.
  std::vector<std::string> names{"model digest", "tokenizer digest", "prompts", "long_text", "max_seq_length"};
  for (const auto& [name, ignored] : all.items()) names.push_back(name);
  for (const std::string& name : names) {
    const Json made = front.settings.value(name, Json()), now = settings.value(name, Json());
    if (made == now) continue;
    if (name.ends_with("digest"))
      FailOption("index", "{} was made by another {}; another name makes a new one", Shown(index, 120),
                 name.substr(0, name.find(' ')));
    FailOption("index", "{} was made with {} {}, not {}; another name makes a new one", Shown(index, 120),
               OptionName{name}, made.dump(), now.dump());
  }
}

// The rows of documents that have all of theirs.
int64_t WholeRows(const PassageIndex& index) {
  int64_t rows = index.rows();
  if (rows == 0 || (!index.front().complete.is_null() && index.front().complete["rows"] == rows)) return rows;
  const int64_t last = index.passage(rows - 1).document;
  while (rows > 0 && index.passage(rows - 1).document == last) --rows;
  return rows;
}

// Goes through an index beside its corpus.
class KeptRows {
 public:
  KeptRows(const PassageIndex* index, const CorpusIndexPlace& place)
      : index_(index), place_(place), rows_(index == nullptr ? 0 : WholeRows(*index)) {}
  int64_t rows() const { return rows_; }
  // Whether the document is among them, or stands before one that is.
  bool Take(int64_t number, const CorpusDocument& document, bool blank) {
    if (at_ == rows_) return false;
    const Passage passage = index_->passage(at_);
    if (passage.document > number && blank) return true;
    if (passage.document != number || passage.digest != DigestOf(document))
      FailOption("index", "{} has another document than {}:{}; another name makes a new one", Shown(place_.index, 120),
                 Shown(place_.corpus, 120), document.line);
    while (at_ < rows_ && index_->passage(at_).document == number) ++at_;
    return true;
  }
  void RequireAll() const {
    if (at_ < rows_)
      FailOption("index", "{} has documents that {} lacks; another name makes a new one", Shown(place_.index, 120),
                 Shown(place_.corpus, 120));
  }

 private:
  const PassageIndex* index_;
  const CorpusIndexPlace& place_;
  int64_t rows_, at_ = 0;
};

// Embeds documents behind those that there are.
class Appender {
 public:
  Appender(const PassageEncoder& encoder, const CorpusIndexPlace& place, Json settings, int64_t rows)
      : encoder_(encoder), place_(place), rows_(rows) {
    front_.settings = std::move(settings);
  }
  int64_t rows() const { return rows_; }

  void Add(int64_t number, const CorpusDocument& document) {
    bytes_ += document.title.size() + document.text.size();
    numbers_.push_back(number);
    documents_.push_back(document);
    if (documents_.size() >= kDocumentsAtOnce || bytes_ >= encoder_.bytes_at_once()) Write();
  }

  void Write() {
    const auto where = [&](size_t i) { return fmt::format("{}:{}", Shown(place_.corpus, 120), documents_[i].line); };
    std::vector<uint64_t> digests;
    for (const CorpusDocument& document : documents_) digests.push_back(DigestOf(document));
    encoder_.Embed(documents_, where, [&](size_t i, CodePointSpan place, std::span<const float> vector) {
      if (!writer_) {
        front_.columns = std::ssize(vector);
        writer_.emplace(place_.index, front_, rows_);
      }
      writer_->Write({numbers_[i], documents_[i].line, place.first, place.second, digests[i]}, vector);
      ++rows_;
    });
    if (writer_) writer_->Flush();
    documents_.clear(), numbers_.clear();
    bytes_ = 0;
  }

  void Complete(int64_t documents, const std::string& corpus_digest, const PassageIndex* index) {
    if (!writer_ && index == nullptr) Fail("{}: has no documents with text", Shown(place_.corpus, 120));
    if (!writer_) {  // the corpus gained nothing that has a passage
      front_.columns = index->front().columns;
      writer_.emplace(place_.index, front_, rows_);
    }
    writer_->Complete({{"rows", rows_}, {"documents", documents}, {"corpus", corpus_digest}});
  }

 private:
  const PassageEncoder& encoder_;
  const CorpusIndexPlace& place_;
  IndexFront front_;
  int64_t rows_;
  size_t bytes_ = 0;
  std::vector<CorpusDocument> documents_;
  std::vector<int64_t> numbers_;  // of them in the corpus
  std::optional<PassageWriter> writer_;
};

void Stop(Appender& appender, const CorpusIndexPlace& place) {
  if (StopSignal() == 0) return;
  throw Interrupted(StopSignal(), fmt::format("stopped; {} passages are done, in {}: the same command goes on behind "
                                              "them",
                                              appender.rows(), Shown(place.index, 120)));
}

std::string LockFolder(const std::string& index) {
  const std::filesystem::path path(FollowLinks(index));
  return (path.parent_path() / (".lshformer-" + path.filename().string())).string();
}

// Taking the lock would make it.
void RequireFolderOf(const std::string& index) {
  const std::filesystem::path folder = std::filesystem::path(FollowLinks(index)).parent_path();
  std::error_code error;
  if (!folder.empty() && !std::filesystem::is_directory(folder, error))
    FailOption("index", "{}: there is no folder {}", Shown(index, 100), Shown(folder.string(), 100));
}

}  // namespace

std::unique_ptr<PassageIndex> UpToDateIndex(const PassageEncoder& encoder, const CorpusIndexPlace& place) {
  if (!CanBeReadAgain(place.corpus)) FailOption("corpus", "expected a file that can be read again");
  RefuseInputAsOutput("corpus", place.corpus, place.index, "index");
  RequireFolderOf(place.index);
  const FolderLock lock(LockFolder(place.index), Marked("index"));
  const std::string digest = DigestOfFiles({place.corpus});
  Json settings = encoder.settings();
  std::unique_ptr<PassageIndex> index;
  if (std::filesystem::exists(place.index)) {
    index = std::make_unique<PassageIndex>(place.index);
    RequireSettings(index->front(), settings, place.index);
    index->Check();
    const Json& complete = index->front().complete;
    if (!complete.is_null() && complete["rows"] == index->rows() && complete["corpus"] == digest) return index;
  }
  KeptRows kept(index.get(), place);
  Appender appender(encoder, place, std::move(settings), kept.rows());
  CorpusReader corpus(place.corpus, encoder.reads_spans());
  DistinctIds ids;
  std::optional<Progress> progress;
  if (place.progress) progress.emplace("embedding", corpus.bytes_total(), "");
  int64_t documents = 0, blanks = 0;
  for (CorpusDocument document; corpus.Next(document); ++documents) {
    ids.Add(document.id, corpus.where());
    const bool blank = IsBlank(document.Whole());
    blanks += blank;
    if (!kept.Take(documents, document, blank) && !blank) appender.Add(documents, document);
    if (progress) progress->Update(corpus.bytes_read());
    Stop(appender, place);
  }
  kept.RequireAll();
  appender.Write();
  appender.Complete(documents, digest, index.get());
  if (blanks > 0) Warn("{}: {} of {} documents have no text", Shown(place.corpus, 120), blanks, documents);
  return std::make_unique<PassageIndex>(place.index);
}

}  // namespace lshformer
