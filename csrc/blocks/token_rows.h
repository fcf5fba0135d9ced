/* Rows of a language model, a token each: norms, gates, rotations. What holds for every contract stands in lb.h.
 *
 * These contracts promise bits, and a row's bits depend on nothing but the row; that tells them from the norms and activations of
 * float_norm.h and float_unary.h. exp, sigmoid and tanh are those of base/exp.h. No multiply-add is fused. */
#ifndef LB_TOKEN_ROWS_H
#define LB_TOKEN_ROWS_H

#include <stdint.h>

/* ---- rms_norm_rows: rows of n floats. Lane j of 16 sums x * x over elements j, j + 16, ... in order, from +0; then lanes j and j + 8 are
 * added, j and j + 4, j and j + 2, j and j + 1.
 *
 *   r = 1 / sqrt(sum / fl32(n) + eps);  out = (x * r) * weight
 *
 * In place. Item: a row. */
typedef struct {
    int32_t n; /* >= 1 */
    float eps;
} lb_rms_norm_rows_params;

typedef void lb_rms_norm_rows_fn(const lb_rms_norm_rows_params *p, const float *x, const float *weight, float *out, int32_t begin,
                                 int32_t end);

/* ---- rms_norm_blocks: the same, then block_quantize (blocks.h); n is a multiple of 32. */
typedef lb_rms_norm_rows_params lb_rms_norm_blocks_params;

typedef void lb_rms_norm_blocks_fn(const lb_rms_norm_blocks_params *p, const float *x, const float *weight, uint8_t *out, int32_t begin,
                                   int32_t end);

/* ---- gate_rows: out = f(g) * up. In place of either. Item: 32 elements, the last may have fewer.
 *
 *   function 0, silu       f = g * sigmoid(g)
 *   function 1, gelu_tanh  f = (0.5 * g) * (1 + tanh(0.7978845608 * (g + ((0.044715 * g) * g) * g))) */
typedef struct {
    int32_t size;
    int32_t function;
} lb_gate_rows_params;

typedef void lb_gate_rows_fn(const lb_gate_rows_params *p, const float *g, const float *up, float *out, int32_t begin, int32_t end);

/* ---- gate_blocks: the same, then block_quantize; size is a multiple of 32. Item: a record. */
typedef lb_gate_rows_params lb_gate_blocks_params;

typedef void lb_gate_blocks_fn(const lb_gate_blocks_params *p, const float *g, const float *up, uint8_t *out, int32_t begin, int32_t end);

/* ---- rotary: x is (rows, heads, depth); cos and sin are (rows, dims / 2). Of the first `dims` features pairs (a, b) become
 * (a * cos - b * sin, b * cos + a * sin); a pair is features i and dims / 2 + i, or (neighbours = 1) 2 i and 2 i + 1. The rest stays.
 * In place. Item: a row. */
typedef struct {
    int32_t heads;
    int32_t depth;
    int32_t dims; /* even, <= depth */
    int32_t neighbours;
} lb_rotary_params;

typedef void lb_rotary_fn(const lb_rotary_params *p, const float *x, const float *cos, const float *sin, float *out, int32_t begin,
                          int32_t end);

#endif
