/* Convolutions of 8-bit images. lb.h has the rules of every contract. */
#ifndef LB_CONV_H
#define LB_CONV_H

#include "base/fields.h"
#include "base/numerics.h"

#include <stdint.h>

/* ---- conv_s8, conv_s8_f32: convolution of images -----------------------------------------------------------------------------------
 *
 *   acc = bias[o] + sum over kernel and channels of the group of (x - x_zero) * w[o]      padding adds nothing
 *   conv_s8:     out = clamp(rne(fl32(acc) * multiplier[o]) + y_zero, lo, hi)
 *   conv_s8_f32: out = fl32(acc) * multiplier[o]
 *
 * The caller proves that no acc leaves int32; kernels may wrap on the way. Weights are int8 (out_c, kernel_h, kernel_w, in_c / groups),
 * packed by linear_s8_pack of the same isa once for each group, with n = out_c / groups and k = kernel_h * kernel_w * in_c / groups; the
 * groups stand bytes[0] of linear_s8_sizes apart. Those in quads stand one after the other.
 *
 * Item: `block` pixels of the output, which are counted through the batch: ceil(batch * out_h * out_w / block) of them.
 * scratch, aligned to 64: bytes[1] of linear_s8_sizes of the same isa for rows = block and that k, and k more, rounded up to 64; none for
 * `ref`; 2 * k bytes for armdsp, 4 * out_c + k for mve, aligned to 4; for quads that of linear_s8_pack_dot4 with m = block. */
typedef struct {
    LB_IMAGE_FIELDS;
    LB_WINDOW_FIELDS;
    int32_t groups;     /* divides in_c and out_c */
    int32_t block;      /* >= 1 */
    int32_t out_stride; /* elements from pixel to pixel, >= out_c */
    LB_LIMIT_FIELDS;
} lb_conv_s8_params;

/* multiplier: out_c, finite, >= 0. */
typedef void lb_conv_s8_fn(const lb_conv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                           int8_t *out, void *scratch, int32_t begin, int32_t end);

typedef lb_conv_s8_params lb_conv_s8_f32_params; /* y_zero, lo and hi are not read */

typedef void lb_conv_s8_f32_fn(const lb_conv_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias,
                               const lb_f32 *multiplier, lb_f32 *out, void *scratch, int32_t begin, int32_t end);

/* ---- conv3x3_s8: conv_s8 for kernels of 3x3 with strides, dilations and groups of 1 -----------------------------------------------------
 * Item: `block` tiles of tile_h x 4 pixels, which are counted through the batch, and block_columns output channels of them. There are
 * ceil(batch * ceil(out_h / tile_h) * ceil(out_w / 4) / block) * ceil(out_c / block_columns), those of one block of tiles one after the
 * other. The caller proves |acc - bias| < 2^25 for every x (2^27 where tile_h is 2); bias is free as in conv_s8.
 *
 * Weights are plain (out_c, 3, 3, in_c) for `ref`. For avx2 they are Winograd's in integers: u = H w G' with the rows (1 0 0) (-1 -1 -1)
 * (-1 1 -1) (1 2 4) (1 -2 4) (0 0 1) of G, and H = G, or (1 0 0) (1 1 1) (1 -1 1) (0 0 1) where tile_h is 2. They stand as
 * (ceil(out_c / 16), points), where points are 6 * (tile_h + 2), and each of these is, with c = in_c rounded up to 16,
 *   int32 (16)                 of each four input channels, u of the first two times u of the last two, summed up, negated, modulo 2^32
 *   int16 (c / 4, 2, 16, 2)    u, of each four input channels the last two before the first two
 * where the last axes are output channel, and input channel; what does not exist is 0. Aligned to 64.
 * scratch, aligned to 64: points * block * (2 * c + 68) bytes.
 *
 * For avx512vnni they are int8 (ceil(out_c / 16), c / 2, 3, 3, 16, 2), with c = in_c rounded up to 32, where the last two axes are output
 * channel and input channel; what does not exist is 0. Aligned to 64. scratch: block * (points * (2 * c + 128) + 64) + 49152 bytes. */
typedef struct {
    LB_IMAGE_FIELDS;
    int32_t pad_h;
    int32_t pad_w;
    int32_t block;         /* >= 1 */
    int32_t block_columns; /* >= 1, a multiple of 16 */
    int32_t tile_h;        /* 4 or 2 */
    int32_t out_stride;    /* elements from pixel to pixel, >= out_c */
    LB_LIMIT_FIELDS;
} lb_conv3x3_s8_params;

typedef void lb_conv3x3_s8_fn(const lb_conv3x3_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                              int8_t *out, void *scratch, int32_t begin, int32_t end);

