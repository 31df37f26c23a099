// lshformer tokenizer train | vectors | encode | decode.
#include "jobs/tokenizer.h"

#include <climits>
#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"

namespace lshformer::cli {
namespace {

void AddTrain(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "learn a vocabulary from text");
  auto options = std::make_shared<TokenizerTrainOptions>();
  auto type = std::make_shared<std::string>("wordpiece");
  command->add_option("--type", *type, "BERT's WordPiece, ALBERT's SentencePiece unigram model, or whole words")
      ->check(OneOf({"wordpiece", "unigram", "words"}))
      ->group("Tokenizer");
  command->add_option("--vocab_size", options->training.vocab_size, "tokens, the special ones included; words: at most")
      ->check(IntegerIn(1, 1 << 24))
      ->group("Tokenizer");
  command
      ->add_option("--min_frequency", options->training.min_frequency,
                   "wordpiece: of a pair of pieces that becomes one; words: of a word")
      ->check(IntegerIn(1, INT64_MAX))
      ->group("Tokenizer");
  command
      ->add_option("--limit_alphabet", options->training.limit_alphabet,
                   "wordpiece: characters kept, the most frequent ones")
      ->check(IntegerIn(1, 1 << 21))
      ->group("Tokenizer");
  command
      ->add_flag("--do_lower_case", options->training.normalizer.lowercase,
                 "fold case and strip accents; false: neither")
      ->default_str("true")
      ->group("Tokenizer");
  command
      ->add_option("--input", options->input,
                   "text files, or rows of JSON with \"text\", plain or .gz; SQuAD's files; - is stdin")
      ->required()
      ->expected(1, INT_MAX)
      ->type_name("FILE")
      ->group("Files");
  command
      ->add_option("--output_dir", options->output_dir,
                   "folder for vocab.txt, spiece.model or words.txt, and its settings")
      ->required()
      ->type_name("DIR")
      ->group("Files");
  command->add_flag("--overwrite_output_dir", options->overwrite_output_dir, "write into a folder that is not empty")
      ->group("Files");
  command->callback([command, options, type] {
    if (*type == "unigram") {
      RefuseFlags(*command, {"--min_frequency"}, "is for --type wordpiece and words");
      RefuseFlags(*command, {"--limit_alphabet"}, "is for --type wordpiece");
      options->type = TokenizerType::kUnigram;
    }
    if (*type == "words") {
      RefuseFlags(*command, {"--limit_alphabet"}, "is for --type wordpiece");
      RefuseFlags(*command, {"--do_lower_case"}, "is not for --type words, which keep their case");
      options->type = TokenizerType::kWords;
    }
    RunTokenizerTrain(*options);
  });
}

void AddVectors(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand("vectors", "word vectors from text, by skip-gram with negative sampling");
  auto options = std::make_shared<WordVectorOptions>();
  SkipGramOptions& training = options->training;
  const auto integer = [&](const char* flag, int64_t& target, int64_t most, const char* help) {
    command->add_option(flag, target, help)->check(IntegerIn(1, most))->group("Training");
  };
  integer("--vector_size", training.vector_size, WordVectors::kWidest, "numbers of a vector");
  integer("--window", training.window, SkipGramOptions::kWidestWindow, "words on either side of a word, at most");
  integer("--min_count", training.min_count, INT64_MAX, "occurrences of a word that gets a vector");
  integer("--epochs", training.epochs, 1'000'000, "passes over the text");
  integer("--negative", training.negative, SkipGramOptions::kMostNegative, "words drawn as counterexamples of each");
  command->add_option("--sample", training.sample, "share of the text above which words are thinned out; 0: none")
      ->check(NumberIn({.low = 0, .high = 1}))
      ->group("Training");
  command->add_option("--learning_rate", training.learning_rate, "at first; it falls linearly")
      ->check(NumberIn({.low = 0, .high = 1, .low_open = true}))
      ->group("Training");
  command->add_flag("--do_lower_case", options->lowercase, "vectors of words in lower case (default true)")
      ->group("Training");
  command
      ->add_option("--input", options->input,
                   "text files, .jsonl with a \"text\", SQuAD .json (contexts and questions), plain or .gz; - is stdin")
      ->required()
      ->expected(1, INT_MAX)
      ->type_name("FILE")
      ->group("Files");
  command->add_option("--output", options->output, "vectors in word2vec's text format; - is stdout")
      ->required()
      ->type_name("FILE")
      ->group("Files");
  command->callback([options, &common] {
    options->training.seed = common.seed;
    RunTokenizerVectors(*options);
  });
}

void AddEncode(CLI::App& app) {
  CLI::App* command = app.add_subcommand("encode", "text lines in; ids, tokens and offsets out, one JSON a line");
  auto options = std::make_shared<TokenizerEncodeOptions>();
  command->add_option("--tokenizer", options->tokenizer, "its folder; vocab.txt alone is an uncased WordPiece")
      ->required()
      ->type_name("DIR")
      ->group("Files");
  command->add_option("--input", options->input, "text lines, plain or .gz; - is stdin")
      ->required()
      ->type_name("FILE")
      ->group("Files");
  command->add_option("--output", options->output, "JSON lines; - is stdout")->type_name("FILE")->group("Files");
  command->add_flag("--jsonl", options->jsonl, "lines are {\"text\", \"text_pair\"}")->group("Files");
  command
      ->add_flag("--add_special_tokens", options->encode.add_special_tokens,
                 "[CLS] text [SEP] pair [SEP] (default true)")
      ->group("Tokens");
  command
      ->add_option("--max_seq_length", options->encode.max_length, "longer texts are cut, the longest first; 0: never")
      ->check(IntegerIn(0, INT32_MAX))
      ->group("Tokens");
  command->callback([options] { RunTokenizerEncode(*options); });
}

void AddDecode(CLI::App& app) {
  CLI::App* command = app.add_subcommand("decode", "ids in, one JSON list or object a line; text out");
  auto options = std::make_shared<TokenizerDecodeOptions>();
  command->add_option("--tokenizer", options->tokenizer, "its folder")->required()->type_name("DIR")->group("Files");
  command->add_option("--input", options->input, "[1, 2] or {\"input_ids\": [1, 2]} a line, plain or .gz; - is stdin")
      ->required()
      ->type_name("FILE")
      ->group("Files");
  command->add_option("--output", options->output, "text lines; - is stdout")->type_name("FILE")->group("Files");
  command->add_flag("--skip_special_tokens", options->skip_special_tokens, "leave out [CLS], [SEP] and their like")
      ->group("Tokens");
  command->callback([options] { RunTokenizerDecode(*options); });
}

}  // namespace

void AddTokenizer(CLI::App& app, CommonFlags& common) {
  CLI::App* command = app.add_subcommand("tokenizer", "learn a vocabulary or word vectors; text to ids; ids to text");
  command->require_subcommand(1);
  AddTrain(*command);
  AddVectors(*command, common);
  AddEncode(*command);
  AddDecode(*command);
}

}  // namespace lshformer::cli
