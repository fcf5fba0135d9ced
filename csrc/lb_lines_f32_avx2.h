/* Float products on AVX2 of rows that lie in lines: row i is runs of `run` floats, which begin at a[i], a[i] + line, a[i] + 2 * line, ...
 * A window of an image is such a row (each line of the image one run), a row of a matrix is one of a single run. Up to 8 columns are
 * tiles of 12 rows, more are tiles of 6: as many sums as there are registers. Results are those of lb_tile_f32. */
#ifndef LB_LINES_F32_AVX2_H
#define LB_LINES_F32_AVX2_H

#include "lb_tile_f32_avx2.h"

enum { LB_LINES_COLUMNS = 8, LB_LINES_ROWS = 12 };

typedef struct {
    int32_t runs, run;
    ptrdiff_t line;
} lb_lines;

/* The pointers stay in registers: what changes from run to run is the index alone. */
__attribute__((always_inline)) static inline void lb_lines_f32_rows(const int rows, const int vectors, const float *const *a,
                                                                    const lb_lines *l, const float *b, const lb_tile_end *e,
                                                                    int32_t columns, float *out, ptrdiff_t out_stride) {
    __m256 s[LB_LINES_ROWS][2];
    const float *r[LB_LINES_ROWS];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        r[i] = a[i];
        s[i][0] = s[i][1] = _mm256_setzero_ps();
    }
    ptrdiff_t at = 0;
    for (int32_t t = l->runs; t > 0; t--, at += l->line) {
        ptrdiff_t k = at;
        for (const float *end = b + (ptrdiff_t)l->run * LB_TILE_COLUMNS; b != end; b += LB_TILE_COLUMNS, k++) {
            __asm__("" : "+r"(k)); /* else the compiler makes 12 pointers more, which have no registers */
            const __m256 b0 = _mm256_loadu_ps(b), b1 = vectors == 2 ? _mm256_loadu_ps(b + 8) : b0;
#pragma GCC unroll 12
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

typedef void lb_lines_f32_fn(const float *const *a, const lb_lines *l, const float *b, const lb_tile_end *e, int32_t columns, float *out,
                             ptrdiff_t out_stride);
#define LB_LINES_F32(rows, vectors)                                                                                                        \
    __attribute__((noinline, unused)) static void lb_lines_f32_##rows##_##vectors(const float *const *a, const lb_lines *l,                \
                                                                                  const float *b, const lb_tile_end *e, int32_t columns,   \
                                                                                  float *out, ptrdiff_t out_stride) {                      \
        lb_lines_f32_rows(rows, vectors, a, l, b, e, columns, out, out_stride);                                                            \
    }
LB_LINES_F32(1, 1)
LB_LINES_F32(2, 1)
LB_LINES_F32(3, 1)
LB_LINES_F32(4, 1)
LB_LINES_F32(5, 1)
LB_LINES_F32(6, 1)
LB_LINES_F32(12, 1)
LB_LINES_F32(1, 2)
LB_LINES_F32(2, 2)
LB_LINES_F32(3, 2)
LB_LINES_F32(4, 2)
LB_LINES_F32(5, 2)
LB_LINES_F32(6, 2)

/* At most how many rows a tile of so many columns has. */
static inline int32_t lb_lines_most(int32_t columns) {
    return columns <= LB_LINES_COLUMNS ? LB_LINES_ROWS : LB_TILE_ROWS;
}

/* At most as many rows as a tile has; 1 ... 16 columns. b is a panel of 16; as much of e->bias is read as vectors have (lb_tile_bias). */
static inline void lb_lines_f32(int32_t rows, int32_t columns, const float *const *a, const lb_lines *l, const float *b,
                                const lb_tile_end *e, float *out, ptrdiff_t out_stride) {
    static const struct {
        int32_t rows;
        lb_lines_f32_fn *narrow, *wide;
    } tiles[] = {{12, lb_lines_f32_12_1, 0},
                 {6, lb_lines_f32_6_1, lb_lines_f32_6_2},
                 {5, lb_lines_f32_5_1, lb_lines_f32_5_2},
                 {4, lb_lines_f32_4_1, lb_lines_f32_4_2},
                 {3, lb_lines_f32_3_1, lb_lines_f32_3_2},
                 {2, lb_lines_f32_2_1, lb_lines_f32_2_2},
                 {1, lb_lines_f32_1_1, lb_lines_f32_1_2}};
    for (int t = columns <= LB_LINES_COLUMNS ? 0 : 1; rows > 0; t++)
        if (rows >= tiles[t].rows) {
            (columns <= LB_LINES_COLUMNS ? tiles[t].narrow : tiles[t].wide)(a, l, b, e, columns, out, out_stride);
            a += tiles[t].rows, out += tiles[t].rows * out_stride, rows -= tiles[t].rows;
        }
}

#endif
