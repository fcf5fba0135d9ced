/* The taps of a depthwise window that are inside the image, for the kernels of Cortex-M. dot_armdsp.h or dot_mve.h stands before this. */
#ifndef LB_DWCONV_CORTEX_H
#define LB_DWCONV_CORTEX_H

#include "lb.h"
#include "base/window.h"

/* `high` rows of `wide` taps: the first pixel and its weights, and the elements from the end of a row to the next one. */
typedef struct {
    int32_t high, wide;
    const int8_t *x, *w;
    int32_t below, next;
} lb_dw_taps;

static inline lb_dw_taps lb_dw_taps_of(const lb_dwconv_s8_params *p, const lb_window_at *at, const int8_t *x, const int8_t *weights) {
    const int32_t high = at->columns.first < at->columns.last ? at->rows.last - at->rows.first : 0;
    const int32_t wide = at->columns.last - at->columns.first, step = p->dilation_w * p->channels;
    const int32_t row = at->top + at->rows.first * p->dilation_h, column = at->left + at->columns.first * p->dilation_w;
    const int8_t *const image = x + at->image;
    return (lb_dw_taps){.high = high,
                        .wide = wide,
                        .x = high ? image + ((ptrdiff_t)row * p->in_w + column) * p->channels : image,
                        .w = high ? weights + ((ptrdiff_t)at->rows.first * p->kernel_w + at->columns.first) * p->channels : weights,
                        .below = p->dilation_h * p->in_w * p->channels - wide * step,
                        .next = (p->kernel_w - wide) * p->channels};
}

/* Channels c and those after it, one by one. */
static inline void lb_dw_rest(const lb_dwconv_s8_params *p, const lb_dw_taps *t, int32_t c, const int32_t *bias, int8_t *to,
                              const lb_scaling *scaling) {
    for (; c < p->channels; c++) {
        uint32_t sum = (uint32_t)bias[c];
        const int8_t *a = t->x + c, *b = t->w + c;
        for (int32_t i = 0; i < t->high; i++, a += t->below, b += t->next)
            for (int32_t j = 0; j < t->wide; j++, a += p->dilation_w * p->channels, b += p->channels)
                sum += (uint32_t)((*a - p->x_zero) * *b);
        lb_put(to, c, (int32_t)sum, scaling, LB_TO_S8);
    }
}

#endif
