// English text to words, by the rules of spaCy's blank English tokenizer (spacy.blank("en") of spaCy 3, MIT licence),
// which the question answering models of Stanford's CS224N read their data with.
//
//   white space   parts the text into chunks. What Python's str.isspace holds for white space; it makes no words (spaCy
//                 makes one of white space that is more than one space).
//   quotes        '' and `` are written for ", and end the chunk.
//   exceptions    a chunk, or what is left of it, that is in the list of english_exceptions.h is that list's parts:
//                 do n't, it 's, can not, U.S., Mr., e.g., 10 a.m., :-)
//   prefixes      are taken off the front of a chunk, one after another: punctuation , : ; ! ? ( ) [ ] { } < > _ # * &
//                 and its relatives of other scripts, quotes, two and more full stops or …, § % = — –, a + before no
//                 digit, currency ($ £ € US$ …), symbols such as © ° and emoji (general category So).
//   suffixes      off the end, a prefix and a suffix in turn: punctuation, quotes, ellipses and symbols as before, 's
//   'S
//                 ’s ’S — –; after a digit a +, currency and units (km, kg, GB, % …); a full stop after a small letter,
//                 digit, punctuation or quote, after two capitals, or after °C; not after one capital: initials and
//                 U.S. keep theirs.
//   addresses     what is left and reads like www.example.com/path or name@example.com is one word.
//   infixes       part what is left: two and more full stops or …, symbols; + - * ^ between digits; a full stop between
//                 a small and a capital letter; a comma between letters; hyphens and ~ before a letter and after a
//                 letter or digit; : < > = / likewise.
//   exceptions    in the end neighbours that together are in the list are what it says: "8" ")" a face.
//
// Where spaCy lists letters and symbols by script, we ask for their general category; of addresses it also knows those
// in numbers. docs/data.md has the agreement that was measured.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>

namespace lshformer {

struct EnglishWord {
  std::u32string_view text;    // as it stands in the text, but for '' and ``, which are "
  int32_t begin = 0, end = 0;  // code points of the text, half-open
};
using EnglishWordSink = std::function<bool(const EnglishWord&)>;  // false: no more words, please

// `text` is valid UTF-8; its first code point is number `first`. False if the sink refused a word. Time is linear in
// the text, memory in its longest chunk.
bool SplitEnglish(std::string_view text, int32_t first, const EnglishWordSink& sink);

// White space as the rules mean it.
bool IsEnglishSpace(char32_t c);

}  // namespace lshformer
