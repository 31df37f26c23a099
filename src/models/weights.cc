#include "models/weights.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/logging.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "io/safetensors.h"
#include "io/weight_files.h"
#include "io/weight_names.h"

namespace lshformer {
namespace {

// FNV-1a: the substream of a parameter.
uint64_t HashName(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : name) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

// Values of one Philox substream: blocks of this many are drawn independently, so that large tables use all cores.
constexpr int64_t kDrawBlock = 1 << 14;

// draw: a number of a stream.
template <class Draw>
void DrawNumbers(torch::Tensor& tensor, uint64_t seed, const std::string& name, const Draw& draw) {
  const uint64_t key = StreamKey(seed, HashName(name), 0, 0, Purpose::kInitialization);
  float* values = tensor.data_ptr<float>();
  ParallelFor(tensor.numel(), kDrawBlock, [&](int64_t begin, int64_t end) {
    PhiloxStream stream(key, static_cast<uint64_t>(begin / kDrawBlock));
    for (int64_t i = begin; i < end; ++i) values[i] = static_cast<float>(draw(stream));
  });
}

// True if no exponent is all ones; without branches, so that it runs at the speed of memory.
bool AllFinite(const float* values, int64_t count) {
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i)
    bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(values[i]) & 0x7F800000u) == 0x7F800000u);
  return bad == 0;
}

using FilesPtr = std::shared_ptr<const WeightFiles>;

// The numbers where they lie; undefined where they must be copied.
torch::Tensor InPlace(const TensorView& view, const FilesPtr& files) {
  const auto* bytes = view.bytes.data();
  if (view.dtype != DType::kF32 || view.bytes.empty() || reinterpret_cast<uintptr_t>(bytes) % alignof(float) != 0)
    return {};
  return torch::from_blob(
      const_cast<std::byte*>(bytes), view.shape, [files](void*) {}, torch::kFloat32);
}

// kPiece: copied and checked while in the cache.
constexpr int64_t kPiece = 1 << 16;

bool AllFiniteInParallel(const float* values, int64_t count) {
  std::atomic<bool> finite{true};
  ParallelFor(count, kPiece, [&](int64_t begin, int64_t end) {
    if (!AllFinite(values + begin, end - begin)) finite = false;
  });
  return finite;
}

[[noreturn]] void FailShape(const TensorView& view, const ParameterSpec& spec, const std::string& path,
                            const std::string& name, const std::string& advice = "") {
  Fail("{}: tensor \"{}\" has shape {}, expected {} (config.json: {}){}", path, name, ShapeText(view.shape),
       ShapeText(spec.shape), spec.reason, advice);
}

// "m is a text-classification model (BertForSequenceClassification)", for those who ask it for something else.
std::string WhatItIs(const std::string& folder, const ModelConfig& config) {
  const auto name = [&]() -> std::string {
    switch (FindTask(config).value_or(Task::kEncoder)) {
      case Task::kMaskedLm:
        return "fill-mask model";
      case Task::kPretraining:
        return "pretraining model";
      case Task::kSequenceClassification:
        return "text-classification model";
      case Task::kMultipleChoice:
        return "multiple-choice model";
      case Task::kQuestionAnswering:
        return "question-answering model";
      case Task::kEncoder:
        break;
    }
    return "model without a head";
  };
  const std::string architecture =
      config.architectures.empty() ? "" : fmt::format(" ({})", Shown(config.architectures.front()));
  return fmt::format("{} is a {}{}", Shown(folder, 120), name(), architecture);
}

