// Instruction sets that the kernels are compiled for. SSSE3 adds nothing over the scalar code that anybody runs today.
// Include before any Highway header.
#pragma once
#define HWY_DISABLED_TARGETS HWY_SSSE3
