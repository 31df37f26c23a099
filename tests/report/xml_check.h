// A strict reader of XML's syntax, for the pages and charts: balanced tags, quoted unique attributes, known entities.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lshformer {

class XmlCheck {
 public:
  explicit XmlCheck(std::string_view text) : text_(text) {}

  // "" if well formed, else what is wrong and where.
  std::string Problem() {
    if (text_.starts_with("<!DOCTYPE")) at_ = text_.find('>') + 1;
    while (problem_.empty() && at_ < text_.size()) {
      if (text_[at_] == '<') {
        Tag();
      } else {
        Text();
      }
    }
    if (problem_.empty() && !open_.empty()) Note("unclosed <" + open_.back() + ">");
    if (problem_.empty() && roots_ != 1) Note("expected one root element");
    return problem_;
  }

 private:
  static bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
  static bool IsName(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == ':'; }
  void Note(const std::string& what) {
    if (problem_.empty()) problem_ = what + " near: " + std::string(text_.substr(at_ > 40 ? at_ - 40 : 0, 120));
  }

  void Entity() {
    for (const std::string_view known : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
      if (text_.substr(at_).starts_with(known)) {
        at_ += known.size();
        return;
      }
    }
    Note("unknown entity");
    ++at_;
  }

  void Character() {
    const auto c = static_cast<unsigned char>(text_[at_]);
    if (c == '&') return Entity();
    if (c < 0x20 && !IsSpace(text_[at_])) Note("forbidden control character");
    ++at_;
  }

  void Text() {
    if (open_.empty() && !IsSpace(text_[at_])) Note("text outside the root");
    Character();
  }

  std::string Name() {
    std::string name;
    while (at_ < text_.size() && IsName(text_[at_])) name += text_[at_++];
    if (name.empty()) Note("expected a name");
    return name;
  }

  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }

  void Attributes() {
    std::set<std::string> seen;
    for (SkipSpace(); problem_.empty() && at_ < text_.size() && IsName(text_[at_]); SkipSpace()) {
      if (!seen.insert(Name()).second) Note("attribute twice");
      if (text_.substr(at_, 2) != "=\"") return Note("expected =\"");
      for (at_ += 2; at_ < text_.size() && text_[at_] != '"';) {
        if (text_[at_] == '<') return Note("< in an attribute");
        Character();
      }
      ++at_;
    }
  }

  void Tag() {
    ++at_;
    const bool closing = at_ < text_.size() && text_[at_] == '/';
    at_ += closing ? 1 : 0;
    const std::string name = Name();
    if (closing) {
      if (open_.empty() || open_.back() != name) return Note("</" + name + "> closes nothing");
      open_.pop_back();
    } else {
      roots_ += open_.empty() ? 1 : 0;
      Attributes();
      open_.push_back(name);
      if (at_ < text_.size() && text_[at_] == '/') {
        open_.pop_back();
        ++at_;
      }
    }
    if (at_ >= text_.size() || text_[at_] != '>') return Note("expected >");
    ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<std::string> open_;
  int roots_ = 0;
  std::string problem_;
};

inline std::string XmlProblem(std::string_view text) { return XmlCheck(text).Problem(); }

}  // namespace lshformer
