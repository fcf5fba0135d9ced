/* Activations that are quantized at run time, each row by a scale of its own. lb.h has the rules of every contract. */
#ifndef LB_DYNAMIC_H
#define LB_DYNAMIC_H

#include "linear/linear.h"

#include "base/numerics.h"

#include <stdint.h>

/* ---- quantize_rows_f32_s8: rows of `size` elements -------------------------------------------------------------------------------
 *
 *   a = max |x|, NaN passed over;  scales[row] = a / 127, or 1 where that is 0 or not finite;  out = clamp(rne(x / scales[row]), -127, 127)
 *
 * NaN gives 0, infinities saturate. Item: a row. */
typedef struct {
    int32_t size; /* >= 0 */
} lb_quantize_rows_f32_s8_params;

typedef void lb_quantize_rows_f32_s8_fn(const lb_quantize_rows_f32_s8_params *p, const lb_f32 *x, int8_t *out, lb_f32 *scales,
                                        int32_t begin, int32_t end);

/* ---- scale_rows_f32: the end of an integer layer whose rows have scales: acc is fl32 of its sums, rows of n. In place. ------------------
 *
 *   out = (+0 + acc * (x_scales[row] * scales[c])) + bias[c]
 *
 * Item: a row. */
typedef struct {
    int32_t n; /* >= 0 */
} lb_scale_rows_f32_params;

typedef void lb_scale_rows_f32_fn(const lb_scale_rows_f32_params *p, const lb_f32 *acc, const lb_f32 *x_scales, const lb_f32 *scales,
                                  const lb_f32 *bias, lb_f32 *out, int32_t begin, int32_t end);

/* ---- linear_s8_rows_f32: linear_s8 and scale_rows_f32 at once ---------------------------------------------------------------------------
 * Where weights are in quads.
 *
 *   out = (+0 + fl32(sum of (x - x_zero) * w[c]) * (x_scales[row] * scales[c])) + bias[c]
 *
 * x, w, the items and scratch as in linear_s8 of the same isa. y_zero, lo and hi are not read. */
typedef lb_linear_s8_params lb_linear_s8_rows_f32_params;

typedef void lb_linear_s8_rows_f32_fn(const lb_linear_s8_rows_f32_params *p, const int8_t *x, const void *w, const lb_f32 *bias,
                                      const lb_f32 *scales, const lb_f32 *x_scales, lb_f32 *out, void *scratch, int32_t begin, int32_t end);

/* ---- linear_s8_blocks_f32: rows of k times weights (n, k), whose sums are scaled segment by segment -------------------------------------
 *
 *   t = +0; for each segment in ascending order t = t + fl32(sum of (x - x_zero) * w[c]) * scales[c, segment]
 *   out = t * x_scales[row] + bias[c], two roundings; of a single segment fl32(sum) * (x_scales[row] * scales[c]) + bias[c]
 *
 * k is cut into max(1, ceil(k / segment)) segments of `segment` elements, the last one shorter; scales: (n, segments). A segment's sum fits
 * int32. Item: a row. */
typedef struct {
    int32_t k; /* >= 0, as n */
    int32_t n;
    int32_t segment; /* >= 1 */
    int32_t x_zero;  /* -128 ... 127 */
} lb_linear_s8_blocks_f32_params;

typedef void lb_linear_s8_blocks_f32_fn(const lb_linear_s8_blocks_f32_params *p, const int8_t *x, const lb_f32 *x_scales, const int8_t *w,
                                        const lb_f32 *scales, const lb_f32 *bias, lb_f32 *out, int32_t begin, int32_t end);

#endif
