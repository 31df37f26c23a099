#include "infer/pipeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/parallel.h"
#include "infer/text_queries.h"

namespace lshformer {
namespace {

// Of one fill-mask input, 8 bytes each: what it may make this process keep.
constexpr int64_t kMostCandidates = int64_t{1} << 20;

Task HeadOf(PredictTask task) {
  switch (task) {
    case PredictTask::kFillMask:
      return Task::kMaskedLm;
    case PredictTask::kTextClassification:
      return Task::kSequenceClassification;
    case PredictTask::kMultipleChoice:
      return Task::kMultipleChoice;
    case PredictTask::kQuestionAnswering:
      return Task::kQuestionAnswering;
    case PredictTask::kFeatureExtraction:
      break;
  }
  return Task::kEncoder;
}

template <class Value>
using Choices = std::vector<std::pair<const char*, Value>>;

const Choices<PredictTask>& TaskChoices() {
  static const Choices<PredictTask> choices{{"fill-mask", PredictTask::kFillMask},
                                            {"text-classification", PredictTask::kTextClassification},
                                            {"multiple-choice", PredictTask::kMultipleChoice},
                                            {"question-answering", PredictTask::kQuestionAnswering},
                                            {"feature-extraction", PredictTask::kFeatureExtraction}};
  return choices;
}

const Choices<Pooling>& PoolingChoices() {
  static const Choices<Pooling> choices{{"none", Pooling::kNone},
                                        {"cls", Pooling::kCls},
                                        {"mean", Pooling::kMean},
                                        {"max", Pooling::kMax},
                                        {"mean_sqrt_len", Pooling::kMeanSqrtLen},
                                        {"weightedmean", Pooling::kWeightedMean},
                                        {"lasttoken", Pooling::kLastToken}};
  return choices;
}

template <class Value>
Value Choose(const std::string& name, const char* option, const Choices<Value>& choices) {
  std::vector<std::string> names;
  std::string list;
  for (const auto& [known, value] : choices) {
    if (known == name) return value;
    names.emplace_back(known);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  FailOption(option, "expected one of {}, got \"{}\"{}", list, Shown(name), Suggestion(name, names));
}

template <class Value>
const char* NameIn(const Choices<Value>& choices, Value value) {
  return std::find_if(choices.begin(), choices.end(), [&](const auto& choice) { return choice.second == value; })
      ->first;
}

// HF's rule: one label, or each of several that exclude none of the others, is a sigmoid, a regression stays as it is,
// all else is a softmax.
ScoreFunction FunctionOf(const ModelConfig& config) {
  if (config.problem_type == "regression") return ScoreFunction::kNone;
  return config.num_labels == 1 || config.multi_label() ? ScoreFunction::kSigmoid : ScoreFunction::kSoftmax;
}

std::vector<float> ClassScores(std::span<const float> logits, ScoreFunction function) {
  std::vector<float> scores(logits.begin(), logits.end());
  if (function == ScoreFunction::kSoftmax) SoftmaxRow(logits, scores);
  if (function != ScoreFunction::kSigmoid) return scores;
  for (float& score : scores) score = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(score))));
  return scores;
}

// Inputs to queries on all cores, the good ones run together, all outcomes in their order.
template <class Query, class Input, class Prepare, class Run>
std::vector<Outcome<typename Query::Answer>> PrepareAndRun(std::span<const Input> inputs, const Prepare& prepare,
                                                           const Run& run) {
  std::vector<Outcome<Query>> prepared(inputs.size());
  ParallelFor(static_cast<int64_t>(inputs.size()), 16, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) prepared[i] = prepare(inputs[i]);
  });
  std::vector<Outcome<typename Query::Answer>> outcomes(inputs.size());
  std::vector<Query> queries;
  std::vector<size_t> places;
  for (size_t i = 0; i < prepared.size(); ++i) {
    outcomes[i].error = std::move(prepared[i].error);
    outcomes[i].truncated = prepared[i].truncated;
    if (!outcomes[i].ok()) continue;
    queries.push_back(std::move(prepared[i].value));
    places.push_back(i);
  }
  run(std::span<const Query>(queries),
      [&](size_t number, Outcome<typename Query::Answer> outcome) { outcomes[places[number]] = std::move(outcome); });
  return outcomes;
}

}  // namespace