torch::Tensor Read(const TensorView& view, const ParameterSpec& spec, const FilesPtr& files, const std::string& name,
                   WeightPlace place, const std::string& advice) {
  const std::string& path = files->FileOf(name);
  const std::string where = fmt::format("{}: tensor \"{}\"", path, name);
  if (view.shape != spec.shape) FailShape(view, spec, path, name, advice);
  torch::Tensor tensor = place == WeightPlace::kMappedFile ? InPlace(view, files) : torch::Tensor();
  const bool mapped = tensor.defined();
  if (!mapped) tensor = torch::empty(spec.shape, torch::kFloat32);
  float* values = tensor.data_ptr<float>();
  const int64_t count = tensor.numel();
  std::atomic<bool> finite{true};
  if (mapped) {
    finite = AllFiniteInParallel(values, count);
  } else if (view.dtype == DType::kF32) {
    ParallelFor(count, kPiece, [&](int64_t begin, int64_t end) {
      std::memcpy(values + begin, view.bytes.data() + begin * sizeof(float), (end - begin) * sizeof(float));
      if (!AllFinite(values + begin, end - begin)) finite = false;
    });
  } else {
    ConvertTo(view, std::span(values, count), where);
    finite = AllFinite(values, count);
  }
  if (!finite) {
    for (int64_t i = 0; i < count; ++i)
      if (!std::isfinite(values[i]))
        Fail("{} has the value {} at element {}, expected numbers that are finite in float32", where, values[i], i);
  }
  return tensor;
}

}  // namespace

torch::Tensor DrawParameter(const ParameterSpec& spec, const ModelConfig& config, uint64_t seed) {
  torch::Tensor tensor = torch::empty(spec.shape, torch::kFloat32);
  switch (spec.initial) {
    case Initial::kZero:
      tensor.zero_();
      break;
    case Initial::kOne:
      tensor.fill_(1);
      break;
    case Initial::kNormal:
    case Initial::kNormalPaddingRow:
      DrawNumbers(tensor, seed, spec.name,
                  [&](PhiloxStream& stream) { return config.initializer_range * stream.Normal(); });
      break;
    case Initial::kUniform:
      DrawNumbers(tensor, seed, spec.name,
                  [&](PhiloxStream& stream) { return spec.bound * (2 * stream.Uniform() - 1); });
      break;
    case Initial::kCutNormal:
      DrawNumbers(tensor, seed, spec.name, [&](PhiloxStream& stream) {
        double number = spec.deviation * stream.Normal();
        while (std::abs(number) > spec.bound) number = spec.deviation * stream.Normal();
        return number;
      });
      break;
  }
  if (spec.initial == Initial::kNormalPaddingRow && config.pad_token_id >= 0 && config.pad_token_id < spec.shape[0])
    tensor[config.pad_token_id].zero_();
  return tensor.requires_grad_(spec.role.trained);
}

// More in the file than config.json asks for: the answers are not those of the model that was trained.
void WarnOfFurtherTensors(const std::map<std::string, std::string>& by_name, const ModelConfig& config,
                          const std::vector<ParameterSpec>& specs, const std::string& path) {
  const Family& family = FamilyOf(config);
  if (family.layer_prefix.empty()) return;
  const std::string next = fmt::format("{}{}.", family.layer_prefix, family.layers(config));
  const auto found = by_name.lower_bound(next);
  if (found != by_name.end() && found->first.starts_with(next)) {
    spdlog::warn("{}: has more layers than the {} of config.json (\"{}\"); the rest is not used", path,
                 family.layers(config), family.layers_key);
    return;
  }
  std::set<std::string_view> known;
  for (const ParameterSpec& spec : specs) known.insert(spec.name);
  const std::string own(family.weight_names.prefix), pooler = own + "pooler.";  // features do without a pooler
  std::set<std::string> wholes;
  for (const ParameterSpec& spec : specs)
    if (const std::optional<WeightPart> joined = PartOfJoined(family.weight_names, spec.name))
      wholes.insert(joined->whole);
  std::vector<std::string> unread;
  for (const auto& [name, in_file] : by_name)
    if (name.starts_with(own) && !name.starts_with(pooler) && !known.contains(name) && !wholes.contains(name))
      unread.push_back(in_file);
  if (!unread.empty())
    spdlog::warn("{}: config.json asks for a model without {} of its tensors, which are not used: \"{}\"{}", path,
                 unread.size(), Shown(unread.front(), 120), unread.size() > 1 ? ", …" : "");
}

