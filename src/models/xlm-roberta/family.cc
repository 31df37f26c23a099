#include "models/xlm-roberta/family.h"

#include "models/roberta/roberta.h"

namespace lshformer {
namespace {

constexpr Head kHeads[] = {{Task::kEncoder, "XLMRobertaModel"},
                           {Task::kMaskedLm, "XLMRobertaForMaskedLM"},
                           {Task::kSequenceClassification, "XLMRobertaForSequenceClassification"},
                           {Task::kMultipleChoice, "XLMRobertaForMultipleChoice"},
                           {Task::kQuestionAnswering, "XLMRobertaForQuestionAnswering"}};

}  // namespace

constexpr Family kXlmRobertaFamily = RobertaFamily("xlm-roberta", kHeads, SetXlmRobertaDefaults);

}  // namespace lshformer
