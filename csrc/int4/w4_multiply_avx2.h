/* Packed rows times panels of 4-bit weights in registers of 256 bits. The products stand before this: lb_w4_few_rows, lb_w4_one_segment and
 * lb_w4_segments; and where LB_W4_BY_GROUPS is 1, lb_w4_one_by_groups and lb_w4_many_by_groups. */
#ifndef LB_W4_MULTIPLY_AVX2_H
#define LB_W4_MULTIPLY_AVX2_H

enum { LB_W4_AHEAD = 8 }; /* rows of the output that are asked for before they are written */

/* Whether these rows take the way of few rows. Zero points cost each row as much there as unpacking does for all. */
static inline int lb_w4_are_few(const lb_w4_product *p, ptrdiff_t rows) {
    return rows <= (p->x_zero ? 1 : lb_w4_by_groups(&p->cut) ? 2 : LB_W4_FEW);
}

/* s.acc (rows x 16) of few rows and a panel. */
static inline void lb_w4_few_of(const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t rows, const uint8_t *packed,
                                const float *scales) {
    if (lb_w4_by_groups(&p->cut)) {
        for (ptrdiff_t i = 0; i < rows; i++)
            lb_w4_one_by_groups(p, s, i, packed, scales);
        return;
    }
    if (p->x_zero)
        lb_w4_few_rows(1, p, s, packed, scales, 1);
    else if (rows == 1)
        lb_w4_few_rows(1, p, s, packed, scales, 0);
    else if (rows == 2)
        lb_w4_few_rows(2, p, s, packed, scales, 0);
    else if (rows == 3)
        lb_w4_few_rows(3, p, s, packed, scales, 0);
    else
        lb_w4_few_rows(4, p, s, packed, scales, 0);
}

/* Columns left ... right - 1 (left is a multiple of 16) of the `rows` rows in s, which are rows first, first + 1, ... of out. */
LB_INLINE void lb_w4_multiply(const lb_w4_product *p, const lb_result to, const int blocks, const lb_w4_scratch *s, ptrdiff_t first,
                              ptrdiff_t rows, ptrdiff_t left, ptrdiff_t right) {
    for (ptrdiff_t n = left; n < right; n += LB_W4_PANEL) {
        const ptrdiff_t width = right - n < LB_W4_PANEL ? right - n : LB_W4_PANEL;
        const uint8_t *packed = p->packed + n * (p->cut.depth / 2);
        const float *scales = p->scales + n * p->cut.segments;
        _Alignas(32) int32_t start[LB_W4_PANEL];
        _Alignas(32) float m[LB_W4_PANEL];
        lb_load16(p->real_bias ? (const void *)(p->real_bias + n) : p->bias + n, width, start);
        lb_load16(scales, blocks ? LB_W4_PANEL : width, m);
        const int few = lb_w4_are_few(p, rows);
        if (blocks && lb_w4_by_groups(&p->cut) && !few) {
            lb_w4_many_by_groups(p, s, first, rows, packed, scales, (const float *)(const void *)start, n, width);
            continue;
        }
        if (few)
            lb_w4_few_of(p, s, rows, packed, scales);
        else if (!blocks || p->cut.segments == 1)
            lb_w4_one_segment(p, s, rows, packed);
        else
            lb_w4_segments(p, s, rows, packed, scales);
        if (to == LB_TO_S8 && !p->real_bias && width == LB_W4_PANEL) {
            lb_w4_put_channels(p, s->acc, first, rows, n, start, m);
            continue;
        }
        for (ptrdiff_t i = 0; i < rows; i++) {
            if (to == LB_TO_F32 && i + LB_W4_AHEAD < rows) /* lines far from each other, which would else be waited for */
                __builtin_prefetch((float *)p->out + (first + i + LB_W4_AHEAD) * p->out_stride + n, 1);
            lb_w4_epilogue(p, to, s->acc + 16 * i, first + i, n, width, start, m);
        }
    }
}

#endif