namespace {

struct FoundWeight {
  std::string name;  // in the file
  TensorView view;
};

// A parameter's numbers, be they a part of another tensor of the file.
std::optional<FoundWeight> FindWeight(const Family& family, const std::map<std::string, std::string>& by_name,
                                      const WeightFiles& files, const std::string& parameter) {
  if (const auto found = by_name.find(parameter); found != by_name.end())
    return FoundWeight{found->second, *files.Find(found->second)};
  const std::optional<WeightPart> joined = PartOfJoined(family.weight_names, parameter);
  const auto found = joined ? by_name.find(joined->whole) : by_name.end();
  if (found == by_name.end()) return std::nullopt;
  FoundWeight part{found->second, *files.Find(found->second)};
  std::vector<int64_t>& shape = part.view.shape;
  if (shape.empty() || shape[0] % joined->parts != 0) return part;  // whose shape is then refused
  const size_t bytes = part.view.bytes.size() / static_cast<size_t>(joined->parts);
  shape[0] /= joined->parts;
  part.view.bytes = part.view.bytes.subspan(static_cast<size_t>(joined->part) * bytes, bytes);
  return part;
}

// Older code of some families made heads without biases: where a file has such a head, they are 0.
bool HasNoBias(const Family& family, const std::map<std::string, std::string>& by_name,
               const std::vector<ParameterSpec>& specs, const ParameterSpec& missing) {
  if (family.weight_names.spellings.empty() || missing.block != "head" || !missing.name.ends_with(".bias"))
    return false;
  return std::any_of(specs.begin(), specs.end(), [&](const ParameterSpec& spec) {
    return spec.block == "head" && spec.name.ends_with(".weight") && by_name.contains(spec.name);
  });
}

bool SameInParallel(const TensorView& a, const TensorView& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  std::atomic<bool> same{true};
  ParallelFor(static_cast<int64_t>(a.bytes.size()), kPiece, [&](int64_t begin, int64_t end) {
    if (std::memcmp(a.bytes.data() + begin, b.bytes.data() + begin, static_cast<size_t>(end - begin)) != 0)
      same = false;
  });
  return same;
}

// A file may hold a tied tensor under both of its names. HF's library reads a decoder whose numbers are not those of
// the tensor that it is tied to as weights of its own: the models here have none, and would answer something else.
void RefuseUntiedDecoder(const WeightNames& names, const std::map<std::string, std::string>& by_name,
                         const WeightFiles& files) {
  for (const std::string& name : files.names()) {
    const std::string canonical = CanonicalWeightName(names, name);
    for (const WeightAlias& alias : names.aliases) {
      if (alias.alias != canonical) continue;
      const std::string& tied = by_name.at(std::string(alias.tensor));  // this one's own name where it stands for it
      if (tied == name || SameInParallel(*files.Find(name), *files.Find(tied))) continue;
      // Files converted from TensorFlow may hold a bias that was never loaded.
      if (name.ends_with("bias"))
        spdlog::warn("{}: tensor \"{}\" differs from \"{}\", which counts", files.FileOf(name), name, tied);
      else
        Fail(
            "{}: tensor \"{}\" differs from \"{}\", to which it is tied: models whose decoder has weights of its own "
            "are not read",
            files.FileOf(name), name, tied);
    }
  }
}

}  // namespace

