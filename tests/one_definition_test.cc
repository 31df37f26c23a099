// No name of namespace lshformer is defined in two files: the headers are compiled into one program, where two
// different structs of one name are undefined behaviour that neither compiler nor linker reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The position after the literal that begins at `begin` with a quote.
size_t AfterLiteral(const std::string& text, size_t begin) {
  const char quote = text[begin];
  size_t i = begin + 1;
  while (i < text.size() && text[i] != quote) i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

size_t AfterRawLiteral(const std::string& text, size_t quote) {
  const size_t open = text.find('(', quote);
  const std::string end = ")" + text.substr(quote + 1, open - quote - 1) + "\"";
  const size_t close = text.find(end, open);
  return close == std::string::npos ? text.size() : close + end.size();
}

// Words and single characters, without comments, literals ("" stands for each) and preprocessor lines.
std::vector<std::string> Tokens(const std::string& text) {
  std::vector<std::string> tokens;
  bool line_start = true;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\n') line_start = true;
    if (std::isspace(static_cast<unsigned char>(c))) {
      ++i;
    } else if (c == '#' && line_start) {
      while (i < text.size() && (text[i] != '\n' || text[i - 1] == '\\')) ++i;
    } else if (text.compare(i, 2, "//") == 0) {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.compare(i, 2, "/*") == 0) {
      i = std::min(text.find("*/", i), text.size() - 2) + 2;
    } else if (c == '"' || c == '\'') {
      tokens.push_back("\"\"");
      i = AfterLiteral(text, i);
      line_start = false;
    } else if (c == 'R' && text.compare(i, 2, "R\"") == 0) {
      tokens.push_back("\"\"");
      i = AfterRawLiteral(text, i + 1);
      line_start = false;
    } else {
      size_t end = text.compare(i, 2, "::") == 0 ? i + 2 : i + 1;
      // A ' inside a number separates digits.
      if (IsWord(c))
        while (end < text.size() &&
               (IsWord(text[end]) || (std::isdigit(static_cast<unsigned char>(c)) && text[end] == '\'')))
          ++end;
      tokens.push_back(text.substr(i, end - i));
      i = end;
      line_start = false;
    }
  }
  return tokens;
}

std::string Joined(std::vector<std::string>::const_iterator begin, std::vector<std::string>::const_iterator end) {
  std::string out;
  for (auto word = begin; word != end; ++word) out += (out.empty() ? "" : " ") + *word;
  return out;
}

// What a declaration at namespace scope, up to its ; or {, defines: "" where it only declares.
// Types and aliases by name; variables of headers by name; functions with a body by name and parameters.
std::string Defined(std::vector<std::string> words, bool has_body) {
  if (words.empty()) return "";
  auto begin = words.cbegin();
  if (*begin == "template") {  // template <…>
    int depth = 0;
    for (++begin; begin != words.cend(); ++begin) {
      depth += (*begin == "<") - (*begin == ">");
      if (depth == 0) break;
    }
    if (begin != words.cend()) ++begin;
  }
  if (begin == words.cend()) return "";
  if (*begin == "using") return begin + 2 < words.cend() && begin[2] == "=" ? begin[1] : "";
  const std::set<std::string> types{"struct", "class", "union", "enum"};
  if (types.contains(*begin)) {
    if (!has_body) return "";
    while (begin != words.cend() && (types.contains(*begin) || *begin == "alignas")) {
      const bool sized = *begin == "alignas";
      ++begin;
      if (sized) begin = std::find(begin, words.cend(), ")") + 1;
    }
    const auto end = std::find(begin, words.cend(), ":");
    return Joined(begin, std::find(begin, end, "final"));
  }
  const auto equals = std::find(begin, words.cend(), "="), parenthesis = std::find(begin, words.cend(), "(");
  if (parenthesis < equals && parenthesis != begin) {
    if (!has_body) return "";
    int depth = 0;
    auto close = parenthesis;
    for (; close != words.cend(); ++close) {
      depth += (*close == "(") - (*close == ")");
      if (depth == 0) break;
    }
    auto name = parenthesis - 1;
    while (name > begin + 1 && (name[-1] == "::" || name[-1] == "~" || *name == "::")) --name;
    return Joined(name, close) + " )";
  }
  static const std::set<std::string> kNot{"static_assert", "extern", "friend", "public", "private"};
  if (equals == words.cend() && !has_body) return "";
  if (kNot.contains(*begin) || equals == begin) return "";
  auto name = equals - 1;
  while (*name == "]" && name != begin)
    name = std::find(std::make_reverse_iterator(name), words.crend(), "[").base() - 2;
  return *name;
}

