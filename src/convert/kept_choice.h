// What a conversion keeps of its choice while it recovers, beside the recovery's checkpoints: the same command goes on
// from there where it was stopped or killed, with the attention that was chosen then, be it by times.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "convert/convert.h"
#include "convert/quality.h"

namespace lshformer {

// What decides a conversion: its options under their names, and what the model's folder and the texts hold. Two of
// equal records give the same result, but for times.
Json ConversionRecord(const ConvertOptions& options, const CalibrationTexts& texts);

// The rows that were measured (convert/choice.h), in folder/choice.json; none where that is missing or of another
// record.
void KeepChoice(const std::string& folder, const Json& record, const std::vector<Candidate>& rows);
std::optional<std::vector<Candidate>> KeptChoice(const std::string& folder, const Json& record);

}  // namespace lshformer
