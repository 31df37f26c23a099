#include "jobs/inspect_batch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "data/masking.h"
#include "data/multiple_choice.h"
#include "data/words.h"
#include "io/gzip.h"
#include "models/family.h"

namespace lshformer {
namespace {

std::vector<int32_t> Integers(const Json& values, const char* key, const std::string& where, int64_t low, int64_t high,
                              int64_t also) {
  if (!values.is_array()) Fail("{}: \"{}\": expected a list of integers, got {}", where, key, ShownValue(values));
  std::vector<int32_t> integers;
  for (const Json& value : values) {
    const bool fits = value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= INT32_MAX);
    const int64_t number = fits ? value.get<int64_t>() : INT64_MIN;
    if ((number < low || number > high) && number != also)
      Fail("{}: \"{}\"[{}] is {}, expected an integer from {} to {}", where, key, integers.size(), ShownValue(value),
           low, high);
    integers.push_back(static_cast<int32_t>(number));
  }
  return integers;
}

class Reader {
 public:
  Reader(const ModelConfig& config, LabelKind labels, std::function<std::shared_ptr<const Tokenizer>()> tokenizer)
      : config_(config), labels_(labels), make_tokenizer_(std::move(tokenizer)) {}

  void Add(const std::string& line, const std::string& where) {
    if (line.find_first_not_of(" \t\r") == std::string::npos)
      Fail("{}: the line is blank, expected a JSON object", where);
    const Json object = ParseJson(line, where);
    if (!object.is_object()) Fail("{}: expected a JSON object, got {}", where, ShownValue(object));
    const int32_t begin = result_.batch.tokens.cu_seqlens.back();
    if (labels_ == LabelKind::kChoice) return AddChoices(object, where);
    if (FamilyOf(config_).take_words != nullptr) {
      AddWords(object, where);
    } else {
      AddTokens(object, where);
    }
    AddLabels(object, where, result_.batch.tokens.cu_seqlens.back() - begin);
  }

  InspectBatch Finish() {
    const std::vector<int32_t>& labels = result_.batch.labels.tokens;
    // A batch whose lines only have the other label of pretraining has none of these.
    const bool tokens = std::any_of(labels.begin(), labels.end(), [](int32_t label) { return label != kIgnoredLabel; });
    if (!result_.labelled || (labels_ == LabelKind::kTokenAndNext && !tokens)) result_.batch.labels.tokens.clear();
    if (!result_.batch.further_streams.empty()) streams_.Finish(result_.batch);
    return std::move(result_);
  }

 private:
  void AddTokens(const Json& object, const std::string& where) {
    const bool has_ids = HasValue(object, "input_ids"), has_text = HasValue(object, "text");
    if (has_ids == has_text)
      Fail("{}: expected \"input_ids\" or \"text\", got {}", where, has_ids ? "both" : "neither");
    if (has_ids)
      return AddIds(object["input_ids"], HasValue(object, "token_type_ids") ? object["token_type_ids"] : Json(), where);
    LoadTokenizer();
    std::optional<std::string> pair;
    if (HasValue(object, "text_pair")) pair = GetString(object, "text_pair", where);
    const Encoding encoding = Encode(GetString(object, "text", where), pair, where);
    if (encoding.ids.size() <= tokenizer_->text_template().Of(pair ? 2 : 1).tokens())
      Fail("{}: \"text\" has no tokens: it is blank", where);
    for (const int32_t id : encoding.ids)
      if (id >= config_.vocab_size)
        Fail("{}: the tokenizer gives id {}, the model has vocab_size {}", where, id, config_.vocab_size);
    for (const int32_t type : encoding.type_ids)
      if (type >= config_.type_vocab_size)
        Fail("{}: \"text_pair\": the model takes no second text (type_vocab_size {})", where, config_.type_vocab_size);
    AddSequence(encoding.ids, encoding.type_ids, where);
  }

