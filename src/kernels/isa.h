// The instruction sets that the kernels were compiled for and this machine can run.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lshformer {

// Best first, for example {"amx", "avx512", "avx2", "sse4"}: the first one is AVX-512 with products in bfloat16 in AMX
// tiles.
std::vector<std::string> SupportedIsas();
std::vector<std::string> CompiledIsas();  // also those that this machine cannot run
std::string ActiveIsa();
void ForceIsa(const std::string& name);   // "auto" or one of SupportedIsas(), in any case; UsageError otherwise
std::string IsaName(int64_t hwy_target);  // of one of Highway's HWY_AVX3 …
std::string WhyNoAmx();                   // one line where "amx" is not among SupportedIsas(), else empty

}  // namespace lshformer