PredictTask ParsePredictTask(const std::string& name) { return Choose(name, "task", TaskChoices()); }
Pooling ParsePooling(const std::string& name) { return Choose(name, "pooling", PoolingChoices()); }
const char* Name(PredictTask task) { return NameIn(TaskChoices(), task); }
const char* Name(Pooling pooling) { return NameIn(PoolingChoices(), pooling); }

void SoftmaxRow(std::span<const float> logits, std::span<float> probabilities) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  for (size_t i = 0; i < logits.size(); ++i) {
    probabilities[i] = static_cast<float>(std::exp(logits[i] - largest) / sum);
  }
}

std::vector<std::pair<int32_t, float>> BestOf(std::span<const float> scores, int count) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto better = [&](int32_t a, int32_t b) {
    const float left = scores[static_cast<size_t>(a)], right = scores[static_cast<size_t>(b)];
    return left > right || (left == right && a < b);
  };
  const auto last = order.begin() + std::min<int64_t>(count, static_cast<int64_t>(order.size()));
  std::partial_sort(order.begin(), last, order.end(), better);
  std::vector<std::pair<int32_t, float>> best;
  for (auto place = order.begin(); place != last; ++place)
    best.emplace_back(*place, scores[static_cast<size_t>(*place)]);
  return best;
}

Pipeline::Pipeline(ModelPtr model, std::shared_ptr<const Tokenizer> tokenizer, const PredictOptions& options,
                   std::shared_ptr<const SentenceModules> modules)
    : model_(std::move(model)),
      tokenizer_(std::move(tokenizer)),
      options_(options),
      modules_(options.task == PredictTask::kFeatureExtraction ? std::move(modules) : nullptr) {
  CheckOptions();
  CheckTokenizer(FamilyOf(config()), *tokenizer_, "config.json");
  if (tokenizer_->vocab_size() > config().vocab_size) {
    Fail("config.json: \"vocab_size\" is {}, but the tokenizer has {} tokens", config().vocab_size,
         tokenizer_->vocab_size());
  }
  if (model_->task() != HeadOf(options_.task)) Fail("the model has no head for this task");
  model_->set_precision(options_.precision);
  if (options_.task != PredictTask::kFillMask) return;
  if (tokenizer_->mask_id() < 0) Fail("the tokenizer has no mask token");
  // The model's table may be larger than the vocabulary; such rows have no text.
  for (int32_t id = 0; id < config().vocab_size; ++id)
    token_texts_.push_back(id < tokenizer_->vocab_size() ? tokenizer_->Decode({id}, /*skip_special_tokens=*/false)
                                                         : "");
}

void Pipeline::CheckOptions() {
  const auto positions = static_cast<int>(std::min<int64_t>(config().max_position_embeddings, INT32_MAX));
  // What a folder of sentence embeddings says need only do for the single texts that it is for.
  const int texts = options_.max_seq_length == 0 && modules_ ? 1 : 2;
  if (options_.max_seq_length == 0) options_.max_seq_length = static_cast<int>(LongestText());
  CheckMaxSeqLength(options_.max_seq_length, texts, tokenizer_.get(), positions);
  const bool asking = options_.task == PredictTask::kQuestionAnswering;
  if (asking) {
    ValidateOptions(AnswerTable(), options_.answers);
    options_.answers = WithThreshold(options_.answers);
  }
  if (options_.top_k == 0) options_.top_k = asking ? 1 : static_cast<int>(std::min<int64_t>(5, config().vocab_size));
  const int64_t most = asking ? options_.answers.n_best_size : config().vocab_size;
  if (options_.top_k < 1 || options_.top_k > most) {
    FailOption("top_k", "expected 1 to {} ({}), got {}", most,
               asking ? Marked("n_best_size") : "the model's vocabulary", options_.top_k);
  }
  if (options_.batch_tokens < 1) FailOption("batch_tokens", "expected at least 1, got {}", options_.batch_tokens);
  CheckLongText();
  if (options_.task != PredictTask::kFeatureExtraction) return;
  const std::optional<std::string>& prompt = options_.embedding.prompt_name;
  if (prompt && !modules_) FailOption("prompt_name", "the folder has no prompts, got \"{}\"", Shown(*prompt));
  if (prompt) modules_->Prompt(prompt);
  EmbeddingWidth(options_.embedding);
}

