#include "convert/calibration.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/progress.h"
#include "base/signals.h"
#include "data/corpus.h"
#include "data/squad_excerpts.h"
#include "jobs/model_source.h"
#include "models/stored_directions.h"
#include "synth/sample_texts.h"

namespace lshformer {
namespace {

constexpr int64_t kQuestionWords = 10;  // of a text, where a model wants a question beside it
constexpr int64_t kMostTrainingTexts = 100'000;
constexpr int64_t kHeldOutOf = 4;                // one text of so many
constexpr int64_t kShortestUseful = 2 * 16 + 2;  // tokens: from here on some setting is not exact

struct TextRow {
  std::string text;
  std::optional<std::string> pair;  // a question's context is its pair
};

// At most `most` that are not blank.
std::vector<TextRow> ReadTexts(const std::vector<std::string>& files, int64_t most) {
  std::vector<TextRow> texts;
  if (files.empty()) {
    for (const std::string_view text : SampleTexts()) texts.push_back({std::string(text), std::nullopt});
    return texts;
  }
  for (const std::string& file : files) {
    RowReader reader(file, /*line_by_line=*/true);
    const size_t before = texts.size();
    for (TextRow row; static_cast<int64_t>(texts.size()) < most && reader.Next(row.text, &row.pair);)
      texts.push_back(row);
    if (texts.size() == before && static_cast<int64_t>(before) < most)
      Fail("{}: holds no text to calibrate on", Shown(file, 120));
  }
  return texts;
}

std::string FirstWords(const std::string& text) {
  std::istringstream words(text);
  std::string question, word;
  for (int64_t i = 0; i < kQuestionWords && words >> word; ++i) question += (i == 0 ? "" : " ") + word;
  return question;
}

// Of a model that reads words: a text without a pair is a context, and its first words the question.
void AddContexts(const std::vector<TextRow>& texts, const Tokenizer& tokenizer, int64_t limit, CalibrationTexts& into) {
  SquadData data;
  data.path = "calibration texts";
  for (const auto& [text, pair] : texts) {
    data.questions.push_back({std::to_string(data.contexts.size()),
                              pair ? text : FirstWords(text),
                              static_cast<int32_t>(data.contexts.size()),
                              {}});
    data.contexts.push_back(pair.value_or(text));
  }
  SquadExcerpts excerpts;
  AddSquadExcerpts(data, tokenizer, {static_cast<int>(limit), 0}, excerpts);
  into.cut = excerpts.set.size() - static_cast<int64_t>(texts.size());
  into.set = std::move(excerpts.set);
}

void AddTokens(const std::vector<TextRow>& texts, const Tokenizer& tokenizer, int64_t limit, int64_t most_pairs,
               CalibrationTexts& into) {
  int64_t pairs = 0;
  for (const auto& [text, pair] : texts) {
    const Encoding encoding =
        tokenizer.Encode(text, pair, {.add_special_tokens = true, .max_length = static_cast<int>(limit)});
    const auto length = static_cast<int64_t>(encoding.ids.size());
    pairs += length * length;
    if (pairs > most_pairs && into.set.size() >= kFewestCalibrationTexts) return;
    into.cut += encoding.truncated ? 1 : 0;
    into.set.Add(encoding.ids, encoding.type_ids);
  }
}

CalibrationTexts Encoded(const std::vector<std::string>& files, int64_t most, int64_t most_pairs,
                         const Tokenizer& tokenizer, const ModelConfig& config, int64_t max_seq_length) {
  CalibrationTexts texts;
  texts.files = files;
  const std::vector<TextRow> rows = ReadTexts(files, most);
  texts.pairs = std::all_of(rows.begin(), rows.end(), [](const TextRow& row) { return row.pair.has_value(); });
  const int64_t limit = SequenceLimit(static_cast<int>(max_seq_length), config);
  if (tokenizer.character_vocab_size() > 0) {
    AddContexts(rows, tokenizer, limit, texts);
  } else {
    AddTokens(rows, tokenizer, limit, most_pairs, texts);
  }
  RequireTypes(texts.set, config, Shown(files.empty() ? "calibration texts" : files.front(), 120));
  return texts;
}

}  // namespace

void CheckTexts(const CalibrationTexts& texts, const Tokenizer& tokenizer) {
  const std::string where = texts.files.empty() ? "the program's own texts" : Shown(texts.files.front(), 120);
  if (!texts.set.has_words()) {
    int64_t unknown = 0;
    for (int64_t i = 0; i < texts.set.sequences(); ++i)
      for (const int32_t id : texts.set.ids(i)) unknown += id == tokenizer.unk_id() ? 1 : 0;
    if (2 * unknown > texts.set.tokens())
      Fail("{}: of {} tokens {} are unknown to the model's tokenizer; calibrate on text of its own kind", where,
           texts.set.tokens(), unknown);
  }
  if (texts.set.max_length() < kShortestUseful)
    Fail(
        "{}: the longest text has {} tokens, too few to calibrate on; at least {} are needed, some hundreds are useful",
        where, texts.set.max_length(), kShortestUseful);
}

CalibrationTexts ReadTrainingTexts(const std::string& file, const Tokenizer& tokenizer, const ModelConfig& config,
                                   int64_t max_seq_length) {
  CalibrationTexts texts = Encoded({file}, kMostTrainingTexts, INT64_MAX, tokenizer, config, max_seq_length);
  CheckTexts(texts, tokenizer);
  return texts;
}

CalibrationTexts ReadCalibrationTexts(const std::vector<std::string>& files, const Tokenizer& tokenizer,
                                      const ModelConfig& config, int64_t max_seq_length) {
  CalibrationTexts texts =
      Encoded(files, kMostCalibrationTexts, kMostCalibrationPairs, tokenizer, config, max_seq_length);
  for (int64_t i = 0; i < texts.set.size(); ++i)
    (i % kHeldOutOf == kHeldOutOf - 1 ? texts.held_out : texts.fitted).push_back(i);
  if (texts.held_out.empty()) texts.held_out = texts.fitted;
  return texts;
}

std::vector<int64_t> FirstOf(const CalibrationTexts& texts, const std::vector<int64_t>& numbers, size_t most_texts,
                             int64_t most_pairs) {
  std::vector<int64_t> first;
  int64_t pairs = 0;
  for (const int64_t number : numbers) {
    const int64_t length = texts.set.length(number);
    pairs += length * length;
    if (first.size() == most_texts || (pairs > most_pairs && !first.empty())) break;
    first.push_back(number);
  }
  return first;
}

PackedBatch TextBatch(const CalibrationTexts& texts, int64_t number) {
  return MakeBatch(texts.set, std::vector<int64_t>{number});
}

void VisitAttention(Model& model, const CalibrationTexts& texts, const std::vector<int64_t>& numbers,
                    const std::string& title, const AttentionHook& visit) {
  const torch::NoGradGuard no_grad;
  ForwardOptions options;
  options.attention_hook = &visit;
  options.stop = &StopOnSignal();
  Progress progress(title, static_cast<int64_t>(numbers.size()), "texts");
  for (size_t i = 0; i < numbers.size(); ++i) {
    ThrowIfStopped(title.c_str());
    model.Forward(TextBatch(texts, numbers[i]), options);
    progress.Update(static_cast<int64_t>(i) + 1);
  }
}

LayerDirections CalibrateDirections(Model& exact, const CalibrationTexts& texts) {
  constexpr int64_t kMostPairs = 8 * kPartPairs;
  MainDirections found;
  const std::vector<int64_t> numbers = FirstOf(texts, texts.fitted, texts.fitted.size(), kMostPairs);
  VisitAttention(exact, texts, numbers, "directions", [&](const AttentionSite& site) {
    found.Add(site);
    return torch::Tensor();
  });
  return found.Directions();
}

torch::Tensor AttendAs(const AttentionSite& site, const AttentionSpec& spec, const LayerDirections& directions,
                       AttentionCounts* counts) {
  auto options = std::make_shared<AttentionOptions>(site.options);
  options->spec = std::make_shared<const AttentionSpec>(spec);
  options->counts = counts;
  options->drawn = nullptr;
  if (site.visit < directions.size()) options->directions = directions[site.visit];
  return SelfAttention(site.qkv, std::move(options));
}

bool IsConverted(const AttentionSpec& spec) { return !Is<LocalAttention>(spec); }

std::vector<AttentionSpec> PerLayer(const AttentionSpec& spec, const ModelConfig& config) {
  std::vector<AttentionSpec> layers;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const AttentionSpec& own = config.layer_attention(layer);
    layers.push_back(IsConverted(own) ? spec : own);
  }
  return layers;
}

std::vector<AttentionSpec> ExactAttention(const std::vector<AttentionSpec>& attention) {
  if (std::all_of(attention.begin(), attention.end(), IsConverted)) return {AttentionSpec{}};
  std::vector<AttentionSpec> exact = attention;
  for (AttentionSpec& layer : exact)
    if (IsConverted(layer)) layer = AttentionSpec{};
  return exact;
}

}  // namespace lshformer
