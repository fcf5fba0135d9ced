/* Products of 16-bit rows with weights of 8 or 16 bits: linear_s16 and conv_s16 on vectors of any width. The words of dot2_avx2.h or
 * dot2_avx512vnni.h stand before this. A lane of 32 bits adds two products: vpdpwssd, or vpmaddwd and vpaddd.
 *
 * Packed weights: a head of 64 bytes (planes, narrow), the sum of the weights of each column (int64, columns rounded up to 16), then one
 * plane of panels for weights of 8 bits, two for wider ones: w = plane 0 + 256 * plane 1 with plane 0 in -128 ... 127 and plane 1 in
 * -128 ... 128. A panel has 16 columns: for two k, (w[k][j], w[k + 1][j]) of each of them; k is padded with zeros to an even number.
 *
 * Two products are at most 2^23. Where the caller proved that sums stay within 32 bits with their bias (narrow is 1) or without it (2:
 * weights that are nearly 0 have a small scale, in which their bias is large), they are taken modulo 2^32, and the bias is added in
 * doubles, which are exact up to 2^53. Else (0) sums are taken 128 pairs at a time, and those in doubles. */
#ifndef LB_DOT2_SIMD_H
#define LB_DOT2_SIMD_H

#include "lb.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LB_DOT2_PANEL = 16, LB_DOT2_PAIRS = 128, LB_DOT2_VECS = LB_DOT2_PANEL / LB_DOT2_LANES, LB_DOT2_MOST = LB_DOT2_WIDE * LB_DOT2_LANES };

/* Rows, `stride` elements apart, times weights, and where results go. */
typedef struct {
    const void *packed;
    int32_t n, k, x_zero;
    const int64_t *bias;
    const float *multiplier;
    const int16_t *x;
    ptrdiff_t stride;
    void *out;
    ptrdiff_t out_stride;
    lb_dot2_target target;
} lb_dot2_product;

/* Columns n ... n + width - 1: their weights, what their sums begin with, and their multipliers. */
typedef struct {
    _Alignas(64) int32_t start[LB_DOT2_MOST];
    _Alignas(64) double real_start[LB_DOT2_MOST];
    _Alignas(64) float m[LB_DOT2_MOST];
    const int16_t *w;
    ptrdiff_t second, plane; /* elements from vector to vector, from plane to plane */
    ptrdiff_t n, width;
    int32_t planes, narrow;
} lb_dot2_columns;

static inline ptrdiff_t lb_dot2_up(ptrdiff_t v, ptrdiff_t to) {
    return (v + to - 1) / to * to;
}

/* Bytes of the packed weights of a group. */
static inline ptrdiff_t lb_dot2_bytes(const void *packed, int32_t n, int32_t k) {
    const ptrdiff_t columns = lb_dot2_up(n, LB_DOT2_PANEL);
    return 64 + 8 * columns + 2 * *(const int32_t *)packed * columns * lb_dot2_up(k, 2);
}

static inline void lb_dot2_columns_at(const lb_dot2_product *p, ptrdiff_t n, ptrdiff_t width, lb_dot2_columns *c) {
    const int32_t *head = p->packed;
    const int64_t *sums = (const int64_t *)(const void *)((const char *)p->packed + 64);
    const ptrdiff_t columns = lb_dot2_up(p->n, LB_DOT2_PANEL), depth = lb_dot2_up(p->k, 2);
    c->w = (const int16_t *)(const void *)(sums + columns) + n * depth;
    c->second = LB_DOT2_VECS == 1 ? LB_DOT2_PANEL * depth : 2 * LB_DOT2_LANES;
    c->plane = columns * depth;
    c->n = n, c->width = width, c->planes = head[0], c->narrow = head[1];
    for (ptrdiff_t j = 0; j < width; j++)
        c->m[j] = p->multiplier[n + j];
    if (c->narrow == 1)
        for (ptrdiff_t j = 0; j < width; j++)
            c->start[j] = (int32_t)(p->bias[n + j] - p->x_zero * sums[n + j]);
    else
        for (ptrdiff_t j = 0; j < width; j++) {
            c->start[j] = c->narrow ? (int32_t)(-p->x_zero * sums[n + j]) : 0;
            c->real_start[j] = (double)(p->bias[n + j] - (c->narrow ? 0 : p->x_zero * sums[n + j]));
        }
    for (ptrdiff_t j = width; j < LB_DOT2_MOST; j++)
        c->m[j] = 0.0f, c->start[j] = 0, c->real_start[j] = 0.0;
}

