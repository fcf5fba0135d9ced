/* Products of pairs of int16 on AVX2. */
#ifndef LB_MADD_AVX2_H
#define LB_MADD_AVX2_H

#include "base/unroll.h"

#include <immintrin.h>
#include <stdint.h>

typedef int32_t __attribute__((may_alias)) lb_pair;

/* c (16 columns) += the pair of int16 at a, times the pairs of columns 0-7 and 8-15. In assembly, because compilers move the loads of other
 * rows here and then run out of the 16 registers that six rows need: 12 accumulators, 2 of w, 2 here. */
LB_INLINE void lb_madd_pair(__m256i c[2], const int16_t *a, __m256i w0, __m256i w1) {
    __m256i t, u;
    __asm__("vpbroadcastd %[a], %[t]\n\t"
            "vpmaddwd %[w0], %[t], %[u]\n\t"
            "vpmaddwd %[w1], %[t], %[t]\n\t"
            "vpaddd %[u], %[c0], %[c0]\n\t"
            "vpaddd %[t], %[c1], %[c1]"
            : [c0] "+x"(c[0]), [c1] "+x"(c[1]), [t] "=&x"(t), [u] "=&x"(u)
            : [a] "m"(*(const lb_pair *)(const void *)a), [w0] "x"(w0), [w1] "x"(w1));
}

#endif
