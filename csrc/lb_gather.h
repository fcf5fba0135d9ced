/* The window of a pixel as one row of elements, for kernels that multiply rows. */
#ifndef LB_GATHER_H
#define LB_GATHER_H

#include "lb.h"
#include "lb_window.h"

#include <stddef.h>
#include <string.h>

/* kernel_h * kernel_w * in_c / groups elements of pixel `pixel`, counted through the batch, for a group; x_zero where no image is. They are
 * in `row`, or where they are in x if they stand there one behind the other. */
static inline const int8_t *lb_gathered(const lb_conv_s8_params *p, const int8_t *x, int32_t pixel, int32_t group, int8_t *row) {
    const int32_t size = p->out_h * p->out_w, depth = p->in_c / p->groups;
    const int32_t top = pixel % size / p->out_w * p->stride_h - p->pad_h, left = pixel % p->out_w * p->stride_w - p->pad_w;
    const int8_t *image = x + (ptrdiff_t)(pixel / size) * p->in_h * p->in_w * p->in_c + (ptrdiff_t)group * depth;
    const lb_taps taps = lb_taps_inside(left, p->kernel_w, p->dilation_w, 0, p->in_w);
    const int runs = p->groups == 1 && p->dilation_w == 1;
    const int whole = taps.first == 0 && taps.last == p->kernel_w;
    if (p->kernel_h == 1 && top >= 0 && top < p->in_h && whole && (runs || p->kernel_w == 1))
        return image + ((ptrdiff_t)top * p->in_w + left) * p->in_c;
    int8_t *to = row;
    for (int32_t i = 0; i < p->kernel_h; i++) {
        const int32_t at = top + i * p->dilation_h;
        const lb_taps t = at >= 0 && at < p->in_h ? taps : (lb_taps){0, 0};
        const int8_t *from = image + (ptrdiff_t)at * p->in_w * p->in_c + (ptrdiff_t)(left + t.first * p->dilation_w) * p->in_c;
        if (t.last == t.first)
            from = image;
        const size_t before = (size_t)(t.first * depth), behind = (size_t)((p->kernel_w - t.last) * depth);
        if (before)
            memset(to, p->x_zero, before);
        to += before;
        if (runs) {
            memcpy(to, from, (size_t)((t.last - t.first) * depth));
            to += (t.last - t.first) * depth;
        } else
            for (int32_t j = t.first; j < t.last; j++, to += depth, from += (ptrdiff_t)p->dilation_w * p->in_c)
                memcpy(to, from, (size_t)depth);
        if (behind)
            memset(to, p->x_zero, behind);
        to += behind;
    }
    return row;
}

#endif
