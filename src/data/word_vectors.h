// Word vectors as GloVe and word2vec write them: text, plain or gzip, a word and its numbers a line, with one space
// between.
//
//   2196017 300                  word2vec begins with the number of vectors and their width, GloVe has no such line
//   the 0.27204 -0.06203 …
//   . . . -0.23973 0.10271 …     GloVe has words with spaces: the last `width` fields are the numbers
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "text/words/word_vectors.h"

namespace lshformer {

// The vectors of the words that `wanted` holds for, in the order of the file; memory is that of these, and of one line.
//
// A first line of two whole numbers is word2vec's header; else the width is that of the first line, whose word then has
// no space. Error, with file and line: no vector in the file, a width of 0 or above kWidest; a line of less than a word
// and `width` numbers, or of more (the field before them is a decimal fraction); invalid UTF-8 or a zero byte; of the
// words wanted also a number that is none, infinite or NaN, and a word for the second time; fewer or more lines than
// the header says; damaged or cut-off gzip. The numbers of other words are not read, nor is it checked that these
// differ.
WordVectors ReadWordVectors(const std::string& path, const std::function<bool(std::string_view)>& wanted);

// word2vec's text format; numbers read back as they are. The file is for the caller to commit. Error for an empty word
// or one with a line break, and for a value that is not finite.
void WriteWordVectors(AtomicFile& file, const WordVectors& vectors);

}  // namespace lshformer