void Pipeline::CheckLongText() const {
  const PredictTask task = options_.task;
  if (const ChunkOptions& chunks = options_.chunks; chunks.chunking != Chunking::kNone) {
    if (task != PredictTask::kFeatureExtraction)
      FailOption("chunking", "is for {} feature-extraction", OptionName{"task"});
    if (options_.long_text != LongText::kWhole)
      FailOption("chunking", "needs {} whole: chunks are made of the whole text", OptionName{"long_text"});
    if (chunks.chunk_tokens < 1) FailOption("chunk_tokens", "expected at least 1, got {}", chunks.chunk_tokens);
    if (options_.embedding.pooling.value_or(Pooling::kMean) != Pooling::kMean)
      FailOption("pooling", "a chunk's vector is the mean of its own tokens");
  }
  if (options_.long_text == LongText::kCut) return;
  if (task == PredictTask::kQuestionAnswering)
    FailOption("long_text", "{} question-answering reads a long context in excerpts ({}, {})", OptionName{"task"},
               OptionName{"max_seq_length"}, OptionName{"doc_stride"});
  if (options_.long_text != LongText::kWindows) return;
  if (task == PredictTask::kFillMask || task == PredictTask::kMultipleChoice)
    FailOption("long_text", "windows is for {} text-classification and feature-extraction", OptionName{"task"});
  if (task == PredictTask::kFeatureExtraction && IsPerToken(options_.embedding))
    FailOption("long_text", "windows joins vectors of whole texts, which {} none does not give", OptionName{"pooling"});
}

int64_t Pipeline::LongestText() const {
  const int64_t positions = std::min<int64_t>(config().max_position_embeddings, INT32_MAX);
  return modules_ && options_.long_text != LongText::kWhole ? modules_->LongestText(*tokenizer_, positions) : positions;
}

Pipeline Pipeline::Load(const std::string& folder, const std::string& tokenizer_folder, const PredictOptions& options,
                        const std::function<void(ModelConfig&)>& adjust) {
  const Task head = HeadOf(options.task);
  std::shared_ptr<const SentenceModules> modules;
  if (options.task == PredictTask::kFeatureExtraction) modules = SentenceModules::Read(folder);
  const std::string& encoder = modules ? modules->encoder_folder() : folder;
  std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Load(tokenizer_folder.empty() ? encoder : tokenizer_folder);
  return Pipeline(
      LoadModel(encoder, head, /*seed=*/0, /*require_head=*/head != Task::kEncoder, adjust, WeightPlace::kMappedFile),
      std::move(tokenizer), options, std::move(modules));
}

void Pipeline::RequireTask(PredictTask task) const {
  if (options_.task != task) Fail("the pipeline was made for another task");
}

std::vector<Encoding> Pipeline::Encode(const TextInput& input, int64_t lead) const {
  if (input.text.empty()) Fail("\"text\" is empty");
  if (!IsValidUtf8(input.text)) Fail("\"text\": expected UTF-8");
  if (input.text_pair && !IsValidUtf8(*input.text_pair)) Fail("\"text_pair\": expected UTF-8");
  if (input.text_pair && options_.max_seq_length < ShortestSeqLength(/*texts=*/2, tokenizer_.get()))
    Fail("\"text_pair\": there is no room for a second text in {} tokens", options_.max_seq_length);
  std::vector<Encoding> sequences = EncodeLong(*tokenizer_, input.text, input.text_pair,
                                               {.max_seq_length = options_.max_seq_length,
                                                .lower_case = modules_ && modules_->lower_cases(),
                                                .long_text = options_.long_text,
                                                .lead = lead});
  const Encoding& first = sequences.front();
  if (first.ids.size() <= tokenizer_->text_template().Of(input.text_pair ? 2 : 1).tokens())
    Fail("\"text\" has no tokens: it is blank");
  RequireTypes(first.type_ids, "text_pair");
  return sequences;
}

