/* Float pools and reductions. lb.h has the rules of every contract, float_product.h those of floats. */
#ifndef LB_FLOAT_POOL_H
#define LB_FLOAT_POOL_H

#include "base/fields.h"

#include <stdint.h>

#include "pool/pool.h"

/* ---- max_pool_f32: the largest of the window's elements inside the image, -INFINITY where there are none, NaN where one is NaN. Exact.
 * Item: a row of the output, batch * out_h of them. */
typedef lb_max_pool_s8_params lb_max_pool_f32_params;

typedef void lb_max_pool_f32_fn(const lb_max_pool_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);

/* ---- avg_pool_f32: the sum of the window's elements inside the image, divided by count, which is that of avg_pool_s8; 0 / 0 is NaN.
 * Off by at most (taps + 1) * 2^-24 * sum of |x| / count. Item: a row of the output, batch * out_h of them. */
typedef struct {
    LB_CHANNELS_FIELDS;
    LB_WINDOW_FIELDS;
    LB_COUNT_FIELDS;
    int32_t out_stride; /* elements from pixel to pixel, >= channels */
} lb_avg_pool_f32_params;

typedef void lb_avg_pool_f32_fn(const lb_avg_pool_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);

/* ---- reduce_f32: out[i][j] of the n elements x[i][0 ... n - 1][j]. x is (outer, n, inner), out (outer, inner). ------------------------
 * kind 0: scale * sum, 1: scale * sum of squares, 2: scale * sum of |x|, 3: the largest, 4: the least, 5: the product; 3 and 4 ignore
 * scale, give NaN where an element is NaN, and are exact. With root 1, the square root of that. Over nothing: 0, 0, 0, -INFINITY,
 * INFINITY, 1. A sum is off by at most (n / 16 + 16) * 2^-23 * scale * sum of |term|, a product by n * 2^-23 of itself.
 * Item: with inner = 1 an element of the output, outer of them; else an outer index. */
typedef struct {
    int32_t outer;
    int32_t n;
    int32_t inner;
    int32_t kind;
    int32_t root;
    float scale;
} lb_reduce_f32_params;

typedef void lb_reduce_f32_fn(const lb_reduce_f32_params *p, const float *x, float *out, int32_t begin, int32_t end);

#endif
