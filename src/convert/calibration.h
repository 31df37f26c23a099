// Texts on which a conversion is calibrated and judged, and what a model with exact attention does with them.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/sequence_set.h"
#include "models/model.h"
#include "nn/main_directions.h"
#include "text/tokenizer.h"

namespace lshformer {

// The first texts count, at most so many, and no more where the pairs of their tokens come to so many: what exact
// attention takes grows with those.
inline constexpr int64_t kMostCalibrationTexts = 128, kFewestCalibrationTexts = 8;
inline constexpr int64_t kPartPairs = int64_t{4096} * 4096;  // of texts on which a part is measured
inline constexpr int64_t kMostCalibrationPairs = 24 * kPartPairs;

struct CalibrationTexts {
  std::vector<std::string> files;   // empty: those that come with the program
  SequenceSet set = SequenceSet();  // cut to the model's length
  std::vector<int64_t> fitted;      // numbers in the set: what is calibrated on
  std::vector<int64_t> held_out;    // every fourth, on which quality is measured; of fewer than four texts all
  int64_t cut = 0;                  // texts that were longer
  bool pairs = false;               // every text has another beside it: a question its context
};

// Lines of text, or of JSON with "text" and perhaps "text_pair", or with "question" and "context". A model that reads
// words gets a text alone as a context, and its first words as the question. Error naming the file: no text.
CalibrationTexts ReadCalibrationTexts(const std::vector<std::string>& files, const Tokenizer& tokenizer,
                                      const ModelConfig& config, int64_t max_seq_length);
// Error naming the file: more unknown tokens than known ones, only texts that clustered attention leaves exact.
void CheckTexts(const CalibrationTexts& texts, const Tokenizer& tokenizer);

// Texts to train on: all of the file, none held out.
CalibrationTexts ReadTrainingTexts(const std::string& file, const Tokenizer& tokenizer, const ModelConfig& config,
                                   int64_t max_seq_length);

// The first of `numbers`, at most `most_texts` and, but for the first one, at most `most_pairs` of their tokens.
std::vector<int64_t> FirstOf(const CalibrationTexts& texts, const std::vector<int64_t>& numbers, size_t most_texts,
                             int64_t most_pairs);

// A text alone as a batch.
PackedBatch TextBatch(const CalibrationTexts& texts, int64_t number);

// Calls visit(site) for every attention of every text, without gradients. `title` names the progress; what visit
// returns stands in for the attention's result where it is defined.
void VisitAttention(Model& model, const CalibrationTexts& texts, const std::vector<int64_t>& numbers,
                    const std::string& title, const AttentionHook& visit);

// Those of the texts that are calibrated on (of long ones the first), of a model with exact attention
// (nn/main_directions.h).
LayerDirections CalibrateDirections(Model& exact, const CalibrationTexts& texts);

// What attention of another spec gives in the same place, [T, H].
torch::Tensor AttendAs(const AttentionSite& site, const AttentionSpec& spec, const LayerDirections& directions,
                       AttentionCounts* counts = nullptr);

// Whether a layer of this attention is one that a conversion changes: a model's local layers are part of what it is.
bool IsConverted(const AttentionSpec& spec);
// Layers' specs as a list with one for each; of layers that no conversion changes their own.
std::vector<AttentionSpec> PerLayer(const AttentionSpec& spec, const ModelConfig& config);
// The exact model's: of one attention for all layers dense, else those layers that a conversion changes.
std::vector<AttentionSpec> ExactAttention(const std::vector<AttentionSpec>& attention);

}  // namespace lshformer