void Pipeline::RequireTypes(std::span<const int32_t> type_ids, const char* field) const {
  const auto most = std::ranges::max_element(type_ids);
  if (most != type_ids.end() && *most >= config().type_vocab_size)
    Fail("\"{}\": the model takes no second text (type_vocab_size {})", field, config().type_vocab_size);
}

Outcome<ClassifyQuery> Pipeline::PrepareClassify(const TextInput& input) const {
  RequireTask(PredictTask::kTextClassification);
  return Prepared<ClassifyQuery>([&](Outcome<ClassifyQuery>& outcome) {
    TakeSequences(Encode(input), outcome.value);
    outcome.truncated = outcome.value.text.truncated;
  });
}

// As HF finds them: the token that is written so, else the one that the word is read as.
std::vector<int32_t> Pipeline::TargetTokens(std::span<const std::string> targets) const {
  std::vector<int32_t> tokens;
  for (const std::string& target : targets) {
    const std::string place = fmt::format("\"targets\"[{}]", tokens.size());
    if (!IsValidUtf8(target)) Fail("{}: expected UTF-8", place);
    int32_t token = tokenizer_->Id(target);
    if (token < 0) {
      const std::vector<int32_t> read = EncodeBare(*tokenizer_, target).ids;
      if (read.size() != 1 || read.front() == tokenizer_->unk_id())
        Fail("{}: \"{}\" is no token of the model{}", place, Shown(target),
             read.size() > 1 ? fmt::format("; read as a text it has {}", read.size()) : "");
      token = read.front();
    }
    tokens.push_back(token);
  }
  std::ranges::sort(tokens);
  const auto repeated = std::ranges::unique(tokens);
  tokens.erase(repeated.begin(), repeated.end());
  return tokens;
}

Outcome<FillMaskQuery> Pipeline::PrepareFillMask(const TextInput& input, int top_k,
                                                 std::span<const std::string> targets) const {
  RequireTask(PredictTask::kFillMask);
  return Prepared<FillMaskQuery>([&](Outcome<FillMaskQuery>& outcome) {
    FillMaskQuery& query = outcome.value;
    query.targets = TargetTokens(targets);
    query.top_k = top_k == 0 ? options_.top_k : top_k;
    if (query.top_k < 1 || query.top_k > config().vocab_size)
      Fail("\"top_k\": expected 1 to {}, got {}", config().vocab_size, query.top_k);
    query.text = std::move(Encode(input).front());
    outcome.truncated = query.text.truncated;
    for (size_t i = 0; i < query.text.ids.size(); ++i)
      if (query.text.ids[i] == tokenizer_->mask_id()) query.masks.push_back(static_cast<int32_t>(i));
    const std::string& mask = tokenizer_->Token(tokenizer_->mask_id());
    if (query.masks.empty() && query.text.truncated && input.text.find(mask) != input.text.npos)
      Fail("\"text\" has no {} in its {} {} tokens", mask, tokenizer_->truncates_left() ? "last" : "first",
           options_.max_seq_length);
    if (query.masks.empty()) Fail("\"text\" has no {}", mask);
    const auto candidates = static_cast<int64_t>(query.masks.size()) * query.top_k;
    if (candidates > kMostCandidates)
      Fail("{} masks with top_k {} ask for {} results, expected at most {}", query.masks.size(), query.top_k,
           candidates, kMostCandidates);
  });
}

