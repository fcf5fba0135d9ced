/* Weights that are stored in few bits and multiplied as floats. What holds for every contract stands in lb.h, what holds for floats in
 * float_product.h. */
#ifndef LB_WEIGHTS_H
#define LB_WEIGHTS_H

#include "base/numerics.h"

#include <stdint.h>

/* ---- expand_s8_f32, expand_w4_f32: weights as floats, in whatever order they stand
 *
 *   out[i] = fl32(w[i]) * scales[i / (inner * run) * inner + i % inner], one fp32 multiply
 *
 * Rows of a matrix have inner = 1, and run is how many neighbours share a scale; panels of 16 columns have inner = 16.
 * expand_w4_f32: weights are -8 ... 7, two a byte, the low nibble first, two's complement. Item: an element. */
typedef struct {
    int32_t run;   /* >= 1 */
    int32_t inner; /* >= 1 */
} lb_expand_s8_f32_params;

typedef lb_expand_s8_f32_params lb_expand_w4_f32_params;

typedef void lb_expand_s8_f32_fn(const lb_expand_s8_f32_params *p, const int8_t *w, const lb_f32 *scales, lb_f32 *out, int32_t begin,
                                 int32_t end);
typedef void lb_expand_w4_f32_fn(const lb_expand_w4_f32_params *p, const uint8_t *w, const lb_f32 *scales, lb_f32 *out, int32_t begin,
                                 int32_t end);

/* ---- linear_w4_f32: linear_f32 with weights of four bits, which are never held as floats
 *
 *   out[i][j] = clamp(bias[j] + sum over segments of scales[j][s] * (sum over k in segment s of x[i][k] * w[j][k]), lo, hi)
 *
 * Weights (n, ceil(k / 2)) and scales (n, segments) as `ref` has them in int4.h. Item: a row of x. */
typedef struct {
    int32_t rows;
    int32_t k;
    int32_t n;
    int32_t segment; /* >= 1 */
    lb_f32 lo;
    lb_f32 hi;
} lb_linear_w4_f32_params;

typedef void lb_linear_w4_f32_fn(const lb_linear_w4_f32_params *p, const lb_f32 *x, const uint8_t *w, const lb_f32 *scales,
                                 const lb_f32 *bias, lb_f32 *out, int32_t begin, int32_t end);

#endif
