/* Sums of quads by sdot: four products of signed bytes a lane. Tiles of 4 rows take 16 accumulators, 4 vectors of weights and 4 of rows, of
 * which each lane is a quad. */
#ifndef LB_DOT4_NEONDOT_H
#define LB_DOT4_NEONDOT_H

#include "linear/dot4/dot4_quad_neon.h"

enum { LB_ROWS = 4, LB_SIGNED_OVERFLOWS = 0 };

/* One quad of every row, which is lane `lane` of x, with 16 columns. */
#define LB_DOT_LANE(lane)                                                                                                                  \
    LB_UNROLL_ALL                                                                                                                          \
    for (int j = 0; j < 4; j++) {                                                                                                          \
        const int8x16_t v = vld1q_s8(w + 64 * lane + 16 * j);                                                                              \
        LB_UNROLL_ALL                                                                                                                      \
        for (int i = 0; i < rows; i++)                                                                                                     \
            sums[i][j] = vdotq_laneq_s32(sums[i][j], v, x[i], lane);                                                                       \
    }

LB_INLINE void lb_dot4_dots(const int rows, const int lowest, const int8_t *a, ptrdiff_t stride, const int8_t *w, ptrdiff_t quads,
                            int32x4_t sums[][4]) {
    (void)lowest;
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < 4; j++)
        sums[i][j] = vdupq_n_s32(0);
    for (; quads >= 4; quads -= 4, a += 16, w += 256) {
        int8x16_t x[LB_ROWS];
        LB_UNROLL_ALL
        for (int i = 0; i < rows; i++)
            x[i] = vld1q_s8(a + i * stride);
        LB_DOT_LANE(0)
        LB_DOT_LANE(1)
        LB_DOT_LANE(2)
        LB_DOT_LANE(3)
    }
    for (; quads; quads--, a += 4, w += 64) {
        int8x16_t x[LB_ROWS];
        LB_UNROLL_ALL
        for (int i = 0; i < rows; i++)
            x[i] = lb_quad_at(a + i * stride);
        LB_DOT_LANE(0)
    }
}

#include "linear/dot4/dot4_arm.h"

#endif
