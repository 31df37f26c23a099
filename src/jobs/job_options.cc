// The tables of the options of jobs, a row an option; declared beside each struct. Training options have theirs in
// train/options.cc.
#include <algorithm>
#include <charconv>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "data/answer_search.h"
#include "data/masking.h"
#include "jobs/data/text_data.h"
#include "jobs/evaluate.h"
#include "jobs/model_source.h"
#include "jobs/pretrain.h"
#include "jobs/run_folder.h"
#include "jobs/shared_options.h"
#include "jobs/train.h"
#include "models/family.h"

namespace lshformer {
namespace {

// Options that several jobs have.
template <class Job>
Option<Job> MaxTrainSamples(const char* what) {
  return Integer("max_train_samples", &Job::max_train_samples, 0, INT64_MAX,
                 fmt::format("first {} only; 0: all", what));
}
template <class Job>
Option<Job> MlmProbability() {
  constexpr NumberRange kRange{.low = 0, .high = 1, .low_open = true};
  return Number("mlm_probability", &Job::mlm_probability, kRange, "masked LM: share of tokens to predict");
}
// The option of that name of the table of a job's part.
template <class Job, class Part>
Option<Job> Of(const OptionTable<Part>& table, std::string_view name, Part Job::*part) {
  return OfPart<Job>(
      *FindOption(table, name), [part](auto& job) -> auto& { return job.*part; });
}
template <class Job>
Option<Job> Objective(std::string help) {
  return Names("objective", &Job::objective, {"mlm", "mlm+nsp", "mlm+sop"}, std::move(help));
}
template <class Job>
Option<Job> DoEval() {
  return Boolean("do_eval", &Job::do_eval, "evaluate at the end (with eval_steps also before)")
      .Group(kRunOptions)
      .WorksAfter();
}
template <class Job>
Option<Job> DryRun() {
  return Boolean("dry_run", &Job::dry_run, "only tell tokens, steps, memory and time").Group(kRunOptions).KeepsResult();
}

// Of a text "1,2,3" or a list [1,2,3].
std::vector<uint64_t> ParseSeeds(const Json& value, const std::string& where) {
  std::vector<std::string> words;
  if (value.is_array()) {
    for (const Json& seed : value) words.push_back(seed.dump());
  } else {
    std::istringstream text((value.is_string() ? value.get<std::string>() : value.dump()) + ",");
    for (std::string word; std::getline(text, word, ',');) words.push_back(word);
  }
  std::vector<uint64_t> seeds;
  for (const std::string& word : words) {
    uint64_t seed = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), seed);
    if (code != std::errc() || end != word.data() + word.size())
      Fail("{}: expected numbers from 0 to 2^64 - 1 with commas between them, got \"{}\"", where, Shown(word));
    if (std::find(seeds.begin(), seeds.end(), seed) != seeds.end()) Fail("{}: {} stands there twice", where, seed);
    seeds.push_back(seed);
  }
  return seeds;
}

// No flag of its own: it is declared with those of other precisions.
Option<ModelSource> Bf16() {
  return Custom<ModelSource>(
      "bf16", "", nullptr, [](const ModelSource& model) { return Json(model.precision == Precision::kBFloat16); }, "");
}

Option<ModelSource> Float32MatmulPrecision() {
  return Custom<ModelSource>(
      "float32_matmul_precision", "", nullptr,
      [](const ModelSource& model) { return Json(Name(model.matmul_precision)); }, "");
}

std::string OnlyForPairs(const PretrainOptions& options) {
  return PairsOf(options.objective) ? "" : fmt::format("is for {} mlm+nsp and mlm+sop", OptionName{"objective"});
}

std::string OnlyForQuestions(const TrainOptions& options) {
  return options.question_answering() ? "" : fmt::format("is for {} question-answering", OptionName{"task"});
}
std::string OnlyForLabels(const TrainOptions& options) {
  return options.task == "text-classification" ? "" : fmt::format("is for {} text-classification", OptionName{"task"});
}

Option<TrainOptions> DoRegression() {
  Option<TrainOptions> option = Custom<TrainOptions>(
      "do_regression", "",
      [](const Json& object, std::string_view where, TrainOptions& into) {
        into.do_regression = GetBool(object, "do_regression", where);
      },
      [](const TrainOptions& from) { return from.do_regression ? Json(*from.do_regression) : Json(); },
      "labels are values; default: where all are numbers and not all integers");
  option.type = OptionType::kBoolean;
  return std::move(option).MeaninglessIf(OnlyForLabels);
}

