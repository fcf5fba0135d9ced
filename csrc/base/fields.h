/* Fields that the params of several contracts begin with. */
#ifndef LB_FIELDS_H
#define LB_FIELDS_H

#include <stdint.h>

/* Images of in_c channels, and of out_c channels. */
#define LB_IMAGE_FIELDS                                                                                                                    \
    int32_t batch;                                                                                                                         \
    int32_t in_h;                                                                                                                          \
    int32_t in_w;                                                                                                                          \
    int32_t in_c;                                                                                                                          \
    int32_t out_h;                                                                                                                         \
    int32_t out_w;                                                                                                                         \
    int32_t out_c

/* Images whose channels stay the same. */
#define LB_CHANNELS_FIELDS                                                                                                                 \
    int32_t batch;                                                                                                                         \
    int32_t in_h;                                                                                                                          \
    int32_t in_w;                                                                                                                          \
    int32_t channels;                                                                                                                      \
    int32_t out_h;                                                                                                                         \
    int32_t out_w

/* The window of a convolution or a pool. Kernel, strides and dilations are >= 1; pad_h are the rows above the first, pad_w the columns left
 * of it. Rows below and columns on the right follow from out_h and out_w. */
#define LB_WINDOW_FIELDS                                                                                                                   \
    int32_t kernel_h;                                                                                                                      \
    int32_t kernel_w;                                                                                                                      \
    int32_t stride_h;                                                                                                                      \
    int32_t stride_w;                                                                                                                      \
    int32_t pad_h;                                                                                                                         \
    int32_t pad_w;                                                                                                                         \
    int32_t dilation_h;                                                                                                                    \
    int32_t dilation_w

/* Rows and columns of padding that an average counts, before and after the image; 0: padding does not count. */
#define LB_COUNT_FIELDS                                                                                                                    \
    int32_t count_h0;                                                                                                                      \
    int32_t count_h1;                                                                                                                      \
    int32_t count_w0;                                                                                                                      \
    int32_t count_w1

/* rows x k times k x n, an item of block_rows x block_columns results. All blocks are >= 1, block_columns is a multiple of 16, and
 * out_stride, the elements from row to row, >= n. */
#define LB_PRODUCT_FIELDS                                                                                                                  \
    int32_t rows;                                                                                                                          \
    int32_t k;                                                                                                                             \
    int32_t n;                                                                                                                             \
    int32_t block_rows;                                                                                                                    \
    int32_t block_columns;                                                                                                                 \
    int32_t out_stride

/* Two operands that broadcast to `shape`, with a stride of 0 along axes that an operand repeats. */
#define LB_BROADCAST_FIELDS                                                                                                                \
    int32_t shape[4];                                                                                                                      \
    int32_t a_stride[4];                                                                                                                   \
    int32_t b_stride[4]

/* The zero point of the input, within its type, and of the output, within lo ... hi; lo ... hi, the limits of the output. */
#define LB_LIMIT_FIELDS                                                                                                                    \
    int32_t x_zero;                                                                                                                        \
    int32_t y_zero;                                                                                                                        \
    int32_t lo;                                                                                                                            \
    int32_t hi

/* m x k times k x n, rows a_stride and out_stride elements apart. Sizes are >= 0, out_stride >= n. */
#define LB_GEMM_FIELDS                                                                                                                     \
    int64_t a_stride;                                                                                                                      \
    int64_t out_stride;                                                                                                                    \
    int32_t m;                                                                                                                             \
    int32_t k;                                                                                                                             \
    int32_t n

/* Bytes of an element of the input, 1 or 2, and of the output, 1, 2, or 4 for floats. */
#define LB_WIDTH_FIELDS                                                                                                                    \
    int32_t x_bytes;                                                                                                                       \
    int32_t out_bytes

#endif
