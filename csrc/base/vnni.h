/* vpdpbusd: c + the sum of four products of an unsigned byte of a and a signed byte of w, in each lane of 32 bits, modulo 2^32.
 * vpdpwssd: c + the sum of two products of 16 bits.
 *
 * In assembly, because the compilers' own form copies accumulators around it. Tests on a CPU without it define LB_SIMDE: SIMDe computes
 * what the instruction would, slowly. */
#ifndef LB_VNNI_H
#define LB_VNNI_H

#include "base/avx512.h"

#include <stdint.h>
#include <string.h>

#ifdef LB_SIMDE

#define lb_keep(v) (void)(v)

/* Functions: inlined into unrolled loops they take minutes to compile. */
__attribute__((noinline, unused)) static __m256i lb_dpbusd256(__m256i c, __m256i a, __m256i w) {
    return simde_mm256_dpbusd_epi32(c, a, w);
}

__attribute__((noinline, unused)) static __m512i lb_dpbusd512(__m512i c, __m512i a, __m512i w) {
    return simde_mm512_dpbusd_epi32(c, a, w);
}

__attribute__((noinline, unused)) static __m512i lb_dpbusd512_at(__m512i c, __m512i a, const void *w) {
    int32_t quad;
    memcpy(&quad, w, 4);
    return simde_mm512_dpbusd_epi32(c, a, _mm512_set1_epi32(quad));
}

__attribute__((noinline, unused)) static __m256i lb_dpwssd256(__m256i c, __m256i a, __m256i w) {
    return simde_mm256_dpwssd_epi32(c, a, w);
}

__attribute__((noinline, unused)) static __m512i lb_dpwssd512(__m512i c, __m512i a, __m512i w) {
    return simde_mm512_dpwssd_epi32(c, a, w);
}

#else

/* The vector v is in a register from here on: compilers would load it again at every use. */
#ifdef __AVX512VNNI__
#define lb_keep(v) __asm__("" : "+v"(v))
#else
#define lb_keep(v) __asm__("" : "+x"(v))
#endif

static inline __attribute__((always_inline)) __m256i lb_dpbusd256(__m256i c, __m256i a, __m256i w) {
#ifdef __AVX512VNNI__
    __asm__("vpdpbusd %[w], %[a], %[c]" : [c] "+v"(c) : [a] "v"(a), [w] "v"(w));
#else
    __asm__("%{vex%} vpdpbusd %[w], %[a], %[c]" : [c] "+x"(c) : [a] "x"(a), [w] "x"(w));
#endif
    return c;
}

static inline __attribute__((always_inline)) __m256i lb_dpwssd256(__m256i c, __m256i a, __m256i w) {
#ifdef __AVX512VNNI__
    __asm__("vpdpwssd %[w], %[a], %[c]" : [c] "+v"(c) : [a] "v"(a), [w] "v"(w));
#else
    __asm__("%{vex%} vpdpwssd %[w], %[a], %[c]" : [c] "+x"(c) : [a] "x"(a), [w] "x"(w));
#endif
    return c;
}

#ifdef __AVX512VNNI__
static inline __attribute__((always_inline)) __m512i lb_dpbusd512(__m512i c, __m512i a, __m512i w) {
    __asm__("vpdpbusd %[w], %[a], %[c]" : [c] "+v"(c) : [a] "v"(a), [w] "v"(w));
    return c;
}

/* The same for one quad of signed bytes in memory, for all lanes. */
static inline __attribute__((always_inline)) __m512i lb_dpbusd512_at(__m512i c, __m512i a, const void *w) {
    typedef struct {
        int8_t bytes[4];
    } __attribute__((may_alias)) quad;
    __asm__("vpdpbusd %[w]%{1to16%}, %[a], %[c]" : [c] "+v"(c) : [a] "v"(a), [w] "m"(*(const quad *)w));
    return c;
}

static inline __attribute__((always_inline)) __m512i lb_dpwssd512(__m512i c, __m512i a, __m512i w) {
    __asm__("vpdpwssd %[w], %[a], %[c]" : [c] "+v"(c) : [a] "v"(a), [w] "v"(w));
    return c;
}
#endif

#endif

#endif
