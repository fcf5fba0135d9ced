/* Images of floats that grow: transposed convolution and interpolation. What holds for every contract stands in lb.h, what holds for floats
 * in float_product.h. */
#ifndef LB_FLOAT_IMAGE_H
#define LB_FLOAT_IMAGE_H

#include "base/fields.h"

#include <stdint.h>

/* ---- conv_transpose_f32: the adjoint of conv_f32
 * -------------------------------------------------------------------------------------------
 *
 *   out[r] = clamp(bias + sum over taps i and channels of the group of x[(r + pad - i * dilation) / stride] * w[i], lo, hi)
 *
 * along both axes, where the quotient is whole and inside the image. Weights are (out_c, kernel_h, kernel_w, in_c / groups) for `ref`; for
 * others panels of 16 columns as those of conv_f32, once for each group, whose taps (i, j) stand in the order of i * dilation_h % stride_h,
 * then of j * dilation_w % stride_w, then of i, then of j: those that meet in a pixel are neighbours.
 * pad_h are the rows of the full result above the first of out; any sign, as pad_w.
 * Item: a row of the output, batch * out_h of them. scratch, aligned to 64: 8 * kernel_h * kernel_w for each row of a tile
 * (float_product.h), and 4 * in_c / groups + 64 bytes. */
typedef struct {
    LB_IMAGE_FIELDS;
    LB_WINDOW_FIELDS;
    int32_t groups; /* divides in_c and out_c */
    float lo;
    float hi;
} lb_conv_transpose_f32_params;

typedef void lb_conv_transpose_f32_fn(const lb_conv_transpose_f32_params *p, const float *x, const void *w, const float *bias, float *out,
                                      void *scratch, int32_t begin, int32_t end);

/* ---- resize_f32: out[r][c] = sum over taps i and j of row_by[r][i] * column_by[c][j] * x[row_at[r][i]][column_at[c][j]]
 * -------------------- Nearest, linear and cubic interpolation are tables of 1, 2 and 4 taps; a weight of 0 takes its element into account
 * all the same. Off by at most (row_taps * column_taps + 4) * 2^-23 * sum of |term|. Item: a row of the output, batch * out_h of them. */
typedef struct {
    LB_CHANNELS_FIELDS;
    int32_t row_taps;    /* >= 1 */
    int32_t column_taps; /* >= 1 */
} lb_resize_f32_params;

typedef void lb_resize_f32_fn(const lb_resize_f32_params *p, const float *x, const int32_t *row_at, const float *row_by,
                              const int32_t *column_at, const float *column_by, float *out, int32_t begin, int32_t end);

#endif
