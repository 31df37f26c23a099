// A trained model as a function of texts: embeddings, classification, fill-mask, multiple choice, question answering.
//
//   PredictOptions options;
//   options.task = PredictTask::kTextClassification;
//   const Pipeline pipeline = Pipeline::Load(folder, "", options);
//   const std::vector<TextInput> texts{{"A fine film."}, {"Is it?", "It is."}};
//   for (const auto& outcome : pipeline.Classify(texts))
//     std::puts(outcome.ok() ? outcome.value[0].label.c_str() : outcome.error.c_str());
//
// An answer depends on its input alone, bit for bit: not on the inputs beside it, their order or the threads. What is
// wrong with one input is told in its place and keeps no other from its answer.
//
// Threads. All calls are const and may be made from several threads at once: weights are packed under a lock, and what
// a call works in belongs to its thread. Each call uses Threads() threads (base/parallel.h) of a pool that its calling
// thread keeps for itself; so a server does well to call from a few threads that stay, or from one, with many inputs.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/answer_search.h"
#include "data/long_text.h"
#include "data/passages/chunking.h"
#include "infer/score_function.h"
#include "models/model.h"
#include "nn/pooling.h"
#include "nn/sentence/modules.h"
#include "text/tokenizer.h"

namespace lshformer {

enum class PredictTask { kFillMask, kTextClassification, kMultipleChoice, kQuestionAnswering, kFeatureExtraction };

PredictTask ParsePredictTask(const std::string& name);  // OptionError lists the names and suggests the nearest
Pooling ParsePooling(const std::string& name);
const char* Name(PredictTask task);
const char* Name(Pooling pooling);

// What is not said is as the modules of a Sentence-Transformers folder have it; of a folder without them a vector per
// token, as it is.
struct EmbedOptions {
  std::optional<Pooling> pooling{};  // kNone: the encoder's states; else in place of the modes of the folder's Pooling
  std::optional<bool> normalize{};   // vectors of length 1
  std::optional<std::string> prompt_name{};  // which of the folder's prompts stands before the text
  std::optional<std::string> prompt{};       // or this text, of a folder without prompts too
};

struct PredictOptions {
  PredictTask task = PredictTask::kFillMask;
  int max_seq_length = 0;               // 0: the position table, or less where the folder's modules say so
  LongText long_text = LongText::kCut;  // what becomes of longer texts; question answering has excerpts instead
  WindowPooling window_pooling = WindowPooling::kMean;  // of embeddings and logits
  ChunkOptions chunks;                                  // feature extraction: a vector a chunk (infer/late_chunks.h)
  int64_t batch_tokens = 4096;                          // tokens a forward call; a longer text stands alone
  Precision precision = Precision::kFloat32;            // of the encoder's linear layers; see Model::set_precision
  AnswerOptions answers;                                // question answering
  // For inputs that do not say:
  EmbedOptions embedding;
  int top_k = 0;  // 0: fill-mask 5, question answering 1
  // What a caller lays over the options of every forward call: what looks at its attentions, what is to be counted.
  // From the thread that asks. May be empty.
  std::function<void(ForwardOptions&)> adjust_forward = {};
};

struct TextInput {
  std::string text;
  std::optional<std::string> text_pair{};  // [CLS] text [SEP], or [CLS] text [SEP] text_pair [SEP], be that empty
};
struct QuestionInput {
  std::string question, context;
};
// What a question asks for in place of the pipeline's options.
struct QuestionOptions {
  int top_k = 0;                           // 0: the pipeline's
  std::optional<AnswerOptions> answers{};  // without threshold_from
  int max_seq_length = 0;                  // of an excerpt with the question; 0: the pipeline's, which is the most
  bool whole_words = false;                // an answer has all of the words that it begins and ends in
};
inline constexpr size_t kLongestContext = size_t{16} << 20;  // bytes: three million words; a process stays below 400 MB
// The sequences are those of data/multiple_choice.h; a longer context is cut.
struct ChoiceInput {
  std::string question, context;
  std::vector<std::string> options;
};

struct Embedding {
  int64_t width = 0;          // of a vector
  bool per_token = false;     // Pooling::kNone
  std::vector<float> values;  // [width], or [tokens, width] per token
};
struct ClassScore {
  std::string label;
  float score = 0;  // softmax over all labels; of a single label, or of a multi-label model, the sigmoid; of a
                    // regression the output itself
};
struct MaskCandidate {
  int32_t token = 0;
  float score = 0;  // softmax over the vocabulary
};
struct FilledMasks {
  std::vector<int32_t> ids;                            // the text's tokens, special ones too
  std::vector<int32_t> masks;                          // where [MASK] is in them
  std::vector<std::vector<MaskCandidate>> candidates;  // [masks][top_k], best first
};
struct OptionScore {
  int32_t option = 0;
  float score = 0;  // softmax over the question's options
};
struct SpanAnswer {
  std::string text;            // "": the context has no answer
  float score = 0;             // softmax over the answers that were kept
  int32_t start = 0, end = 0;  // code points of the context, half-open
};

// What came of one input.
template <class Value>
struct Outcome {
  Value value;
  std::string error;  // not empty: there is no value, because … It mostly names the input's field: "text" is empty
  bool truncated = false;  // the text was cut to max_seq_length
  bool ok() const { return error.empty(); }
};

// An input as tokens, with its options. For callers that encode on other threads than they run, or that have to know
// sizes first.
struct EmbedQuery {
  using Answer = Embedding;
  Encoding text;
  EmbedOptions options;
  int64_t prompt_tokens = 0;        // of the text: those of the prompt, and what stands before them
  std::vector<Encoding> further{};  // windows of the text behind the first
};
struct ClassifyQuery {
  using Answer = std::vector<ClassScore>;  // best first
  Encoding text;
  std::vector<Encoding> further{};  // likewise
  ScoreFunction function = ScoreFunction::kModels;
  int top_k = 0;  // labels; 0: all
};
struct FillMaskQuery {
  using Answer = FilledMasks;
  Encoding text;
  std::vector<int32_t> masks;  // where [MASK] is
  int top_k = 0;
  std::vector<int32_t> targets{};  // tokens to choose from, ascending; empty: the vocabulary
};
struct ChooseQuery {
  using Answer = std::vector<OptionScore>;  // best first
  std::vector<Encoding> options;
};
struct QuestionQuery {
  using Answer = std::vector<SpanAnswer>;  // best first
  std::string context;
  std::vector<int32_t> question, context_ids;  // tokens; of a model that reads words numbers in `words`
  DistinctWords words;
  int64_t first = 0;   // place of the context's first token in a window's sequence
  TokenPlaces places;  // of the context's
  std::vector<ContextExcerpt> excerpts;
  int top_k = 0;
  AnswerOptions answers;
  bool whole_words = false;
};

class Pipeline {
 public:
  // Sets the model's precision. Error if the head that the task needs is missing or the vocabulary is larger than the
  // model's; OptionError if max_seq_length, top_k, batch_tokens, the options of answers or the name of a prompt are out
  // of range. `modules` make the vectors of feature extraction.
  Pipeline(ModelPtr model, std::shared_ptr<const Tokenizer> tokenizer, const PredictOptions& options,
           std::shared_ptr<const SentenceModules> modules = {});
  // `adjust` as in LoadModel. The tokenizer is read from `tokenizer_folder`, or from `folder` where that is empty. For
  // feature extraction `folder` may be Sentence-Transformers': its modules, length and prompts are heeded.
  static Pipeline Load(const std::string& folder, const std::string& tokenizer_folder, const PredictOptions& options,
                       const std::function<void(ModelConfig&)>& adjust = {});

