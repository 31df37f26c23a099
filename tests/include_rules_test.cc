// The house keeps its floors: a folder of src/ includes only layers that src/CMakeLists.txt lets it depend on, directly
// or through another, and links none that it does not use; only layers marked TORCH know of libtorch, only kernels know
// of oneDNN and of what stands below kernels/cpu/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Layer {
  int level = 0;
  bool torch = false;
  std::set<std::string> depends;  // as written; what it may include is Below()
};
using Layers = std::map<std::string, Layer>;

// Lines of "name level TRUE|FALSE dependencies…", which CMake writes from its lshformer_layer() calls.
Layers ParseLayers(std::istream& text) {
  Layers layers;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string name, torch;
    Layer layer;
    words >> name >> layer.level >> torch;
    layer.torch = torch == "TRUE";
    for (std::string word; words >> word;) layer.depends.insert(word);
    if (!name.empty()) layers[name] = layer;
  }
  return layers;
}

// The layers that `layer` depends on, directly or through another.
std::set<std::string> Below(const Layers& layers, const std::string& layer) {
  std::set<std::string> below;
  for (const std::string& name : layers.at(layer).depends) {
    below.insert(name);
    below.merge(Below(layers, name));
  }
  return below;
}

struct Include {
  int line = 0;
  bool quoted = false;
  std::string path;
  std::string folder() const { return path.substr(0, path.find('/')); }
};

std::vector<Include> Includes(const std::string& text) {
  std::vector<Include> found;
  const std::regex include(R"re(^\s*#\s*include\s*([<"])([^">]+)[">])re");
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::smatch match;
    if (std::regex_search(line, match, include)) found.push_back({number, match[1] == "\"", match[2]});
  }
  return found;
}

// What breaks the rules in one file of src/<layer>/, a line of text each.
std::vector<std::string> Violations(const Layers& layers, const std::string& layer, const std::string& text,
                                    const fs::path& source_folder) {
  std::vector<std::string> found;
  const std::set<std::string> below = Below(layers, layer);
  for (const Include& include : Includes(text)) {
    const std::string folder = include.folder();
    const std::string where = "line " + std::to_string(include.line) + ": " + include.path;
    if (!include.quoted) {
      const bool torch = folder == "torch" || folder == "ATen" || folder == "c10";
      if (torch && !layers.at(layer).torch) found.push_back(where + " is libtorch's, " + layer + " is not TORCH");
      if (folder == "oneapi" && layer != "kernels" && !layers.at(layer).torch)
        found.push_back(where + " is oneDNN's, " + layer + " is not TORCH");
    } else if (include.path == "lshformer/version.h") {
      continue;  // written by CMake, for every layer
    } else if (!fs::exists(source_folder / include.path)) {
      found.push_back(where + " is not a path below src/");
    } else if (include.path.starts_with("kernels/cpu/") && layer != "kernels") {
      found.push_back(where + " is the kernels' own: " + layer + " includes kernels/*.h");
    } else if (folder != layer && !below.contains(folder)) {
      found.push_back(where + ": " + layer + " does not depend on " + folder);
    }
  }
  return found;
}

const fs::path kSource = fs::path(LSHFORMER_SOURCE_DIR) / "src";

Layers RealLayers() {
  std::ifstream file(LSHFORMER_LAYERS);
  return ParseLayers(file);
}

