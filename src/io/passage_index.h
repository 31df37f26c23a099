// A file of vectors of passages that grows at its end: what a search reads, mapped into memory.
//
//   kIndexFrontBytes                     an object of JSON, filled up with blanks and a line end:
//     "format", "version", "columns"     this format's name, 2, numbers a vector
//     "settings"                         what decides the vectors
//     "complete"                         null, or {"rows", "documents", "corpus"}: of a file that has all passages of a
//                                        corpus with this digest
//   kPassageHeadBytes and columns · 4    a passage: Passage as it lies in memory (little-endian), a uint64 checksum of
//                                        it and the vector, zeros; the vector as float32
//
// Passages of a document stand together, documents in the order of their corpus. Rows behind the complete ones are from
// a run that was killed: the last document may lack some of its own.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/growing_file.h"
#include "base/json.h"

namespace lshformer {

struct Passage {
  int64_t document = 0, line = 0;  // number in the corpus, from 0; line of its file, from 1
  int32_t start = 0, end = 0;      // code points of the document's text
  uint64_t digest = 0;             // of the document
};

inline constexpr int64_t kIndexFrontBytes = 16384, kPassageHeadBytes = 64;

struct IndexFront {
  int64_t columns = 0;
  Json settings = Json::object(), complete;
};

// Reading. What is cut off in the middle of a row is no row.
class PassageIndex {
 public:
  // Error: no such file, another format or version, a size that no such file has.
  explicit PassageIndex(const std::string& path);
  ~PassageIndex();
  PassageIndex(const PassageIndex&) = delete;
  PassageIndex& operator=(const PassageIndex&) = delete;

  // Reads all rows. Error naming the row (from 1) and the file where one is none that a PassageWriter wrote: another
  // checksum, a place that is negative or ends before it begins, documents or lines that descend, a number that is not
  // finite.
  void Check() const;

  const IndexFront& front() const { return front_; }
  int64_t rows() const { return rows_; }
  Passage passage(int64_t row) const;
  const float* vectors() const;                                           // of row 0
  int64_t stride() const { return row_bytes_ / int64_t{sizeof(float)}; }  // floats from one vector to the next
  int64_t bytes_of(int64_t rows) const { return kIndexFrontBytes + rows * row_bytes_; }

 private:
  class Mapping;
  std::string path_;
  std::unique_ptr<Mapping> mapping_;
  IndexFront front_;
  int64_t rows_ = 0, row_bytes_ = 0;
};

// Writing behind the first `rows` rows of a file, which is made where it is missing.
class PassageWriter {
 public:
  PassageWriter(const std::string& path, const IndexFront& front, int64_t rows);
  void Write(const Passage& passage, std::span<const float> vector);
  void Flush();                         // what was written outlives the process
  void Complete(const Json& complete);  // the front says so

 private:
  IndexFront front_;
  GrowingFile file_;
};

}  // namespace lshformer