/* acc (rows x wide vectors) += `pairs` steps of rows with weights. */
LB_INLINE void lb_dot2_steps(const int rows, const int wide, const int16_t *x, ptrdiff_t stride, const int16_t *w, ptrdiff_t second,
                             ptrdiff_t pairs, lb_vec *acc) {
    const int16_t *lower = x + LB_DOT2_ROWS / 2 * stride; /* a pointer of its own: registers do not suffice for the distances of all rows */
    __asm__("" : "+r"(lower));
    for (; pairs > 0; pairs--, x += 2, lower += 2, w += 2 * LB_DOT2_PANEL) {
        lb_vec v[LB_DOT2_WIDE];
        LB_UNROLL_ALL
        for (int j = 0; j < wide; j++)
            v[j] = lb_vec_load(w + j * second);
        LB_UNROLL_ALL
        for (int i = 0; i < rows; i++)
            lb_dot2_row(wide, acc + i * wide, i < LB_DOT2_ROWS / 2 ? x + i * stride : lower + (i - LB_DOT2_ROWS / 2) * stride, v);
    }
}

/* fl32(sum) of rows x wide vectors as results of any kind. */
static __attribute__((noinline)) void lb_dot2_put_sums(int rows, int wide, const lb_dot2_product *p, const lb_dot2_columns *c, ptrdiff_t to,
                                                       const float *sums) {
    const lb_dot2_target target = p->target;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < wide && j * LB_DOT2_LANES < c->width; j++)
            lb_dot2_put(p->out, (to + i) * p->out_stride + c->n + j * LB_DOT2_LANES,
                        lb_reals_mul(lb_reals_load(sums + (i * wide + j) * LB_DOT2_LANES), lb_reals_load(c->m + j * LB_DOT2_LANES)),
                        c->width - j * LB_DOT2_LANES, &target);
}

/* Results of rows row ... row + rows - 1 and `wide` vectors of columns, as rows `to` ... of the output. */
LB_INLINE void lb_dot2_tile(const int rows, const int wide, const lb_dot2_product *p, const lb_dot2_columns *c, ptrdiff_t row,
                            ptrdiff_t to) {
    const int16_t *const x = p->x + row * p->stride;
    const ptrdiff_t pairs = p->k / 2, most = c->narrow ? pairs + 1 : LB_DOT2_PAIRS;
    const lb_dot2_target target = p->target;                     /* in registers */
    _Alignas(64) double total[LB_DOT2_ROWS * 2 * LB_DOT2_LANES]; /* tiles of four vectors have less than half of the rows */
    lb_vec acc[LB_DOT2_ROWS * 2];
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < wide; j++)
        acc[i * wide + j] = lb_vec_load(c->start + j * LB_DOT2_LANES);
    for (int i = 0; i < rows && !c->narrow; i++)
        memcpy(total + i * wide * LB_DOT2_LANES, c->real_start, sizeof *total * (size_t)(wide * LB_DOT2_LANES));
    int16_t last[2 * LB_DOT2_ROWS] = {0}; /* the last of an odd number of products */
    for (int i = 0; i < rows && (p->k & 1); i++)
        last[2 * i] = x[i * p->stride + p->k - 1];
    for (int32_t plane = 0; plane < c->planes; plane++) {
        const int16_t *const w = c->w + plane * c->plane;
        for (ptrdiff_t at = 0; at < pairs || (at == pairs && (p->k & 1)); at += most) {
            const ptrdiff_t some = pairs - at < most ? pairs - at : most;
            lb_dot2_steps(rows, wide, x + 2 * at, p->stride, w + 2 * LB_DOT2_PANEL * at, c->second, some, acc);
            if (some < most && (p->k & 1))
                lb_dot2_steps(rows, wide, last, 2, w + 2 * LB_DOT2_PANEL * pairs, c->second, 1, acc);
            if (c->narrow)
                continue;
            LB_UNROLL_ALL
            for (int i = 0; i < rows; i++)
                LB_UNROLL_ALL
            for (int j = 0; j < wide; j++) {
                lb_dot2_add(total + (i * wide + j) * LB_DOT2_LANES, acc[i * wide + j], plane ? 256.0 : 1.0);
                acc[i * wide + j] = lb_vec_zero();
            }
        }
    }
    if (c->narrow == 1 && target.bytes == 2 && c->width == wide * LB_DOT2_LANES) {
        lb_reals m[LB_DOT2_WIDE];
        LB_UNROLL_ALL
        for (int j = 0; j < wide; j++)
            m[j] = lb_reals_load(c->m + j * LB_DOT2_LANES);
        int16_t *out = (int16_t *)p->out + to * p->out_stride + c->n;
        LB_UNROLL_ALL
        for (int i = 0; i < rows; i++, out += p->out_stride)
            lb_dot2_put_words(wide, out, acc + i * wide, m, &target);
        return;
    }
    _Alignas(64) float sums[LB_DOT2_ROWS * 2 * LB_DOT2_LANES];
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < wide; j++) {
        const int at = (i * wide + j) * LB_DOT2_LANES;
        lb_reals_store(sums + at, c->narrow == 1 ? lb_vec_reals(acc[i * wide + j])
                                  : c->narrow    ? lb_dot2_plus(acc[i * wide + j], c->real_start + j * LB_DOT2_LANES)
                                                 : lb_dot2_sums(total + at));
    }
    lb_dot2_put_sums(rows, wide, p, c, to, sums);
}

