/* Products of quads by vpdpbusd, which adds four products of unsigned with signed bytes to a lane of 32 bits and does not saturate.
 * Activations are flipped, x + 128, so that sums begin at bias - (x_zero + 128) * (sum of the weights), modulo 2^32.
 *
 * Behind a header that defines lb_vec, its LB_LANES, LB_ROWS of a tile, and the vectors of a panel. A tile is two vectors wide: 16 columns,
 * or 32, of two panels. */
#ifndef LB_QUADS_VNNI_H
#define LB_QUADS_VNNI_H

#include "lb_quads.h"
#include "lb_requantize_avx2.h"

#define LB_QUADS_FLIP 0x80
#define LB_QUADS_INLINE static inline __attribute__((always_inline))
#if defined __clang__
#define LB_QUADS_UNROLL _Pragma("clang loop unroll(full)") /* loops over registers */
#else
#define LB_QUADS_UNROLL _Pragma("GCC unroll 12")
#endif

enum { LB_COLUMNS = 2 * LB_LANES, LB_CHAINS = 4 };

typedef int32_t __attribute__((may_alias)) lb_quad;

LB_QUADS_INLINE lb_vec lb_quad_at(const uint8_t *a) {
    return lb_vec_all(*(const lb_quad *)(const void *)a);
}

/* c (rows x `wide` vectors) += rows of a times weights: `quads` of them. Where the second vector of weights is, is `second` bytes on. */
LB_QUADS_INLINE void lb_quads_steps(const int rows, const int wide, const uint8_t *a, ptrdiff_t stride, const int8_t *w, ptrdiff_t second,
                                    ptrdiff_t quads, lb_vec c[][2]) {
    for (const int8_t *end = w + 64 * quads; w < end; w += 64, a += 4) {
        lb_vec v[2];
        LB_QUADS_UNROLL
        for (int j = 0; j < wide; j++)
            v[j] = lb_vec_load(w + j * second);
        LB_QUADS_UNROLL
        for (int i = 0; i < rows; i++) {
            const lb_vec x = lb_quad_at(a + i * stride);
            LB_QUADS_UNROLL
            for (int j = 0; j < wide; j++)
                c[i][j] = lb_vec_dot(c[i][j], x, v[j]);
        }
    }
}

/* The same for one row: sums in LB_CHAINS parts, so that products need not wait for each other. */
LB_QUADS_INLINE void lb_quads_row(const int wide, const uint8_t *a, const int8_t *w, ptrdiff_t second, ptrdiff_t quads, lb_vec c[][2]) {
    lb_vec s[LB_CHAINS][2];
    LB_QUADS_UNROLL
    for (int i = 0; i < LB_CHAINS; i++)
        LB_QUADS_UNROLL
    for (int j = 0; j < wide; j++)
        s[i][j] = i ? lb_vec_all(0) : c[0][j];
    ptrdiff_t q = 0;
    for (; q + LB_CHAINS <= quads; q += LB_CHAINS) {
        LB_QUADS_UNROLL
        for (int i = 0; i < LB_CHAINS; i++)
            LB_QUADS_UNROLL
        for (int j = 0; j < wide; j++)
            s[i][j] = lb_vec_dot(s[i][j], lb_quad_at(a + 4 * (q + i)), lb_vec_load(w + 64 * (q + i) + j * second));
    }
    for (; q < quads; q++)
        LB_QUADS_UNROLL
    for (int j = 0; j < wide; j++)
        s[0][j] = lb_vec_dot(s[0][j], lb_quad_at(a + 4 * q), lb_vec_load(w + 64 * q + j * second));
    LB_QUADS_UNROLL
    for (int j = 0; j < wide; j++)
        c[0][j] = lb_vec_add(lb_vec_add(s[0][j], s[1][j]), lb_vec_add(s[2][j], s[3][j]));
}

/* ---- linear_s8 and conv_s8 ---- */

/* Some columns: what their accumulators begin with, and their multipliers. */
typedef struct {
    _Alignas(64) int32_t start[LB_COLUMNS];
    _Alignas(64) float m[LB_COLUMNS];
    lb_clamp16 clamp;
    ptrdiff_t n, width;
} lb_quads_columns;

static inline void lb_quads_columns_at(const lb_quads_product *p, ptrdiff_t n, ptrdiff_t width, lb_quads_columns *c) {
    const int32_t *sums = lb_quads_sums(p->packed) + n;
    memset(c, 0, sizeof *c);
    memcpy(c->m, p->multiplier + n, 4 * (size_t)width);
    for (ptrdiff_t i = 0; i < width; i++)
        c->start[i] = (int32_t)((uint32_t)p->bias[n + i] - (uint32_t)(p->x_zero + 128) * (uint32_t)sums[i]);
    c->clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi);
    c->n = n, c->width = width;
}

