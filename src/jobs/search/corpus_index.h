// The vectors of a corpus in a file, made once and kept up with the corpus.
#pragma once
#include <memory>
#include <string>

#include "io/passage_index.h"
#include "jobs/search/passages.h"

namespace lshformer {

struct CorpusIndexPlace {
  std::string corpus;  // a regular file
  std::string index;   // the file of vectors, made where it is missing
  bool progress = false;
};

// The index of all documents of the corpus. What the file has is used: all of it where the corpus is the one that it
// was completed for; else documents that stand in it are compared with those of the corpus, one by one, and what comes
// behind them is embedded and appended: the rest of a run that was stopped or killed, or what the corpus gained. The
// file is then, byte for byte, what one run over the whole corpus makes.
//
// OptionError of "index" where it was made by another model or with other settings, and where a document in it is
// another one in the corpus, or gone; nothing is changed then. Error naming the line of a document that is broken, or
// has the id of another. Interrupted after a signal, with what is done in the file. Documents without text have no
// passage, which one warning tells. Work memory: documents of some
// MB, or one, with their vectors, and one forward call.
std::unique_ptr<PassageIndex> UpToDateIndex(const PassageEncoder& encoder, const CorpusIndexPlace& place);

}  // namespace lshformer
