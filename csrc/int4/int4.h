/* Rows and images times weights of four bits. lb.h has the rules of every contract.
 *
 * Weights are -8 ... 7 and stay packed, two a byte; a nibble holds w + 8 in the panels of vector units, and two's complement in the layout
 * of `ref`. k is cut into segments of `segment` elements, the last one shorter, at least one: max(1, ceil(k / segment)) of them; a layer
 * with a scale for each channel has one. Layouts:
 *
 *   ref, armdsp, mve
 *            (n, ceil(k / 2)) bytes, low nibble first. Scales: (n, segments).
 *   others   segments are padded with zero weights to multiples of 32, so that k becomes d (only the last may be shorter than the rest);
 *            then (ceil(n / 16), d / 32, 4, 16, 4) bytes: byte (panel, group, s, j, t) holds, of channel 16 panel + j, element
 *            32 group + 4 s + t in its low nibble and 16 more in its high one; channels that do not exist are zeros. Aligned to 64.
 *            Scales: (ceil(n / 16), segments, 16).
 *
 * `chunk`, a multiple of 32, is how many k may be summed in 16 bits: in every segment, for each run of `chunk` elements from its start
 * and each of the two halves of the run (element % 4 < 2, and the others), the caller proves that the sum of (x - x_zero) * w (x * w
 * where there is no x_zero) fits int16 for every x. 32 is always right: 255 * 8 * 16 < 2^15. Whole sums fit int32; kernels may wrap.
 *
 * scratch of all but `ref`, armdsp and mve (these: a window, k bytes, for conv_w4_s8 and its like), aligned to 64, for m rows at once, k
 * padded to d, and s segments padded to e each: m * (d + 160) + 18 * max(1024, e) + 16 * s bytes; of avx512vnni, which unpacks two panels
 * at once, m * (d + 224) + 36 * max(1024, e) + 64 * s + 256. Items are those of linear_s8 and conv_s8.
 */
#ifndef LB_INT4_H
#define LB_INT4_H

#include "base/fields.h"
#include "base/numerics.h"

#include <stdint.h>

/* ---- linear_w4_s8, _s8_s16, _s8_f32: a scale for each channel --------------------------------------------------------------------
 *
 *   acc = bias[c] + sum of x * w[c]           x_zero has gone into the bias: bias_q - x_zero * sum of w, modulo 2^32
 *   out = clamp(rne(fl32(acc) * multiplier[c]) + y_zero, lo, hi), or fl32(acc) * multiplier[c] as f32
 *
 * scratch as above with m = block_rows and one segment. */