void Pipeline::ForEachOutput(std::span<const Sequence> sequences, const Visit& visit) const {
  // Similar lengths together: a call's time and memory then follow its tokens.
  std::vector<size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto length = [&](size_t number) {
    return std::max(sequences[number].text->ids.size(), static_cast<size_t>(config().attended_padding));
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return length(a) < length(b); });
  // Masked-LM logits are [masks, vocabulary]: 2^24 floats are 64 MiB, as much as one text of 512 masks needs.
  const int64_t most_masks = std::max<int64_t>(1, (int64_t{1} << 24) / config().vocab_size);
  size_t begin = 0;
  int64_t tokens = 0, masks = 0;
  for (size_t end = 0; end < order.size(); ++end) {
    const auto added = static_cast<int64_t>(length(order[end]));
    const auto added_masks = static_cast<int64_t>(sequences[order[end]].masks.size());
    if (end > begin && (tokens + added > options_.batch_tokens || masks + added_masks > most_masks)) {
      RunBatch(sequences, {order.data() + begin, end - begin}, visit);
      begin = end;
      tokens = masks = 0;
    }
    tokens += added;
    masks += added_masks;
  }
  if (begin < order.size()) RunBatch(sequences, {order.data() + begin, order.size() - begin}, visit);
}

void Pipeline::RunBatch(std::span<const Sequence> sequences, std::span<const size_t> batch, const Visit& visit) const {
  torch::NoGradGuard no_gradients;
  PackedBatch packed;
  for (const size_t number : batch) {
    const Sequence& sequence = sequences[number];
    AppendSequence(packed, sequence.text->ids, sequence.text->type_ids, packed.tokens.cu_seqlens.size() - 1);
    if (options_.task != PredictTask::kFillMask) continue;
    const size_t begin = packed.labels.tokens.size();
    packed.labels.tokens.resize(packed.tokens.ids.size(), -100);  // logits are computed where there is a label
    for (const int32_t mask : sequence.masks) packed.labels.tokens[begin + static_cast<size_t>(mask)] = 0;
  }
  const bool hidden = options_.task == PredictTask::kFeatureExtraction;
  ForwardOptions forward;
  forward.stop = &StopOnSignal();
  forward.head_only =
      !hidden || std::ranges::all_of(batch, [&](size_t number) { return sequences[number].first_token_only; });
  if (options_.adjust_forward) options_.adjust_forward(forward);
  const ModelOutput output = model_->Forward(packed, forward);
  torch::Tensor rows = (hidden ? output.last_hidden_state : output.logits).contiguous();
  if (rows.dim() == 1) rows = rows.unsqueeze(1);  // multiple choice: [B]
  const bool first_tokens = hidden && rows.size(0) < packed.tokens.size();
  const float* row = rows.data_ptr<float>();
  for (const size_t number : batch) {
    const auto size = static_cast<size_t>((first_tokens ? 1 : sequences[number].rows) * rows.size(1));
    visit(number, {row, size});
    row += size;
  }
}

namespace {

std::vector<float> Copied(std::span<const float> logits) { return {logits.begin(), logits.end()}; }

}  // namespace

std::vector<Outcome<std::vector<ClassScore>>> Pipeline::Run(std::span<const ClassifyQuery> queries) const {
  RequireTask(PredictTask::kTextClassification);
  const auto sequence = [](const ClassifyQuery&, const Encoding& text) { return Sequence{&text, {}, 1}; };
  const auto part = [](const ClassifyQuery&, std::span<const float> logits) { return Copied(logits); };
  return RunTexts(queries, sequence, part, [&](const ClassifyQuery& query, const std::vector<float>& logits) {
    std::vector<ClassScore> scores;
    const bool own = query.function == ScoreFunction::kModels;
    const std::vector<float> all = ClassScores(logits, own ? FunctionOf(config()) : query.function);
    for (const auto& [label, score] : BestOf(all, query.top_k == 0 ? static_cast<int>(all.size()) : query.top_k))
      scores.push_back({config().label_name(label), score});
    return scores;
  });
}

