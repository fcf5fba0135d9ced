/* vpdpbusd: c + the sum of four products of an unsigned byte of a and a signed byte of w, in each lane of 32 bits, modulo 2^32.
 *
 * In assembly, because the compilers' own form copies accumulators around it. Tests on a CPU without it define LB_SIMDE: SIMDe computes
 * what the instruction would, slowly. */
#ifndef LB_VNNI_H
#define LB_VNNI_H

#ifdef LB_SIMDE

#define SIMDE_ENABLE_NATIVE_ALIASES
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <simde/x86/avx512/add.h>
#include <simde/x86/avx512/cast.h>
#include <simde/x86/avx512/dpbusd.h>
#include <simde/x86/avx512/extract.h>
#include <simde/x86/avx512/load.h>
#include <simde/x86/avx512/set1.h>
#include <simde/x86/avx512/store.h>
#pragma GCC diagnostic pop

/* Functions: inlined into unrolled loops they take minutes to compile. */
__attribute__((noinline, unused)) static __m256i lb_dpbusd256(__m256i c, __m256i a, __m256i w) {
    return simde_mm256_dpbusd_epi32(c, a, w);
}

__attribute__((noinline, unused)) static __m512i lb_dpbusd512(__m512i c, __m512i a, __m512i w) {
    return simde_mm512_dpbusd_epi32(c, a, w);
}

#else

#include <immintrin.h>

static inline __attribute__((always_inline)) __m256i lb_dpbusd256(__m256i c, __m256i a, __m256i w) {
#ifdef __AVX512VNNI__
    __asm__("vpdpbusd %[w], %[a], %[c]" : [c] "+v"(c) : [a] "v"(a), [w] "v"(w));
#else
    __asm__("%{vex%} vpdpbusd %[w], %[a], %[c]" : [c] "+x"(c) : [a] "x"(a), [w] "x"(w));
#endif
    return c;
}

#ifdef __AVX512VNNI__
static inline __attribute__((always_inline)) __m512i lb_dpbusd512(__m512i c, __m512i a, __m512i w) {
    __asm__("vpdpbusd %[w], %[a], %[c]" : [c] "+v"(c) : [a] "v"(a), [w] "v"(w));
    return c;
}
#endif

#endif

#endif
