#include "jobs/data/word_source.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "models/family.h"
#include "text/words/word_vocabulary.h"

namespace lshformer {
namespace {

constexpr int64_t kSpecialWords = 2;  // [PAD], [UNK]

WordVocabularyBuilder CountWords(const std::vector<std::string>& files, SquadUse use) {
  WordVocabularyBuilder builder;
  for (const std::string& path : files) {
    const SquadData data = ReadSquad(path, use);
    builder.Add(data.contexts);
    std::vector<std::string> questions;
    for (const SquadQuestion& question : data.questions) questions.push_back(question.text);
    builder.Add(questions);
  }
  return builder;
}

}  // namespace

WordSource ReadWordSource(const std::vector<std::string>& train_files, SquadUse use, const std::string& word_vectors) {
  const WordVocabularyBuilder builder = CountWords(train_files, use);
  WordSource source;
  if (word_vectors.empty()) {
    try {
      source.tokenizer = builder.Build(kFewestUses, /*vocab_size=*/INT32_MAX);
    } catch (const Error&) {  // which would name an option of another command
      Fail("{}: no word of the training data occurs {} times, so there is no vocabulary; {} names one",
           train_files.front(), kFewestUses, OptionName{"tokenizer_name"});
    }
    return source;
  }
  const Spellings spellings = builder.AllSpellings();
  source.vectors = ReadWordVectors(word_vectors, [&](std::string_view word) { return spellings.contains(word); });
  if (source.vectors->words.empty()) Fail("{}: has a vector of none of the words of the training data", word_vectors);
  source.tokenizer = builder.Build(source.vectors->words);
  return source;
}

void TakeVectors(const WordSource& words, ModelConfig& config) {
  FamilyOf(config).take_words(config, {.words = words.tokenizer->vocab_size(),
                                       .characters = words.tokenizer->character_vocab_size(),
                                       .vector_width = words.vectors->width,
                                       .fixed = true});
}

void CopyVectors(const WordVectors& vectors, Model& model) {
  const std::string_view name = FamilyOf(model.config()).word_table;
  const auto parameters = model.NamedParameters();
  const auto table = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const auto& parameter) { return parameter.first == name; });
  const torch::NoGradGuard no_grad;
  const auto rows = static_cast<int64_t>(vectors.words.size());
  table->second.narrow(0, kSpecialWords, rows)
      .copy_(torch::from_blob(const_cast<float*>(vectors.values.data()), {rows, vectors.width}));
}

}  // namespace lshformer
