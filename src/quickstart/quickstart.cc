#include "quickstart/quickstart.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/lower_case.h"
#include "base/option_table.h"
#include "base/signals.h"
#include "convert/convert.h"
#include "jobs/pretrain.h"
#include "jobs/train.h"
#include "synth/synth.h"
#include "text/tokenizer.h"
#include "text/wordpiece/trainer.h"

namespace lshformer {
namespace {

namespace fs = std::filesystem;

// Sizes at which all models have clearly learned and all is done in six to ten minutes on two cores. What takes
// steps is learning to look at a neighbour by its position. With sequences of 32 tokens each position is seen so often
// that it happens within 1000 steps, whatever the seed (at twice the rate it may take 2500); with 128 it has not after
// 2000.
constexpr int64_t kWords = 1'000'000;
constexpr int kVocabulary = 4000;
constexpr int64_t kTrainReviews = 6000, kTestReviews = 2000;
constexpr uint64_t kFirstTestReview = 1'000'000;  // far from the training ones
constexpr int kPretrainLength = 32, kPretrainBatch = 16, kReviewLength = 128, kReviewBatch = 32;
constexpr double kPretrainRate = 1e-3, kReviewRate = 5e-4, kHeldOutPercent = 2;
constexpr int64_t kPretrainSteps = 2000;
constexpr double kReviewEpochs = 3;
constexpr int64_t kTrainQuestions = 12'000, kTestQuestions = 500, kDocumentWords = 150;
constexpr uint64_t kQuestionsToAsk = 5;
constexpr int kQuestionLength = 512, kQuestionBatch = 16;
constexpr double kQuestionRate = 1e-3;
constexpr double kQuestionWarmup = 0.3;  // with 0.1 whether models learn more than to guess among two is luck
constexpr int64_t kQuestionSteps = 800;
constexpr int64_t kCalibrationDocuments = 48;
constexpr double kBudget = 0.5;  // of the pairs; documents of 150 words are short for clusters
constexpr int kStages = 13;

// The paper's model (its section 4.1): 2 layers, 128 wide, 2 heads. Wider initial weights and no dropout, as it is
// trained for minutes, not for hours.
constexpr const char* kModel =
    "hidden_size=128,num_hidden_layers=2,num_attention_heads=2,intermediate_size=512,max_position_embeddings=512,"
    "initializer_range=0.05,hidden_dropout_prob=0,attention_probs_dropout_prob=0";
constexpr int kHeads = 2, kHeadDim = 64;
const std::vector<int64_t> kLengths{10, 128, 512, 2048, 8192};

std::string FolderName(const QuickstartSide& side) { return LowerCase(side.name); }

class Quickstart {
 public:
  explicit Quickstart(const QuickstartOptions& options)
      : folder_(options.output_dir),
        seed_(options.seed),
        progress_(options.progress),
        stage_begins_(options.stage_begins) {
    // Documents of 150 words have a dozen chunks of 16; docs/results tells what rounds and chunks are worth on them.
    const ReformerAttention reformer{.rounds = 2, .chunk = 16, .count_pairs_once = true};
    result_.exact.name = "exact";  // a spec of nothing else is exact attention
    result_.sparse = {{.name = "SimHash", .spec = {.kind = SimHashAttention{}, .seed = seed_}},
                      {.name = "Reformer", .spec = {.kind = reformer, .seed = seed_}}};
    const ClusteredAttention clustered{};
    AttentionSpec converted = Options(clustered).defaults;
    converted.kind = clustered;
    result_.sparse.push_back({.name = "Clustered", .spec = converted});
    sides_ = {&result_.exact, &result_.sparse[0], &result_.sparse[1]};
  }

  QuickstartResult Run() {
    try {
      RunStages();
      return std::move(result_);
    } catch (const Interrupted& stop) {
      // What the job says about its checkpoint does not hold: its folder goes.
      throw Interrupted(stop.signal(), "quickstart: stopped; the output folder is as it was before");
    }
  }