Option<TrainOptions> IgnoreMismatchedSizes() {
  Option<ModelSource> own =
      Boolean("ignore_mismatched_sizes", &ModelSource::ignore_mismatched_sizes,
              "a checkpoint whose classifier is for other labels (MNLI's three, where RTE has two) gets a new one");
  Option<TrainOptions> option = OfPart<TrainOptions>(
      std::move(own), [](auto& options) -> auto& { return options.model; });
  return std::move(option).Group(kModelOptions).MeaninglessIf([](const TrainOptions& options) {
    return options.model.model_name_or_path.empty() ? fmt::format("needs {}", OptionName{"model_name_or_path"})
           : options.question_answering()
               ? fmt::format("is for {} text-classification and multiple-choice", OptionName{"task"})
               : "";
  });
}

Option<TrainOptions> WordVectors() {
  return Path("word_vectors", &TrainOptions::word_vectors, "FILE",
              "vectors for the words of a new model that reads words, text as GloVe and word2vec have it; they stay as "
              "they are, words without one are unknown words")
      .Group(kModelOptions)
      .MeaninglessIf([](const TrainOptions& options) {
        const std::string reason = OnlyForQuestions(options);
        if (!reason.empty()) return reason;
        if (!options.model.model_name_or_path.empty())
          return fmt::format("is for a new model, {} has its own", OptionName{"model_name_or_path"});
        if (!options.model.tokenizer_name.empty())
          return fmt::format("is for a model that reads words, without {}: one of the two decides which words it knows",
                             OptionName{"tokenizer_name"});
        return std::string();
      });
}

Option<TrainOptions> UnanswerablePairs() {
  return Number("unanswerable_pairs", &TrainOptions::unanswerable_pairs, {.low = 0, .high = 1},
                "share of the training questions that are asked once more, of another paragraph of their article, "
                "which has no answer to them")
      .Group(AnswerTable().group)
      .MeaninglessIf([](const TrainOptions& options) {
        const std::string reason = OnlyForQuestions(options);
        if (!reason.empty() || options.answers.version_2) return reason;
        return fmt::format("needs {}", OptionName{"version_2_with_negative"});
      });
}

// Of the search for answers a run keeps what it does after the training as one setting.
Option<TrainOptions> Answers() {
  return Custom<TrainOptions>(
             "answers", "", nullptr,
             [](const TrainOptions& from) {
               OptionTable<AnswerOptions> search = AnswerTable();
               std::erase_if(search.options, [](const auto& option) { return option.effect != Effect::kAfter; });
               Json answers = Json::object();
               WriteOptions(search, from.answers, answers);
               return answers;
             },
             "")
      .WorksAfter()
      .MeaninglessIf(OnlyForQuestions);
}

void AddAnswerRows(std::vector<Option<TrainOptions>>& rows) {
  for (const Option<AnswerOptions>& own : AnswerTable().options) {
    Option<TrainOptions> row = Of(AnswerTable(), own.name, &TrainOptions::answers);
    if (row.effect == Effect::kAfter) row.effect = Effect::kNone;  // kept as "answers"
    row.without_meaning = [more = std::move(row.without_meaning)](const TrainOptions& options) {
      const std::string reason = OnlyForQuestions(options);
      return reason.empty() && more ? more(options) : reason;
    };
    row.group = AnswerTable().group;
    rows.push_back(std::move(row));
  }
  rows.push_back(UnanswerablePairs());
  rows.push_back(Answers());
}

void AddSimilarityRows(std::vector<Option<TrainOptions>>& rows) {
  for (const Option<SimilarityOptions>& own : SimilarityTable().options) {
    Option<TrainOptions> row = Of(SimilarityTable(), own.name, &TrainOptions::similarity);
    row.without_meaning = [name = own.name, more = std::move(row.without_meaning)](const TrainOptions& options) {
      if (options.listwise() && name == "loss") return std::string();
      if (!options.embeddings()) return fmt::format("is for {} sentence-similarity", OptionName{"task"});
      return more ? more(options) : "";
    };
    row.group = SimilarityTable().group;
    rows.push_back(std::move(row));
  }
}

// Written as a list, and not at all where there is none: a run is then one run.
Option<RunFolder> Seeds() {
  Option<RunFolder> option = Custom<RunFolder>(
      "seeds", "N,N,…",
      [](const Json& object, std::string_view where, RunFolder& into) {
        into.seeds = ParseSeeds(object.at("seeds"), std::string(where) + ": \"seeds\"");
      },
      [](const RunFolder& from) { return from.seeds.empty() ? Json() : Json(from.seeds); },
      "one run a seed, in output_dir/seed-N, and in output_dir mean, deviation and best; instead of seed");
  option.from_text = [](const std::string& text) { return Json(text); };
  return std::move(option).KeepsResult();
}

}  // namespace

