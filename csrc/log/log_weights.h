/* Weights that are a sign and a power of two: products are shifts, and no kernel here multiplies integers, not even for an address.
 *
 * A weight is a nibble: bit 3 is its sign, the others are 0 for 0 and e + 1 for 2^e, e = 0 ... 6. The weights of a channel stand in the
 * order (kernel_h, kernel_w, depth), two a byte, low nibble first, in whole bytes. What holds for every contract stands in lb.h. */
#ifndef LB_LOG_WEIGHTS_H
#define LB_LOG_WEIGHTS_H

#include "base/fields.h"
#include "base/numerics.h"

#include <stdint.h>

/* ---- conv_log_s8, conv_log_f32: convolutions, in groups too -----------------------------------------------------------------------------
 *
 *   acc = bias[c] + sum of (x - x_zero) * w[c] over the taps inside the image
 *   out = clamp(rne(fl32(acc) * multiplier[c]) + y_zero, lo, hi), or fl32(acc) * multiplier[c] as f32: one multiplication for each result
 *
 * A linear layer is an image of `rows` rows of one pixel. Item: a row of the output, counted through the batch. */
typedef struct {
    LB_IMAGE_FIELDS;
    LB_WINDOW_FIELDS;
    int32_t depth;      /* channels that a group reads: in_c / groups */
    int32_t each;       /* channels that a group makes: out_c / groups */
    int32_t out_stride; /* elements from pixel to pixel, >= out_c */
    int32_t x_zero;
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_conv_log_s8_params;

typedef lb_conv_log_s8_params lb_conv_log_f32_params; /* y_zero, lo and hi are not read */

typedef void lb_conv_log_s8_fn(const lb_conv_log_s8_params *p, const int8_t *x, const uint8_t *w, const int32_t *bias,
                               const lb_f32 *multiplier, int8_t *out, int32_t begin, int32_t end);
typedef void lb_conv_log_f32_fn(const lb_conv_log_f32_params *p, const int8_t *x, const uint8_t *w, const int32_t *bias,
                                const lb_f32 *multiplier, lb_f32 *out, int32_t begin, int32_t end);

/* ---- conv_shift_s8: conv_log_s8 whose multipliers are 2^-shift[c], shift -6 ... 30: no multiplication at all ---------------------------
 *
 * |acc| < 2^24, so that fl32(acc) is acc, and its product with the power of two is exact. */
typedef lb_conv_log_s8_params lb_conv_shift_s8_params;

typedef void lb_conv_shift_s8_fn(const lb_conv_shift_s8_params *p, const int8_t *x, const uint8_t *w, const int32_t *bias,
                                 const int32_t *shift, int8_t *out, int32_t begin, int32_t end);

#endif
