/* Float products: tiles of up to LB_TILE_ROWS rows and two vectors of columns, held in registers while k passes. Every result is the fused
 * sum of its products in the order of k, whichever tile it falls into. The words of vectors (f32_avx2.h or another) stand before this.
 *
 * Weights stand in panels of LB_PANEL columns: two vectors of AVX2 are one, two of AVX-512 are two of them. */
#ifndef LB_MICROKERNEL_F32_H
#define LB_MICROKERNEL_F32_H

#include <stddef.h>
#include <stdint.h>

enum { LB_PANEL = 16, LB_TILE_COLUMNS = 2 * LB_LANES, LB_LATER = 2 }; /* the number of a tile that brings nothing */

static inline int32_t lb_least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* The epilogue of a sum: bias and clamp. */
typedef struct {
    const float *bias;
    float lo, hi;
} lb_tile_end;

/* Where the columns of b are: `step` floats from k to k, `apart` from vector to vector; data `ahead` of them is prefetched. */
typedef struct {
    ptrdiff_t step, apart, ahead;
} lb_tile_b;

/* Panels of depth k for the tile-th tile of rows. The first tiles, one for each panel of a tile, bring what the next panels hold: weights
 * that come from memory do so while all tiles are computed, not before the first alone. */
static inline lb_tile_b lb_panels_of(ptrdiff_t k, int32_t tile) {
    enum { PANELS = LB_TILE_COLUMNS / LB_PANEL };
    return (lb_tile_b){LB_PANEL, PANELS == 1 ? LB_LANES : LB_PANEL * k, tile < PANELS ? (PANELS + tile) * LB_PANEL * k : 0};
}

/* How many rows each tile has, so that tiles of at most `most` are alike. */
static inline int32_t lb_tile_even(int32_t rows, int32_t most) {
    const int32_t count = (rows + most - 1) / most;
    return count ? (rows + count - 1) / count : most;
}

/* Sums become results: `columns` of LB_LANES * vectors are written, all of e->bias is read. */
__attribute__((always_inline)) static inline void lb_tile_f32_put(const int rows, const int vectors, lb_v s[][2], const lb_tile_end *e,
                                                                  int32_t columns, float *out, ptrdiff_t out_stride) {
    const lb_v lo = lb_v_all(e->lo), hi = lb_v_all(e->hi);
    const lb_v bias0 = lb_v_load(e->bias), bias1 = vectors == 2 ? lb_v_load(e->bias + LB_LANES) : bias0;
    if (columns == LB_LANES * vectors) {
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++, out += out_stride) {
            lb_v_store(out, LB_V(clamp)(lb_v_add(s[i][0], bias0), lo, hi));
            if (vectors == 2)
                lb_v_store(out + LB_LANES, LB_V(clamp)(lb_v_add(s[i][1], bias1), lo, hi));
        }
        return;
    }
    float tile[LB_TALL_ROWS][LB_LANES]; /* of the last vector */
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        if (vectors == 2)
            lb_v_store(out + i * out_stride, LB_V(clamp)(lb_v_add(s[i][0], bias0), lo, hi));
        lb_v_store(tile[i], LB_V(clamp)(lb_v_add(s[i][vectors - 1], bias1), lo, hi));
    }
    out += LB_LANES * (vectors - 1);
    for (int i = 0; i < rows; i++, out += out_stride)
        lb_v_put(out, lb_v_load(tile[i]), columns - LB_LANES * (vectors - 1));
}

/* `count` products are added to each sum: row r[i][k ...] times b. Gives where b goes on. */
__attribute__((always_inline)) static inline const float *lb_tile_f32_run(const int rows, const int vectors, const float *const *r,
                                                                          ptrdiff_t k, int32_t count, const float *b, lb_tile_b to,
                                                                          lb_v s[][2]) {
    for (const ptrdiff_t end = k + count; k != end; k++, b += to.step) {
        __asm__("" : "+r"(k)); /* else the compiler makes a pointer more for each row, which have no registers */
        _mm_prefetch((const char *)((uintptr_t)b + sizeof *b * (size_t)to.ahead),
                     _MM_HINT_T1); /* a number: it may lead past the end of b */
        const lb_v b0 = lb_v_load(b), b1 = vectors == 2 ? lb_v_load(b + to.apart) : b0;
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++) {
            const lb_v v = lb_v_all(r[i][k]);
            s[i][0] = lb_v_fma(v, b0, s[i][0]);
            if (vectors == 2)
                s[i][1] = lb_v_fma(v, b1, s[i][1]);
        }
    }
    return b;
}