const OptionTable<ModelSource>& ModelSourceTable() {
  using M = ModelSource;
  static const OptionTable<M> table{
      {Path("model_name_or_path", &M::model_name_or_path, "DIR", "checkpoint folder to start from"),
       Names("model_type", &M::model_type, ModelTypes(), "or a new model of this kind").OrNone(),
       Path("config_name", &M::config_name, "FILE", "config.json of a new model, or a folder that has one"),
       Text("config_overrides", &M::config_overrides,
            "changes to it, \"hidden_size=128,num_hidden_layers=2\"; to a checkpoint's, what leaves its tensors "
            "but a head's as they are")
           .Syntax("KEY=VALUE,…"),
       Path("tokenizer_name", &M::tokenizer_name, "DIR", "tokenizer folder, if not the checkpoint"),
       Text("reinitialize", &M::reinitialize,
            "parameters of the checkpoint to draw anew, by a string in their names: \"layer.11.,attention.self.query\"")
           .Syntax("PART,…")
           .MeaninglessIf([](const M& source) {
             return source.model_name_or_path.empty() ? fmt::format("needs {}", OptionName{"model_name_or_path"}) : "";
           }),
       Bf16(), Float32MatmulPrecision()},
      nullptr,
      {},
      kModelOptions};
  return table;
}

const OptionTable<RunFolder>& RunFolderTable() {
  using F = RunFolder;
  static const OptionTable<F> table = [] {
    OptionTable<F> made{
        {Path("output_dir", &F::output_dir, "DIR", "where the model, results and checkpoints go")
             .Required()
             .KeepsResult(),
         Boolean("overwrite_output_dir", &F::overwrite_output_dir, "replace an older run in it").KeepsResult(),
         Path("resume_from_checkpoint", &F::resume_from_checkpoint, "auto|DIR",
              "go on from a checkpoint; auto: the newest complete one of output_dir, else anew")
             .KeepsResult(),
         Names("report_to", &F::report_to, {"tensorboard", "none"}, "tensorboard: the log as event files in runs/")
             .KeepsResult(),
         Names("save_dtype", &F::save_dtype, {"float32", "float16", "bfloat16"},
               "numbers of the finished model; checkpoints are float32")
             .WorksAfter(),
         Seeds()},
        nullptr,
        {},
        "Output folder"};
    // Programs' own jobs (quickstart) leave no events; whoever trains from the command line finds what transformers
    // leaves.
    made.defaults.report_to = "tensorboard";
    return made;
  }();
  return table;
}

const OptionTable<PretrainOptions>& PretrainTable() {
  using P = PretrainOptions;
  static const OptionTable<P> table{
      {Paths("train_file", &P::train_files, "text or JSONL, plain or .gz; may be repeated; - is stdin").Required(),
       Path("validation_file", &P::validation_file, "FILE", "text to evaluate on").WorksAfter(),
       Number("validation_split_percentage", &P::validation_split_percentage, {.low = 0, .high = 100},
              "else, with do_eval, this share of the training text"),
       MaxTrainSamples<P>("sequences"), MaxEvalSamples<P>("sequences").WorksAfter(),
       MaxSeqLength<P>("tokens per sequence"),
       Boolean("line_by_line", &P::line_by_line, "every line is a sequence; otherwise blocks of max_seq_length"),
       MlmProbability<P>(),
       Objective<P>("masked LM alone, or on pairs with next-sentence (BERT) or sentence-order prediction (ALBERT)"),
       Of(MaskingTable(), "masking", &P::masking), Of(MaskingTable(), "max_predictions_per_seq", &P::masking),
       Of(MaskingTable(), "max_ngram", &P::masking), DoEval<P>(), DryRun<P>(),
       Number("short_seq_prob", &P::short_seq_prob, {.low = 0, .high = 1},
              "pairs: share of documents with shorter ones")
           .MeaninglessIf(OnlyForPairs),
       Integer("dupe_factor", &P::dupe_factor, 1, 1000, "pairs: passes over the text, each with pairs of its own")
           .MeaninglessIf(OnlyForPairs)},
      nullptr,
      {},
      kDataOptions};
  return table;
}