  // "text" is a question, "text_pair" its context: models that read words have the two apart.
  void AddWords(const Json& object, const std::string& where) {
    if (HasValue(object, "input_ids"))
      Fail(
          "{}: \"input_ids\": a model of type \"{}\" reads words, expected \"text\", the question, and "
          "\"text_pair\", the context",
          where, config_.model_type);
    LoadTokenizer();
    std::array<std::vector<int32_t>, 2> numbers;
    for (size_t part = 0; part < numbers.size(); ++part) {
      const char* key = part == 0 ? "text" : "text_pair";
      const Encoding encoding = Encode(GetString(object, key, where), std::nullopt, where);
      if (encoding.ids.empty()) Fail("{}: \"{}\" has no tokens", where, key);
      if (static_cast<int64_t>(encoding.ids.size()) >= config_.max_position_embeddings)
        Fail("{}: \"{}\" has {} tokens, expected less than max_position_embeddings {}", where, key, encoding.ids.size(),
             config_.max_position_embeddings);
      numbers[part] = words_.Numbers(encoding);
      numbers[part].insert(numbers[part].begin(), DistinctWords::kStart);
    }
    streams_.Append(result_.batch, words_, numbers[1], numbers[0], static_cast<uint64_t>(result_.batch.sequences()));
  }

  void LoadTokenizer() {
    if (tokenizer_) return;
    tokenizer_ = make_tokenizer_();
    CheckTokenizer(FamilyOf(config_), *tokenizer_, "config.json");
  }

  // type_ids: null where the line has none.
  void AddIds(const Json& input_ids, const Json& type_ids, const std::string& where) {
    const std::vector<int32_t> ids = Integers(input_ids, "input_ids", where, 0, config_.vocab_size - 1, 0);
    std::vector<int32_t> types(ids.size(), 0);
    if (!type_ids.is_null()) types = Integers(type_ids, "token_type_ids", where, 0, config_.type_vocab_size - 1, 0);
    AddSequence(ids, types, where);
  }

  void AddSequence(const std::vector<int32_t>& ids, const std::vector<int32_t>& types, const std::string& where) {
    if (ids.empty()) Fail("{}: the sequence is empty, expected at least one token", where);
    if (types.size() != ids.size())
      Fail("{}: {} \"token_type_ids\" for {} \"input_ids\"", where, types.size(), ids.size());
    if (static_cast<int64_t>(ids.size()) > config_.max_position_embeddings)
      Fail("{}: the sequence has {} tokens, max_position_embeddings is {}", where, ids.size(),
           config_.max_position_embeddings);
    AppendSequence(result_.batch, ids, types, static_cast<uint64_t>(result_.batch.sequences()));
  }

  // A line is an example, its lists of ids are the options.
  void AddChoices(const Json& object, const std::string& where) {
    const auto lists = [&](const char* key) -> const Json& {
      const Json& value = object[key];
      if (!value.is_array()) Fail("{}: \"{}\": expected a list of lists, got {}", where, key, ShownValue(value));
      return value;
    };
    if (!HasValue(object, "input_ids")) Fail("{}: expected \"input_ids\", a list for each option", where);
    const Json& ids = lists("input_ids");
    const bool has_types = HasValue(object, "token_type_ids");
    if (ids.size() < kFewestOptions || ids.size() > kMostOptions)
      Fail("{}: \"input_ids\": expected {} to {} options, got {}", where, kFewestOptions, kMostOptions, ids.size());
    if (has_types && lists("token_type_ids").size() != ids.size())
      Fail("{}: \"token_type_ids\" of {} options for \"input_ids\" of {}", where, object["token_type_ids"].size(),
           ids.size());
    for (size_t option = 0; option < ids.size(); ++option)
      AddIds(ids[option], has_types ? object["token_type_ids"][option] : Json(),
             fmt::format("{}: option {}", where, option));
    Labels& labels = result_.batch.labels;
    const bool has = HasValue(object, "labels");
    if (labels.cu_choices.empty()) labels.cu_choices.push_back(0), result_.labelled = has;
    RequireLikeBefore("labels", has, result_.labelled, where);
    labels.cu_choices.push_back(result_.batch.sequences());
    if (has)
      labels.classes.push_back(
          static_cast<int32_t>(GetInt(object, "labels", where, 0, static_cast<int64_t>(ids.size()) - 1)));
  }

  Encoding Encode(const std::string& text, const std::optional<std::string>& pair, const std::string& where) const {
    try {
      return tokenizer_->Encode(text, pair, {});
    } catch (const Error& error) {
      Fail("{}: {}", where, error.Spelled(kOptionMark));
    }
  }

  void RequireLikeBefore(const char* key, bool has, bool had, const std::string& where) const {
    if (has != had)
      Fail("{}: {} \"{}\", but the lines before {}", where, has ? "has" : "has no", key,
           has ? "have none" : "have them");
  }

