/* Packed rows times panels of 4-bit weights on AVX2 and AVX-VNNI. */
#ifndef LB_W4_MULTIPLY_AVX2_H
#define LB_W4_MULTIPLY_AVX2_H

#ifdef LB_VNNI_H
#include "int4/w4_epilogue_avx2.h"
#else
#include "int4/w4_groups_avx2.h"
#endif

#ifndef LB_VNNI_H

LB_W4_TILE_OF(6)
LB_W4_TILE_OF(4)
LB_W4_TILE_OF(2)
LB_W4_TILE_OF(1)

/* `rows` rows in tiles of 6, 4, 2 and 1. */
#define LB_W4_TILES(f, rows, i, ...)                                                                                                       \
    for (; i + 6 <= rows; i += 6)                                                                                                          \
        f##6(__VA_ARGS__);                                                                                                                 \
    if (i + 4 <= rows) {                                                                                                                   \
        f##4(__VA_ARGS__);                                                                                                                 \
        i += 4;                                                                                                                            \
    }                                                                                                                                      \
    if (i + 2 <= rows) {                                                                                                                   \
        f##2(__VA_ARGS__);                                                                                                                 \
        i += 2;                                                                                                                            \
    }                                                                                                                                      \
    if (i < rows)                                                                                                                          \
        f##1(__VA_ARGS__);

/* s.acc (rows x 16) = one segment of many rows and a panel. */
static inline void lb_w4_one_segment(const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t rows, const uint8_t *packed) {
    const ptrdiff_t chunk = p->chunk < LB_W4_DEPTH ? p->chunk : LB_W4_DEPTH, deep = LB_W4_DEPTH / chunk * chunk;
    if (!p->cut.depth)
        memset(s->acc, 0, 64 * (size_t)rows);
    for (ptrdiff_t at = 0; at < p->cut.depth; at += deep) {
        const ptrdiff_t k = p->cut.depth - at < deep ? p->cut.depth - at : deep;
        for (ptrdiff_t c = 0; c < k; c += chunk)
            lb_w4_unpack(packed + 8 * (at + c), (k - c < chunk ? k - c : chunk) / LB_W4_GROUP, 128 + p->x_zero, s->panel + 16 * c,
                         s->starts + c / chunk * 32);
        lb_w4_ahead next = lb_w4_ahead_of(packed + 8 * (at + k), 8 * k, rows / LB_W4_TILE);
        ptrdiff_t i = 0;
        for (; i + LB_W4_TILE <= rows; i += LB_W4_TILE) {
            lb_w4_fetch(&next);
            lb_w4_tile6(s->a + i * s->stride + at, s->stride, s->panel, s->starts, k, chunk, at > 0, s->acc + 16 * i);
        }
        LB_W4_TILES(lb_w4_tile, rows, i, s->a + i * s->stride + at, s->stride, s->panel, s->starts, k, chunk, at > 0, s->acc + 16 * i)
    }
}

LB_W4_TILE_BLOCKS_OF(6)
LB_W4_TILE_BLOCKS_OF(4)
LB_W4_TILE_BLOCKS_OF(2)
LB_W4_TILE_BLOCKS_OF(1)

/* s.acc (rows x 16) = the scaled sum of all segments of many rows and a panel. */
static inline void lb_w4_segments(const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t rows, const uint8_t *packed,
                                  const float *scales) {
    const int32_t each = (int32_t)(p->cut.stride < LB_W4_DEPTH ? LB_W4_DEPTH / p->cut.stride : 1);
    memset(s->acc, 0, 64 * (size_t)rows);
    for (int32_t first = 0; first < p->cut.segments; first += each) {
        const int32_t last = p->cut.segments - first < each ? p->cut.segments : first + each;
        int8_t *panel = s->panel;
        int16_t *starts = s->starts;
        for (int32_t g = first; g < last; g++) {
            const ptrdiff_t k = lb_w4_segment_depth(&p->cut, g);
            for (ptrdiff_t c = 0; c < k; c += p->chunk, starts += 32)
                lb_w4_unpack(packed + 8 * (g * p->cut.stride + c), (k - c < p->chunk ? k - c : p->chunk) / LB_W4_GROUP, 128 + p->x_zero,
                             panel + 16 * c, starts);
            panel += 16 * k;
        }
        ptrdiff_t i = 0;
        float *total = (float *)(void *)s->acc;
        LB_W4_TILES(lb_w4_tile_blocks, rows, i, p, s, i, first, last, scales, total + 16 * i)
    }
}

#endif

enum { LB_W4_AHEAD = 8 }; /* rows of the output that are asked for before they are written */

/* Whether these rows take the way of few rows. Zero points cost each row as much there as unpacking does for all. */
static inline int lb_w4_are_few(const lb_w4_product *p, ptrdiff_t rows) {
    return rows <= (p->x_zero ? 1 : lb_w4_by_groups(&p->cut) ? 2 : LB_W4_FEW);
}

/* s.acc (rows x 16) of few rows and a panel. */
static inline void lb_w4_few_of(const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t rows, const uint8_t *packed,
                                const float *scales) {
#ifndef LB_VNNI_H
    if (lb_w4_by_groups(&p->cut)) {
        for (ptrdiff_t i = 0; i < rows; i++)
            lb_w4_one_by_groups(p, s, i, packed, scales);
        return;
    }
#endif
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
#ifndef LB_VNNI_H
        if (blocks && lb_w4_by_groups(&p->cut) && !few) {
            lb_w4_many_by_groups(p, s, first, rows, packed, scales, (const float *)(const void *)start, n, width);
            continue;
        }
#endif
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
