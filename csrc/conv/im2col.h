/* The window of a pixel as one row of elements, for kernels that multiply rows. */
#ifndef LB_IM2COL_H
#define LB_IM2COL_H

#include "lb.h"
#include "base/window.h"

#include <stddef.h>
#include <string.h>

/* kernel_h * kernel_w * in_c / groups elements of pixel `pixel`, counted through the batch, for a group; x_zero where no image is. */
static inline void lb_gather(const lb_conv_s8_params *p, const int8_t *x, int32_t pixel, int32_t group, int8_t *row) {
    const int32_t size = p->out_h * p->out_w, depth = p->in_c / p->groups;
    const int32_t top = pixel % size / p->out_w * p->stride_h - p->pad_h, left = pixel % p->out_w * p->stride_w - p->pad_w;
    const int8_t *image = x + (ptrdiff_t)(pixel / size) * p->in_h * p->in_w * p->in_c + (ptrdiff_t)group * depth;
    const lb_taps taps = lb_taps_inside(left, p->kernel_w, p->dilation_w, 0, p->in_w);
    const int run = p->groups == 1 && p->dilation_w == 1; /* the taps of a row stand one after the other */
    for (int32_t i = 0; i < p->kernel_h; i++) {
        const int32_t at = top + i * p->dilation_h;
        const lb_taps t = at >= 0 && at < p->in_h ? taps : (lb_taps){0, 0};
        for (int32_t j = 0; j < p->kernel_w;) {
            const int inside = j >= t.first && j < t.last;
            const int32_t until = inside ? (run ? t.last : j + 1) : j < t.first ? t.first : p->kernel_w;
            const size_t bytes = (size_t)((until - j) * depth);
            if (inside)
                memcpy(row, image + ((ptrdiff_t)at * p->in_w + left + j * p->dilation_w) * p->in_c, bytes);
            else
                memset(row, p->x_zero, bytes);
            row += bytes, j = until;
        }
    }
}

#endif
