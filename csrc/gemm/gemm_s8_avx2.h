/* gemm_s8 on AVX2, by Winograd's inner product of 1968: for pairs,
 *
 *   sum of a0 w0 + a1 w1  =  sum of (a0 + w1) (a1 + w0)  -  sum of a0 a1  -  sum of w0 w1
 *
 * The last two are one number per row and per column, so four products cost two additions and half the multiplications of the
 * plain form. Everything is int16: bytes minus zero points are within +-255, their sums within +-510, and vpmaddwd is exact.
 *
 * Each segment of k is padded to STEP with zeros. Four neighbours of a stand as a0 a2 a1 a3, so that one dword holds (a0, a2) and
 * the next (a1, a3); four rows of b stand as (w1, w3) of 16 columns, then (w0, w2) of them. A packed b is the sums of w0 w1,
 * negated (segments x columns, int32), then panels of 16 columns. */
#ifndef LB_GEMM_S8_AVX2_H
#define LB_GEMM_S8_AVX2_H

#include "lb.h"
#include "gemm/gemm_s8.h"

#include <immintrin.h>
#include <string.h>

enum { LB_STEP = 16, LB_PANEL = 16, LB_TILE = 4 };

typedef struct {
    int32_t segments;
    ptrdiff_t depth;  /* k with its padding: all segments but the last are alike */
    ptrdiff_t stride; /* of a padded segment */
} lb_cut;

static inline ptrdiff_t lb_round_up(ptrdiff_t v, ptrdiff_t to) {
    return (v + to - 1) / to * to;
}

static inline lb_cut lb_cut_of(int32_t k, int32_t segment) {
    const int32_t segments = lb_segments(k, segment);
    const ptrdiff_t stride = lb_round_up(k < segment ? k : segment, LB_STEP);
    const ptrdiff_t last = lb_round_up(lb_segment_length(k, segment, segments - 1), LB_STEP);
    return (lb_cut){segments, (segments - 1) * stride + last, stride};
}

/* Rows of a that are packed at once: they stay in the second-level cache while all of b passes, and blocks are about equal. */
static inline ptrdiff_t lb_block_rows(int32_t m, ptrdiff_t depth) {
    const ptrdiff_t fits = (384 << 10) / (2 * (depth ? depth : 1));
    const ptrdiff_t most = fits < 32 ? 32 : fits > 192 ? 192 : fits;
    const ptrdiff_t blocks = m > most ? (m + most - 1) / most : 1;
    return lb_round_up((m + blocks - 1) / blocks, LB_TILE);
}

/* The parts of scratch, each aligned to 64 bytes. A row of a takes an odd number of cache lines: at powers of two the rows of a
 * block would share few sets of the cache and push b out of it. */
typedef struct {
    ptrdiff_t rows;   /* of a block */
    ptrdiff_t stride; /* from row to row of a */
    int16_t *a;       /* rows x stride */
    int32_t *a_pairs; /* segments x rows: sums of a0 a1, negated */
    int32_t *acc;     /* rows x LB_PANEL */
    float *total;     /* rows x LB_PANEL */
    ptrdiff_t bytes;
} lb_scratch;

static inline lb_scratch lb_scratch_at(void *base, int32_t m, lb_cut cut) {
    const ptrdiff_t rows = lb_block_rows(m, cut.depth);
    const ptrdiff_t stride = cut.depth / 32 * 32 + (cut.depth / 32 % 2 ? 64 : 32);
    const ptrdiff_t a = rows * stride * 2, pairs = lb_round_up(rows * cut.segments * 4, 64);
    const ptrdiff_t tile = rows * LB_PANEL * 4;
    char *at = base;
    return (lb_scratch){rows,
                        stride,
                        (int16_t *)at,
                        (int32_t *)(at + a),
                        (int32_t *)(at + a + pairs),
                        (float *)(at + a + pairs + tile),
                        a + pairs + 2 * tile};
}

/* The packed b: where its parts are. */
static inline int32_t *lb_b_pairs(const void *packed) {
    return (int32_t *)packed;
}

static inline int16_t *lb_b_panels(const void *packed, int32_t n, lb_cut cut) {
    return (int16_t *)(lb_b_pairs(packed) + cut.segments * lb_round_up(n, LB_PANEL));
}

#endif
