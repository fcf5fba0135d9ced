/* Float products on AVX2: tiles of up to 6 rows and 16 columns, held in registers while k passes. Every result is the fused sum of its
 * products in the order of k, whichever tile it falls into. */
#ifndef LB_TILE_F32_AVX2_H
#define LB_TILE_F32_AVX2_H

#include "lb_math_avx2.h"

#include <stddef.h>
#include <stdint.h>

enum { LB_TILE_ROWS = 6, LB_TILE_COLUMNS = 16 };

/* What happens to a sum: the bias (16 of them) is added and it is clamped. */
typedef struct {
    const float *bias;
    float lo, hi;
} lb_tile_end;

/* rows <= 6 sums: a[tap * 6 + row][k] times b[tap][k][column], with `step` floats from k to k. */
__attribute__((always_inline)) static inline void lb_tile_f32_sums(const int rows, const float *const *a, int32_t taps, int32_t depth,
                                                                   const float *b, ptrdiff_t step, __m256 s[6][2]) {
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
        s[i][0] = s[i][1] = _mm256_setzero_ps();
    for (int32_t t = 0; t < taps; t++, a += LB_TILE_ROWS) {
        const float *r[6];
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
            r[i] = a[i];
        for (ptrdiff_t k = 0; k < depth; k++, b += step) {
            const __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++) {
                const __m256 v = _mm256_broadcast_ss(r[i] + k);
                s[i][0] = _mm256_fmadd_ps(v, b0, s[i][0]);
                s[i][1] = _mm256_fmadd_ps(v, b1, s[i][1]);
            }
        }
    }
}

__attribute__((always_inline)) static inline void lb_tile_f32_rows(const int rows, const float *const *a, int32_t taps, int32_t depth,
                                                                   const float *b, ptrdiff_t step, const lb_tile_end *e, float *out,
                                                                   ptrdiff_t out_stride) {
    __m256 s[6][2];
    lb_tile_f32_sums(rows, a, taps, depth, b, step, s);
    const __m256 lo = _mm256_set1_ps(e->lo), hi = _mm256_set1_ps(e->hi);
    const __m256 bias0 = _mm256_loadu_ps(e->bias), bias1 = _mm256_loadu_ps(e->bias + 8);
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++, out += out_stride) {
        _mm256_storeu_ps(out, lb_clamp_ps(_mm256_add_ps(s[i][0], bias0), lo, hi));
        _mm256_storeu_ps(out + 8, lb_clamp_ps(_mm256_add_ps(s[i][1], bias1), lo, hi));
    }
}

/* Functions of their own: among a caller's variables the compiler would spill sums. */
#define LB_TILE_F32(rows)                                                                                                                  \
    __attribute__((noinline, unused)) static void lb_tile_f32_##rows(const float *const *a, int32_t taps, int32_t depth, const float *b,   \
                                                                     ptrdiff_t step, const lb_tile_end *e, float *out, ptrdiff_t stride) { \
        lb_tile_f32_rows(rows, a, taps, depth, b, step, e, out, stride);                                                                   \
    }
LB_TILE_F32(1)
LB_TILE_F32(2)
LB_TILE_F32(3)
LB_TILE_F32(4)
LB_TILE_F32(5)
LB_TILE_F32(6)

/* A tile of 1 ... 6 rows and all 16 columns. Pointers of rows that are not there are not read. */
static inline void lb_tile_f32_full(int32_t rows, const float *const *a, int32_t taps, int32_t depth, const float *b, ptrdiff_t step,
                                    const lb_tile_end *e, float *out, ptrdiff_t out_stride) {
    switch (rows) {
    case 6:
        lb_tile_f32_6(a, taps, depth, b, step, e, out, out_stride);
        break;
    case 5:
        lb_tile_f32_5(a, taps, depth, b, step, e, out, out_stride);
        break;
    case 4:
        lb_tile_f32_4(a, taps, depth, b, step, e, out, out_stride);
        break;
    case 3:
        lb_tile_f32_3(a, taps, depth, b, step, e, out, out_stride);
        break;
    case 2:
        lb_tile_f32_2(a, taps, depth, b, step, e, out, out_stride);
        break;
    default:
        lb_tile_f32_1(a, taps, depth, b, step, e, out, out_stride);
    }
}

/* The same of 1 ... 16 columns: b has 16 all the same, out and bias have `columns`. */
static inline void lb_tile_f32(int32_t rows, int32_t columns, const float *const *a, int32_t taps, int32_t depth, const float *b,
                               ptrdiff_t step, const lb_tile_end *e, float *out, ptrdiff_t out_stride) {
    if (columns == LB_TILE_COLUMNS) {
        lb_tile_f32_full(rows, a, taps, depth, b, step, e, out, out_stride);
        return;
    }
    float bias[LB_TILE_COLUMNS] = {0}, tile[LB_TILE_ROWS * LB_TILE_COLUMNS];
    for (int32_t j = 0; j < columns; j++)
        bias[j] = e->bias[j];
    const lb_tile_end whole = {bias, e->lo, e->hi};
    lb_tile_f32_full(rows, a, taps, depth, b, step, &whole, tile, LB_TILE_COLUMNS);
    for (int32_t i = 0; i < rows; i++)
        for (int32_t j = 0; j < columns; j++)
            out[i * out_stride + j] = tile[i * LB_TILE_COLUMNS + j];
}

#endif
