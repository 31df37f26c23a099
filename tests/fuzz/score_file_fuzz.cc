// Any bytes as a file of predictions: scores between 0 and 1, or an Error of one line.
#include <cstdint>
#include <string>

#include "eval/score_file.h"
#include "fuzz/memory_file.h"
#include "fuzz/parses.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  static const std::string rows =
      "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
      "1\t1\t2\tWhy?\tHow?\t0\n2\t3\t4\tWho?\tWho is it?\t1\n3\t5\t6\tWhen?\tAt what time?\t1\n";
  static const testing::MemoryFile references(reinterpret_cast<const uint8_t*>(rows.data()), rows.size(), "dev.tsv");
  const testing::MemoryFile predictions(data, size, "predict_results_qqp.txt");
  Json scores;
  const GlueTask& task = FindGlueTask("qqp");
  if (!testing::Parses([&] { scores = ScoreClassificationFiles(task, predictions.path(), references.path()); }))
    return 0;
  for (const char* key : {"accuracy", "f1", "acc_and_f1"}) {
    const double score = scores.at(key).get<double>();
    testing::Check(score >= 0 && score <= 1, "scores are shares");
  }
  return 0;
}