/* Results of a row: 16 columns, from `at` of these on. */
LB_QUADS_INLINE void lb_quads_finish(const lb_quads_product *p, const lb_quads_result to, const lb_quads_columns *c, ptrdiff_t row, int at,
                                     __m256i low, __m256i high) {
    const ptrdiff_t first = row * p->out_stride + c->n + at, width = c->width - at < 16 ? c->width - at : 16;
    const __m256 m0 = _mm256_load_ps(c->m + at), m1 = _mm256_load_ps(c->m + at + 8);
    if (to == LB_QUADS_F32) {
        const __m256 y[2] = {_mm256_mul_ps(_mm256_cvtepi32_ps(low), m0), _mm256_mul_ps(_mm256_cvtepi32_ps(high), m1)};
        if (width == 16)
            memcpy((float *)p->out + first, y, sizeof y);
        else
            memcpy((float *)p->out + first, y, 4 * (size_t)width);
    } else if (to == LB_QUADS_S16)
        lb_store_words((int16_t *)p->out + first, low, high, m0, m1, p->y_zero, p->lo, p->hi, width);
    else
        lb_store_bytes((int8_t *)p->out + first, lb_requantize16(low, high, m0, m1, &c->clamp), width);
}

LB_QUADS_INLINE void lb_quads_tile(const int rows, const int wide, const lb_quads_product *p, const lb_quads_result to,
                                   const lb_quads_columns *c, ptrdiff_t first, ptrdiff_t row, const int8_t *w, ptrdiff_t second) {
    lb_vec acc[LB_ROWS][2];
    const ptrdiff_t quads = lb_quads_up(p->k, 4) / 4;
    const uint8_t *a = p->a + row * p->stride;
    LB_QUADS_UNROLL
    for (int i = 0; i < rows; i++)
        LB_QUADS_UNROLL
    for (int j = 0; j < wide; j++)
        acc[i][j] = lb_vec_load(c->start + j * LB_LANES);
    if (rows == 1)
        lb_quads_row(wide, a, w, second, quads, acc);
    else
        lb_quads_steps(rows, wide, a, p->stride, w, second, quads, acc);
    LB_QUADS_UNROLL
    for (int i = 0; i < rows; i++) {
        LB_QUADS_UNROLL
        for (int j = 0; j < wide; j += LB_PANEL_VECS)
            lb_quads_finish(p, to, c, first + row + i, 16 * j / LB_PANEL_VECS, lb_vec_low(acc[i] + j), lb_vec_high(acc[i] + j));
    }
}

/* Tiles of `wide` vectors: of LB_ROWS rows, then of fewer. */
LB_QUADS_INLINE void lb_quads_tiles(const int wide, const lb_quads_product *p, const lb_quads_result to, const lb_quads_columns *c,
                                    ptrdiff_t first, ptrdiff_t rows, const int8_t *w, ptrdiff_t second) {
    ptrdiff_t row = 0;
    for (; row + LB_ROWS <= rows; row += LB_ROWS)
        lb_quads_tile(LB_ROWS, wide, p, to, c, first, row, w, second);
    if (LB_ROWS > 8 && row + 8 <= rows) {
        lb_quads_tile(LB_ROWS > 8 ? 8 : 1, wide, p, to, c, first, row, w, second);
        row += 8;
    }
    if (row + 4 <= rows) {
        lb_quads_tile(4, wide, p, to, c, first, row, w, second);
        row += 4;
    }
    if (row + 2 <= rows) {
        lb_quads_tile(2, wide, p, to, c, first, row, w, second);
        row += 2;
    }
    if (row < rows)
        lb_quads_tile(1, wide, p, to, c, first, row, w, second);
}

LB_QUADS_INLINE void lb_quads_multiply(const lb_quads_product *p, const lb_quads_result to, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left,
                                       ptrdiff_t right) {
    const ptrdiff_t depth = lb_quads_up(p->k, 4);
    const ptrdiff_t second = LB_LANES == 8 ? 32 : LB_QUADS_PANEL * depth;
    for (ptrdiff_t n = left; n < right; n += LB_COLUMNS) {
        const int8_t *w = lb_quads_panels(p->packed, p->n) + n * depth;
        lb_quads_columns c;
        lb_quads_columns_at(p, n, right - n < LB_COLUMNS ? right - n : LB_COLUMNS, &c);
        if (LB_LANES == 16 && c.width <= LB_QUADS_PANEL)
            lb_quads_tiles(LB_LANES == 16 ? 1 : 2, p, to, &c, first, rows, w, second);
        else
            lb_quads_tiles(2, p, to, &c, first, rows, w, second);
    }
}

#include "lb_quads_drive.h"

#endif