// Qualified names of what a file defines at namespace scope. Names in unnamed namespaces are the file's own; so are, in
// a source, constants and static functions: of sources only types are looked at.
std::set<std::string> Definitions(const std::string& text, bool header) {
  std::set<std::string> found;
  std::vector<std::string> scopes, words;
  const std::vector<std::string> tokens = Tokens(text);
  int unnamed = 0, open_parentheses = 0;
  const auto define = [&](bool has_body) {
    const std::string name = Defined(words, has_body);
    const bool type = name.find('(') == std::string::npos && std::find(words.begin(), words.end(), "=") == words.end();
    const bool own = unnamed > 0 || (!header && !(type && has_body));
    if (!name.empty() && !own) {
      std::string qualified;
      for (const std::string& scope : scopes) qualified += scope + "::";
      found.insert(qualified + name);
    }
    words.clear();
  };
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == ";") {
      define(false);
    } else if (tokens[i] == "}" && open_parentheses == 0) {
      if (scopes.empty()) return {"unbalanced }"};
      unnamed -= scopes.back().empty();
      scopes.pop_back();
      words.clear();
    } else if (tokens[i] != "{" || open_parentheses > 0) {  // f(int a = {})
      open_parentheses += (tokens[i] == "(") - (tokens[i] == ")");
      words.push_back(tokens[i]);
    } else if (!words.empty() && (words[0] == "namespace" || words[0] == "extern")) {
      scopes.push_back(words[0] == "extern" ? "C" : Joined(words.begin() + 1, words.end()));
      unnamed += scopes.back().empty();
      words.clear();
    } else {
      // Bodies and initialisers, those of a constructor's members included, up to the declaration's end.
      const bool parameters = Defined(words, true).find('(') != std::string::npos;
      define(true);
      int depth = 0;
      for (;; ++i) {
        depth += (tokens[i] == "{") - (tokens[i] == "}");
        const bool ends = depth == 0 && i + 1 < tokens.size() && tokens[i] == "}" && tokens[i + 1] != ",";
        if (i + 1 >= tokens.size() || (ends && tokens[i + 1] != "{")) break;
      }
      if (!parameters)
        while (i + 1 < tokens.size() && tokens[i] != ";") ++i;
    }
  }
  return found;
}

TEST(OneDefinition, FindsWhatIsDefined) {
  EXPECT_THAT(
      Definitions("namespace a {\nstruct B;\nstruct C { int d = 1; struct E {}; };\nenum class F : int { kG };\n}",
                  true),
      ElementsAre("a::C", "a::F"));
  EXPECT_THAT(
      Definitions("namespace { struct B {}; }\nnamespace n { namespace { struct C {}; }\nclass D final : B {};}", true),
      ElementsAre("n::D"));
  EXPECT_THAT(
      Definitions("// struct A {};\n/* struct B {}; */ const char* c = \"struct D {};\";\n#define E struct F {}", true),
      ElementsAre("c"));
  EXPECT_THAT(
      Definitions("inline int F(int a, G b = {}) { return 1; }\nint F(double);\ninline int F() { return 2; }", true),
      ElementsAre("F ( )", "F ( int a , G b = { } )"));
  EXPECT_THAT(
      Definitions("template <class T, int N = 3>\nstruct A { T t; };\nusing B = A<int>;\nconstexpr int kC{3}, kD = 4;",
                  true),
      ElementsAre("A", "B", "kC"));
  EXPECT_THAT(
      Definitions("constexpr int kC = 3;\nstruct A {};\nint F() { return 0; }\nA::A() : b{1}, c(2) { }\nstruct B {};",
                  false),
      ElementsAre("A", "B"));
  EXPECT_THAT(Definitions("struct A::B { int c; };\nint A::F(int a, C b = {}) const { return 1; }", true),
              ElementsAre("A :: B", "A :: F ( int a , C b = { } )"));
  EXPECT_THAT(Definitions("constexpr int a[] = {1}; constexpr int b[2][3] = {}; constexpr int c[N]{};", true),
              ElementsAre("a", "b", "c"));
  EXPECT_THAT(Definitions("const int n = 1'000'000; const char* raw = R\"x(struct A {};)x\"; struct B {};", true),
              ElementsAre("B", "n", "raw"));
}

TEST(OneDefinition, HoldsInEverySource) {
  const fs::path source = fs::path(LSHFORMER_SOURCE_DIR) / "src";
  std::map<std::string, std::vector<std::string>> places;
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cc") continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    for (const std::string& name : Definitions(text.str(), extension == ".h"))
      places[name].push_back(fs::relative(entry.path(), source).string());
  }
  for (auto& [name, files] : places) {
    std::sort(files.begin(), files.end());
    EXPECT_EQ(files.size(), 1u) << name << " is defined in " << ::testing::PrintToString(files);
  }
  EXPECT_TRUE(places.contains("lshformer::Error")) << "the sources were not read";
  EXPECT_GT(places.size(), 150u);
}

}  // namespace
