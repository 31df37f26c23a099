#include "text/words/english_exceptions.h"

#include <algorithm>
#include <initializer_list>

#include "text/utf8.h"

namespace lshformer {
namespace {

using List = std::initializer_list<const char*>;

constexpr List kWhole = {
    // Words with an apostrophe, and what is left of them without.
    "doin", "doin'", "Doin", "Doin'", "goin", "goin'", "Goin", "Goin'", "nothin", "nothin'", "Nothin", "Nothin'",
    "nuthin", "nuthin'", "Nuthin", "Nuthin'", "ol", "ol'", "Ol", "Ol'", "somethin", "somethin'", "Somethin",
    "Somethin'", "lovin", "lovin'", "Lovin", "Lovin'", "havin", "havin'", "Havin", "Havin'", "em", "'em", "ll", "'ll",
    "nuff", "'nuff", "'S", "'s", "\u2018S", "\u2018s", "'d", "'re", "'Cause", "'cause", "'cos", "'Cos", "'coz", "'Coz",
    "'cuz", "'Cuz", "'bout", "ma'am", "Ma'am", "o'clock", "O'clock", "and/or", "w/o", "'", "''", "\\\")", "<space>",
    "C++", "\\t", "\\n", "\u2014",
    // Abbreviations.
    "Mt.", "Ak.", "Ala.", "Apr.", "Ariz.", "Ark.", "Aug.", "Calif.", "Colo.", "Conn.", "Dec.", "Del.", "Feb.", "Fla.",
    "Ga.", "Ia.", "Id.", "Ill.", "Ind.", "Jan.", "Jul.", "Jun.", "Kan.", "Kans.", "Ky.", "La.", "Mar.", "Mass.",
    "Mich.", "Minn.", "Miss.", "N.C.", "N.D.", "N.H.", "N.J.", "N.M.", "N.Y.", "Neb.", "Nebr.", "Nev.", "Nov.", "Oct.",
    "Okla.", "Ore.", "Pa.", "S.C.", "Sep.", "Sept.", "Tenn.", "Va.", "Wash.", "Wis.", "a.m.", "Adm.", "Bros.", "co.",
    "Co.", "Corp.", "D.C.", "Dr.", "e.g.", "E.g.", "E.G.", "Gen.", "Gov.", "i.e.", "I.e.", "I.E.", "Inc.", "Jr.",
    "Ltd.", "Md.", "Messrs.", "Mo.", "Mont.", "Mr.", "Mrs.", "Ms.", "p.m.", "Ph.D.", "Prof.", "Rep.", "Rev.", "Sen.",
    "St.", "vs.", "v.s.", "ä.", "ö.", "ü.",
    // Faces.
    ":)", ":-)", ":))", ":-))", ":)))", ":-)))", "(:", "(-:", "=)", "(=", ":]", ":-]", "[:", "[-:", "[=", "=]", ":o)",
    "(o:", ":}", ":-}", "8)", "8-)", "(-8", ";)", ";-)", "(;", "(-;", ":(", ":-(", ":((", ":-((", ":(((", ":-(((",
    "):", ")-:", "=(", ">:(", ":')", ":'-)", ":'(", ":'-(", ":/", ":-/", "=/", "=|", ":|", ":-|", "]=", "=[", ":1",
    ":P", ":-P", ":p", ":-p", ":O", ":-O", ":o", ":-o", ":0", ":-0", ":()", ">:o", ":*", ":-*", ":3", ":-3", "=3", ":>",
    ":->", ":X", ":-X", ":x", ":-x", ":D", ":-D", ";D", ";-D", "=D", "xD", "XD", "xDD", "XDD", "8D", "8-D", "^_^",
    "^__^", "^___^", ">.<", ">.>", "<.<", "._.", ";_;", "-_-", "-__-", "v.v", "V.V", "v_v", "V_V", "o_o", "o_O", "O_o",
    "O_O", "0_o", "o_0", "0_0", "o.O", "O.o", "O.O", "o.o", "0.0", "o.0", "0.o", "@_@", "<3", "<33", "<333", "</3",
    "(^_^)", "(-_-)", "(._.)", "(>_<)", "(*_*)", "(¬_¬)", "ಠ_ಠ", "ಠ︵ಠ", "(ಠ_ಠ)", "¯\\(ツ)/¯", "(╯°□°）╯︵┻━┻",
    "><(((*>"};

constexpr List kInParts = {"y' all",  "y all",  "how 'd 'y", "How 'd 'y", "not 've", "not ve",
                           "Not 've", "Not ve", "can not",   "Can not",   "gon na",  "Gon na",
                           "got ta",  "Got ta", "let 's",    "Let 's",    "c'm on",  "C'm on"};

// Words that are spelled like a contraction without its apostrophe.
constexpr List kWordsAllTheSame = {"Ill",  "ill",  "Its",  "its",  "Hell", "hell", "Shell", "shell",
                                   "Shed", "shed", "were", "Were", "Well", "well", "Whore", "whore"};

// The word, and with a capital.
std::vector<std::string> BothCases(const char* word) {
  std::string capital = word;
  capital[0] = static_cast<char>(capital[0] - 'a' + 'A');
  return {word, capital};
}

}  // namespace

const EnglishExceptions& EnglishExceptions::Get() {
  static const EnglishExceptions exceptions;
  return exceptions;
}

EnglishExceptions::EnglishExceptions() {
  AddContractions();
  for (const char* word : kWordsAllTheSame) {
    const std::string_view view = word;
    parts_.erase(std::u32string(view.begin(), view.end()));
  }
  for (const char* word : kWhole) Add(word);
  for (const char* parts : kInParts) Add(parts);
  for (char letter = 'a'; letter <= 'z'; ++letter) Add(std::string{letter, '.'});
  for (int hour = 1; hour <= 12; ++hour)
    for (const char* half : {"a.m.", "am", "p.m.", "pm"}) Add(std::to_string(hour) + " " + half);
  for (const char scale : std::string_view("cfkCFK")) Add("\u00B0 " + std::string{scale} + " .");
}

// Spelled with ' and with ’.
void EnglishExceptions::Add(std::string_view parts) {
  std::string curly;
  for (const char c : parts) curly += c == '\'' ? std::string("\u2019") : std::string{c};
  AddSpelling(parts);
  AddSpelling(curly);
}

void EnglishExceptions::AddSpelling(std::string_view parts) {
  std::u32string word;
  Parts sizes(1, 0);
  for (const char* at = parts.data(); at != parts.data() + parts.size();) {
    const char32_t c = NextCodePoint(at);
    if (c == ' ') {
      sizes.push_back(0);
    } else {
      word += c;
      ++sizes.back();
    }
  }
  longest_ = std::max(longest_, word.size());
  parts_[word] = sizes;
}

// With the apostrophe and without.
void EnglishExceptions::AddContractions() {
  const auto add = [this](List words, List endings) {
    for (const char* word : words) {
      for (const std::string& spelled : BothCases(word)) {
        for (const char* ending : endings) {
          std::string parts = spelled + " " + ending;
          Add(parts);
          std::erase(parts, '\'');
          Add(parts);
        }
      }
    }
  };
  const List would = {"'ll", "'ll 've", "'d", "'d 've"};
  add({"i"}, {"'m", "'m a"});
  add({"i", "you", "he", "she", "it", "we", "they"}, would);
  add({"i", "you", "we", "they"}, {"'ve"});
  add({"you", "we", "they"}, {"'re"});
  add({"he", "she", "it"}, {"'s"});
  add({"who", "what", "when", "where", "why", "how", "there", "that", "this", "these", "those"}, would);
  add({"who", "what", "when", "where", "why", "how", "there", "that", "this"}, {"'s"});
  add({"who", "what", "when", "where", "why", "how", "there", "these", "those"}, {"'re", "'ve"});
  add({"ca", "could", "do", "does", "did", "had", "may", "might", "must", "need", "ought", "sha", "should", "wo",
       "would"},
      {"n't", "n't 've"});
  add({"could", "might", "must", "should", "would"}, {"'ve"});
  add({"ai", "are", "is", "was", "were", "have", "has", "dare"}, {"n't"});
}

}  // namespace lshformer