  void AddPairLabel(const Json& object, const std::string& where) {
    const char* key = FamilyOf(config_).sentence_pairs.label;
    const bool has = HasValue(object, key);
    std::vector<int32_t>& labels = result_.batch.labels.classes;
    RequireLikeBefore(key, has, labels.empty() ? has && result_.batch.sequences() == 1 : true, where);
    if (!has) return;
    labels.push_back(static_cast<int32_t>(GetInt(object, key, where, 0, 1)));
    result_.labelled = true;
  }

  void AddLabels(const Json& object, const std::string& where, int32_t tokens) {
    if (labels_ == LabelKind::kNone) return;
    if (labels_ == LabelKind::kSpan) return AddSpan(object, where);
    const bool has = HasValue(object, "labels");
    PackedBatch& batch = result_.batch;
    if (labels_ == LabelKind::kTokenAndNext) AddPairLabel(object, where);
    if (labels_ == LabelKind::kToken || labels_ == LabelKind::kTokenAndNext) {
      std::vector<int32_t> labels(tokens, -100);
      if (has) labels = Integers(object["labels"], "labels", where, 0, config_.vocab_size - 1, -100);
      if (labels.size() != static_cast<size_t>(tokens))
        Fail("{}: {} \"labels\" for {} tokens", where, labels.size(), tokens);
      batch.labels.tokens.insert(batch.labels.tokens.end(), labels.begin(), labels.end());
      result_.labelled |= has;
      return;
    }
    if (batch.sequences() == 1) result_.labelled = has;
    RequireLikeBefore("labels", has, result_.labelled, where);
    if (!has) return;
    const Json& label = object["labels"];
    if (labels_ == LabelKind::kClass) {
      batch.labels.classes.push_back(static_cast<int32_t>(GetInt(object, "labels", where, 0, config_.num_labels - 1)));
    } else if (labels_ == LabelKind::kFlags) {
      AddFlags(label, where);
    } else {
      const float value = static_cast<float>(GetNumber(object, "labels", where));
      if (!std::isfinite(value)) Fail("{}: \"labels\" is {}, expected a finite number", where, Shown(label.dump()));
      batch.labels.values.push_back(value);
    }
  }

  void AddFlags(const Json& list, const std::string& where) {
    if (!list.is_array() || static_cast<int64_t>(list.size()) != config_.num_labels)
      Fail("{}: \"labels\": expected a list of {} numbers, one for each label, got {}", where, config_.num_labels,
           ShownValue(list));
    for (size_t i = 0; i < list.size(); ++i) {
      const double flag = list[i].is_number() ? list[i].get<double>() : list[i].is_boolean() ? list[i].get<bool>() : -1;
      if (!(flag >= 0 && flag <= 1))
        Fail("{}: \"labels\"[{}] is {}, expected a number from 0 to 1", where, i, ShownValue(list[i]));
      result_.batch.labels.flags.push_back(static_cast<float>(flag));
    }
  }

  // Any integers: a position outside the sequence has a meaning (ops/span_cross_entropy.h).
  void AddSpan(const Json& object, const std::string& where) {
    const bool has = HasValue(object, "start_positions");
    if (has != HasValue(object, "end_positions"))
      Fail("{}: expected both \"start_positions\" and \"end_positions\", or neither", where);
    PackedBatch& batch = result_.batch;
    if (batch.sequences() == 1) result_.labelled = has;
    if (has != result_.labelled)
      Fail("{}: {} \"start_positions\", but the lines before {}", where, has ? "has" : "has no",
           has ? "have none" : "have them");
    if (!has) return;
    const auto position = [&](const char* key) {
      return static_cast<int32_t>(GetInt(object, key, where, INT32_MIN, INT32_MAX));
    };
    batch.labels.start_positions.push_back(position("start_positions"));
    batch.labels.end_positions.push_back(position("end_positions"));
  }

  const ModelConfig& config_;
  LabelKind labels_;
  std::function<std::shared_ptr<const Tokenizer>()> make_tokenizer_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  InspectBatch result_;
  DistinctWords words_;  // of models that read them
  WordBatch streams_;
};

}  // namespace

InspectBatch ReadInspectBatch(const std::string& path, const ModelConfig& config, LabelKind labels,
                              const std::function<std::shared_ptr<const Tokenizer>()>& tokenizer) {
  LineReader lines(path);
  Reader reader(config, labels, tokenizer);
  std::string line;
  while (lines.Next(line)) reader.Add(line, lines.where());
  if (lines.line_number() == 0) Fail("{}: has no line, expected one JSON object a line", InputName(path));
  return reader.Finish();
}

}  // namespace lshformer
