/* Float products on AVX2: tiles of up to 6 rows and 16 columns, held in registers while k passes. Every result is the fused sum of its
 * products in the order of k, whichever tile it falls into. */
#ifndef LB_TILE_F32_AVX2_H
#define LB_TILE_F32_AVX2_H

#include "lb_math_avx2.h"

#include <stddef.h>
#include <stdint.h>

enum { LB_TILE_ROWS = 6, LB_TILE_COLUMNS = 16 };

/* What happens to a sum: the bias is added and it is clamped. */
typedef struct {
    const float *bias;
    float lo, hi;
} lb_tile_end;

/* The first 1 ... 8 of a vector. */
static inline void lb_put_first_ps(float *to, __m256 v, int32_t count) {
    if (count >= 8) {
        _mm256_storeu_ps(to, v);
        return;
    }
    __m128 part = _mm256_castps256_ps128(v);
    if (count & 4) {
        _mm_storeu_ps(to, part);
        part = _mm256_extractf128_ps(v, 1), to += 4;
    }
    if (count & 2) {
        _mm_storel_pi((__m64 *)(void *)to, part);
        part = _mm_movehl_ps(part, part), to += 2;
    }
    if (count & 1)
        _mm_store_ss(to, part);
}

/* Sums become results: `columns` of 8 * vectors are written, all of e->bias is read. */
__attribute__((always_inline)) static inline void lb_tile_f32_put(const int rows, const int vectors, __m256 s[][2], const lb_tile_end *e,
                                                                  int32_t columns, float *out, ptrdiff_t out_stride) {
    const __m256 lo = _mm256_set1_ps(e->lo), hi = _mm256_set1_ps(e->hi);
    const __m256 bias0 = _mm256_loadu_ps(e->bias), bias1 = vectors == 2 ? _mm256_loadu_ps(e->bias + 8) : bias0;
    if (columns == 8 * vectors) {
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++, out += out_stride) {
            _mm256_storeu_ps(out, lb_clamp_ps(_mm256_add_ps(s[i][0], bias0), lo, hi));
            if (vectors == 2)
                _mm256_storeu_ps(out + 8, lb_clamp_ps(_mm256_add_ps(s[i][1], bias1), lo, hi));
        }
        return;
    }
    float tile[12][8]; /* of the last vector */
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        if (vectors == 2)
            _mm256_storeu_ps(out + i * out_stride, lb_clamp_ps(_mm256_add_ps(s[i][0], bias0), lo, hi));
        _mm256_storeu_ps(tile[i], lb_clamp_ps(_mm256_add_ps(s[i][vectors - 1], bias1), lo, hi));
    }
    out += 8 * (vectors - 1);
    for (int i = 0; i < rows; i++, out += out_stride)
        lb_put_first_ps(out, _mm256_loadu_ps(tile[i]), columns - 8 * (vectors - 1));
}

/* rows <= 6 rows of 8 * vectors sums: a[tap * 6 + row][k] times b[tap][k][column], with `step` floats from k to k. */
__attribute__((always_inline)) static inline void lb_tile_f32_rows(const int rows, const int vectors, const float *const *a, int32_t taps,
                                                                   int32_t depth, const float *b, ptrdiff_t step, const lb_tile_end *e,
                                                                   int32_t columns, float *out, ptrdiff_t out_stride) {
    __m256 s[6][2];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
        s[i][0] = s[i][1] = _mm256_setzero_ps();
    for (int32_t t = 0; t < taps; t++, a += LB_TILE_ROWS) {
        const float *r[6];
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
            r[i] = a[i];
        for (ptrdiff_t k = 0; k < depth; k++, b += step) {
            const __m256 b0 = _mm256_loadu_ps(b), b1 = vectors == 2 ? _mm256_loadu_ps(b + 8) : b0;
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++) {
                const __m256 v = _mm256_broadcast_ss(r[i] + k);
                s[i][0] = _mm256_fmadd_ps(v, b0, s[i][0]);
                if (vectors == 2)
                    s[i][1] = _mm256_fmadd_ps(v, b1, s[i][1]);
            }
        }
    }
    lb_tile_f32_put(rows, vectors, s, e, columns, out, out_stride);
}

/* Functions of their own: among a caller's variables the compiler would spill sums. */
typedef void lb_tile_f32_fn(const float *const *a, int32_t taps, int32_t depth, const float *b, ptrdiff_t step, const lb_tile_end *e,
                            int32_t columns, float *out, ptrdiff_t out_stride);
#define LB_TILE_F32(rows, vectors)                                                                                                         \
    __attribute__((noinline, unused)) static void lb_tile_f32_##rows##_##vectors(const float *const *a, int32_t taps, int32_t depth,       \
                                                                                 const float *b, ptrdiff_t step, const lb_tile_end *e,     \
                                                                                 int32_t columns, float *out, ptrdiff_t out_stride) {      \
        lb_tile_f32_rows(rows, vectors, a, taps, depth, b, step, e, columns, out, out_stride);                                             \
    }
LB_TILE_F32(1, 1)
LB_TILE_F32(2, 1)
LB_TILE_F32(3, 1)
LB_TILE_F32(4, 1)
LB_TILE_F32(5, 1)
LB_TILE_F32(6, 1)
LB_TILE_F32(1, 2)
LB_TILE_F32(2, 2)
LB_TILE_F32(3, 2)
LB_TILE_F32(4, 2)
LB_TILE_F32(5, 2)
LB_TILE_F32(6, 2)

/* The bias for tiles that end at a column: `own` holds it where the vectors reach further than it does. */
static inline const float *lb_tile_bias(const float *bias, int32_t columns, float own[LB_TILE_COLUMNS]) {
    if (columns % 8 == 0)
        return bias;
    for (int32_t j = 0; j < LB_TILE_COLUMNS; j++)
        own[j] = j < columns ? bias[j] : 0.0f;
    return own;
}

/* A tile of 1 ... 6 rows and 1 ... 16 columns. Pointers of rows that are not there are not read. b has 8 or 16 columns, bias and out
 * have `columns`. */
static inline void lb_tile_f32(int32_t rows, int32_t columns, const float *const *a, int32_t taps, int32_t depth, const float *b,
                               ptrdiff_t step, const lb_tile_end *e, float *out, ptrdiff_t out_stride) {
    static lb_tile_f32_fn *const tiles[2][LB_TILE_ROWS] = {
        {lb_tile_f32_1_1, lb_tile_f32_2_1, lb_tile_f32_3_1, lb_tile_f32_4_1, lb_tile_f32_5_1, lb_tile_f32_6_1},
        {lb_tile_f32_1_2, lb_tile_f32_2_2, lb_tile_f32_3_2, lb_tile_f32_4_2, lb_tile_f32_5_2, lb_tile_f32_6_2}};
    float own[LB_TILE_COLUMNS];
    const lb_tile_end whole = {lb_tile_bias(e->bias, columns, own), e->lo, e->hi};
    tiles[columns > 8][rows - 1](a, taps, depth, b, step, &whole, columns, out, out_stride);
}

#endif
