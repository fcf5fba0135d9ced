/* Sums of x * w, sixteen elements an instruction, and their results four at once. Weights stand as they are for `ref`. A zero point is
 * taken away before: sum of (x - zero) * w = sum of x * w - zero * sum of w. Modulo 2^32.
 *
 * The vector unit flushes denormals to 0: what rounds to an integer never sees the difference, floats are made by scalar instructions. */
#ifndef LB_DOT_MVE_H
#define LB_DOT_MVE_H

#if !defined __ARM_FEATURE_MVE || !(__ARM_FEATURE_MVE & 2)
#error "mve kernels need vectors of integers and floats: -mcpu=cortex-m55 -mfloat-abi=hard"
#endif

#include "base/requantize_cortex.h"

#include <arm_mve.h>

/* bias - zero * sum of w: where a column's accumulator starts. */
LB_INLINE int32_t lb_start_mve(int32_t bias, const int8_t *w, int32_t k, int32_t zero) {
    if (zero == 0)
        return bias;
    int32_t sum = 0, i = 0;
    for (; i + 16 <= k; i += 16)
        sum = vaddvaq_s8(sum, vldrbq_s8(w + i));
    if (i < k)
        sum = vaddvaq_s8(sum, vldrbq_z_s8(w + i, vctp8q((uint32_t)(k - i))));
    return (int32_t)((uint32_t)bias - (uint32_t)zero * (uint32_t)sum);
}

LB_INLINE int32_t lb_dot_mve(int32_t acc, const int8_t *x, const int8_t *w, int32_t k) {
    int32_t i = 0;
    for (; i + 16 <= k; i += 16)
        acc = vmladavaq_s8(acc, vldrbq_s8(x + i), vldrbq_s8(w + i));
    if (i < k) {
        const mve_pred16_t rest = vctp8q((uint32_t)(k - i));
        acc = vmladavaq_s8(acc, vldrbq_z_s8(x + i, rest), vldrbq_z_s8(w + i, rest));
    }
    return acc;
}

/* One row, four columns, which stand k apart. */
LB_INLINE int32x4_t lb_dot_1x4_mve(const int32_t start[4], const int8_t *x, const int8_t *w, int32_t k) {
    int32_t s0 = start[0], s1 = start[1], s2 = start[2], s3 = start[3];
    const int8_t *w1 = w + k, *w2 = w1 + k, *w3 = w2 + k;
    for (int32_t left = k >> 4; left > 0; left--, x += 16, w += 16, w1 += 16, w2 += 16, w3 += 16) {
        const int8x16_t v = vldrbq_s8(x);
        s0 = vmladavaq_s8(s0, v, vldrbq_s8(w)), s1 = vmladavaq_s8(s1, v, vldrbq_s8(w1));
        s2 = vmladavaq_s8(s2, v, vldrbq_s8(w2)), s3 = vmladavaq_s8(s3, v, vldrbq_s8(w3));
    }
    if (k & 15) {
        const mve_pred16_t rest = vctp8q((uint32_t)(k & 15));
        const int8x16_t v = vldrbq_z_s8(x, rest);
        s0 = vmladavaq_s8(s0, v, vldrbq_z_s8(w, rest)), s1 = vmladavaq_s8(s1, v, vldrbq_z_s8(w1, rest));
        s2 = vmladavaq_s8(s2, v, vldrbq_z_s8(w2, rest)), s3 = vmladavaq_s8(s3, v, vldrbq_z_s8(w3, rest));
    }
    return (int32x4_t){s0, s1, s2, s3};
}

/* clamp(rne(fl32(acc) * multiplier) + zero, lo, hi), four times. */
LB_INLINE int32x4_t lb_narrowed4(int32x4_t acc, float32x4_t multiplier, const lb_scaling *s) {
    const int32x4_t r = vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(acc), multiplier));
    const int32x4_t least = vdupq_n_s32(s->lo - s->zero), most = vdupq_n_s32(s->hi - s->zero);
    return vaddq_n_s32(vminq_s32(vmaxq_s32(r, least), most), s->zero);
}

/* Columns j ... j + 3 of a row of the output. */
LB_INLINE void lb_put4_mve(void *row, int32_t j, int32x4_t acc, const lb_scaling *s, lb_kind kind) {
    if (kind == LB_TO_F32) {
        int32_t each[4];
        vstrwq_s32(each, acc);
        for (int32_t i = 0; i < 4; i++)
            lb_put(row, j + i, each[i], s, kind);
        return;
    }
    const int32x4_t r = lb_narrowed4(acc, vldrwq_f32(s->multiplier + j), s);
    if (kind == LB_TO_S16)
        vstrhq_s32((int16_t *)row + j, r);
    else
        vstrbq_s32((int8_t *)row + j, r);
}

#endif