std::vector<Outcome<FilledMasks>> Pipeline::Run(std::span<const FillMaskQuery> queries) const {
  RequireTask(PredictTask::kFillMask);
  const auto sequence = [](const FillMaskQuery& query, const Encoding& text) {
    return Sequence{&text, query.masks, std::ssize(query.masks)};
  };
  const auto part = [](const FillMaskQuery&, std::span<const float> logits) { return Copied(logits); };
  return RunTexts(queries, sequence, part, [&](const FillMaskQuery& query, std::span<const float> logits) {
    FilledMasks filled{query.text.ids, query.masks, {}};
    const size_t width = logits.size() / query.masks.size();
    std::vector<float> probabilities(width);
    for (size_t mask = 0; mask < query.masks.size(); ++mask) {
      SoftmaxRow(logits.subspan(mask * width, width), probabilities);
      std::vector<MaskCandidate>& candidates = filled.candidates.emplace_back();
      if (!query.targets.empty()) {
        std::vector<float> of_targets;
        for (const int32_t token : query.targets) of_targets.push_back(probabilities[static_cast<size_t>(token)]);
        for (const auto& [place, score] : BestOf(of_targets, query.top_k))
          candidates.push_back({query.targets[static_cast<size_t>(place)], score});
        continue;
      }
      for (const auto& [token, score] : BestOf(probabilities, query.top_k)) candidates.push_back({token, score});
    }
    return filled;
  });
}

std::string Pipeline::FilledText(const FilledMasks& filled, size_t mask, int32_t token) const {
  std::vector<int32_t> ids = filled.ids;
  const auto place = ids.begin() + filled.masks[mask];
  *place = token;
  // A row beyond the vocabulary has no text of its own: its place stays empty.
  if (token >= tokenizer_->vocab_size()) ids.erase(place);
  return tokenizer_->Decode(ids, /*skip_special_tokens=*/filled.masks.size() == 1);
}

namespace {

// Outcomes of a run in one go, one after another.
template <class Query>
auto RunOf(const Pipeline& pipeline) {
  return [&pipeline](std::span<const Query> queries, const auto& give) {
    auto outcomes = pipeline.Run(queries);
    for (size_t i = 0; i < outcomes.size(); ++i) give(i, std::move(outcomes[i]));
  };
}

}  // namespace

std::vector<Outcome<Embedding>> Pipeline::Embed(std::span<const TextInput> inputs,
                                                const std::optional<EmbedOptions>& options) const {
  const auto prepare = [&](const TextInput& input) {
    return PrepareEmbed(input, options.value_or(options_.embedding));
  };
  return PrepareAndRun<EmbedQuery>(inputs, prepare, RunOf<EmbedQuery>(*this));
}

std::vector<Outcome<std::vector<ClassScore>>> Pipeline::Classify(std::span<const TextInput> inputs) const {
  const auto prepare = [&](const TextInput& input) { return PrepareClassify(input); };
  return PrepareAndRun<ClassifyQuery>(inputs, prepare, RunOf<ClassifyQuery>(*this));
}

std::vector<Outcome<FilledMasks>> Pipeline::FillMask(std::span<const TextInput> inputs, int top_k) const {
  const auto prepare = [&](const TextInput& input) { return PrepareFillMask(input, top_k); };
  return PrepareAndRun<FillMaskQuery>(inputs, prepare, RunOf<FillMaskQuery>(*this));
}

std::vector<Outcome<std::vector<OptionScore>>> Pipeline::Choose(std::span<const ChoiceInput> inputs) const {
  const auto prepare = [&](const ChoiceInput& input) { return PrepareChoose(input); };
  return PrepareAndRun<ChooseQuery>(inputs, prepare, RunOf<ChooseQuery>(*this));
}

std::vector<Outcome<std::vector<SpanAnswer>>> Pipeline::Answer(std::span<const QuestionInput> inputs, int top_k) const {
  const auto prepare = [&](const QuestionInput& input) { return PrepareQuestion(input, {.top_k = top_k}); };
  const auto run = [&](std::span<const QuestionQuery> queries, const auto& give) {
    Run(queries, [&](size_t begin, std::span<const Outcome<std::vector<SpanAnswer>>> found) {
      for (size_t i = 0; i < found.size(); ++i) give(begin + i, found[i]);
    });
  };
  return PrepareAndRun<QuestionQuery>(inputs, prepare, run);
}

}  // namespace lshformer