typedef struct {
    LB_PRODUCT_FIELDS;
    int32_t chunk;
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_linear_w4_s8_params;

typedef lb_linear_w4_s8_params lb_linear_w4_s8_s16_params;
typedef lb_linear_w4_s8_params lb_linear_w4_s8_f32_params; /* y_zero, lo and hi are not read */

typedef void lb_linear_w4_s8_fn(const lb_linear_w4_s8_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                const lb_f32 *multiplier, int8_t *out, void *scratch, int32_t begin, int32_t end);
typedef void lb_linear_w4_s8_s16_fn(const lb_linear_w4_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                    const lb_f32 *multiplier, int16_t *out, void *scratch, int32_t begin, int32_t end);
typedef void lb_linear_w4_s8_f32_fn(const lb_linear_w4_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                    const lb_f32 *multiplier, lb_f32 *out, void *scratch, int32_t begin, int32_t end);

/* ---- linear_w4_blocks_s8, _s8_s16, _s8_f32: a scale for each channel and segment ------------------------------------------------------
 *
 *   t = +0; for each segment in ascending order t = t + fl32(sum of (x - x_zero) * w[c]) * scales[c, segment]; t = t + bias[c]
 *   out = clamp(rne(t / y_scale) + y_zero, lo, hi), or t as f32
 *
 * scratch as above with m = block_rows. */
typedef struct {
    int32_t rows;
    int32_t k;
    int32_t n;
    int32_t segment;       /* >= 1 */
    int32_t block_rows;    /* >= 1 */
    int32_t block_columns; /* >= 1, a multiple of 16 */
    int32_t out_stride;    /* elements from row to row, >= n */
    int32_t chunk;
    int32_t x_zero; /* -128 ... 127 */
    lb_f32 y_scale; /* finite, > 0 */
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_linear_w4_blocks_s8_params;

typedef lb_linear_w4_blocks_s8_params lb_linear_w4_blocks_s8_s16_params;
typedef lb_linear_w4_blocks_s8_params lb_linear_w4_blocks_s8_f32_params; /* y_scale, y_zero, lo and hi are not read */

typedef void lb_linear_w4_blocks_s8_fn(const lb_linear_w4_blocks_s8_params *p, const int8_t *x, const void *w, const lb_f32 *scales,
                                       const lb_f32 *bias, int8_t *out, void *scratch, int32_t begin, int32_t end);
typedef void lb_linear_w4_blocks_s8_s16_fn(const lb_linear_w4_blocks_s8_s16_params *p, const int8_t *x, const void *w, const lb_f32 *scales,
                                           const lb_f32 *bias, int16_t *out, void *scratch, int32_t begin, int32_t end);
typedef void lb_linear_w4_blocks_s8_f32_fn(const lb_linear_w4_blocks_s8_f32_params *p, const int8_t *x, const void *w, const lb_f32 *scales,
                                           const lb_f32 *bias, lb_f32 *out, void *scratch, int32_t begin, int32_t end);

/* ---- linear_w4_rows_f32: linear_w4_blocks_s8_f32 of rows that have a scale each, x_zero = 0 --------------------------------------------
 *
 * One segment: x_scales[row] * scales[c] in the place of its scale. More: t = t * x_scales[row] before the bias is added. */
typedef lb_linear_w4_blocks_s8_params lb_linear_w4_rows_f32_params; /* x_zero is 0; y_scale, y_zero, lo and hi are not read */

typedef void lb_linear_w4_rows_f32_fn(const lb_linear_w4_rows_f32_params *p, const int8_t *x, const lb_f32 *x_scales, const void *w,
                                      const lb_f32 *scales, const lb_f32 *bias, lb_f32 *out, void *scratch, int32_t begin, int32_t end);

/* ---- conv_w4_s8, _s8_s16, _s8_f32: conv_s8 without groups, sums and results as linear_w4_s8
 * -----------------------------------------------
 *
 * A row is the window of a pixel, (kernel_h, kernel_w, in_c), which outside the image holds x_zero; k = kernel_h * kernel_w * in_c, one
 * segment. scratch as above with m = block, and k more, rounded up to 64. */
typedef struct {
    LB_IMAGE_FIELDS;
    LB_WINDOW_FIELDS;
    int32_t block;      /* pixels, >= 1 */
    int32_t out_stride; /* elements from pixel to pixel, >= out_c */
    int32_t chunk;
    int32_t x_zero;
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_conv_w4_s8_params;

typedef lb_conv_w4_s8_params lb_conv_w4_s8_s16_params;
typedef lb_conv_w4_s8_params lb_conv_w4_s8_f32_params; /* y_zero, lo and hi are not read */

typedef void lb_conv_w4_s8_fn(const lb_conv_w4_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                              int8_t *out, void *scratch, int32_t begin, int32_t end);
typedef void lb_conv_w4_s8_s16_fn(const lb_conv_w4_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                  const lb_f32 *multiplier, int16_t *out, void *scratch, int32_t begin, int32_t end);
typedef void lb_conv_w4_s8_f32_fn(const lb_conv_w4_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                  const lb_f32 *multiplier, lb_f32 *out, void *scratch, int32_t begin, int32_t end);

#endif
