#include "cli/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace lshformer::cli {
namespace {

// The whole of `text` as a number; false if it is none.
template <class Number>
bool ReadNumber(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// A check of numbers: `expected` is what the help and the error say, `good` decides. NaN is never good.
CLI::Validator NumberCheck(const std::string& expected, std::function<bool(double)> good) {
  const auto check = [expected, good = std::move(good)](std::string& value) -> std::string {
    double number = std::numeric_limits<double>::quiet_NaN();
    if (ReadNumber(value, number) && good(number)) return "";
    return fmt::format("expected {}, got {}", expected, Shown(value));
  };
  return CLI::Validator(check, expected);
}

// The value of one key of the "attention" object, checked by the parser of that object, which knows the ranges.
std::string AttentionKeyError(AttentionType type, const std::string& key, const Json& value) {
  try {
    ParseAttentionSpec(Json{{"type", Name(type)}, {key, value}}, "");
  } catch (const Error& error) {
    const std::string message = error.what(), prefix = fmt::format(": \"{}\": ", key);
    return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
  }
  return "";
}

CLI::Validator AttentionKey(AttentionType type, const std::string& key) {
  return CLI::Validator(
      [type, key](std::string& value) -> std::string {
        int64_t number = 0;
        if (!ReadNumber(value, number)) return "expected an integer, got " + Shown(value);
        return AttentionKeyError(type, key, number);
      },
      "");
}

std::string MinLengthError(const std::string& text) {
  if (text == "auto") return "";  // whether there is a length for it shows when the specs are known
  return AttentionKeyError(AttentionType::kSimHash, "min_length", NumberOrText(text));
}

}  // namespace

CLI::Validator OneOf(std::vector<std::string> names) {
  const std::string help = fmt::format("{}", fmt::join(names, "|"));
  const auto check = [names = std::move(names)](std::string& value) -> std::string {
    if (std::find(names.begin(), names.end(), value) != names.end()) return "";
    std::string expected = names.front();
    for (size_t i = 1; i < names.size(); ++i) expected += (i + 1 < names.size() ? ", " : " or ") + names[i];
    return fmt::format("expected {}, got \"{}\"{}", expected, Shown(value), Suggestion(value, names));
  };
  return CLI::Validator(check, help);
}

CLI::Validator IntegerIn(int64_t low, int64_t high) {
  const std::string expected = high >= INT32_MAX ? fmt::format("at least {}", low) : fmt::format("{} to {}", low, high);
  const auto check = [=](std::string& value) -> std::string {
    int64_t number = 0;
    if (ReadNumber(value, number) && number >= low && number <= high) return "";
    return fmt::format("expected {}, got {}",
                       number > high && high >= INT32_MAX ? fmt::format("at most {}", high) : expected, Shown(value));
  };
  return CLI::Validator(check, expected);
}

CLI::Validator NumberIn(double low, double high) {
  const std::string expected =
      high >= std::numeric_limits<double>::max() ? fmt::format("at least {}", low) : fmt::format("{} to {}", low, high);
  return NumberCheck(expected, [=](double x) { return x >= low && x <= high; });
}

CLI::Validator AnyNumber() {
  return NumberCheck("a number", [](double x) { return std::isfinite(x); });
}

CLI::Validator NumberBelow(double low, double high) {
  return NumberCheck(fmt::format("at least {} and below {}", low, high),
                     [=](double x) { return x >= low && x < high; });
}

CLI::Validator NumberBetween(double low, double high) {
  return NumberCheck(fmt::format("above {} and below {}", low, high), [=](double x) { return x > low && x < high; });
}

namespace {

void AddReformerFlags(CLI::App& app, AttentionChanges& flags) {
  const AttentionSpec defaults;
  const char* group = "Reformer attention (changes the model's own; defaults of a new reformer)";
  const auto number = [&](const char* key, std::optional<int>& target, const char* help, int standard) {
    app.add_option(std::string("--lsh_") + key, target, help)
        ->check(AttentionKey(AttentionType::kReformer, key))
        ->default_str(std::to_string(standard))
        ->group(group);
  };
  const auto boolean = [&](const char* key, std::optional<bool>& target, const char* help) {
    app.add_flag_function(
           std::string("--lsh_") + key, [&target](int64_t count) { target = count > 0; }, help)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
        ->group(group);
  };
  number("rounds", flags.rounds, "rounds of hashing, each with rotations of its own", defaults.rounds);
  app.add_option("--lsh_buckets", flags.buckets, "even number of buckets, or two even factors; auto: by the length")
      ->check(CLI::Validator(
          [](std::string& value) { return AttentionKeyError(AttentionType::kReformer, "buckets", BucketsOf(value)); },
          ""))
      ->type_name("auto|N|N,M")
      ->default_str("auto")
      ->group(group);
  number("chunk", flags.chunk, "tokens a chunk; a sequence of one chunk is exact (sorted simhash too)", defaults.chunk);
  number("look_back", flags.look_back, "chunks before its own that a query sees", defaults.look_back);
  number("look_ahead", flags.look_ahead, "chunks after its own that a query sees (sorted simhash: 1)",
         defaults.look_ahead);
  app.add_option("--lsh_scale", flags.scale, "of the scores: none, or 1/√head_dim")
      ->check(OneOf({"none", "sqrt_d"}))
      ->default_str("none")
      ->group(group);
  boolean("cross_bucket", flags.cross_bucket, "see other buckets' keys in the window (default true)");
  boolean("wrap", flags.wrap, "windows go on from one round into the next (default true)");
  boolean("causal", flags.causal, "later keys take no part (default false)");
  boolean("count_pairs_once", flags.count_pairs_once, "a pair met in several rounds counts as one (default false)");
}

}  // namespace

void AddLshFlags(CLI::App& app, AttentionChanges& flags) {
  const AttentionSpec defaults;
  const char* group = "Attention (changes the model's own; defaults of a new simhash)";
  const auto number = [&](const char* key, std::optional<int>& target, const char* help, int standard) {
    app.add_option(std::string("--lsh_") + key, target, help)
        ->check(AttentionKey(AttentionType::kSimHash, key))
        ->default_str(std::to_string(standard))
        ->group(group);
  };
  const auto name = [&](const char* key, std::optional<std::string>& target, std::vector<std::string> names,
                        const char* help) {
    app.add_option(std::string("--lsh_") + key, target, help)->check(OneOf(names))->default_str(names[0])->group(group);
  };
  app.add_option("--lsh_bands", flags.bands, "hyperplanes per hash function; auto: by the length (sorted: default)")
      ->check(CLI::Validator(
          [](std::string& value) { return AttentionKeyError(AttentionType::kSimHash, "bands", NumberOrText(value)); },
          ""))
      ->type_name("auto|N")
      ->default_str(std::to_string(defaults.bands))
      ->group(group);
  number("hashes", flags.hashes, "hash functions; a pair that collides under several counts once", defaults.hashes);
  number("table_size", flags.table_size, "buckets per hash function", defaults.table_size);
  name("fill", flags.fill, {"zero", "mean", "none"}, "score of the pairs that do not collide");
  name("pairs", flags.pairs, {"full", "reference", "sorted"},
       "every colliding pair, the authors' mirrored upper triangle, or chunks of a sorted order (--lsh_chunk, "
       "--lsh_look_back, --lsh_look_ahead)");
  number("window", flags.window, "neighbours on each side that every query sees (reformer too)", defaults.window);
  app.add_option(
         "--lsh_global", flags.global,
         "tokens that all see and that see all, the first and the last of a sequence: cls, sep, cls,sep or none")
      ->check(CLI::Validator(
          [](std::string& value) { return AttentionKeyError(AttentionType::kSimHash, "global", value); }, ""))
      ->type_name("cls,sep|none")
      ->default_str("none")
      ->group(group);
  name("resample", flags.resample, {"call", "never"},
       "new hyperplanes or rotations at every training step, or the same for ever");
  app.add_flag_function(
         "--lsh_center_keys", [&flags](int64_t count) { flags.center_keys = count > 0; }, "hash key − mean key")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->group(group);
  app.add_option("--lsh_min_length", flags.min_length,
                 "shorter sequences use the type's exact form; 0: always hash; auto: what tune measured")
      ->check(CLI::Validator([](std::string& value) { return MinLengthError(value); }, ""))
      ->type_name("auto|N")
      ->default_str(std::to_string(defaults.min_length))
      ->group(group);
  AddReformerFlags(app, flags);
}

void AddAttentionFlags(CLI::App& app, AttentionChanges& flags) {
  AddLshFlags(app, flags);
  app.add_option(
         "--attention", flags.attention,
         "attention of every layer: dense, simhash, reformer (where a model has it already: with its own options), or "
         "a JSON object")
      ->type_name("TYPE|JSON")
      ->check(CLI::Validator(
          [](std::string& value) -> std::string {
            ParseAttentionFlag(value);
            return "";
          },
          ""))
      ->group("Attention (changes the model's own; defaults of a new simhash)");
}

void AddVariantsFlag(CLI::App& app, std::vector<std::string>& attention, const char* help, const char* group) {
  app.add_option_function<std::vector<std::string>>(
         "--attention",
         [&attention](const std::vector<std::string>& values) {
           attention.clear();
           for (const std::string& value : values) {
             const auto parts = value.starts_with('{') ? std::vector{value} : CLI::detail::split(value, ',');
             attention.insert(attention.end(), parts.begin(), parts.end());
           }
         },
         help)
      ->default_str(fmt::format("{}", fmt::join(attention, ",")))
      ->type_name("TYPE|JSON")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
}

void AddMeasuringFlags(CLI::App& app, int& runs, bool& no_machine, bool& json) {
  const char* group = "Measuring";
  app.add_option("--runs", runs, "timed runs of each variant")->check(IntegerIn(1, 1'000'000))->group(group);
  app.add_flag("--no_machine", no_machine, "leave out the machine's own GEMM rate and memory bandwidth")->group(group);
  app.add_flag("--json", json, "JSON instead of a table")->group(group);
}

void AddAnswerFlags(CLI::App& app, AnswerOptions& answers, int& doc_stride, const char* group) {
  app.add_option("--doc_stride", doc_stride,
                 "tokens that windows of a long context share; -1: a third of --max_seq_length, at most 128")
      ->check(IntegerIn(-1, INT32_MAX))
      ->group(group);
  app.add_option("--max_answer_length", answers.max_answer_length, "tokens of an answer, at most")
      ->check(IntegerIn(1, INT32_MAX))
      ->group(group);
  app.add_option("--n_best_size", answers.n_best_size, "places of the start, of the end, and answers, to choose from")
      ->check(IntegerIn(1, kMostNBest))
      ->group(group);
  app.add_flag("--version_2_with_negative", answers.version_2, "SQuAD 2.0: a question may have no answer")
      ->group(group);
  app.add_option("--null_score_diff_threshold", answers.null_score_diff_threshold,
                 "with it: no answer where none's score minus the best one's is above")
      ->check(AnyNumber())
      ->group(group);
}

void CheckAnswerFlags(const CLI::App& app, const AnswerOptions& answers, bool question_answering) {
  if (!question_answering)
    RefuseFlags(app,
                {"--doc_stride", "--max_answer_length", "--n_best_size", "--version_2_with_negative",
                 "--null_score_diff_threshold"},
                "is for --task question-answering");
  if (!answers.version_2) RefuseFlags(app, {"--null_score_diff_threshold"}, "needs --version_2_with_negative");
}

void RefuseFlags(const CLI::App& command, std::initializer_list<const char*> names, const char* reason) {
  for (const char* name : names) {
    if (command.count(name) > 0) FailUsage("{}: {}", name, reason);
  }
}

}  // namespace lshformer::cli
