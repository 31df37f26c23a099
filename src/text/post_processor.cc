#include "text/post_processor.h"

#include <vector>

#include "base/error.h"

namespace lshformer {
namespace {

class PostProcessorReader {
 public:
  PostProcessorReader(const std::string& path, const std::function<int32_t(const std::string&)>& id_of)
      : where_(path + ": \"post_processor\""), id_of_(id_of) {}

  void Read(const Json& processor, bool inside) {
    if (!processor.is_object()) Refuse("expected an object");
    const std::string type = GetString(processor, "type", where_);
    type_ = Shown(type, 40);
    if (has_around_) Refuse("expected nothing behind what puts tokens around texts");
    if (type == "Sequence" && !inside) {
      const Json& steps = Member(processor, "processors");
      if (!steps.is_array() || steps.size() > 2) Refuse("expected a list \"processors\" of ByteLevel and a template");
      for (const Json& step : steps) Read(step, /*inside=*/true);
    } else if (type == "ByteLevel") {
      ReadTrimming(processor);
    } else if (type == "TemplateProcessing") {
      ReadTemplate(processor);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      ReadFixed(processor, type == "RobertaProcessing");
    } else {
      Refuse("expected TemplateProcessing, BertProcessing, RobertaProcessing or ByteLevel");
    }
  }

  PostProcessor Take() { return std::move(made_); }

 private:
  [[noreturn]] void Refuse(const std::string& what) const { Fail("{} ({}): {}", where_, type_, what); }

  const Json& Member(const Json& json, const char* key) const {
    if (!json.is_object() || !json.contains(key)) Refuse(fmt::format("expected \"{}\"", key));
    return json[key];
  }

  int32_t CheckedId(const std::string& token, const Json& ids) const {
    const int32_t id = id_of_(token);
    if (id < 0 || !ids.is_array() || ids.size() != 1 || ids[0] != id)
      Refuse(fmt::format("expected the id of \"{}\" in the vocabulary, {}, got {}", Shown(token, 40), id,
                         ShownValue(ids)));
    return id;
  }

  void ReadTrimming(const Json& processor) {
    made_.trims_places = GetBoolOr(processor, "trim_offsets", where_, true);
    made_.keeps_first_space = GetBoolOr(processor, "add_prefix_space", where_, true);
  }

  void ReadFixed(const Json& processor, bool roberta) {
    const auto read = [&](const char* key, std::string& token) {
      const Json& pair = Member(processor, key);
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string())
        Refuse(fmt::format("\"{}\": expected a token and its id", key));
      token = pair[0];
      return CheckedId(token, Json::array({pair[1]}));
    };
    const int32_t cls = read("cls", made_.cls), sep = read("sep", made_.sep);
    made_.around = roberta ? TextTemplate::Roberta(cls, sep) : TextTemplate::Bert(cls, sep);
    if (roberta) ReadTrimming(processor);
    has_around_ = true;
  }

  void ReadTemplate(const Json& processor) {
    const Json& ids = Member(processor, "special_tokens");
    ReadForm(Member(processor, "single"), ids, /*texts=*/1, made_.around.one);
    ReadForm(Member(processor, "pair"), ids, /*texts=*/2, made_.around.two);
    has_around_ = true;
  }

  int32_t TypeOf(const Json& piece) const {
    const Json& type = Member(piece, "type_id");
    if (!type.is_number_unsigned() || type > INT32_MAX) Refuse("\"type_id\": expected a number from 0");
    return type.get<int32_t>();
  }

  void ReadForm(const Json& pieces, const Json& ids, int texts, TextTemplate::Form& form) {
    constexpr size_t kMost = 64;
    if (!pieces.is_array() || pieces.size() > kMost) Refuse(fmt::format("expected lists of at most {} pieces", kMost));
    std::vector<std::vector<TextTemplate::Token>> around(1);  // before A, after it, after B
    std::string first, last;
    for (const Json& piece : pieces) {
      if (piece.is_object() && piece.contains("Sequence")) {
        const Json& text = piece["Sequence"];
        if (static_cast<int>(around.size()) > texts || Member(text, "id") != (around.size() == 1 ? "A" : "B"))
          Refuse("expected each text once, A before B");
        (around.size() == 1 ? form.first_type : form.second_type) = TypeOf(text);
        around.emplace_back();
        continue;
      }
      const Json& special = Member(piece, "SpecialToken");
      const std::string token = GetString(special, "id", where_);
      around.back().push_back({CheckedId(token, Member(Member(ids, token.c_str()), "ids")), TypeOf(special)});
      (around.size() == 1 ? first : last) = token;
    }
    if (static_cast<int>(around.size()) != texts + 1) Refuse("expected each text once, A before B");
    form.before = around.front();
    if (texts == 2) form.between = around[1];
    form.after = around.back();
    if (texts == 1 && form.before.size() == 1) made_.cls = first;
    if (texts == 1 && form.after.size() == 1) made_.sep = last;
  }

  const std::string where_;
  const std::function<int32_t(const std::string&)>& id_of_;
  std::string type_ = "none";
  bool has_around_ = false;
  PostProcessor made_;
};

}  // namespace

PostProcessor ReadPostProcessor(const Json& processor, const std::string& path,
                                const std::function<int32_t(const std::string&)>& id_of) {
  if (processor.is_null()) return {};
  PostProcessorReader reader(path, id_of);
  reader.Read(processor, /*inside=*/false);
  return reader.Take();
}

}  // namespace lshformer
