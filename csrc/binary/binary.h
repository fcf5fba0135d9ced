/* Products of -1 and +1 by XNOR and popcount. What holds for every contract stands in lb.h.
 *
 * A bit is 1 for +1. Bits stand in bytes, the first in the lowest bit; a run of n bits is padded with zeros to ceil(n / 64) * 8 bytes.
 * The product of two such runs is n - 2 * (bits in which they differ): padding differs in none. */
#ifndef LB_BINARY_H
#define LB_BINARY_H

#include "base/fields.h"
#include "base/numerics.h"

#include <stdint.h>

/* ---- sign_f32_s8: out[i] = x[i] < 0 ? -1 : 1; zeros and NaN give 1. Item: an element. */
typedef struct {
    int32_t unused;
} lb_sign_f32_s8_params;

typedef void lb_sign_f32_s8_fn(const lb_sign_f32_s8_params *p, const lb_f32 *x, int8_t *out, int32_t begin, int32_t end);

/* ---- pack_s8_b1: rows of `k` bytes, -1 or +1, as runs of bits. Item: a row. */
typedef struct {
    int32_t k;
} lb_pack_s8_b1_params;

typedef void lb_pack_s8_b1_fn(const lb_pack_s8_b1_params *p, const int8_t *x, uint8_t *out, int32_t begin, int32_t end);

/* ---- conv_b1_s8, conv_b1_f32: convolutions without groups of binary images with binary weights -----------------------------------------
 *
 *   acc = bias[c] + sum of x * w[c] over the taps inside the image           padding adds nothing
 *   out = clamp(rne(fl32(acc) * multiplier[c]) + y_zero, lo, hi), or fl32(acc) * multiplier[c] as f32
 *
 * x: a run of in_c bits for each pixel. A linear layer is an image of one row, a kernel of one tap.
 * Weights, of r = ceil(in_c / 64) words for each tap:
 *
 *   ref      (out_c, kernel_h, kernel_w, r) words
 *   others   (ceil(out_c / 8), kernel_h, kernel_w, r, 8) words: word j of channel 8 panel + j, zeros for those that do not exist; aligned
 *            to 64
 *
 * Item: `block` pixels, counted through the batch. Sums fit int32. */
typedef struct {
    LB_IMAGE_FIELDS;
    LB_WINDOW_FIELDS;
    int32_t block;      /* pixels, >= 1 */
    int32_t out_stride; /* elements from pixel to pixel, >= out_c */
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_conv_b1_s8_params;

typedef lb_conv_b1_s8_params lb_conv_b1_f32_params; /* y_zero, lo and hi are not read */

typedef void lb_conv_b1_s8_fn(const lb_conv_b1_s8_params *p, const uint8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                              int8_t *out, int32_t begin, int32_t end);
typedef void lb_conv_b1_f32_fn(const lb_conv_b1_f32_params *p, const uint8_t *x, const void *w, const int32_t *bias,
                               const lb_f32 *multiplier, lb_f32 *out, int32_t begin, int32_t end);

#endif
