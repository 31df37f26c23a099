// What a Sentence-Transformers folder does with the hidden states of a text to make one vector of them.
//
//   modules.json                        [{"path", "type"}, …]: a Transformer, a Pooling, then any of those below
//   PATH/config.json, model.safetensors of each: PATH is inside the folder, the Transformer's mostly the folder itself
//   sentence_bert_config.json           beside the Transformer: max_seq_length, do_lower_case
//   config_sentence_transformers.json   prompts, default_prompt_name, similarity_fn_name, truncate_dim
//
//   Pooling     nn/pooling.h; of several modes one vector behind the other. include_prompt false: without the tokens of
//               the prompt and what stands before it
//   Dense       f(W x + b), with use_residual + x, or + R x where the widths differ
//   LayerNorm   (x − mean) / √(variance + 10⁻⁵) · γ + β
//   Normalize   x / max(|x|, 10⁻¹²)
//   Dropout     x
//
// and of the result the first truncate_dim numbers. Layouts of the library's releases up to 6.2 are read; meant is what
// release 6 does with them. A module, key or value that is not known here and would change a vector is an Error that
// names the file and it. Arithmetic: float64 sums, results of each module float32.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "nn/pooling.h"
#include "text/tokenizer.h"

namespace lshformer {

enum class Similarity { kCosine, kDot, kEuclidean, kManhattan };
const char* Name(Similarity similarity);
// Σ a_i b_i / (|a| |b|), Σ a_i b_i, −|a − b|, −Σ |a_i − b_i|: the larger the more alike. Float64.
double SimilarityOf(Similarity similarity, std::span<const float> a, std::span<const float> b);

struct PoolingModule {
  std::vector<Pooling> modes;
  bool include_prompt = true;
};
struct DenseModule {
  int64_t in = 0, out = 0;
  double (*function)(double) = nullptr;
  std::vector<float> weight, bias, residual;  // [out, in]; [out] or empty; [out, in] or empty
  bool adds_input = false;                    // use_residual
};
struct LayerNormModule {
  std::vector<float> weight, bias;  // [width] each
};
struct NormalizeModule {};
using VectorModule = std::variant<DenseModule, LayerNormModule, NormalizeModule>;

// How one text is made a vector where that is asked for otherwise than the modules say.
struct VectorChanges {
  std::optional<Pooling> pooling{};  // in place of the Pooling's modes; not kNone
  std::optional<bool> normalize{};   // true: to length 1 in the end; false: without the Normalize that comes last
};

class SentenceModules {
 public:
  // Whether the folder has a modules.json, and not one of a CrossEncoder or SparseEncoder, which is read as any
  // model's.
  static bool MakeVectors(const std::string& folder);
  // nullptr: the folder has no modules.json.
  static std::shared_ptr<const SentenceModules> Read(const std::string& folder);

  // The folder of the encoder: its config.json, weights and tokenizer. Of any other model's folder that folder.
  static std::string EncoderFolder(const std::string& folder);
  // Paths of the modules that have a folder of their own, by modules.json: {"1_Pooling", …}, the Transformer's first
  // where it is no "".
  static std::vector<std::string> ModuleFolders(const std::string& folder);

  const std::string& encoder_folder() const { return encoder_folder_; }
  // For people: {"Pooling (cls, mean)", "Dense 384 → 128", "Normalize"}, and the names of the prompts.
  std::vector<std::string> Names() const;
  std::vector<std::string> PromptNames() const;
  bool lower_cases() const { return lower_cases_; }  // the text, before it is tokenised
  bool includes_prompt() const { return pooling_.include_prompt; }
  Similarity similarity() const { return similarity_; }
  // The text that stands before each text, "" for none: by its name, or the folder's default. OptionError of
  // "prompt_name" with the known names.
  const std::string& Prompt(const std::optional<std::string>& name) const;
  // Tokens that a prompt and what stands before it take of a text that begins with it, as the library counts: those of
  // the prompt alone, without the special one at its end.
  int64_t PromptTokens(const Tokenizer& tokenizer, const std::string& prompt, int max_seq_length) const;
  // Tokens of the longest text: of sentence_bert_config.json, else of the tokenizer's folder, at most `positions`.
  // Error naming the file and its key where that is too short for one text.
  int64_t LongestText(const Tokenizer& tokenizer, int64_t positions) const;

  // Numbers of a vector of an encoder whose states have `hidden` numbers. Error where a module takes another width.
  int64_t Width(int64_t hidden, const VectorChanges& changes = {}) const;
  // Of a text's states [n, hidden]; where the prompt is left out its first `prompt_tokens` are.
  std::vector<float> Vector(std::span<const float> rows, int64_t hidden, int64_t prompt_tokens,
                            const VectorChanges& changes = {}) const;
  // Whether a vector is of length 1 in the end.
  bool Normalizes(const VectorChanges& changes = {}) const;
  // Whether the first state is all that a vector is made of.
  bool TakesFirstToken(const VectorChanges& changes = {}) const;

 private:
  void ReadModules(const std::string& folder);
  void ReadEncoderSettings();
  void ReadSettings(const std::string& folder);
  std::vector<Pooling> Modes(const VectorChanges& changes) const;
  size_t Applied(const VectorChanges& changes) const;  // of then_, the first so many

  std::string path_;  // modules.json, for errors
  std::string encoder_folder_;
  PoolingModule pooling_;
  int64_t pooled_width_ = 0;  // that the Pooling says of the encoder
  std::vector<VectorModule> then_;
  int64_t max_seq_length_ = 0, truncate_dim_ = 0;
  bool lower_cases_ = false;
  std::map<std::string, std::string> prompts_;
  std::string default_prompt_;  // its name; "": none
  Similarity similarity_ = Similarity::kCosine;
};

}  // namespace lshformer
