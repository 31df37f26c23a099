// The page of a conversion of a model to another attention: what its heads have now, what that costs and what it keeps.
#pragma once
#include <string>

#include "base/json.h"

namespace lshformer {

// One HTML file. `report` is what convert_report.json holds:
//
//   model, output                 folders
//   machine                       object: what was measured on, as benchmarks have it
//   seed
//   texts                         {files, embedded: the program's own, count, tokens, held_out}
//   budget                        {"pairs": share} or {"time": share} or null
//   chosen                        the name of what is written, under a budget
//   pairs_fraction, time_fraction shares of exact attention's
//   cosine_mean, cosine_worst     to the exact model, on held-out texts
//   token_cosine_mean, …_worst    of their tokens' states; masked_loss_change: of hidden words, nats
//   time_spread, cosine_spread    standard deviation over runs, standard error over texts
//   layers                        [{layer, heads: [{head, setting, pairs_fraction, mass_recall, error}]}]
//   frontier                      [{name, setting, budget, and those six}]
//   metric_name, metric_exact, metric; recover_steps, cosine_mean_before_recovery
//   seeds                         [{seed, pairs_fraction, cosine_mean, cosine_worst}]
//   commands                      as they would be typed
//
// What is missing, or not of its type, is left out; a number that a line needs is then "–".
std::string ConversionPage(const Json& report);

}  // namespace lshformer