 private:
  void RunStages() {
    const auto begin = std::chrono::steady_clock::now();
    MakeData();
    for (QuickstartSide* side : sides_) Pretrain(*side);
    for (QuickstartSide* side : sides_) LearnSentiment(*side);
    for (QuickstartSide* side : sides_) LearnQuestions(*side);
    Convert(result_.sparse.back());
    sides_.push_back(&result_.sparse.back());
    Stage("timing the attention at 10 to 8192 tokens");
    std::vector<AttentionSpec> specs;
    for (const QuickstartSide* side : sides_) specs.push_back(side->spec);
    auto timings = TimeAttention(specs, kLengths, kHeads, kHeadDim, seed_);
    for (size_t i = 0; i < sides_.size(); ++i) sides_[i]->attention = std::move(timings[i]);
    Describe(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    result_.report = folder_.Final("report.html");
    WriteFileAtomically(folder_.Work("report.html"), QuickstartPage(result_));
    folder_.Publish();
  }

  void Stage(const std::string& what) {
    ThrowIfStopped("quickstart");
    ++stage_;
    if (stage_begins_) stage_begins_(stage_, kStages, what);
  }

  void MakeData() {
    Stage(fmt::format("writing {} words of text, {} reviews and {} questions", kWords, kTrainReviews + kTestReviews,
                      kTrainQuestions + kTestQuestions));
    std::vector<std::string> paragraphs;
    {
      AtomicFile text(folder_.Work("corpus.txt"));
      WriteSyntheticText(
          [&](std::string_view piece, int64_t) {
            text.Write(piece);
            paragraphs.emplace_back(piece);
          },
          kWords, seed_);
      text.Commit();
    }
    const auto reviews = [&](const char* name, int64_t count, uint64_t first) {
      AtomicFile file(folder_.Work(name));
      WriteSyntheticClassification(
          [&](std::string_view piece, int64_t) {
            file.Write(piece);
            if (first == 0) paragraphs.emplace_back(piece);
          },
          count, seed_, first);
      file.Commit();
    };
    reviews("sentiment-train.tsv", kTrainReviews, 0);
    reviews("sentiment-dev.tsv", kTestReviews, kFirstTestReview);
    const auto questions = [&](const char* name, int64_t count, uint64_t seed, const auto& look) {
      AtomicFile file(folder_.Work(name));
      WriteSyntheticQuestions([&](std::string_view piece, int64_t) { file.Write(piece); }, count, kDocumentWords, seed,
                              look);
      file.Commit();
    };
    questions("questions-train.json", kTrainQuestions, seed_,
              [&](const SyntheticQuestion& made) { paragraphs.push_back(made.question + " " + made.context); });
    questions("questions-dev.json", kTestQuestions, seed_ + 1, [](const SyntheticQuestion&) {});
    WriteQuestionsToAsk();
    WriteCalibration();
    Stage(fmt::format("training a WordPiece vocabulary of at most {}", kVocabulary));
    WordPieceTraining training;
    training.vocab_size = kVocabulary;
    WordCounter words(training.normalizer);
    words.Add(paragraphs);
    const std::vector<std::string> vocabulary = TrainWordPiece(words.counts(), training);
    MakeFolder(folder_.Work("tokenizer"));
    SaveWordPiece(folder_.Work("tokenizer"), vocabulary, training.normalizer);
    vocabulary_ = vocabulary.size();
  }

  // Unseen questions as predict reads them, each under the name of its right answer.
  void WriteQuestionsToAsk() const {
    AtomicFile file(folder_.Work("ask.jsonl"));
    for (uint64_t i = 0; i < kQuestionsToAsk; ++i) {
      const SyntheticQuestion made = MakeSyntheticQuestion(seed_ + 2, i, kDocumentWords);
      file.Write(Json{{"id", made.answer}, {"question", made.question}, {"context", made.context}}.dump() + "\n");
    }
    file.Commit();
  }

  // Unseen documents and their questions, to calibrate a conversion on.
  void WriteCalibration() const {
    AtomicFile file(folder_.Work("calibrate.jsonl"));
    for (int64_t i = 0; i < kCalibrationDocuments; ++i) {
      const SyntheticQuestion made = MakeSyntheticQuestion(seed_ + 3, static_cast<uint64_t>(i), kDocumentWords);
      file.Write(Json{{"question", made.question}, {"context", made.context}}.dump() + "\n");
    }
    file.Commit();
  }

  // The exact model that answers questions, every head under settings of its own, without training. The side's own
  // spec, the kind's defaults, is what is timed.
  void Convert(QuickstartSide& side) {
    Stage(fmt::format("converting the exact model to {} attention", Name(side.spec)));
    ConvertOptions options;
    options.model_name_or_path = folder_.Work("questions-" + FolderName(result_.exact));
    options.output_dir = folder_.Work("questions-" + FolderName(side));
    options.budget_pairs = kBudget;
    options.calibrate = {folder_.Work("calibrate.jsonl")};
    options.task = "question-answering";
    options.validation_file = folder_.Work("questions-dev.json");
    options.max_seq_length = kQuestionLength;
    options.seed = seed_;
    side.conversion = RunConvert(options).report;
    side.questions.eval = side.conversion["task_results"];
  }

  template <class Run>
  static QuickstartJob Watched(const Run& run) {
    const PeakMemory memory;
    const JobResult job = run();
    return {job.train, job.eval, job.log_history, memory.Megabytes()};
  }

  void Pretrain(QuickstartSide& side) {
    Stage(fmt::format("pretraining with {} attention", side.name));
    PretrainOptions options;
    options.model.model_type = "bert";
    options.model.config_overrides = kModel;
    options.model.tokenizer_name = folder_.Work("tokenizer");
    options.model.attention.attention = ToJson(side.spec).dump();
    options.folder.output_dir = folder_.Work("pretrain-" + FolderName(side));
    options.train_files = {folder_.Work("corpus.txt")};
    options.max_seq_length = kPretrainLength;
    options.validation_split_percentage = kHeldOutPercent;
    options.do_eval = true;
    options.progress = progress_;
    TrainingOptions& training = options.training;
    training.per_device_train_batch_size = training.per_device_eval_batch_size = kPretrainBatch;
    training.learning_rate = kPretrainRate;
    training.warmup_ratio = 0.1;
    training.max_steps = kPretrainSteps;
    training.logging_steps = 50;
    training.eval_steps = 250;
    training.save_steps = 0;
    training.seed = seed_;
    side.pretrain = Watched([&] { return RunPretrain(options); });
  }

  TrainOptions FineTuning(const std::string& from, const std::string& data, const std::string& suffix) const {
    TrainOptions options;
    options.model.model_name_or_path = folder_.Work("pretrain-" + from);
    options.folder.output_dir = folder_.Work(data + "-" + from);
    options.train_files = {folder_.Work(data + "-train" + suffix)};
    options.validation_file = folder_.Work(data + "-dev" + suffix);
    options.do_eval = true;
    options.progress = progress_;
    options.training.warmup_ratio = 0.1;
    options.training.weight_decay = 0.01;
    options.training.logging_steps = 10;
    options.training.eval_steps = 50;
    options.training.save_steps = 0;
    options.training.seed = seed_;
    return options;
  }

  void LearnSentiment(QuickstartSide& side) {
    Stage(fmt::format("fine-tuning on sentiment with {} attention", side.name));
    TrainOptions options = FineTuning(FolderName(side), "sentiment", ".tsv");
    options.max_seq_length = kReviewLength;
    options.training.per_device_train_batch_size = kReviewBatch;
    options.training.per_device_eval_batch_size = 64;
    options.training.learning_rate = kReviewRate;
    options.training.num_train_epochs = kReviewEpochs;
    side.sentiment = Watched([&] { return RunTrain(options); });
  }

  void LearnQuestions(QuickstartSide& side) {
    Stage(fmt::format("fine-tuning on questions with {} attention", side.name));
    TrainOptions options = FineTuning(FolderName(side), "questions", ".json");
    options.task = "question-answering";
    options.max_seq_length = kQuestionLength;
    options.training.per_device_train_batch_size = kQuestionBatch;
    options.training.learning_rate = kQuestionRate;
    options.training.warmup_ratio = kQuestionWarmup;
    options.training.max_steps = kQuestionSteps;
    options.training.eval_steps = 100;
    side.questions = Watched([&] { return RunTrain(options); });
  }

  void Describe(double seconds) {
    result_.heads = kHeads;
    result_.head_dim = kHeadDim;
    result_.data = fmt::format(
        "Data: {} words of generated text cut into sequences of {} tokens, 15 % of them masked; {} generated reviews "
        "({} more to test); {} questions on generated documents of {} words ({} more to test), the answer in the "
        "second half; vocabulary {} pieces. {} steps of {} sequences, then {} epochs of reviews or {} steps of {} "
        "questions; "
        "seed {}.",
        kWords, kPretrainLength, kTrainReviews, kTestReviews, kTrainQuestions, kDocumentWords, kTestQuestions,
        vocabulary_, kPretrainSteps, kPretrainBatch, kReviewEpochs, kQuestionSteps, kQuestionBatch, seed_);
    const Json machine = DescribeMachine(/*probes=*/true);
    result_.machine =
        fmt::format("Machine: {}, {}, {} threads, GEMM {} GFLOP/s, memory {} GB/s; {:.0f} seconds in all.",
                    machine["cpu"].get<std::string>(), machine["isa"].get<std::string>(), machine["threads"].get<int>(),
                    FormatNumber(machine["gemm_gflops"].get<double>(), 3),
                    FormatNumber(machine["memory_gbps"].get<double>(), 3), seconds);
    result_.commands = Commands();
  }

  std::vector<std::string> Commands() const;

  QuickstartFolder folder_;
  uint64_t seed_;
  bool progress_;
  std::function<void(int stage, int stages, const std::string& what)> stage_begins_;
  int stage_ = 0;
  size_t vocabulary_ = 0;
  QuickstartResult result_;
  std::vector<QuickstartSide*> sides_;  // of the result, in the order of the table
};

// For a shell: as it is, or in single quotes.
std::string Quoted(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// How the user can call this program from the current folder: by name if it is on PATH.
std::string ProgramName() {
  std::error_code error;
  fs::path self = program_invocation_name;  // lshformer passes its own path on to the program that runs models
  if (!self.is_absolute()) self = fs::read_symlink("/proc/self/exe", error);
  if (error) return "lshformer";
  const char* search = std::getenv("PATH");
  std::istringstream folders(search == nullptr ? "" : search);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (fs::equivalent(fs::path(folder) / self.filename(), self, error) && !error) return self.filename().string();
  }
  const fs::path relative = fs::relative(self, error);
  const bool below = !error && !relative.empty() && *relative.begin() != "..";
  return Quoted(below ? "./" + relative.string() : self.string());
}

// A sentence of unseen text with one word masked: the last but one, which its context should give away.
std::string MaskedSentence(uint64_t seed) {
  constexpr uint64_t kUnseen = 1'000'000;
  const std::string document = SyntheticDocument(seed, kUnseen);
  const std::string sentence = document.substr(0, document.find('.') + 1);
  const size_t last = sentence.rfind(' ');
  const size_t before = last == sentence.npos ? last : sentence.rfind(' ', last - 1);
  if (before == sentence.npos) return "The [MASK] " + sentence;
  return sentence.substr(0, before + 1) + "[MASK]" + sentence.substr(last);
}

std::vector<std::string> Quickstart::Commands() const {
  const std::string program = ProgramName();
  return {fmt::format("{} predict --model_name_or_path {} --task fill-mask --text {}", program,
                      Quoted(folder_.Final("pretrain-simhash")), Quoted(MaskedSentence(seed_))),
          fmt::format("{} convert --model_name_or_path {} --output_dir fast --calibrate {} --budget_pairs 0.25",
                      program, Quoted(folder_.Final("questions-exact")), Quoted(folder_.Final("calibrate.jsonl"))),
          fmt::format(
              "{} bench attention --lengths 512,4096 --heads {} --head_dim {} --attention dense --attention simhash "
              "--attention reformer",
              program, kHeads, kHeadDim)};
}

}  // namespace

QuickstartResult RunQuickstart(const QuickstartOptions& options) { return Quickstart(options).Run(); }

}  // namespace lshformer
