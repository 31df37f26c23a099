// Any bytes as lines of predict: an answer a line that is JSON, or an error that is one line of text. Any bytes as a
// text or a question: tokens, or an error of that input. Nothing is thrown.
#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/memory_file.h"
#include "fuzz/parses.h"
#include "infer/fake_model.h"

namespace {

using namespace lshformer;
using testing::Check;

struct Predictor {
  explicit Predictor(PredictTask task) : setup(task), pipeline(setup.Make()) {}
  testing::FakeSetup setup;
  Pipeline pipeline;
};

void CheckLines(const Pipeline& pipeline, const uint8_t* data, size_t size) {
  const testing::MemoryFile file(data, size, "in");
  LineReader reader(file.path());
  std::string out;
  const StreamStatistics statistics =
      PredictLines(pipeline, reader, {[&](std::string_view piece) { out += piece; }, [] {}});
  std::istringstream lines(out);
  int64_t count = 0, bad = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json answer = ParseJson(line, "answer");
    bad += answer.contains("error") ? 1 : 0;
    Check(answer.contains("error") != (answer.contains("results") || answer.contains("embedding")),
          "a line has an answer or an error");
  }
  Check(count == statistics.lines && bad == statistics.bad, "a line of output for each of input");
  Check(Shown(statistics.first_error, 1 << 20) == statistics.first_error, "an error is one line of valid UTF-8");
}

template <class Query>
void CheckPrepared(const Outcome<Query>& outcome, size_t tokens) {
  Check(outcome.ok() == (tokens > 0), "an input has tokens or an error");
  Check(Shown(outcome.error, 1 << 20) == outcome.error, "an error is one line of valid UTF-8");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Predictor predictors[] = {Predictor(PredictTask::kFillMask), Predictor(PredictTask::kTextClassification),
                                         Predictor(PredictTask::kQuestionAnswering),
                                         Predictor(PredictTask::kFeatureExtraction),
                                         Predictor(PredictTask::kMultipleChoice)};
  if (size > 1 && data[0] == 0x1F && data[1] == 0x8B) return 0;  // the reader would unpack it: gzip_fuzz's matter
  for (const Predictor& predictor : predictors) CheckLines(predictor.pipeline, data, size);
  const std::string text(reinterpret_cast<const char*>(data), size), half = text.substr(size / 2);
  const auto classified = predictors[1].pipeline.PrepareClassify({text, half});
  CheckPrepared(classified, classified.value.text.ids.size());
  Check(classified.value.text.ids.size() <= 16, "a text is cut to the position table");
  const auto asked = predictors[2].pipeline.PrepareQuestion({text.substr(0, size / 2), half}, {});
  CheckPrepared(asked, asked.value.excerpts.size());
  return 0;
}