/* a[tap * LB_TILE_ROWS + row][k] times b[tap][k][column]. */
__attribute__((always_inline)) static inline void lb_tile_f32_rows(const int rows, const int vectors, const float *const *a, int32_t taps,
                                                                   int32_t depth, const float *b, lb_tile_b to, const lb_tile_end *e,
                                                                   int32_t columns, float *out, ptrdiff_t out_stride) {
    lb_v s[LB_TILE_ROWS][2];
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++)
        s[i][0] = s[i][1] = lb_v_zero();
    for (int32_t t = 0; t < taps; t++, a += LB_TILE_ROWS) {
        const float *r[LB_TILE_ROWS];
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++)
            r[i] = a[i];
        b = lb_tile_f32_run(rows, vectors, r, 0, depth, b, to, s);
    }
    lb_tile_f32_put(rows, vectors, s, e, columns, out, out_stride);
}

/* `what` of each number of rows of a tile. */
#if LB_TILE_ROWS == 6
#define LB_TILE_EACH(what) what(1) what(2) what(3) what(4) what(5) what(6)
#else
#define LB_TILE_EACH(what)                                                                                                                 \
    what(1) what(2) what(3) what(4) what(5) what(6) what(7) what(8) what(9) what(10) what(11) what(12) what(13) what(14)
#endif

/* Functions of their own: among a caller's variables the compiler would spill sums. */
typedef void lb_tile_f32_fn(const float *const *a, int32_t taps, int32_t depth, const float *b, lb_tile_b to, const lb_tile_end *e,
                            int32_t columns, float *out, ptrdiff_t out_stride);
#define LB_TILE_F32(rows, vectors)                                                                                                         \
    __attribute__((noinline, unused)) static void lb_tile_f32_##rows##_##vectors(const float *const *a, int32_t taps, int32_t depth,       \
                                                                                 const float *b, lb_tile_b to, const lb_tile_end *e,       \
                                                                                 int32_t columns, float *out, ptrdiff_t out_stride) {      \
        lb_tile_f32_rows(rows, vectors, a, taps, depth, b, to, e, columns, out, out_stride);                                               \
    }
#define LB_TILE_BOTH(rows) LB_TILE_F32(rows, 1) LB_TILE_F32(rows, 2)
#define LB_TILE_ONE(rows) lb_tile_f32_##rows##_1,
#define LB_TILE_TWO(rows) lb_tile_f32_##rows##_2,
LB_TILE_EACH(LB_TILE_BOTH)

/* The bias for tiles that end at a column: `own` holds it where the vectors reach further than it does. */
static inline const float *lb_tile_bias(const float *bias, int32_t columns, float own[LB_TILE_COLUMNS]) {
    if (columns % LB_LANES == 0)
        return bias;
    for (int32_t j = 0; j < LB_TILE_COLUMNS; j++)
        own[j] = j < columns ? bias[j] : 0.0f;
    return own;
}

/* A tile of 1 ... LB_TILE_ROWS rows and 1 ... LB_TILE_COLUMNS columns. Pointers of rows that are not there are not read. b has whole
 * vectors of columns, bias and out have `columns`. */
static inline void lb_tile_f32(int32_t rows, int32_t columns, const float *const *a, int32_t taps, int32_t depth, const float *b,
                               lb_tile_b to, const lb_tile_end *e, float *out, ptrdiff_t out_stride) {
    static lb_tile_f32_fn *const tiles[2][LB_TILE_ROWS] = {{LB_TILE_EACH(LB_TILE_ONE)}, {LB_TILE_EACH(LB_TILE_TWO)}};
    float own[LB_TILE_COLUMNS];
    const lb_tile_end whole = {lb_tile_bias(e->bias, columns, own), e->lo, e->hi};
    tiles[columns > LB_LANES][rows - 1](a, taps, depth, b, to, &whole, columns, out, out_stride);
}

#endif
