#include "text/words/word_tokenizer.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/content_kind.h"
#include "base/error.h"
#include "base/files.h"
#include "text/utf8.h"
#include "text/words/english_words.h"

namespace lshformer {
namespace {

// Longer words of a text are spelled in no other case: nothing like them is in a vocabulary, and ICU takes int32 sizes.
constexpr size_t kLongestVariant = 4096;  // bytes

// Neither file is one of other programs, so that nothing in them must be borne.
void CheckLines(const Vocabulary& vocabulary, std::string_view where) {
  constexpr std::string_view kFirst[] = {"[PAD]", "[UNK]"};
  for (int32_t id = 0; id < 2; ++id) {
    if (id >= vocabulary.size()) Fail("{}:{}: expected {}, got the end of the file", where, id + 1, kFirst[id]);
    if (vocabulary.Token(id) != kFirst[id])
      Fail("{}:{}: expected {}, got \"{}\"", where, id + 1, kFirst[id], Shown(vocabulary.Token(id)));
  }
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& token = vocabulary.Token(id);
    if (token.empty()) Fail("{}:{}: expected a token, got a blank line", where, id + 1);
    if (const int32_t last = vocabulary.Id(token); last != id)
      Fail("{}:{}: token \"{}\" is already on line {}", where, last + 1, Shown(token), id + 1);
  }
}

std::u32string ReadCharacters(std::string_view contents, std::string_view where) {
  const Vocabulary vocabulary(contents, where);
  CheckLines(vocabulary, where);
  std::u32string characters(2, U'\0');
  for (int32_t id = 2; id < vocabulary.size(); ++id) {
    const std::string& line = vocabulary.Token(id);
    const char* at = line.data();
    const char32_t c = NextCodePoint(at);
    const bool is_one = at == line.data() + line.size();
    if (!is_one || IsEnglishSpace(c) || u_iscntrl(static_cast<UChar32>(c)))
      Fail("{}:{}: expected one character, no white space and no control character, got \"{}\"", where, id + 1,
           Shown(line));
    characters += c;
  }
  return characters;
}

std::string Utf8(const icu::UnicodeString& text) {
  std::string bytes;
  text.toUTF8String(bytes);
  return bytes;
}

}  // namespace

std::array<std::string, 3> CaseVariants(std::string_view word) {
  if (std::all_of(word.begin(), word.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; })) {
    const auto is_in = [](char c, char first, char last) { return c >= first && c <= last; };
    std::string lower(word), upper(word);
    for (char& c : lower) c = is_in(c, 'A', 'Z') ? static_cast<char>(c + 0x20) : c;
    for (char& c : upper) c = is_in(c, 'a', 'z') ? static_cast<char>(c - 0x20) : c;
    std::string capital = lower;
    if (!capital.empty()) capital[0] = upper[0];
    return {std::move(lower), std::move(capital), std::move(upper)};
  }
  const auto unicode = icu::UnicodeString::fromUTF8({word.data(), static_cast<int32_t>(word.size())});
  const icu::Locale& root = icu::Locale::getRoot();
  icu::UnicodeString lower = unicode, upper = unicode;
  lower.toLower(root);
  upper.toUpper(root);
  const int32_t first = unicode.moveIndex32(0, 1);
  const icu::UnicodeString rest(unicode, first);
  icu::UnicodeString capital(unicode, 0, first), small = rest;
  capital.toTitle(nullptr, root);
  return {Utf8(lower), Utf8(capital) + Utf8(small.toLower(root)), Utf8(upper)};
}

WordTokenizer::WordTokenizer(std::string_view words, std::string_view words_where, std::string_view characters,
                             std::string_view characters_where, const TokenizerSettings& settings, TokenizerFiles files)
    : settings_(settings),
      files_(std::move(files)),
      words_(words, words_where),
      characters_(ReadCharacters(characters, characters_where)) {
  CheckLines(words_, words_where);
  files_.try_emplace(kWordsFile, words);
  files_.try_emplace(kCharactersFile, characters);
  ascii_.fill(unk_id());
  for (size_t id = 2; id < characters_.size(); ++id) {
    const char32_t c = characters_[id];
    if (c < ascii_.size()) {
      ascii_[c] = static_cast<int32_t>(id);
    } else {
      further_.emplace(c, static_cast<int32_t>(id));
    }
  }
}

