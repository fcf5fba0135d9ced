/* Float products: rows times weights, convolutions. What holds for every contract stands in lb.h; floats differ in one point:
 *
 * A float contract says what is computed, not in which order it is summed. Implementations agree within the error that the contract
 * names, and each one gives the same bits whatever the items are cut into, so results do not depend on the number of threads.
 * Unless a contract says otherwise NaN and infinities come out as the formula has them. lo and hi clamp: a result below lo becomes lo,
 * one above hi becomes hi, NaN stays; -INFINITY and INFINITY leave everything as it is.
 *
 * A tile, which decides how much scratch some of them need, has 14 rows and 32 columns on AVX-512, else 6 and 16.
 *
 * A sum over k products is off by at most (k + 2) * 2^-23 * (|bias| + sum of |product|).
 */
#ifndef LB_FLOAT_PRODUCT_H
#define LB_FLOAT_PRODUCT_H

#include "base/fields.h"

#include <stdint.h>

/* ---- linear_f32: out[i][j] = clamp(bias[j] + sum over k of x[i][k] * w[j][k], lo, hi) ---------------------------------------------------
 * Weights are (n, k) for `ref`; for others panels of 16 columns, (ceil(n / 16), k, 16), aligned to 64, what does not exist is 0.
 * Item: a block of block_rows x block_columns results. There are ceil(rows / block_rows) * ceil(n / block_columns), those of one
 * block of rows one after the other. scratch, aligned to 64: 4 * block_rows * (k + 16) bytes if k is a multiple of 512, else none. */
typedef struct {
    LB_PRODUCT_FIELDS;
    float lo;
    float hi;
} lb_linear_f32_params;

typedef void lb_linear_f32_fn(const lb_linear_f32_params *p, const float *x, const void *w, const float *bias, float *out, void *scratch,
                              int32_t begin, int32_t end);

/* ---- conv_f32: convolution of images; padding adds nothing
 * --------------------------------------------------------------------------------
 *
 *   out = clamp(bias[o] + sum over kernel and channels of the group of x * w[o], lo, hi)
 *
 * Weights are (out_c, kernel_h, kernel_w, in_c / groups) for `ref`; for others packed as those of linear_f32, once for each group, one
 * after the other: k = kernel_h * kernel_w * in_c / groups rows in that order, n = out_c / groups columns.
 * Item: `block` pixels of the output, which are counted through the batch, times block_columns channels of a group:
 * ceil(batch * out_h * out_w / block) * groups * ceil(out_c / groups / block_columns), those of one block of pixels one after the other.
 * scratch, aligned to 64: if groups = 1, dilation_w = 1 and in_c < 64, the lines of the image under a block with zeros around them:
 * 4 * (min((block + out_w - 2) / out_w, out_h - 1) * stride_h + (kernel_h - 1) * dilation_h + 1) * ((out_w - 1) * stride_w + kernel_w) *
 * in_c bytes. Else, with depth = in_c / groups and taps = kernel_h * kernel_w, 4 * block * taps * depth bytes if depth < 16, else
 * 8 * (block + r) * taps + 4 * depth, where r is a tile's rows. */
typedef struct {
    LB_IMAGE_FIELDS;
    LB_WINDOW_FIELDS;
    int32_t groups;        /* divides in_c and out_c */
    int32_t block;         /* >= 1 */
    int32_t block_columns; /* >= 1, a multiple of 16 */
    int32_t out_stride;    /* elements from pixel to pixel, >= out_c */
    float lo;
    float hi;
} lb_conv_f32_params;

typedef void lb_conv_f32_fn(const lb_conv_f32_params *p, const float *x, const void *w, const float *bias, float *out, void *scratch,
                            int32_t begin, int32_t end);

/* ---- dwconv_f32: convolution of each channel by itself, as conv_f32 with groups = in_c = out_c = channels. -----------------------------
 * Weights are (kernel_h, kernel_w, channels) for every isa. Item: a row of the output, batch * out_h of them. */
typedef struct {
    LB_CHANNELS_FIELDS;
    LB_WINDOW_FIELDS;
    int32_t out_stride; /* elements from pixel to pixel, >= channels */
    float lo;
    float hi;
} lb_dwconv_f32_params;

typedef void lb_dwconv_f32_fn(const lb_dwconv_f32_params *p, const float *x, const float *w, const float *bias, float *out, int32_t begin,
                              int32_t end);

#endif