/* Each a function, so that it has the registers for itself. */
#define LB_DOT2_TILE_OF(rows, wide)                                                                                                        \
    static __attribute__((noinline)) void lb_dot2_tile##rows##x##wide(const lb_dot2_product *p, const lb_dot2_columns *c, ptrdiff_t row,   \
                                                                      ptrdiff_t to) {                                                      \
        lb_dot2_tile(rows, wide, p, c, row, to);                                                                                           \
    }
#define LB_DOT2_CASE(rows, wide)                                                                                                           \
    case rows:                                                                                                                             \
        lb_dot2_tile##rows##x##wide(p, c, row, to);                                                                                        \
        break;
#define LB_DOT2_TILES_OF(name, ROWS_OF, wide)                                                                                              \
    ROWS_OF(LB_DOT2_TILE_OF, wide)                                                                                                         \
    static void name(ptrdiff_t rows, const lb_dot2_product *p, const lb_dot2_columns *c, ptrdiff_t row, ptrdiff_t to) {                    \
        switch (rows) { ROWS_OF(LB_DOT2_CASE, wide) }                                                                                      \
    }
#define LB_DOT2_TO_5(X, wide) X(1, wide) X(2, wide) X(3, wide) X(4, wide) X(5, wide)
#define LB_DOT2_TO_6(X, wide) LB_DOT2_TO_5(X, wide) X(6, wide)
#define LB_DOT2_TO_12(X, wide) LB_DOT2_TO_6(X, wide) X(7, wide) X(8, wide) X(9, wide) X(10, wide) X(11, wide) X(12, wide)

#if LB_DOT2_WIDE == 4
LB_DOT2_TILES_OF(lb_dot2_tiles4, LB_DOT2_TO_5, 4)
LB_DOT2_TILES_OF(lb_dot2_tiles2, LB_DOT2_TO_12, 2)
LB_DOT2_TILES_OF(lb_dot2_tiles1, LB_DOT2_TO_12, 1)
#else
LB_DOT2_TILES_OF(lb_dot2_tiles2, LB_DOT2_TO_6, 2)
#endif

/* Columns left ... right - 1, left a multiple of 16, of the product's rows, which are rows `to` ... of the output: in as few tiles as there
 * must be, of about equally many rows. */
static void lb_dot2_multiply(const lb_dot2_product *p, ptrdiff_t rows, ptrdiff_t to, ptrdiff_t left, ptrdiff_t right) {
    const ptrdiff_t tiles = (rows + LB_DOT2_ROWS - 1) / LB_DOT2_ROWS;
    lb_dot2_columns c;
    for (ptrdiff_t n = left, wide; n < right; n += wide * LB_DOT2_LANES) {
        const ptrdiff_t vectors = (right - n + LB_DOT2_LANES - 1) / LB_DOT2_LANES;
        wide = vectors >= LB_DOT2_WIDE && rows <= LB_DOT2_FEW_ROWS ? LB_DOT2_WIDE : vectors >= 2 || LB_DOT2_VECS == 2 ? 2 : 1;
        const ptrdiff_t most = wide * LB_DOT2_LANES;
        lb_dot2_columns_at(p, n, right - n < most ? right - n : most, &c);
        for (ptrdiff_t t = 0, row = 0, step; t < tiles; t++, row += step) {
            step = (rows - row) / (tiles - t);
#if LB_DOT2_WIDE == 4
            if (wide == 4)
                lb_dot2_tiles4(step, p, &c, row, to + row);
            else if (wide == 1)
                lb_dot2_tiles1(step, p, &c, row, to + row);
            else
#endif
                lb_dot2_tiles2(step, p, &c, row, to + row);
        }
    }
}

#endif
