/* Convolutions of 16-bit images. lb.h has the rules of every contract. */
#ifndef LB_CONV_WIDE_H
#define LB_CONV_WIDE_H

#include "base/fields.h"
#include "base/numerics.h"

#include <stdint.h>

/* ---- conv_s16: conv_s8 of 16-bit images, with weights of 8 or 16 bits and results of any kind ----------------------------------------
 *
 *   acc = bias[o] + sum over kernel and channels of the group of (x - x_zero) * w[o]      padding adds nothing
 *   out = fl32(acc) * multiplier[o] as a float, or clamp(rne(that) + y_zero, lo, hi)
 *
 * The caller proves that no acc leaves int32 (sum_bytes is 4), or else that none reaches 2^52.
 *
 * Weights are (out_c, kernel_h, kernel_w, in_c / groups) of weight_bytes for `ref`, armdsp and mve. x86 takes each group packed as
 * dot2_simd.h says, with n = out_c / groups and k = kernel_h * kernel_w * in_c / groups, one after the other, aligned to 64.
 *
 * Item: `block` pixels of the output, which are counted through the batch: ceil(batch * out_h * out_w / block) of them.
 * scratch, aligned to 64: none for `ref`, 96 * (k + 1) + 64 bytes for x86, 2 * k for armdsp and mve, and 8 * out_c more if x_zero is not 0.
 */
typedef struct {
    LB_IMAGE_FIELDS;
    LB_WINDOW_FIELDS;
    int32_t groups;       /* divides in_c and out_c */
    int32_t block;        /* >= 1 */
    int32_t out_stride;   /* elements from pixel to pixel, >= out_c */
    int32_t weight_bytes; /* 1 or 2 */
    int32_t sum_bytes;    /* 4 or 8 */
    int32_t out_bytes;    /* 1: int8_t, 2: int16_t, 4: float */
    int32_t x_zero;       /* -32768 ... 32767 */
    int32_t y_zero;       /* lo ... hi; not read for floats, as lo and hi */
    int32_t lo;
    int32_t hi;
} lb_conv_s16_params;

/* multiplier: out_c, finite, >= 0. */
typedef void lb_conv_s16_fn(const lb_conv_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const lb_f32 *multiplier,
                            void *out, void *scratch, int32_t begin, int32_t end);

/* ---- dwconv_s16: the same for groups = in_c = out_c ------------------------------------------------------------------------------------
 * Weights are (kernel_h, kernel_w, out_c) of weight_bytes for `ref`. x86 takes taps in pairs, with c = out_c rounded up to groups of g
 * channels, 32 for avx512vnni and else 16: a head of 64 bytes as conv_s16, the sum of each channel's weights (c of int64), then planes of
 * int16 as conv_s16 has them, each (ceil(kernel_h * kernel_w / 2), c / g, 2, g / 8, 4, 2), where channel 8 * e + 4 * h + i of a group
 * stands at (h, e, i) and the last axis is the tap of the pair; what does not exist is 0. Aligned to 64. scratch, aligned to 64: none for
 * `ref`, 18 * c bytes for x86. */
typedef lb_conv_s16_params lb_dwconv_s16_params;

typedef void lb_dwconv_s16_fn(const lb_dwconv_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const lb_f32 *multiplier,
                              void *out, void *scratch, int32_t begin, int32_t end);

#endif
