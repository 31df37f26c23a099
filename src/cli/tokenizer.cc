// lshformer tokenizer train | encode | decode.
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
  command->add_option("--type", *type, "BERT's WordPiece, or ALBERT's SentencePiece unigram model")
      ->check(OneOf({"wordpiece", "unigram"}))
      ->group("Tokenizer");
  command->add_option("--vocab_size", options->training.vocab_size, "tokens, the special ones included")
      ->check(IntegerIn(1, 1 << 24))
      ->group("Tokenizer");
  command
      ->add_option("--min_frequency", options->training.min_frequency,
                   "wordpiece: of a pair of pieces that becomes one")
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
      ->group("Tokenizer");
  command->add_option("--input", options->input, "text files, plain or .gz; - is stdin")
      ->required()
      ->expected(1, INT_MAX)
      ->type_name("FILE")
      ->group("Files");
  command->add_option("--output_dir", options->output_dir, "folder for vocab.txt or spiece.model, and its settings")
      ->required()
      ->type_name("DIR")
      ->group("Files");
  command->add_flag("--overwrite_output_dir", options->overwrite_output_dir, "write into a folder that is not empty")
      ->group("Files");
  command->callback([command, options, type] {
    if (*type == "unigram") {
      RefuseFlags(*command, {"--min_frequency", "--limit_alphabet"}, "is for --type wordpiece");
      options->type = TokenizerType::kUnigram;
    }
    RunTokenizerTrain(*options);
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

void AddTokenizer(CLI::App& app, CommonFlags&) {
  CLI::App* command = app.add_subcommand("tokenizer", "learn a vocabulary; text to ids; ids to text");
  command->require_subcommand(1);
  AddTrain(*command);
  AddEncode(*command);
  AddDecode(*command);
}

}  // namespace lshformer::cli
