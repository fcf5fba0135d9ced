/* A convolution's accumulators, one by one. */
#ifndef LB_CONV_REF_H
#define LB_CONV_REF_H

#include "lb.h"

#include <stddef.h>

/* bias + sum of (x - x_zero) * w for one output channel of pixel `pixel`, counted through the batch. Modulo 2^32. */
static inline int32_t lb_conv_ref(const lb_conv_s8_params *p, const int8_t *x, const int8_t *w, int32_t bias, int32_t pixel,
                                  int32_t channel) {
    const int32_t size = p->out_h * p->out_w, depth = p->in_c / p->groups;
    const int32_t top = pixel % size / p->out_w * p->stride_h - p->pad_h, left = pixel % p->out_w * p->stride_w - p->pad_w;
    const int8_t *image =
        x + (ptrdiff_t)(pixel / size) * p->in_h * p->in_w * p->in_c + (ptrdiff_t)(channel / (p->out_c / p->groups)) * depth;
    w += (ptrdiff_t)channel * p->kernel_h * p->kernel_w * depth;
    uint32_t acc = (uint32_t)bias;
    for (int32_t i = 0; i < p->kernel_h; i++)
        for (int32_t j = 0; j < p->kernel_w; j++, w += depth) {
            const int32_t row = top + i * p->dilation_h, column = left + j * p->dilation_w;
            if (row < 0 || row >= p->in_h || column < 0 || column >= p->in_w)
                continue;
            const int8_t *from = image + ((ptrdiff_t)row * p->in_w + column) * p->in_c;
            for (int32_t c = 0; c < depth; c++)
                acc += (uint32_t)((from[c] - p->x_zero) * w[c]);
        }
    return (int32_t)acc;
}

/* The pixels of items begin ... end - 1: from lb_conv_first(begin) to before lb_conv_first(end). */
static inline int32_t lb_conv_first(const lb_conv_s8_params *p, int32_t item) {
    const int64_t all = (int64_t)p->batch * p->out_h * p->out_w, at = (int64_t)item * p->block;
    return (int32_t)(at < all ? at : all);
}

#endif
