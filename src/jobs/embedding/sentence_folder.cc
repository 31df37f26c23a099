#include "jobs/embedding/sentence_folder.h"

#include "base/files.h"
#include "nn/sentence/module_files.h"

namespace lshformer {
namespace {

constexpr const char *kPoolingFolder = "1_Pooling", *kNormalizeFolder = "2_Normalize";

Json Module(int number, const std::string& path, const char* type) {
  return {{"idx", number},
          {"name", std::to_string(number)},
          {"path", path},
          {"type", std::string("sentence_transformers.models.") + type}};
}

void Write(const std::string& path, const Json& object) { WriteFileAtomically(path, object.dump(2) + "\n"); }

}  // namespace

void WriteSentenceFolder(const std::string& folder, const SentenceFolder& made) {
  MakeFolder(folder + "/" + kPoolingFolder);
  MakeFolder(folder + "/" + kNormalizeFolder);
  Json pooling = {{"word_embedding_dimension", made.width}};
  for (const Pooling one : {Pooling::kCls, Pooling::kMean, Pooling::kMax, Pooling::kMeanSqrtLen, Pooling::kWeightedMean,
                            Pooling::kLastToken})
    pooling[std::string(PoolingKey(one))] = one == made.pooling;
  pooling["include_prompt"] = made.include_prompt;
  Write(folder + "/" + kPoolingFolder + "/config.json", pooling);
  Write(folder + "/sentence_bert_config.json", {{"max_seq_length", made.max_seq_length}, {"do_lower_case", false}});
  Json settings = {{"prompts", Json::object()}, {"default_prompt_name", nullptr}, {"similarity_fn_name", "cosine"}};
  settings.update(made.settings);
  if (!settings["prompts"].is_object()) settings["prompts"] = Json::object();
  settings["prompts"].update(made.prompts);
  Write(folder + "/config_sentence_transformers.json", settings);
  // Last: it is what makes the folder one of Sentence-Transformers.
  Write(folder + "/modules.json", Json::array({Module(0, "", "Transformer"), Module(1, kPoolingFolder, "Pooling"),
                                               Module(2, kNormalizeFolder, "Normalize")}));
}

}  // namespace lshformer
