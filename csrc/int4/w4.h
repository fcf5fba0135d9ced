/* Weights of four bits: what the implementations share, and sums one by one. */
#ifndef LB_W4_H
#define LB_W4_H

#include "lb.h"
#include "gemm/gemm_s8.h"
#include "linear/linear_blocks.h"
#include "base/numerics.h"

/* Weight i of a row in the layout of `ref`. */
static inline int32_t lb_w4_at(const uint8_t *row, int32_t i) {
    const int32_t nibble = (row[i / 2] >> (i % 2 * 4)) & 15;
    return (nibble ^ 8) - 8;
}

/* Sum of (x - x_zero) * w over elements first ... first + count - 1 of a row. Modulo 2^32. */
static inline int32_t lb_w4_dot(const int8_t *x, int32_t x_zero, const uint8_t *row, int32_t first, int32_t count) {
    uint32_t sum = 0;
    for (int32_t i = first; i < first + count; i++)
        sum += (uint32_t)((x[i] - x_zero) * lb_w4_at(row, i));
    return (int32_t)sum;
}

/* Rows of weights in bytes. */
static inline ptrdiff_t lb_w4_row_bytes(int32_t k) {
    return k / 2 + k % 2;
}

/* An accumulator of linear_w4_s8. */
static inline int32_t lb_w4_acc(const lb_linear_w4_s8_params *p, const int8_t *x, const uint8_t *w, const int32_t *bias, int32_t row,
                                int32_t column) {
    const uint8_t *weights = w + column * lb_w4_row_bytes(p->k);
    return (int32_t)((uint32_t)bias[column] + (uint32_t)lb_w4_dot(x + (ptrdiff_t)row * p->k, 0, weights, 0, p->k));
}

/* The scaled sum of linear_w4_blocks_s8; x_scale is 1 where rows have none, and where it is not its turn, which changes no bit. */
static inline lb_f32 lb_w4_blocks(const lb_linear_w4_blocks_s8_params *p, const int8_t *x, lb_f32 x_scale, const uint8_t *w,
                                  const lb_f32 *scales, const lb_f32 *bias, int32_t row, int32_t column) {
    const int32_t segments = lb_segments(p->k, p->segment);
    const lb_f32 one = lb_f32_from_s32(1), each = segments == 1 ? x_scale : one, last = segments == 1 ? one : x_scale;
    lb_f32 t = lb_f32_of_bits(0);
    for (int32_t s = 0; s < segments; s++) {
        const int32_t acc = lb_w4_dot(x + (ptrdiff_t)row * p->k, p->x_zero, w + column * lb_w4_row_bytes(p->k), s * p->segment,
                                      lb_segment_length(p->k, p->segment, s));
        t = lb_f32_add(t, lb_f32_mul(lb_f32_from_s32(acc), lb_f32_mul(each, scales[(ptrdiff_t)column * segments + s])));
    }
    return lb_f32_add(lb_f32_mul(t, last), bias[column]);
}

/* The items of linear_w4_s8 and linear_w4_blocks_s8 are those of linear_s8. */
static inline lb_block lb_w4_item(int32_t rows, int32_t n, int32_t block_rows, int32_t block_columns, int32_t item) {
    const lb_linear_s8_params p = {.rows = rows, .n = n, .block_rows = block_rows, .block_columns = block_columns};
    return lb_linear_block(&p, item);
}

#endif