  // Outcomes in the order of the inputs; inputs of similar length share forward calls. Error if the pipeline is for
  // another task.
  std::vector<Outcome<Embedding>> Embed(std::span<const TextInput> inputs,
                                        const std::optional<EmbedOptions>& options = {}) const;
  std::vector<Outcome<std::vector<ClassScore>>> Classify(std::span<const TextInput> inputs) const;
  std::vector<Outcome<FilledMasks>> FillMask(std::span<const TextInput> inputs, int top_k = 0) const;
  std::vector<Outcome<std::vector<OptionScore>>> Choose(std::span<const ChoiceInput> inputs) const;
  std::vector<Outcome<std::vector<SpanAnswer>>> Answer(std::span<const QuestionInput> inputs, int top_k = 0) const;

  // The same in two steps: inputs to queries …
  Outcome<EmbedQuery> PrepareEmbed(const TextInput& input, const EmbedOptions& options) const;
  Outcome<ClassifyQuery> PrepareClassify(const TextInput& input) const;
  // `targets`: words to choose from, each a token of the model. Scores stay those among the whole vocabulary.
  Outcome<FillMaskQuery> PrepareFillMask(const TextInput& input, int top_k,
                                         std::span<const std::string> targets = {}) const;
  Outcome<ChooseQuery> PrepareChoose(const ChoiceInput& input) const;
  Outcome<QuestionQuery> PrepareQuestion(QuestionInput input, const QuestionOptions& options) const;
  // … and queries to answers. Questions are answered in their order: after each forward call `found` gets the outcomes
  // of the questions that it completed, from `begin` on. What it throws ends the run.
  std::vector<Outcome<Embedding>> Run(std::span<const EmbedQuery> queries) const;
  std::vector<Outcome<std::vector<ClassScore>>> Run(std::span<const ClassifyQuery> queries) const;
  std::vector<Outcome<FilledMasks>> Run(std::span<const FillMaskQuery> queries) const;
  std::vector<Outcome<std::vector<OptionScore>>> Run(std::span<const ChooseQuery> queries) const;
  using QuestionsFound = std::function<void(size_t begin, std::span<const Outcome<std::vector<SpanAnswer>>>)>;
  void Run(std::span<const QuestionQuery> queries, const QuestionsFound& found) const;

