/* Float products of rows that lie in lines: row i is runs of `run` floats, which begin at a[i], a[i] + line, a[i] + 2 * line, ... A window
 * of an image is such a row (each line of the image one run), a row of a matrix is one of a single run. One vector of columns is tiles of
 * LB_TALL_ROWS rows, two are tiles of LB_TILE_ROWS: as many sums as there are registers. Results are those of lb_tile_f32. */
#ifndef LB_LINES_F32_H
#define LB_LINES_F32_H

#include "gemm/microkernel_f32.h"

typedef struct {
    int32_t runs, run;
    ptrdiff_t line;
    int32_t tile; /* which one of the tiles that b meets */
} lb_lines;

/* The pointers stay in registers: only the index changes from run to run. */
__attribute__((always_inline)) static inline void lb_lines_f32_rows(const int rows, const int vectors, const float *const *a,
                                                                    const lb_lines *l, const float *b, const lb_tile_end *e,
                                                                    int32_t columns, float *out, ptrdiff_t out_stride) {
    const lb_tile_b to = lb_panels_of((ptrdiff_t)l->runs * l->run, l->tile);
    lb_v s[LB_TALL_ROWS][2];
    const float *r[LB_TALL_ROWS];
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        r[i] = a[i];
        s[i][0] = s[i][1] = lb_v_zero();
    }
    ptrdiff_t at = 0;
    for (int32_t t = l->runs; t > 0; t--, at += l->line)
        b = lb_tile_f32_run(rows, vectors, r, at, l->run, b, to, s);
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
#define LB_LINES_BOTH(rows) LB_LINES_F32(rows, 1) LB_LINES_F32(rows, 2)
#define LB_LINES_ONE(rows) lb_lines_f32_##rows##_1,
#define LB_LINES_TWO(rows) lb_lines_f32_##rows##_2,
LB_TILE_EACH(LB_LINES_BOTH)
#if LB_TALL_ROWS == 12
LB_LINES_F32(12, 1)
#endif

/* The largest number of rows of a tile with this many columns. */
static inline int32_t lb_lines_most(int32_t columns) {
    return columns <= LB_LANES ? LB_TALL_ROWS : LB_TILE_ROWS;
}

/* At most as many rows as a tile has; 1 ... LB_TILE_COLUMNS columns. b are panels; as much of e->bias is read as vectors have
 * (lb_tile_bias). */
static inline void lb_lines_f32(int32_t rows, int32_t columns, const float *const *a, const lb_lines *l, const float *b,
                                const lb_tile_end *e, float *out, ptrdiff_t out_stride) {
    static lb_lines_f32_fn *const tiles[2][LB_TILE_ROWS] = {{LB_TILE_EACH(LB_LINES_ONE)}, {LB_TILE_EACH(LB_LINES_TWO)}};
#if LB_TALL_ROWS == 12
    if (rows == 12) {
        lb_lines_f32_12_1(a, l, b, e, columns, out, out_stride);
        return;
    }
#endif
    for (int32_t count; rows > 0; rows -= count, a += count, out += count * out_stride) {
        count = rows < LB_TILE_ROWS ? rows : LB_TILE_ROWS;
        tiles[columns > LB_LANES][count - 1](a, l, b, e, columns, out, out_stride);
    }
}

#endif