const std::string& WordTokenizer::Token(int32_t id) const {
  if (id < 0 || id >= vocab_size()) Fail("token id: expected 0 to {}, got {}", vocab_size() - 1, id);
  return words_.Token(id);
}

int32_t WordTokenizer::Find(std::string_view word) const {
  if (const int32_t id = words_.Id(word); id > unk_id()) return id;
  if (word.size() > kLongestVariant) return unk_id();
  for (const std::string& variant : CaseVariants(word))
    if (const int32_t id = words_.Id(variant); id > unk_id()) return id;
  return unk_id();
}

int32_t WordTokenizer::CharacterId(char32_t c) const {
  if (c < ascii_.size()) return ascii_[c];
  const auto found = further_.find(c);
  return found == further_.end() ? unk_id() : found->second;
}

bool WordTokenizer::AppendPieces(std::string_view text, int32_t first, int32_t type, size_t limit,
                                 Encoding& out) const {
  if (out.cu_characters.empty()) out.cu_characters.push_back(0);
  std::string spelled;
  return !SplitEnglish(text, first, [&](const EnglishWord& word) {
    if (out.ids.size() >= limit) return false;
    spelled.clear();
    for (const char32_t c : word.text) AppendUtf8(c, spelled);
    out.Push(Find(spelled), type, word.begin, word.end);
    for (const char32_t c : word.text.substr(0, kCharactersPerWord)) out.characters.push_back(CharacterId(c));
    out.cu_characters.push_back(static_cast<int32_t>(out.characters.size()));
    return true;
  });
}

std::string WordTokenizer::Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  std::string text;
  for (const int32_t id : ids) {
    const std::string& word = Token(id);
    if (skip_special_tokens && IsSpecial(id)) continue;
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

void WordTokenizer::Save(const std::string& folder, int64_t max_length) const {
  TokenizerFiles files = files_;
  const Json special = {{"pad_token", settings_.pad}, {"unk_token", settings_.unk}};
  if (!files.contains(kSpecialTokensFile)) files[kSpecialTokensFile] = special.dump(2) + "\n";
  Json config = special;
  config["tokenizer_class"] = "WordTokenizer";
  SaveTokenizerFiles(folder, std::move(files), settings_, config, max_length);
}

std::shared_ptr<const Tokenizer> LoadWordTokenizer(const std::string& folder) {
  const std::string words = InFolder(folder, kWordsFile), characters = InFolder(folder, kCharactersFile);
  if (!std::filesystem::exists(characters)) Fail("{}: words.txt without characters.txt in this folder", Shown(folder));
  TokenizerSettings settings;
  ReadTokenizerSettings(folder, settings);
  const TokenizerSettings expected;
  if (settings.pad != expected.pad || settings.unk != expected.unk)
    Fail("{}: the tokens of words.txt are {} and {}, its settings call them \"{}\" and \"{}\"", Shown(folder),
         expected.pad, expected.unk, Shown(settings.pad, 40), Shown(settings.unk, 40));
  std::vector<std::string> others;
  for (const std::string& end : {settings.bos, settings.eos})
    if (!end.empty()) others.push_back(end);
  others.insert(others.end(), settings.further.begin(), settings.further.end());
  for (const AddedToken& token : settings.added) others.push_back(token.content);
  if (!others.empty())
    Fail("{}: a tokenizer of whole words has no added tokens, its settings have \"{}\"", Shown(folder),
         Shown(others[0]));
  TokenizerFiles files = ReadTokenizerFiles(folder);
  // What is no regular file, a pipe, is not among them.
  const auto contents = [&](const char* name, const std::string& path) {
    return files.contains(name) ? files[name] : ReadOwnKind(path, Vocabulary::kMaxBytes);
  };
  const std::string words_text = contents(kWordsFile, words), characters_text = contents(kCharactersFile, characters);
  return std::make_shared<WordTokenizer>(words_text, words, characters_text, characters, settings, std::move(files));
}

}  // namespace lshformer
