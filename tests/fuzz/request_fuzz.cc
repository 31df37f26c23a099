// Any bytes as a line of predict: an answer that is JSON, or an error that is one line of text. Nothing is thrown.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/parses.h"
#include "infer/fake_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  using testing::Check;
  struct Predictor {
    explicit Predictor(PredictTask task) : setup(task), pipeline(setup.Make()) {}
    testing::FakeSetup setup;
    Pipeline pipeline;
  };
  static const Predictor predictors[] = {Predictor(PredictTask::kFillMask), Predictor(PredictTask::kTextClassification),
                                         Predictor(PredictTask::kQuestionAnswering),
                                         Predictor(PredictTask::kFeatureExtraction)};
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  for (const Predictor& predictor : predictors) {
    std::vector<Request> requests{predictor.pipeline.Prepare(line, "in:1")};
    Check(requests[0].encoding.ids.size() <= 16, "a text is cut to the position table");
    const bool empty = requests[0].encoding.ids.empty() && requests[0].asked == nullptr;
    Check(requests[0].error.empty() != empty, "a request has tokens or an error");
    Check(Shown(requests[0].error, 1 << 20) == requests[0].error, "an error is one line of valid UTF-8");
    predictor.pipeline.Run(requests);
    const Json answer = ParseJson(testing::Written(predictor.pipeline, requests[0]), "answer");
    Check(answer.contains("error") == !requests[0].error.empty(), "the answer says what was wrong");
  }
  return 0;
}
