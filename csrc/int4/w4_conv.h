/* Convolutions with 4-bit weights: accumulators one by one, and the pixels of an item. */
#ifndef LB_W4_CONV_H
#define LB_W4_CONV_H

#include "int4/w4.h"

/* The pixels of items begin ... end - 1: from lb_w4_pixel(begin) to before lb_w4_pixel(end). */
static inline int32_t lb_w4_pixel(const lb_conv_w4_s8_params *p, int32_t item) {
    const int64_t all = (int64_t)p->batch * p->out_h * p->out_w, at = (int64_t)item * p->block;
    return (int32_t)(at < all ? at : all);
}

/* bias + sum of x * w for one channel of pixel `pixel`, counted through the batch; x is x_zero outside the image. Modulo 2^32. */
static inline int32_t lb_w4_conv_acc(const lb_conv_w4_s8_params *p, const int8_t *x, const uint8_t *w, const int32_t *bias, int32_t pixel,
                                     int32_t channel) {
    const int32_t size = p->out_h * p->out_w, k = p->kernel_h * p->kernel_w * p->in_c;
    const int32_t top = pixel % size / p->out_w * p->stride_h - p->pad_h, left = pixel % p->out_w * p->stride_w - p->pad_w;
    const int8_t *image = x + (ptrdiff_t)(pixel / size) * p->in_h * p->in_w * p->in_c;
    const uint8_t *row = w + channel * lb_w4_row_bytes(k);
    uint32_t acc = (uint32_t)bias[channel];
    for (int32_t i = 0, at = 0; i < p->kernel_h; i++)
        for (int32_t j = 0; j < p->kernel_w; j++) {
            const int32_t y = top + i * p->dilation_h, z = left + j * p->dilation_w;
            const int inside = y >= 0 && y < p->in_h && z >= 0 && z < p->in_w;
            const int8_t *from = inside ? image + ((ptrdiff_t)y * p->in_w + z) * p->in_c : x;
            for (int32_t c = 0; c < p->in_c; c++, at++)
                acc += (uint32_t)((inside ? from[c] : p->x_zero) * lb_w4_at(row, at));
        }
    return (int32_t)acc;
}

#endif
