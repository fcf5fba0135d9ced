/* linear_s8 and conv_s8 on NEON: activations stand as they are, because its products are of signed bytes, so that sums begin at
 * bias - x_zero * (sum of the weights), modulo 2^32. Tiles of up to LB_ROWS rows and 16 columns. Include after a header that defines
 * LB_ROWS and lb_dot4_sums: sums[rows][4] += rows of a times `quads` quads of a panel. */
#ifndef LB_DOT4_ARM_H
#define LB_DOT4_ARM_H

#include "linear/dot4/dot4.h"
#include "base/requantize_neon.h"

#define LB_DOT4_FLIP 0

static inline void lb_dot4_put(const int8_t *from, ptrdiff_t n, uint8_t *to) {
    memcpy(to, from, (size_t)n);
}

/* 16 columns: what their accumulators begin with, and their multipliers. */
typedef struct {
    int32_t start[LB_DOT4_PANEL];
    float m[LB_DOT4_PANEL];
    lb_clamp16 clamp;
    ptrdiff_t n, width;
} lb_dot4_columns;

static inline void lb_dot4_columns_at(const lb_dot4_product *p, ptrdiff_t n, ptrdiff_t width, lb_dot4_columns *c) {
    const int32_t *sums = lb_dot4_sums(p->packed) + n;
    memset(c, 0, sizeof *c);
    memcpy(c->m, p->multiplier + n, 4 * (size_t)width);
    for (ptrdiff_t i = 0; i < width; i++)
        c->start[i] = (int32_t)((uint32_t)p->bias[n + i] - (uint32_t)p->x_zero * (uint32_t)sums[i]);
    c->clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi);
    c->n = n, c->width = width;
}

LB_INLINE void lb_dot4_epilogue(const lb_dot4_product *p, const lb_dot4_result to, const lb_dot4_columns *c, ptrdiff_t row,
                                const int32x4_t acc[4]) {
    const ptrdiff_t at = row * p->out_stride + c->n;
    float32x4_t y[4];
    LB_UNROLL_ALL
    for (int j = 0; j < 4; j++)
        y[j] = vmulq_f32(vcvtq_f32_s32(vaddq_s32(acc[j], vld1q_s32(c->start + 4 * j))), vld1q_f32(c->m + 4 * j));
    if (to == LB_DOT4_S8)
        lb_store_bytes((int8_t *)p->out + at, lb_round16(y, &c->clamp), c->width);
    else if (to == LB_DOT4_F32)
        memcpy((float *)p->out + at, y, 4 * (size_t)c->width);
    else {
        int16_t words[16];
        for (int j = 0; j < 4; j++) {
            const int32x4_t q = vqaddq_s32(vcvtnq_s32_f32(y[j]), vdupq_n_s32(p->y_zero));
            vst1_s16(words + 4 * j, vmovn_s32(vminq_s32(vmaxq_s32(q, vdupq_n_s32(p->lo)), vdupq_n_s32(p->hi))));
        }
        memcpy((int16_t *)p->out + at, words, 2 * (size_t)c->width);
    }
}

LB_INLINE void lb_dot4_tile(const int rows, const int lowest, const lb_dot4_product *p, const lb_dot4_result to, const lb_dot4_columns *c,
                            ptrdiff_t first, ptrdiff_t row, const int8_t *w) {
    int32x4_t sums[LB_ROWS][4];
    lb_dot4_dots(rows, lowest, (const int8_t *)p->a + row * p->stride, p->stride, w, (p->k + 3) / 4, sums);
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        lb_dot4_epilogue(p, to, c, first + row + i, sums[i]);
}

LB_INLINE void lb_dot4_tiles(const int lowest, const lb_dot4_product *p, const lb_dot4_result to, const lb_dot4_columns *c, ptrdiff_t first,
                             ptrdiff_t rows, const int8_t *w) {
    ptrdiff_t row = 0;
    for (; row + LB_ROWS <= rows; row += LB_ROWS)
        lb_dot4_tile(LB_ROWS, lowest, p, to, c, first, row, w);
    if (LB_ROWS > 2 && row + 2 <= rows) {
        lb_dot4_tile(2, lowest, p, to, c, first, row, w);
        row += 2;
    }
    if (row < rows)
        lb_dot4_tile(1, lowest, p, to, c, first, row, w);
}

LB_INLINE void lb_dot4_multiply(const lb_dot4_product *p, const lb_dot4_result to, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left,
                                ptrdiff_t right) {
    const ptrdiff_t depth = lb_dot4_up(p->k, 4);
    const int lowest = LB_SIGNED_OVERFLOWS && ((const lb_dot4_head *)p->packed)->lowest;
    for (ptrdiff_t n = left; n < right; n += LB_DOT4_PANEL) {
        const int8_t *w = lb_dot4_panels(p->packed, p->n) + n * depth;
        lb_dot4_columns c;
        lb_dot4_columns_at(p, n, right - n < LB_DOT4_PANEL ? right - n : LB_DOT4_PANEL, &c);
        if (lowest)
            lb_dot4_tiles(LB_SIGNED_OVERFLOWS, p, to, &c, first, rows, w);
        else
            lb_dot4_tiles(0, p, to, &c, first, rows, w);
    }
}

#include "linear/dot4/dot4_drive.h"

#endif
