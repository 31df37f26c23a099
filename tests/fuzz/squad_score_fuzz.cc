// Any bytes as predictions and as probabilities of no answer: scores that are percentages, or an Error of one line.
#include <spdlog/spdlog.h>

#include "eval/squad_score.h"
#include "fuzz/memory_file.h"
#include "fuzz/parses.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lshformer;
  spdlog::set_level(spdlog::level::off);  // unknown ids are warned of
  static const std::string questions =
      R"({"data": [{"paragraphs": [{"qas": [{"id": "q1", "answers": [{"text": "the Cat"}, {"text": "\u0130 sat"}]},
                                            {"id": "q2", "answers": []}]}]}]})";
  static const std::string numbers = R"({"q2": 0.5, "q1": 0.5})";
  const auto memory = [](const std::string& text, const char* name) {
    return testing::MemoryFile(reinterpret_cast<const uint8_t*>(text.data()), text.size(), name);
  };
  static const testing::MemoryFile references = memory(questions, "r.json"), na_prob = memory(numbers, "n.json");
  const testing::MemoryFile input(data, size, "p.json");
  const auto check = [&](const std::string& predictions, const std::string& probabilities) {
    Json scores;
    if (!testing::Parses([&] {
          scores = ScoreSquadFiles(predictions, references.path(), probabilities, {true, 0.75});
        }))
      return;
    for (const auto& [key, score] : scores.items())
      testing::Check(key.ends_with("_thresh") || (score.get<double>() >= 0 && score.get<double>() <= 100),
                     "scores are percentages");
  };
  check(input.path(), na_prob.path());
  check(na_prob.path(), input.path());
  return 0;
}