  // A token alone as text; "" for rows of the model's table beyond the vocabulary. Of a fill-mask pipeline.
  const std::string& TokenText(int32_t token) const { return token_texts_.at(static_cast<size_t>(token)); }
  // The text with one of its masks filled. As in HF it keeps its special tokens where there are several masks.
  std::string FilledText(const FilledMasks& filled, size_t mask, int32_t token) const;

  Model& model() const { return *model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ModelConfig& config() const { return model_->config(); }
  const PredictOptions& options() const { return options_; }  // max_seq_length and top_k as they are in force

  // Of feature extraction: the folder's modules, nullptr where it has none; whether an answer is a vector per token;
  // and the numbers of a vector. Error where the modules do not take what another pooling gives.
  const SentenceModules* modules() const { return modules_.get(); }
  bool IsPerToken(const EmbedOptions& options) const;
  // The text that stands before a text; "" for none. OptionError of "prompt_name" where the folder has none of the
  // name.
  std::string PromptOf(const EmbedOptions& options) const;
  int64_t EmbeddingWidth(const EmbedOptions& options) const;

 private:
  void CheckOptions();
  void RequireTask(PredictTask task) const;
  int64_t LongestText() const;  // tokens, where max_seq_length is not given
  void CheckLongText() const;
  // One sequence, or windows, which all begin with the first `lead` tokens.
  std::vector<Encoding> Encode(const TextInput& input, int64_t lead = 0) const;
  // Error naming `field` where a sequence has a type that the model does not know.
  void RequireTypes(std::span<const int32_t> type_ids, const char* field) const;
  std::vector<int32_t> TargetTokens(std::span<const std::string> targets) const;
  // One text of a run; `rows` of the head's output are its own: hidden states, logits of masks, of classes, of an
  // option.
  struct Sequence {
    const Encoding* text;
    std::span<const int32_t> masks;
    int64_t rows;                   // of the model's output that are its
    bool first_token_only = false;  // the first row is all that is looked at
  };
  using Visit = std::function<void(size_t number, std::span<const float> rows)>;
  void ForEachOutput(std::span<const Sequence> sequences, const Visit& visit) const;
  void RunBatch(std::span<const Sequence> sequences, std::span<const size_t> batch, const Visit& visit) const;
  // Of each sequence of a query the numbers that `part_of` makes of its rows; of those, joined where it has windows,
  // the answer.
  template <class Query, class SequenceOf, class PartOf, class AnswerOf>
  std::vector<Outcome<typename Query::Answer>> RunTexts(std::span<const Query> queries, const SequenceOf& sequence_of,
                                                        const PartOf& part_of, const AnswerOf& answer_of) const;

  ModelPtr model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  PredictOptions options_;
  std::shared_ptr<const SentenceModules> modules_;
  std::vector<std::string> token_texts_;  // fill-mask
};

// Softmax of one row; probabilities sum to 1 within rounding. Double inside, so that the order of large vocabularies
// does not matter.
void SoftmaxRow(std::span<const float> logits, std::span<float> probabilities);
// The `count` largest with their places, best first; of equals the smaller place first.
std::vector<std::pair<int32_t, float>> BestOf(std::span<const float> scores, int count);

}  // namespace lshformer
