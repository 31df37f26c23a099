#include "jobs/info/model_uses.h"

#include <algorithm>
#include <optional>

#include "models/family.h"
#include "models/model.h"
#include "models/rotary_options.h"
#include "nn/sentence/modules.h"

namespace lshformer {
namespace {

bool HasHead(const Family& family, Task task) {
  return std::any_of(family.heads.begin(), family.heads.end(), [&](const Head& head) { return head.task == task; });
}

}  // namespace

Json ModelUses(const ModelConfig& config) {
  const Family& family = FamilyOf(config);
  const std::optional<Task> own = FindTask(config);
  const bool words = !family.word_table.empty(), masked = own == Task::kMaskedLm || own == Task::kPretraining;
  Json predict = Json::array(), evaluate = Json::array(), train = Json::array();
  constexpr std::pair<Task, const char*> kLabelled[] = {{Task::kSequenceClassification, "text-classification"},
                                                        {Task::kMultipleChoice, "multiple-choice"},
                                                        {Task::kQuestionAnswering, "question-answering"}};
  if (masked)
    for (Json* list : {&predict, &evaluate}) list->push_back("fill-mask");
  for (const auto& [task, name] : kLabelled) {
    if (own == task)
      for (Json* list : {&predict, &evaluate}) list->push_back(name);
    if (HasHead(family, task)) train.push_back(name);
  }
  const bool embeds = HasHead(family, Task::kEncoder);
  if (embeds) {
    predict.push_back("feature-extraction");
    for (const char* name : {"sentence-similarity", "retrieval"}) evaluate.push_back(name);
    train.push_back("sentence-similarity");
  }
  const std::vector<AttentionSpec>& layers = config.attention;
  const bool converts = std::all_of(layers.begin(), layers.end(), [](const AttentionSpec& spec) {
    return Is<DenseAttention>(spec) || Is<LocalAttention>(spec) || Is<ClusteredAttention>(spec);
  });
  return Json{{"predict", predict},
              {"evaluate", evaluate},
              {"train", train},
              {"pretrain", !words && HasHead(family, Task::kMaskedLm)},
              {"convert", family.encoder_layers && converts},
              {"tune", family.encoder_layers && std::any_of(layers.begin(), layers.end(), IsSparse)},
              {"search", embeds},
              {"serve", !predict.empty()},
              {"inspect", true}};
}

Json LayerKinds(const ModelConfig& config) {
  Json kinds = Json::array();
  if (!FamilyOf(config).encoder_layers) return kinds;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const AttentionSpec& spec = config.layer_attention(layer);
    const Rotary* rotary = config.layer_rotary(layer);
    const Json attention = ShortName(OfHead(spec, 0)) + (spec.heads.empty() ? "" : " and others, by head"),
               turned = rotary == nullptr ? Json() : WriteRotary(*rotary);
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const Json& kind) {
      return kind["attention"] == attention && kind["rotary"] == turned;
    });
    if (same != kinds.end())
      (*same)["layers"].push_back(layer);
    else
      kinds.push_back({{"layers", Json::array({layer})}, {"attention", attention}, {"rotary", turned}});
  }
  return kinds;
}

Json SentenceFolder(const std::string& folder) {
  if (!SentenceModules::MakeVectors(folder)) return nullptr;
  const std::shared_ptr<const SentenceModules> modules = SentenceModules::Read(folder);
  return Json{{"encoder", modules->encoder_folder()}, {"modules", modules->Names()},
              {"normalized", modules->Normalizes()},  {"similarity", Name(modules->similarity())},
              {"prompts", modules->PromptNames()},    {"default_prompt", modules->Prompt({})}};
}

}  // namespace lshformer
