// SentencePiece's library, loaded when it is first needed and bound to itself.
//
// Not linked: it carries a protobuf of its own, whose names would take the place of those that libtorch's protobuf
// expects of itself (and the other way round), and a program that links both ends before main. Loaded with
// RTLD_DEEPBIND it sees its own names first, and nobody else sees them. Its functions are asked for by name.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lshformer {

// One piece of an encoded text.
struct LibraryPiece {
  std::string piece;  // as in the model, or the text of an unknown one
  int32_t id = 0;
  size_t begin = 0, end = 0;  // bytes of the text
};

// A loaded model; its calls are safe from several threads.
class SentencePieceLibraryModel {
 public:
  // `serialized` is one that ParseSentencePieceModel has checked. Error, which begins with `where`, if the library
  // refuses it all the same, or if there is no library.
  SentencePieceLibraryModel(const std::string& serialized, std::string_view where);
  std::vector<LibraryPiece> Encode(std::string_view text) const;
  std::string Decode(const std::vector<int>& ids) const;

 private:
  std::shared_ptr<const void> processor_;
};

// The model that the trainer makes of `sentences` under its settings. Throws what the trainer says as
// std::runtime_error, Error if there is no library.
std::string TrainWithSentencePieceLibrary(const std::unordered_map<std::string, std::string>& settings,
                                          const std::vector<std::string>& sentences);

}  // namespace lshformer
