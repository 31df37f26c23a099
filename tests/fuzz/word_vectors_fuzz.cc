// Any bytes as a file of word vectors: finite numbers, as many a word as the width says, that read back as they are
// once written, or an Error of one line.
#include <cmath>
#include <string_view>

#include "data/word_vectors.h"
#include "fuzz/memory_file.h"
#include "fuzz/parses.h"
#include "util/temp_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  using testing::Check;
  const testing::MemoryFile file(data, size, "vectors.txt");
  const auto all = [](std::string_view) { return true; };
  WordVectors vectors;
  if (!testing::Parses([&] { vectors = ReadWordVectors(file.path(), all); })) return 0;
  Check(vectors.width >= 1 && !vectors.words.empty(), "a file has vectors");
  Check(vectors.values.size() == vectors.words.size() * static_cast<size_t>(vectors.width), "all are of one width");
  for (const float value : vectors.values) Check(std::isfinite(value), "numbers are finite");
  const testing::TempFolder folder;
  AtomicFile written(folder / "written.txt");
  if (!testing::Parses([&] { WriteWordVectors(written, vectors); })) return 0;
  written.Commit();
  const WordVectors again = ReadWordVectors(folder / "written.txt", all);
  Check(again.words == vectors.words && again.values == vectors.values, "what is written reads back as it is");
  return 0;
}
