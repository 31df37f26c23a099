#include "models/roberta/family.h"

#include "models/roberta/roberta.h"

namespace lshformer {
namespace {

constexpr Head kHeads[] = {{Task::kEncoder, "RobertaModel"},
                           {Task::kMaskedLm, "RobertaForMaskedLM"},
                           {Task::kSequenceClassification, "RobertaForSequenceClassification"},
                           {Task::kMultipleChoice, "RobertaForMultipleChoice"},
                           {Task::kQuestionAnswering, "RobertaForQuestionAnswering"}};

}  // namespace

constexpr Family kRobertaFamily = RobertaFamily("roberta", kHeads, SetRobertaDefaults);

}  // namespace lshformer
