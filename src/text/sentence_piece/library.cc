#include "text/sentence_piece/library.h"

#include <dlfcn.h>
#include <sentencepiece_processor.h>

#include <new>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "text/sentence_piece/message_reader.h"

namespace lshformer {
namespace {

// The sanitizers' own functions must come first, so under them the library sees what everyone sees; no sanitized build
// has libtorch.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kBinding = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int kBinding = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

void* Open(const char* name) {
  // By the loader's own search, else where the headers' package is.
  void* library = dlopen(name, kBinding);
  if (library == nullptr) library = dlopen((std::string(LSHFORMER_SENTENCEPIECE_FOLDER "/") + name).c_str(), kBinding);
  if (library == nullptr) Fail("SentencePiece's library could not be loaded: {}", Shown(dlerror(), 200));
  return library;
}

// Whether what the library has under this name is a `Function` nothing can check: the names tell its arguments.
template <class Function>
Function* Named(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr) Fail("SentencePiece's library is another version than 0.1.97: it has no function {}", name);
  return reinterpret_cast<Function*>(found);
}

void DestroyStatus(void* status);

// sentencepiece::util::Status, whose functions are not linked: one pointer, null where all is well.
struct Status {
  void* rep = nullptr;
  Status() = default;
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;
  ~Status() {
    if (rep != nullptr) DestroyStatus(this);
  }
};
static_assert(sizeof(Status) == sizeof(sentencepiece::util::Status));

// sentencepiece::SentenceIterator, function for function.
class Sentences {
 public:
  explicit Sentences(const std::vector<std::string>& all) : all_(all) {}
  virtual ~Sentences() = default;
  virtual bool done() const { return next_ == all_.size(); }
  virtual void Next() { ++next_; }
  virtual const std::string& value() const { return all_[next_]; }
  virtual Status status() const { return {}; }

 private:
  const std::vector<std::string>& all_;
  size_t next_ = 0;
};

struct Library {
  void* handle = Open("libsentencepiece.so.0");
  void (*construct)(void* processor) = Named<void(void*)>(handle, "_ZN13sentencepiece22SentencePieceProcessorC1Ev");
  Status (*load)(void* processor, std::string_view serialized) = Named<Status(void*, std::string_view)>(
      handle,
      "_ZN13sentencepiece22SentencePieceProcessor23LoadFromSerializedProtoESt17basic_string_viewIcSt11char_traitsIcEE");
  std::string (*encode)(const void* processor, std::string_view text) =
      Named<std::string(const void*, std::string_view)>(
          handle,
          "_ZNK13sentencepiece22SentencePieceProcessor23EncodeAsSerializedProtoB5cxx11ESt17basic_string_viewIcSt11char_"
          "traitsIcEE");
  std::string (*decode)(const void* processor, const std::vector<int>& ids) =
      Named<std::string(const void*, const std::vector<int>&)>(
          handle, "_ZNK13sentencepiece22SentencePieceProcessor9DecodeIdsB5cxx11ERKSt6vectorIiSaIiEE");
  void (*destroy)(void* processor) = Named<void(void*)>(handle, "_ZN13sentencepiece22SentencePieceProcessorD1Ev");
  void (*destroy_status)(void* status) = Named<void(void*)>(handle, "_ZN13sentencepiece4util6StatusD1Ev");
  const char* (*message)(const void* status) =
      Named<const char*(const void*)>(handle, "_ZNK13sentencepiece4util6Status13error_messageEv");
};

const Library& LoadedLibrary() {
  static const Library library;
  return library;
}

void DestroyStatus(void* status) { LoadedLibrary().destroy_status(status); }

std::shared_ptr<void> NewProcessor() {
  constexpr size_t kBytes = sizeof(sentencepiece::SentencePieceProcessor);
  struct FreeMemory {
    void operator()(void* memory) const { ::operator delete(memory); }
  };
  std::unique_ptr<void, FreeMemory> memory(::operator new(kBytes));
  LoadedLibrary().construct(memory.get());
  return {memory.release(), [](void* processor) {
            LoadedLibrary().destroy(processor);
            ::operator delete(processor);
          }};
}

// A SentencePieceText of sentencepiece.proto.
LibraryPiece ParsePiece(std::string_view bytes, std::string_view whole) {
  constexpr uint32_t kPiece = 1, kId = 2, kBegin = 4, kEnd = 5;
  static const std::string kWhere = "what SentencePiece's library says";
  LibraryPiece piece;
  MessageReader reader(bytes, whole, kWhere);
  for (Field field; reader.Next(field);) {
    if (field.number == kPiece) piece.piece = field.bytes;
    if (field.number == kId) piece.id = static_cast<int32_t>(field.value);
    if (field.number == kBegin) piece.begin = field.value;
    if (field.number == kEnd) piece.end = field.value;
  }
  return piece;
}

}  // namespace

SentencePieceLibraryModel::SentencePieceLibraryModel(const std::string& serialized, std::string_view where) {
  const std::shared_ptr<void> processor = NewProcessor();
  try {
    const Status status = LoadedLibrary().load(processor.get(), serialized);
    if (status.rep != nullptr)
      Fail("{}: the SentencePiece library refuses: {}", where, Shown(LoadedLibrary().message(&status), 120));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // of its trie
    Fail("{}: the SentencePiece library refuses: {}", where, Shown(error.what(), 120));
  }
  processor_ = processor;
}

std::vector<LibraryPiece> SentencePieceLibraryModel::Encode(std::string_view text) const {
  constexpr uint32_t kPieces = 2;
  static const std::string kWhere = "what SentencePiece's library says";
  const std::string encoded = LoadedLibrary().encode(processor_.get(), text);
  std::vector<LibraryPiece> pieces;
  MessageReader reader(encoded, encoded, kWhere);
  for (Field field; reader.Next(field);)
    if (field.number == kPieces) pieces.push_back(ParsePiece(field.bytes, encoded));
  return pieces;
}

std::string SentencePieceLibraryModel::Decode(const std::vector<int>& ids) const {
  return LoadedLibrary().decode(processor_.get(), ids);
}

std::string TrainWithSentencePieceLibrary(const std::unordered_map<std::string, std::string>& settings,
                                          const std::vector<std::string>& sentences) {
  LoadedLibrary();
  using Train = Status(const std::unordered_map<std::string, std::string>&, Sentences*, std::string*);
  static Train* const train = Named<Train>(
      Open("libsentencepiece_train.so.0"),
      "_ZN13sentencepiece20SentencePieceTrainer5TrainERKSt13unordered_mapINSt7__cxx1112basic_stringIcSt11char_"
      "traitsIcESaIcEEES7_St4hashIS7_ESt8equal_toIS7_ESaISt4pairIKS7_S7_EEEPNS_16SentenceIteratorEPS7_");
  Sentences iterator(sentences);
  std::string model;
  const Status status = train(settings, &iterator, &model);
  if (status.rep != nullptr) throw std::runtime_error(LoadedLibrary().message(&status));
  return model;
}

}  // namespace lshformer
