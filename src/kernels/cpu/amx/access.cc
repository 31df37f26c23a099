// Whether the tile instructions may be used.
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/cpu/attention/bfloat16.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace lshformer {

AmxTileShapes WholeAmxTiles() {
  AmxTileShapes shapes;
  for (int t = 0; t < kAmxTileCount; ++t) {
    shapes.rows[t] = kAmxTileSide;
    shapes.row_bytes[t] = kAmxTileRowBytes;
  }
  return shapes;
}

AmxAccess AccessFrom(uint32_t features, bool bfloat16_vectors, int error) {
  constexpr uint32_t kBFloat16Tiles = 1u << 22, kTileArchitecture = 1u << 24, kInt8Tiles = 1u << 25;
  std::string missing;
  const auto need = [&missing](bool there, const char* name) {
    if (!there) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  need((features & kTileArchitecture) != 0, "amx_tile");
  need((features & kBFloat16Tiles) != 0, "amx_bf16");
  need((features & kInt8Tiles) != 0, "amx_int8");
  need(bfloat16_vectors, "avx512_bf16");
  if (!missing.empty()) return {false, "the processor lacks " + missing};
  if (error == ENOSPC)
    return {false, "the kernel refuses: a thread's alternate signal stack is too small for the tiles"};
  if (error != 0) return {false, std::string("the kernel refuses: ") + std::strerror(error)};
  return {true, ""};
}

#if defined(__x86_64__) && defined(__linux__)
namespace {

// arch_prctl(2), "ARCH_REQ_XCOMP_PERM", of the state that the tiles' numbers are. 0 or errno.
int RequestPermission() {
  constexpr int kRequest = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0 ? 0 : errno;
}

// C + A·B of small whole numbers, which every order of the sums gives exactly.
template <class M>
std::array<float, kAmxTileSide * kAmxTileSide> KnownProduct() {
  std::array<uint16_t, kAmxTileSide * kAmxTileRowNumbers> a{}, b{};
  std::array<float, kAmxTileSide * kAmxTileSide> c{};
  const auto whole = [](int x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16); };
  for (int i = 0; i < kAmxTileSide * kAmxTileRowNumbers; ++i) {
    a[i] = whole(i * 5 % 17 - 8);
    b[i] = whole(i * 7 % 13 - 6);
  }
  for (int i = 0; i < kAmxTileSide * kAmxTileSide; ++i) c[i] = static_cast<float>(i % 9 - 4);
  const ConfiguredAmxTiles<M> tiles;
  M::template Load<0>(c.data(), kAmxTileRowBytes);
  M::template Load<1>(a.data(), kAmxTileRowBytes);
  M::template Load<2>(b.data(), kAmxTileRowBytes);
  M::template MultiplyBFloat16<0, 1, 2>();
  M::template Store<0>(c.data(), kAmxTileRowBytes);
  return c;
}

AmxAccess Ask() {
  unsigned eax = 0, ebx = 0, ecx = 0, features = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &features) == 0) features = 0;
  const AmxAccess able = AccessFrom(features, HasBFloat16Products(), 0);
  if (!able.granted) return able;
  const AmxAccess access = AccessFrom(features, true, RequestPermission());
  // An emulator or a hypervisor may promise more than it keeps.
  if (access.granted && KnownProduct<AmxInstructions>() != KnownProduct<AmxModel>())
    return {false, "the tile instructions give wrong products here"};
  return access;
}

}  // namespace

const AmxAccess& AskForAmx() {
  static const AmxAccess access = Ask();
  return access;
}
#else
const AmxAccess& AskForAmx() {
  static const AmxAccess access = {false, "built without the tile instructions"};
  return access;
}
#endif

}  // namespace lshformer
