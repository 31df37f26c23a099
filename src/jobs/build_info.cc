#include "jobs/build_info.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <hwy/highway.h>
#include <torch/version.h>
#include <unicode/uversion.h>

#include <fstream>
#include <oneapi/dnnl/dnnl.hpp>

#include "base/parallel.h"
#include "kernels/isa.h"
#include "kernels/matmul.h"
#include "lshformer/version.h"

namespace lshformer {
namespace {

// OpenBLAS says which build it is; other libraries behind libblas.so.3 do not. A program that does without libtorch has
// not loaded the one that libtorch asks for.
std::string BlasName() {
  if (LSHFORMER_TORCH_BLAS[0] != '\0') dlopen(LSHFORMER_TORCH_BLAS, RTLD_LAZY | RTLD_GLOBAL);
  const auto config = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_config"));
  const auto parallel = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_parallel"));
  if (config == nullptr || parallel == nullptr) return "another than OpenBLAS";
  const std::string words = config(), version = words.substr(0, words.find(' ', words.find(' ') + 1));
  const char* const kThreads[] = {", one thread", ", own threads (slow beside OpenMP)", ", OpenMP"};
  const int kind = parallel();
  return version + (kind >= 0 && kind <= 2 ? kThreads[kind] : "");
}

Json Libraries() {
  const dnnl_version_t* onednn = dnnl_version();
  UVersionInfo icu;
  u_getVersion(icu);
  return Json{{"libtorch", TORCH_VERSION},
              {"oneDNN", fmt::format("{}.{}.{}", onednn->major, onednn->minor, onednn->patch)},
              {"BLAS", BlasName()},
              {"Highway", fmt::format("{}.{}.{}", HWY_MAJOR, HWY_MINOR, HWY_PATCH)},
              {"ICU", fmt::format("{}.{}", icu[0], icu[1])},
              {"nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                            NLOHMANN_JSON_VERSION_PATCH)},
              {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)}};
}

Json Isas() {
  const std::string refusal = WhyNoAmx();
  return Json{{"active", ActiveIsa()},
              {"available", SupportedIsas()},
              {"compiled", CompiledIsas()},
              {"no_amx", refusal.empty() ? Json() : Json(refusal)}};
}

}  // namespace

std::string CpuName() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(':');
    if (line.starts_with("model name") && colon + 2 < line.size()) return line.substr(colon + 2);
  }
  return "unknown";
}

Json BuildInfo() {
#ifdef NDEBUG
  const char* build = "optimised";
#else
  const char* build = "with assertions";
#endif
  return Json{{"version", LSHFORMER_VERSION},
              {"compiler", std::string(HWY_COMPILER_CLANG ? "Clang " : "GCC ") + __VERSION__},
              {"build", build},
              {"isa", Isas()},
              {"cpu", {{"name", CpuName()}, {"cores", HardwareThreads()}, {"threads", Threads()}}},
              {"libraries", Libraries()},
              {"devices", {"cpu"}}};
}

std::vector<std::pair<std::string, std::string>> ProgramFacts() {
  return {{"the version", LSHFORMER_VERSION},
          {"the instruction set", ActiveIsa()},
          {"the instruction set of float32 products", Float32ProductsIsa()}};
}

}  // namespace lshformer
