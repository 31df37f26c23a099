#include "text/added_token_builder.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace lshformer {
namespace {

auto Same(std::vector<AddedToken>& tokens, const std::string& content) {
  return std::find_if(tokens.begin(), tokens.end(), [&](const AddedToken& token) { return token.content == content; });
}

}  // namespace

AddedTokenBuilder::AddedTokenBuilder(const TokenizerSettings& settings, Vocabulary& vocabulary, std::string_view where)
    : settings_(settings), vocabulary_(vocabulary), where_(where) {
  for (AddedToken token : settings.added) {
    SetId(token);
    token.id = vocabulary_.Add(token.content);
    if (Same(tokens_, token.content) == tokens_.end()) tokens_.push_back(std::move(token));
  }
  for (const std::string& name : {settings.bos, settings.eos})
    if (!name.empty()) AddByName({name});
}

void AddedTokenBuilder::SetId(const AddedToken& token) {
  if (token.id < 0) return;
  const int32_t known = vocabulary_.Id(token.content);
  if (known >= 0 && known != token.id)
    Fail("{}: token \"{}\" has id {} in the vocabulary, but {} in {}", where_, Shown(token.content), known, token.id,
         settings_.added_from);
  if (known >= 0) return;
  // In a vocabulary with repeated lines transformers counts the different ones and begins there, on a token's own id.
  if (vocabulary_.Has(token.id) && token.id < vocabulary_.different()) FailTaken(token);
  vocabulary_.Set(token.content, token.id);
}

// The other token is one that was added before, or else the vocabulary's.
void AddedTokenBuilder::FailTaken(const AddedToken& token) const {
  const auto before =
      std::find_if(tokens_.begin(), tokens_.end(), [&](const AddedToken& other) { return other.id == token.id; });
  if (before == tokens_.end())
    Fail("{}: id {} is that of \"{}\" in the vocabulary, but of \"{}\" in {}", where_, token.id,
         Shown(vocabulary_.Token(token.id), 40), Shown(token.content, 40), settings_.added_from);
  // A file beside the vocabulary, or a part of the same.
  const bool part = settings_.added_from.starts_with('"');
  const std::string from = part ? where_ + ": " + settings_.added_from
                                : (std::filesystem::path(where_).parent_path() / settings_.added_from).string();
  Fail("{}: id {} is that of \"{}\" and of \"{}\"", from, token.id, Shown(before->content, 40),
       Shown(token.content, 40));
}

int32_t AddedTokenBuilder::AddNamed(AddedToken token) {
  if (const auto known = Same(tokens_, token.content); known != tokens_.end()) {
    known->special = true;
    return known->id;
  }
  const auto said = std::find_if(settings_.named.begin(), settings_.named.end(),
                                 [&](const AddedToken& other) { return other.content == token.content; });
  if (said == settings_.named.end() && !settings_.adds_unsaid && vocabulary_.Id(token.content) < 0) return -1;
  if (said != settings_.named.end() && *said != AddedToken{.content = token.content}) token = *said;
  token.id = vocabulary_.Add(token.content);
  tokens_.push_back(token);
  return token.id;
}

int32_t AddedTokenBuilder::AddUnknown() {
  if (settings_.other_unk.empty()) return AddNamed({.content = settings_.unk});
  AddNamed({.content = settings_.other_unk});
  return vocabulary_.Id(settings_.unk);
}

void AddedTokenBuilder::AddByName(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (Same(tokens_, name) == tokens_.end()) AddNamed({.content = name});
}

AddedTokens AddedTokenBuilder::Build(const AddedTokens::Normalize& normalize) {
  AddByName(settings_.further);
  return AddedTokens(std::move(tokens_), normalize);
}

}  // namespace lshformer