/* ---- conv_few_channels_s8: conv_s8 for images of few channels, where a row of the window is one short run of kernel_w * in_c elements.
 * groups and dilation_w are 1. Item: a row of the output, batch * out_h of them; `block` of them share the rows that they read.
 *
 * Weights are plain (out_c, kernel_h, kernel_w, in_c) for `ref`. For avx2 they are of int16 as (ceil(out_c / 16), kernel_h, ceil(run /
 * 2), 16, 2) with run = kernel_w * in_c, where the last two axes are output channel and element of the run; what does not exist is 0.
 * Aligned to 64. scratch, aligned to 64: 2 * ((block - 1) * stride_h + (kernel_h - 1) * dilation_h + 1) * (((out_w - 1) * stride_w +
 * kernel_w) * in_c rounded up to 16, and 16 more) bytes.
 *
 * For avx512vnni they are int32 (out_c rounded up to 16), the sums of each channel's weights, then int8 (ceil(out_c / 16), kernel_h,
 * ceil(run / 4), 16, 4), where the last two axes are output channel and element of the run; what does not exist is 0. Aligned to 64.
 * scratch: ((block - 1) * stride_h + (kernel_h - 1) * dilation_h + 1) * (((max(out_w, 16) - 1) * stride_w + kernel_w) * in_c rounded up to
 * 64, and 64 more) bytes. */
typedef lb_conv_s8_params lb_conv_few_channels_s8_params;

typedef void lb_conv_few_channels_s8_fn(const lb_conv_few_channels_s8_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                        const lb_f32 *multiplier, int8_t *out, void *scratch, int32_t begin, int32_t end);

/* ---- conv_stride2_winograd_s8: conv_few_channels_s8 for strides of 2 and dilations of 1, at most four channels, and at most 8 - pad_h % 2
 * rows and 8 - pad_w % 2 columns of the kernel.
 * Item: three rows of the output, batch * ceil(out_h / 3) of them; `block` tiles of three columns are done at once.
 *
 * Weights are plain (out_c, kernel_h, kernel_w, in_c) for `ref`. For others they are Winograd's in integers. The kernel begins with pad_h %
 * 2 rows and pad_w % 2 columns of zeros, and ends with zeros up to 8x8; it is one of 4x4 then, each of whose elements has 4 * in_c
 * channels: those of its 2x2, row by row. u = G w G' with the rows (1 0 0 0) (-1 -1 -1 -1) (-1 1 -1 1) (1 2 4 8) (1 -2 4 -8) (0 0 0 1) of
 * G; of int16, as (ceil(out_c / 16), 36, 2 * in_c, 16, 2), where the last two axes are output channel and input channel; what does not
 * exist is 0. Aligned to 64. scratch, aligned to 64: 576 * (ceil(out_w / 3) + 1) + 3456 * block bytes. */
typedef lb_conv_s8_params lb_conv_stride2_winograd_s8_params;

typedef void lb_conv_stride2_winograd_s8_fn(const lb_conv_stride2_winograd_s8_params *p, const int8_t *x, const void *w,
                                            const int32_t *bias, const lb_f32 *multiplier, int8_t *out, void *scratch, int32_t begin,
                                            int32_t end);

/* ---- dwconv_s8: convolution of each channel by itself, as conv_s8 with groups = in_c = out_c = channels. ------------------------------
 * Item: a row of the output, batch * out_h of them. `block` of its pixels are done at once, or up to block_rows rows where they are short
 * (block >= out_w).
 *
 * Weights are (kernel_h, kernel_w, channels) for `ref`, armdsp, mve and neon, which need no scratch. avx2 takes the rows of a window in
 * pairs; its first row is the upper or the lower of one. It wants, with c = channels rounded up to 32: c int32_t, the sums of each
 * channel's weights; then of int16_t (ceil(kernel_h / 2), kernel_w, c, 2) for windows that start in the upper row and (ceil((kernel_h + 1)
 * / 2), kernel_w, c, 2) for the others, where the last axis is the row of the pair. What does not exist is 0. Aligned to 64. scratch,
 * aligned to 64: 128 * (((block_rows - 1) * stride_h + kernel_h) / 2 + 1) * ((block - 1) * stride_w + (kernel_w - 1) * dilation_w + 1)
 * bytes.
 *
 * avx512vnni takes the rows of a window in q = ceil(kernel_h / 4) quads, and those of two windows, one below the other, where they have no
 * more quads and no dilation_h; n = 1 or 2 is their number. It wants, for blocks of 64 channels, 64 int32_t each, the sums of the weights;
 * then of int8_t (blocks, 4, q, kernel_w, n, 16, 4), where the last axis is the row of the quad and n of 1 begins stride_h rows further
 * below. The last block has 64, 32 or 16 channels, the fewest that are enough, and ends with the last channel, or begins with the first
 * if there are fewer. Lane l of group g is channel (16 * (l / 4) + 4 * g + l % 4) % 64, or % 32, or % 16, of its block. What does not exist
 * is 0. Aligned to 64. scratch, aligned to 64: 256 * q * stride_w * (block + 4 + (kernel_w - 1) * dilation_w / stride_w) bytes. */
typedef struct {
    LB_CHANNELS_FIELDS;
    LB_WINDOW_FIELDS;
    int32_t block;      /* >= 1 */
    int32_t block_rows; /* >= 1 */
    int32_t out_stride; /* elements from pixel to pixel, >= channels */
    LB_LIMIT_FIELDS;
} lb_dwconv_s8_params;

typedef void lb_dwconv_s8_fn(const lb_dwconv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                             int8_t *out, void *scratch, int32_t begin, int32_t end);

#endif
