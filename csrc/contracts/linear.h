/* Rows times weights. What holds for every contract stands in lb.h. */
#ifndef LB_CONTRACTS_LINEAR_H
#define LB_CONTRACTS_LINEAR_H

#include <stdint.h>

/* ---- linear_s8, linear_s8_f32: rows times weights, as a 1x1 conv_s8 ---------------------------------------------------------------------
 * x is rows x k. Weights are (n, k) for `ref`; for others packed as those of conv_s8.
 * Item: a block of block_rows x block_columns results. There are ceil(rows / block_rows) * ceil(n / block_columns), those of one
 * block of rows one after the other. scratch, aligned to 64: bytes[1] of gemm_s8_sizes of the same isa for m = block_rows. */
typedef struct {
    int32_t rows;
    int32_t k;
    int32_t n;
    int32_t block_rows;    /* >= 1 */
    int32_t block_columns; /* >= 1, a multiple of 16 */
    int32_t out_stride;    /* elements from row to row, >= n */
    int32_t x_zero;
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_linear_s8_params;

typedef void lb_linear_s8_fn(const lb_linear_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                             int8_t *out, void *scratch, int32_t begin, int32_t end);

typedef lb_linear_s8_params lb_linear_s8_f32_params; /* y_zero, lo and hi are not read */

typedef void lb_linear_s8_f32_fn(const lb_linear_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                 const float *multiplier, float *out, void *scratch, int32_t begin, int32_t end);

#endif
