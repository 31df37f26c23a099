// Which of the compiled instruction sets runs.
#include "kernels/isa.h"

#include <hwy/targets.h>

#include <atomic>
#include <bit>

#include "base/error.h"
#include "base/lower_case.h"
#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/cpu/attention/bfloat16.h"
#include "kernels/execution.h"

namespace lshformer {
namespace {

// All that the machine can run, whatever is forced now.
const std::vector<int64_t>& Targets() {
  static const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  return targets;
}

int64_t AskedTargets() { return hwy::SupportedTargets() & HWY_TARGETS; }

// Those that may run now. Kept, since every call of the operator asks: the CPU takes 15 µs for the answer where a
// hypervisor stands between, five times as long as attention among ten tokens.
std::atomic<int64_t>& AllowedTargets() {
  static std::atomic<int64_t> targets = AskedTargets();
  return targets;
}

// AMX tiles are no target of Highway's: "amx" is the best that has them, and a flag.
const std::string kAmxName = "amx";
bool HasAmx() {
  static const bool has =
      !Targets().empty() && (Targets().front() & (HWY_AVX3 | HWY_AVX3_DL)) != 0 && AskForAmx().granted;
  return has;
}
std::atomic<bool> amx_allowed = true;
std::atomic<bool> amx_model = false;

}  // namespace

// Highway says "AVX3" for what everyone else calls AVX-512.
std::string IsaName(int64_t target) {
  const std::string name = LowerCase(hwy::TargetName(target));
  return name.starts_with("avx3") ? "avx512" + name.substr(4) : name;
}

std::vector<std::string> SupportedIsas() {
  std::vector<std::string> names;
  if (HasAmx()) names.push_back(kAmxName);
  for (const int64_t target : Targets()) names.push_back(IsaName(target));
  return names;
}

// Highway numbers its instruction sets by bits.
std::vector<std::string> CompiledIsas() {
  std::vector<std::string> names;
  if (HWY_ARCH_X86_64) names.push_back(kAmxName);
  for (auto bits = static_cast<uint64_t>(HWY_TARGETS); bits != 0; bits &= bits - 1)
    names.push_back(IsaName(static_cast<int64_t>(uint64_t{1} << std::countr_zero(bits))));
  return names;
}

std::string ActiveIsa() {
  const int64_t supported = AllowedTargets();
  if (amx_allowed && HasAmx()) return kAmxName;
  return IsaName(supported & -supported);
}

std::string WhyNoAmx() {
  if (HasAmx()) return "";
  return AskForAmx().granted ? "AVX-512 is not compiled in" : AskForAmx().refusal;
}

AmxTiles ActiveAmxTiles() {
  if (amx_model) return AmxTiles::kModel;
  return amx_allowed && HasAmx() ? AmxTiles::kInstructions : AmxTiles::kNone;
}

void UseAmxModel(bool on) { amx_model = on; }

const char* Name(Operands operands) {
  switch (operands) {
    case Operands::kFloat32:
      break;
    case Operands::kBFloat16:
      return "bfloat16";
    case Operands::kTwoParts:
      return "two parts";
  }
  return "float32";
}

bool Supports(Operands operands) {
  const bool avx512 = (AllowedTargets() & (HWY_AVX3 | HWY_AVX3_DL)) != 0;  // the best there are
  return operands == Operands::kFloat32 || ActiveAmxTiles() != AmxTiles::kNone ||
         (operands == Operands::kBFloat16 && avx512 && HasBFloat16Products());
}

bool BFloat16Pays() {
  return Supports(Operands::kBFloat16) && (ActiveAmxTiles() != AmxTiles::kNone || BFloat16ProductsPay());
}

void ForceIsa(const std::string& name) {
  const std::string wanted = LowerCase(name);
  const bool tiles = (wanted == "auto" || wanted == kAmxName) && HasAmx();  // another asks for no tiles
  int64_t mask = wanted == "auto" || tiles ? -1 : 0;
  for (const int64_t target : Targets()) {
    if (IsaName(target) == wanted) mask = target;
  }
  if (mask == 0) {
    std::string known = "auto";
    for (const std::string& isa : SupportedIsas()) known += ", " + isa;
    FailUsage("expected {}, got \"{}\"", known, name);
  }
  hwy::SetSupportedTargetsForTest(mask == -1 ? 0 : mask);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  AllowedTargets() = AskedTargets();
  amx_allowed = tiles;
}

}  // namespace lshformer