ParameterMap LoadParameters(const std::string& folder, const ModelConfig& config, Task task, uint64_t seed,
                            bool require_head, WeightPlace place, bool ignore_mismatched_sizes) {
  const auto files = std::make_shared<const WeightFiles>(folder);
  const std::string& path = files->path();
  const Family& family = FamilyOf(config);
  const std::vector<ParameterSpec> specs = family.parameters(config, task);
  const auto by_name = MapWeightNames(family.weight_names, files->names(), path);
  if (task == Task::kMaskedLm || task == Task::kPretraining) RefuseUntiedDecoder(family.weight_names, by_name, *files);
  WarnOfFurtherTensors(by_name, config, specs, path);
  ParameterMap parameters;
  std::vector<std::string> drawn, misfits;
  bool head = false;  // a pooler alone, under features that do not pass through it, is no news
  for (const ParameterSpec& spec : specs) {
    if (const std::optional<FoundWeight> found = FindWeight(family, by_name, *files, spec.name)) {
      const auto& [name, view] = *found;
      if (spec.block == "head" && !require_head && view.shape != spec.shape) {
        if (!ignore_mismatched_sizes)
          FailShape(view, spec, files->FileOf(name), name,
                    fmt::format("; {} draws a new head from the seed", OptionName{"ignore_mismatched_sizes"}));
        misfits.push_back(fmt::format("{} {}, needed {}", name, ShapeText(view.shape), ShapeText(spec.shape)));
        parameters[spec.name] = DrawParameter(spec, config, seed);
        continue;
      }
      const std::string advice =
          spec.block == "head" && view.shape != spec.shape ? "; " + WhatItIs(folder, config) : "";
      parameters[spec.name] = Read(view, spec, files, name, place, advice).requires_grad_(spec.role.trained);
      continue;
    }
    if (HasNoBias(family, by_name, specs, spec)) {
      parameters[spec.name] = torch::zeros(spec.shape).requires_grad_(spec.role.trained);
      continue;
    }
    const bool of_head = spec.block == "head" || spec.block == "pooler";
    if (of_head && require_head)
      Fail("{}: it has no head for the task, no tensor \"{}\"; fine-tune it first (train, pretrain)",
           WhatItIs(folder, config), spec.name);
    if (!of_head)
      Fail("{}: tensor \"{}\" is missing, expected shape {}{}", path, spec.name, ShapeText(spec.shape),
           spec.block.empty()                  ? fmt::format(": {}", spec.reason)
           : family.explain_missing != nullptr ? family.explain_missing(by_name, config)
                                               : "");
    parameters[spec.name] = DrawParameter(spec, config, seed);
    drawn.push_back(spec.name);
    head |= spec.block == "head";
  }
  if (!misfits.empty())
    spdlog::warn("{}: its head is for other labels, a new one is drawn from the seed: {}", path,
                 fmt::join(misfits, "; "));
  if (head)
    spdlog::warn("{}: has no head for this task, a new one is drawn from the seed: {}", path, fmt::join(drawn, ", "));
  return parameters;
}

void SaveParameters(const Model& model, const std::string& path, DType dtype) {
  const auto type = dtype == DType::kF16 ? torch::kHalf : dtype == DType::kBF16 ? torch::kBFloat16 : torch::kFloat32;
  std::vector<NamedTensor> tensors;
  std::vector<torch::Tensor> alive;
  for (const auto& [name, parameter] : model.NamedParameters()) {
    const torch::Tensor values = parameter.detach().to(type).contiguous();
    if (type == torch::kHalf && !torch::isfinite(values).all().item<bool>())
      Fail("{}: tensor \"{}\" has values beyond 65504, which float16 cannot hold; bfloat16 can", path, name);
    alive.push_back(values);
    const auto* bytes = static_cast<const std::byte*>(values.data_ptr());
    tensors.push_back({FileWeightName(model, name), {dtype, values.sizes().vec(), {bytes, values.nbytes()}}});
  }
  WriteSafetensors(path, tensors, {{"format", "pt"}});
}

std::vector<std::pair<std::string, torch::Tensor>> ParametersByNamesOf(const std::string& folder, const Model& model) {
  const WeightFiles files(folder);
  const WeightNames& names = FamilyOf(model.config()).weight_names;
  const auto by_name = MapWeightNames(names, files.names(), files.path());
  std::vector<std::pair<std::string, torch::Tensor>> tensors;
  std::map<std::string, std::vector<torch::Tensor>> joined;
  for (const auto& [name, tensor] : model.NamedParameters()) {
    const std::optional<WeightPart> part = PartOfJoined(names, name);
    if (const auto found = by_name.find(name); found != by_name.end()) {
      tensors.emplace_back(found->second, tensor);
    } else if (const auto whole = part ? by_name.find(part->whole) : by_name.end(); whole != by_name.end()) {
      std::vector<torch::Tensor>& parts = joined[whole->second];
      parts.resize(static_cast<size_t>(part->parts));
      parts[static_cast<size_t>(part->part)] = tensor;
    }
  }
  for (const auto& [name, parts] : joined) tensors.emplace_back(name, torch::cat(parts));
  return tensors;
}

}  // namespace lshformer