const OptionTable<TrainOptions>& TrainTable() {
  using T = TrainOptions;
  static const OptionTable<T> table = [] {
    OptionTable<T> made{
        {Names("task", &T::task,
               {"text-classification", "multiple-choice", "question-answering", "sentence-similarity"}, "the task"),
         Text("task_name", &T::task_name, "GLUE task: its labels, columns and metrics, with data_dir its files")
             .Syntax("NAME"),
         Path("data_dir", &T::data_dir, "DIR",
              "its folder, with train.tsv and dev.tsv; multiple-choice: RACE's, with train/ and dev/"),
         Paths("train_file", &T::train_files,
               "or TSV or JSONL with labels, or SQuAD JSON, or a file or folder of RACE's; may be repeated"),
         Path("validation_file", &T::validation_file, "FILE", "the same, to evaluate on").WorksAfter(),
         Number("validation_split_percentage", &T::validation_split_percentage,
                {.low = 0, .high = 100, .high_open = true},
                "or this share of the training rows or questions, the first; 0: none"),
         Path("test_file", &T::test_file, "FILE", "the same, to predict; labels are not read").WorksAfter(),
         MaxTrainSamples<T>("rows or questions"), MaxEvalSamples<T>("rows or questions").WorksAfter(),
         MaxSeqLength<T>("tokens per row, longer ones are cut (contexts: into excerpts)"), DoEval<T>(),
         Boolean("do_predict", &T::do_predict,
                 "write predict_results_TASK.txt for the test rows (multiple-choice: predict_results.txt), and the "
                 "file that "
                 "GLUE takes (RTE.tsv); of questions "
                 "predict_predictions.json")
             .Group(kRunOptions)
             .WorksAfter(),
         DryRun<T>(), DoRegression(), IgnoreMismatchedSizes(), WordVectors()},
        nullptr,
        {},
        kDataOptions};
    AddAnswerRows(made.options);
    AddSimilarityRows(made.options);
    return made;
  }();
  return table;
}

const OptionTable<EvaluateJob>& EvaluateTable() {
  using E = EvaluateJob;
  static const OptionTable<E> table{
      {Names("task", &E::task,
             {"fill-mask", "text-classification", "multiple-choice", "question-answering", "sentence-similarity",
              "retrieval"},
             "which head; default: the one that the model has; sentence-similarity: how alike two texts' embeddings "
             "are; retrieval: documents found for queries")
           .OrNone()
           .Group(kModelOptions),
       Path("validation_file", &E::validation_file, "FILE",
            "text (fill-mask); TSV or JSONL with labels; SQuAD JSON; a file or folder of RACE's; plain or .gz"),
       Text("task_name", &E::task_name, "GLUE task").Syntax("NAME"),
       Path("data_dir", &E::data_dir, "DIR", "its folder, with dev.tsv; multiple-choice: RACE's, with dev/"),
       MaxEvalSamples<E>("sequences"), MaxSeqLength<E>("tokens per sequence"),
       Names("long_text", &E::long_text, kLongTextNames,
             "text-classification, sentence-similarity: what becomes of longer texts; windows: pieces, joined by "
             "window_pooling; whole: an error; retrieval: passages read alone (windows, its default) or made of whole "
             "documents"),
       Names("window_pooling", &E::window_pooling, kWindowPoolingNames, "how windows' logits or embeddings are joined")
           .MeaninglessIf([](const E& job) {
             return job.long_text == LongText::kWindows ? ""
                                                        : fmt::format("is for {} windows", OptionName{"long_text"});
           }),
       Text("prompt_name", &E::prompt_name,
            "sentence-similarity: which prompt of a Sentence-Transformers folder stands before each text; default: its "
            "default_prompt_name")
           .Syntax("NAME"),
       Integer("per_device_eval_batch_size", &E::batch_size, 1, INT32_MAX,
               "sequences (multiple-choice: questions) per forward"),
       Boolean("line_by_line", &E::line_by_line, "fill-mask: every line is a sequence"), MlmProbability<E>(),
       Objective<E>(
           "fill-mask: text alone, or the pairs on which to score a two-way head; default: those it is named for")
           .OrNone(),
       Of(MaskingTable(), "masking", &E::masking), Of(MaskingTable(), "max_predictions_per_seq", &E::masking),
       Of(MaskingTable(), "max_ngram", &E::masking),
       Boolean("compare_exact", &E::compare_exact,
               "once more with exact attention: its metrics too, and how close the hidden states are"),
       Boolean("sequence_parallel", &E::sequence_parallel,
               "several processes share the tokens of each forward and the heads of attention, in place of the data: "
               "for texts that are too long for one")
           .KeepsResult(),
       Path("output_dir", &E::output_dir, "DIR",
            "folder for eval_results.json, which report reads; question answering: for predictions.json, "
            "nbest_predictions.json, null_odds.json too")
           .Group("Output")},
      nullptr,
      {},
      kDataOptions};
  return table;
}

}  // namespace lshformer
