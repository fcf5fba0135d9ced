/* Pools and means. lb.h has the rules of every contract. */
#ifndef LB_POOL_H
#define LB_POOL_H

#include "base/fields.h"
#include "base/numerics.h"

#include <stdint.h>

/* ---- pools. Item: a row of the output, batch * out_h of them.
 * max_pool_s8: the largest of the window's elements inside the
 * image, or -128 where there are none. avg_pool_s8: clamp(rne(fl32(sum of (x - x_zero)) * (multiplier / fl32(count))) + y_zero, lo, hi).
 * count is how many of the window's elements are inside the image or, with count_pad_h and so on, inside its padding: rows -count_h0 ...
 * in_h + count_h1 - 1, columns alike. A count of 0 gives y_zero. kernel_h * kernel_w < 2^23.
 * avg_pool_s8_f32: fl32(sum of (x - x_zero)) * (multiplier / fl32(count)), NaN where the count is 0; y_zero, lo and hi mean nothing. */
typedef struct {
    LB_CHANNELS_FIELDS;
    LB_WINDOW_FIELDS;
    int32_t out_stride; /* elements from pixel to pixel, >= channels */
} lb_max_pool_s8_params;

typedef void lb_max_pool_s8_fn(const lb_max_pool_s8_params *p, const int8_t *x, int8_t *out, int32_t begin, int32_t end);

typedef struct {
    LB_CHANNELS_FIELDS;
    LB_WINDOW_FIELDS;
    LB_COUNT_FIELDS;
    int32_t out_stride; /* elements from pixel to pixel, >= channels */
    lb_f32 multiplier;  /* finite, > 0 */
    LB_LIMIT_FIELDS;
} lb_avg_pool_s8_params;

/* scratch: 4 * channels bytes, aligned to 64. */
typedef void lb_avg_pool_s8_fn(const lb_avg_pool_s8_params *p, const int8_t *x, int8_t *out, void *scratch, int32_t begin, int32_t end);

typedef lb_avg_pool_s8_params lb_avg_pool_s8_f32_params;

typedef void lb_avg_pool_s8_f32_fn(const lb_avg_pool_s8_f32_params *p, const int8_t *x, lb_f32 *out, void *scratch, int32_t begin,
                                   int32_t end);

#endif
