/* Sums of quads on NEON without sdot. Two products of a column are added in 16 bits, 2 * 128 * 127 < 2^15, then pairs of those in 32: a
 * column's sum is in two lanes until the end. A weight of -128 (`lowest`) could overflow the 16 bits: then every product goes to 32 at
 * once. */
#ifndef LB_DOT4_NEON_H
#define LB_DOT4_NEON_H

#include "linear/dot4/dot4_quad_neon.h"

enum { LB_ROWS = 2, LB_SIGNED_OVERFLOWS = 1 };

LB_INLINE void lb_dot4_dots(const int rows, const int lowest, const int8_t *a, ptrdiff_t stride, const int8_t *w, ptrdiff_t quads,
                            int32x4_t sums[][4]) {
    int32x4_t c[LB_ROWS][8]; /* columns 0 and 1, 2 and 3, ... */
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < 8; j++)
        c[i][j] = vdupq_n_s32(0);
    for (; quads >= 2; quads -= 2, a += 8, w += 128)
        LB_UNROLL_ALL
    for (int j = 0; j < 4; j++) {
        const int8x16_t u = vld1q_s8(w + 16 * j), v = vld1q_s8(w + 64 + 16 * j);
        LB_UNROLL_ALL
        for (int i = 0; i < rows; i++) {
            const int8x16_t x = lb_quad_at(a + i * stride), y = lb_quad_at(a + i * stride + 4);
            int16x8_t low = vmull_s8(vget_low_s8(u), vget_low_s8(x)), high = vmull_high_s8(u, x);
            if (lowest) {
                c[i][2 * j] = vpadalq_s16(c[i][2 * j], low), c[i][2 * j + 1] = vpadalq_s16(c[i][2 * j + 1], high);
                low = vmull_s8(vget_low_s8(v), vget_low_s8(y)), high = vmull_high_s8(v, y);
            } else
                low = vmlal_s8(low, vget_low_s8(v), vget_low_s8(y)), high = vmlal_high_s8(high, v, y);
            c[i][2 * j] = vpadalq_s16(c[i][2 * j], low), c[i][2 * j + 1] = vpadalq_s16(c[i][2 * j + 1], high);
        }
    }
    if (quads)
        LB_UNROLL_ALL
    for (int j = 0; j < 4; j++) {
        const int8x16_t u = vld1q_s8(w + 16 * j);
        LB_UNROLL_ALL
        for (int i = 0; i < rows; i++) {
            const int8x16_t x = lb_quad_at(a + i * stride);
            c[i][2 * j] = vpadalq_s16(c[i][2 * j], vmull_s8(vget_low_s8(u), vget_low_s8(x)));
            c[i][2 * j + 1] = vpadalq_s16(c[i][2 * j + 1], vmull_high_s8(u, x));
        }
    }
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < 4; j++)
        sums[i][j] = vpaddq_s32(c[i][2 * j], c[i][2 * j + 1]);
}

#include "linear/dot4/dot4_arm.h"

#endif
