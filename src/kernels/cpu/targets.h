// Include before any Highway header: which instruction sets the kernels are compiled for.
//
// Every target costs build time and a copy of the code. On x86: AVX2, AVX-512, AVX-512 with its
// products of bytes (VNNI) and, as the fallback that Highway insists on, plain scalar code; on Arm:
// NEON. No scalable vectors: the kernels keep arrays of vectors in registers.
#pragma once

#define HWY_WANT_AVX3_DL
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
