#include "jobs/embedding/teacher.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "nn/sentence/modules.h"

namespace lshformer {
namespace {

Pipeline MakeTeacher(const std::string& folder, Pooling pooling) {
  PredictOptions options;
  options.task = PredictTask::kFeatureExtraction;
  // Part of a training step, which is finished.
  options.adjust_forward = [](ForwardOptions& forward) { forward.stop = nullptr; };
  if (SentenceModules::Read(folder) == nullptr) options.embedding.pooling = pooling;
  return Pipeline::Load(folder, /*tokenizer_folder=*/"", options);
}

}  // namespace

Teacher::Teacher(const std::string& folder, int64_t width, Pooling pooling) : pipeline_(MakeTeacher(folder, pooling)) {
  if (const int64_t own = pipeline_.EmbeddingWidth(pipeline_.options().embedding); own != width)
    FailOption("teacher_name_or_path", "{} has vectors of {} numbers, the model's have {}", Shown(folder, 120), own,
               width);
}

bool Teacher::normalizes() const { return pipeline_.modules() != nullptr && pipeline_.modules()->Normalizes(); }

EmbedOptions Teacher::OptionsOf(std::string_view column) const {
  EmbedOptions options = pipeline_.options().embedding;
  if (pipeline_.modules() == nullptr) return options;
  std::vector<std::string> names{std::string(column)};
  if (column == "anchor") names.emplace_back("query");
  if (column == "positive" || column.starts_with("negative"))
    names.insert(names.end(), {"document", "passage", "corpus"});
  const std::vector<std::string> known = pipeline_.modules()->PromptNames();
  const auto found = std::find_first_of(names.begin(), names.end(), known.begin(), known.end());
  if (found != names.end()) options.prompt_name = *found;
  return options;
}

WantedVectors Teacher::VectorsOf(const std::vector<std::vector<GroupText>>& rows) const {
  auto texts = std::make_shared<std::vector<GroupText>>();
  for (const std::vector<GroupText>& row : rows) texts->insert(texts->end(), row.begin(), row.end());
  return [this, texts](const PackedBatch& batch) {
    std::vector<EmbedQuery> queries;
    const auto take = [&](const auto& outcome, uint64_t number) -> const auto& {
      if (!outcome.ok())
        Fail("{}: \"{}\": {}", OptionName{"teacher_name_or_path"}, Shown(texts->at(number).text), outcome.error);
      return outcome.value;
    };
    for (const uint64_t number : batch.sequence_ids) {
      const GroupText& text = texts->at(number);
      queries.push_back(take(pipeline_.PrepareEmbed({text.text}, OptionsOf(text.column)), number));
    }
    const std::vector<Outcome<Embedding>> outcomes = pipeline_.Run(queries);
    std::vector<float> vectors;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      const std::vector<float>& vector = take(outcomes[i], batch.sequence_ids[i]).values;
      vectors.insert(vectors.end(), vector.begin(), vector.end());
    }
    return torch::tensor(vectors, torch::kFloat32).view({batch.sequences(), -1}).to(torch::kFloat64);
  };
}

}  // namespace lshformer
