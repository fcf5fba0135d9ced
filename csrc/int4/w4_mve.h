/* Sums of x * w with 4-bit weights in the layout of `ref`, thirty-two elements of a column in two VMLADAVA: VLD2 parts x into even and odd
 * elements. A nibble at the top of its byte is sixteen times its weight, sign and all: sums are divided by 16 at the end, exactly. */
#ifndef LB_W4_MVE_H
#define LB_W4_MVE_H

#include "base/dot_mve.h"
#include "int4/w4.h"

LB_INLINE int32_t lb_w4_32(int32_t acc, const uint8_t *w, int8x16_t even, int8x16_t odd) {
    const int8x16_t v = vreinterpretq_s8_u8(vldrbq_u8(w));
    acc = vmladavaq_s8(acc, even, vshlq_n_s8(v, 4));
    return vmladavaq_s8(acc, odd, vandq_s8(v, vdupq_n_s8(-16)));
}

/* One row, `columns` (1 or 4) of them, which stand `step` bytes apart. k at most LB_W4_LONGEST. */
LB_INLINE void lb_w4_columns(int32_t *sums, int32_t columns, const int8_t *x, const uint8_t *w, ptrdiff_t step, int32_t k) {
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int32_t left = k >> 5; left > 0; left--, x += 32, w += 16) {
        const int8x16x2_t v = vld2q_s8(x);
        s0 = lb_w4_32(s0, w, v.val[0], v.val[1]);
        if (columns > 1)
            s1 = lb_w4_32(s1, w + step, v.val[0], v.val[1]), s2 = lb_w4_32(s2, w + 2 * step, v.val[0], v.val[1]),
            s3 = lb_w4_32(s3, w + 3 * step, v.val[0], v.val[1]);
    }
    const int32_t all[4] = {s0, s1, s2, s3};
    for (int32_t j = 0; j < columns; j++)
        sums[j] = (int32_t)((uint32_t)sums[j] + (uint32_t)(all[j] >> 4) + (uint32_t)lb_w4_dot(x, 0, w + j * step, 0, k & 31));
}

LB_INLINE void lb_w4_put4(void *row, int32_t j, const int32_t acc[4], const lb_scaling *s, lb_kind kind) {
    lb_put4_mve(row, j, vldrwq_s32(acc), s, kind);
}

#include "int4/w4_cortex.h"

#endif
