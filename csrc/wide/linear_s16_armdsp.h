/* linear_s16 by SMLALD: two products of 16 bits into 64. */
#ifndef LB_LINEAR_S16_ARMDSP_H
#define LB_LINEAR_S16_ARMDSP_H

#ifndef __ARM_FEATURE_SIMD32
#error "armdsp kernels need the DSP extension: -mcpu=cortex-m4, -mcpu=cortex-m7, -mcpu=cortex-m33 ..."
#endif

#include "wide/linear_s16_cortex.h"

#include <arm_acle.h>
#include <string.h>

LB_INLINE int32_t lb_two(const int16_t *from) {
    int32_t v;
    memcpy(&v, from, sizeof v);
    return v;
}

static void lb_dot_1x2_s16(int64_t acc[2], const int16_t *x, const int16_t *w, const int16_t *other, int32_t k) {
    int64_t s0 = acc[0], s1 = acc[1];
    const int16_t *const end = x + (k & ~1);
    for (; x < end; x += 2, w += 2, other += 2) {
        const int32_t v = lb_two(x);
        s0 = __smlald(v, lb_two(w), s0), s1 = __smlald(v, lb_two(other), s1);
    }
    if (k & 1)
        s0 += *x * *w, s1 += *x * *other;
    acc[0] = s0, acc[1] = s1;
}

#endif
