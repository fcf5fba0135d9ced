/* Products of rows of bytes with packed weights, on instruction sets that multiply four bytes a lane at once (or can do as if):
 * avxvnni, avx512vnni, neon, neondot. Rows are copied to scratch, where each takes an odd number of cache lines, so that neighbours do
 * not share few sets of the cache; then all panels of some columns are multiplied with tiles of rows. A file for an instruction set
 * defines LB_DOT4_FLIP and lb_dot4_multiply, and includes this one before them. */
#ifndef LB_DOT4_H
#define LB_DOT4_H

#include "conv/conv_ref.h"
#include "linear/linear_blocks.h"

#include <string.h>

enum { LB_DOT4_PANEL = 16 };

typedef enum { LB_DOT4_S8, LB_DOT4_S16, LB_DOT4_F32, LB_DOT4_ROWS } lb_dot4_result; /* what becomes of accumulators */

/* What stands before the panels, which are aligned to 64 as it is. */
typedef struct {
    int32_t lowest; /* 1 where a weight is -128 */
    int32_t unused[15];
} lb_dot4_head;

_Static_assert(sizeof(lb_dot4_head) == 64, "what follows is aligned");

static inline ptrdiff_t lb_dot4_up(ptrdiff_t v, ptrdiff_t to) {
    return (v + to - 1) / to * to;
}

static inline const int32_t *lb_dot4_sums(const void *packed) {
    return (const int32_t *)(const void *)((const char *)packed + sizeof(lb_dot4_head));
}

static inline const int8_t *lb_dot4_panels(const void *packed, int32_t n) {
    return (const int8_t *)(lb_dot4_sums(packed) + lb_dot4_up(n, LB_DOT4_PANEL));
}

static inline ptrdiff_t lb_dot4_bytes(int32_t k, int32_t n) {
    return (ptrdiff_t)sizeof(lb_dot4_head) + lb_dot4_up(n, LB_DOT4_PANEL) * (4 + lb_dot4_up(k, 4));
}

static inline ptrdiff_t lb_dot4_stride(int32_t k) {
    return 64 * ((k + 63) / 64 | 1);
}

/* Rows in scratch times weights. */
typedef struct {
    const void *packed;
    int32_t k, n; /* of the packed weights */
    int32_t x_zero;
    const int32_t *bias; /* NULL: none */
    const lb_f32 *multiplier;
    void *out; /* row 0, column 0 */
    ptrdiff_t out_stride;
    int32_t y_zero, lo, hi;
    const uint8_t *a; /* the rows */
    ptrdiff_t stride;
    const lb_f32 *row_multiplier, *real_bias; /* of LB_DOT4_ROWS */
} lb_dot4_product;

#endif