std::string Text(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// path → layer, of every header and source of the program.
std::map<fs::path, std::string> Sources() {
  std::map<fs::path, std::string> sources;
  for (const auto& entry : fs::recursive_directory_iterator(kSource)) {
    const std::string extension = entry.path().extension();
    if (extension == ".h" || extension == ".cc")
      sources[entry.path()] = fs::relative(entry.path(), kSource).begin()->string();
  }
  return sources;
}

TEST(IncludeRules, FindWhatBreaksThem) {
  std::istringstream text("base 0 FALSE \nkernels 1 FALSE base\nio 1 FALSE base\nops 2 TRUE kernels\n");
  const Layers layers = ParseLayers(text);
  const auto violations = [&](const std::string& layer, const std::string& source) {
    return Violations(layers, layer, source, kSource);
  };
  EXPECT_THAT(Below(layers, "ops"), ElementsAre("base", "kernels"));
  EXPECT_THAT(violations("io", "#include \"base/json.h\"\n#include <vector>\n"), IsEmpty());
  EXPECT_THAT(violations("ops", "#include \"base/json.h\"\n"), IsEmpty());
  EXPECT_THAT(violations("io", "\n#include \"kernels/plan.h\"\n"),
              ElementsAre("line 2: kernels/plan.h: io does not depend on kernels"));
  // A lower level is not enough: the layer must be linked.
  EXPECT_THAT(violations("ops", "#include \"io/gzip.h\"\n"), ElementsAre(HasSubstr("ops does not depend on io")));
  EXPECT_THAT(violations("base", "#  include \"cli/commands.h\""), ElementsAre(HasSubstr("does not depend on cli")));
  EXPECT_THAT(violations("base", "#include \"json.h\""), ElementsAre(HasSubstr("not a path below src/")));
  EXPECT_THAT(violations("io", "#include <torch/torch.h>"), ElementsAre(HasSubstr("io is not TORCH")));
  EXPECT_THAT(violations("ops", "#include <torch/torch.h>"), IsEmpty());
  EXPECT_THAT(violations("ops", "#include \"kernels/cpu/isa.cc\""), ElementsAre(HasSubstr("is the kernels' own")));
}

TEST(IncludeRules, HoldInEverySource) {
  const Layers layers = RealLayers();
  const auto sources = Sources();
  for (const auto& [path, layer] : sources) {
    ASSERT_TRUE(layers.contains(layer)) << layer << " is no lshformer_layer() in src/CMakeLists.txt";
    for (const std::string& violation : Violations(layers, layer, Text(path), kSource))
      ADD_FAILURE() << fs::relative(path, kSource).string() << ": " << violation;
  }
  EXPECT_GT(sources.size(), 50u);  // the sources were found
}

// CMake refuses a dependency that is not of a lower level; here: nothing is linked that is not used, but through
// another.
TEST(IncludeRules, EveryLinkIsUsed) {
  const Layers layers = RealLayers();
  std::map<std::string, std::set<std::string>> used;
  for (const auto& [path, layer] : Sources())
    for (const Include& include : Includes(Text(path)))
      if (include.quoted) used[layer].insert(include.folder());
  for (const auto& [name, layer] : layers) {
    for (const std::string& dependency : layer.depends) {
      EXPECT_LT(layers.at(dependency).level, layer.level) << name << " and " << dependency;
      std::set<std::string> reached = Below(layers, dependency);
      reached.insert(dependency);
      std::set<std::string> elsewhere;
      for (const std::string& other : layer.depends) {
        if (other == dependency) continue;
        elsewhere.insert(other);
        elsewhere.merge(Below(layers, other));
      }
      bool needed = false;
      for (const std::string& folder : used[name]) needed |= reached.contains(folder) && !elsewhere.contains(folder);
      EXPECT_TRUE(needed) << name << " depends on " << dependency << " and includes nothing by it";
    }
  }
}

// What breaks the rule of families in one file: a literal that begins with the name of one ("bert", "BertModel").
std::vector<std::string> NamedFamilies(const std::string& text, const std::set<std::string>& families) {
  std::vector<std::string> found;
  const std::regex literal(R"re("([A-Za-z]+)[^"/]*")re");
  for (std::sregex_iterator match(text.begin(), text.end(), literal), end; match != end; ++match) {
    std::string word = (*match)[1];
    word[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(word[0])));  // "BERT" is prose
    for (const std::string& family : families)
      if (word == family || word.starts_with(family + "For") || word == family + "Model") found.push_back(match->str());
  }
  return found;
}

// A family of models is a folder of models/ and its row of the table: nothing else of the program names one, but the
// quickstart, which chooses a model for its user, and the table of which tokenizer a folder without a class has.
TEST(Families, AreNamedInTheirOwnFolderAlone) {
  EXPECT_THAT(NamedFamilies("x == \"bert\" || y == \"BertForMaskedLM\" || z == \"bert.pooler\"", {"bert"}),
              ElementsAre("\"bert\"", "\"BertForMaskedLM\"", "\"bert.pooler\""));
  EXPECT_THAT(NamedFamilies("#include \"bert/a.h\"\n\"adamw_bert\", \"BertTokenizer\"", {"bert"}), IsEmpty());
  std::set<std::string> families;
  for (const auto& entry : fs::directory_iterator(kSource / "models"))
    if (entry.is_directory()) families.insert(entry.path().filename());
  EXPECT_THAT(families, Contains("bert"));
  for (const auto& [path, layer] : Sources()) {
    const bool own = families.contains(path.parent_path().filename()),
               choice = path.stem() == "quickstart" || path.stem() == "tokenizer_class";
    if (own || choice) continue;
    const std::string code = std::regex_replace(Text(path), std::regex("//[^\n]*"), "");
    EXPECT_THAT(NamedFamilies(code, families), IsEmpty()) << fs::relative(path, kSource).string();
  }
}

}  // namespace
