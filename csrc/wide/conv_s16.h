/* Convolutions of 16-bit images: pixels of items, windows, sums one by one. */
#ifndef LB_CONV_S16_H
#define LB_CONV_S16_H

#include "lb.h"
#include "base/numerics.h"
#include "base/window.h"

#include <stddef.h>
#include <string.h>

/* The pixels of items begin ... end - 1: from lb_conv_s16_first(begin) to before lb_conv_s16_first(end). */
static inline int32_t lb_conv_s16_first(const lb_conv_s16_params *p, int32_t item) {
    const int64_t all = (int64_t)p->batch * p->out_h * p->out_w, at = (int64_t)item * p->block;
    return (int32_t)(at < all ? at : all);
}

/* Where the window of a pixel, counted through the batch, begins: its image, and the place of its first tap, which may be outside. */
typedef struct {
    const int16_t *image;
    int32_t top, left;
} lb_place;

static inline lb_place lb_place_of(const lb_conv_s16_params *p, const int16_t *x, int32_t pixel) {
    const int32_t size = p->out_h * p->out_w, at = pixel % size;
    return (lb_place){x + (ptrdiff_t)(pixel / size) * p->in_h * p->in_w * p->in_c, at / p->out_w * p->stride_h - p->pad_h,
                      at % p->out_w * p->stride_w - p->pad_w};
}

/* The sum of (x - zero) * w over n neighbours, where weight w is the one at `at` of `weights`. */
static inline int64_t lb_run_s16(const lb_conv_s16_params *p, const int16_t *x, const void *weights, ptrdiff_t at, int32_t n) {
    const int8_t *bytes = (const int8_t *)weights + at;
    const int16_t *words = (const int16_t *)weights + (p->weight_bytes == 2 ? at : 0);
    if (p->sum_bytes == 4) {
        uint32_t sum = 0;
        if (p->weight_bytes == 1)
            for (int32_t i = 0; i < n; i++)
                sum += (uint32_t)(x[i] - p->x_zero) * (uint32_t)bytes[i];
        else
            for (int32_t i = 0; i < n; i++)
                sum += (uint32_t)(x[i] - p->x_zero) * (uint32_t)words[i];
        return (int32_t)sum;
    }
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (int64_t)(x[i] - p->x_zero) * (p->weight_bytes == 1 ? bytes[i] : words[i]);
    return sum;
}

/* A sum as element `at` of the output. */
static inline void lb_conv_s16_put(const lb_conv_s16_params *p, int64_t acc, lb_f32 multiplier, void *out, ptrdiff_t at) {
    const lb_f32 fl = p->sum_bytes == 4 ? lb_f32_from_s32((int32_t)acc) : lb_f32_from_s64(acc), v = lb_f32_mul(fl, multiplier);
    if (p->out_bytes == 4)
        ((lb_f32 *)out)[at] = v;
    else if (p->out_bytes == 2)
        ((int16_t *)out)[at] = (int16_t)lb_round_clamp(v, p->y_zero, p->lo, p->hi);
    else
        ((int8_t *)out)[at] = (int8_t)lb_round_clamp(v, p->y_zero, p->lo, p->hi);
}

/* kernel_h * kernel_w * in_c / groups elements of the window of a pixel for a group; x_zero where no image is. */
static inline void lb_gather_s16(const lb_conv_s16_params *p, const int16_t *x, int32_t pixel, int32_t group, int16_t *row) {
    const int32_t depth = p->in_c / p->groups;
    const lb_place w = lb_place_of(p, x, pixel);
    const lb_taps taps = lb_taps_inside(w.left, p->kernel_w, p->dilation_w, 0, p->in_w);
    const int run = p->groups == 1 && p->dilation_w == 1; /* the taps of a row stand one after the other */
    for (int32_t i = 0; i < p->kernel_h; i++) {
        const int32_t at = w.top + i * p->dilation_h;
        const lb_taps t = at >= 0 && at < p->in_h ? taps : (lb_taps){0, 0};
        for (int32_t j = 0; j < p->kernel_w;) {
            const int inside = j >= t.first && j < t.last;
            const int32_t until = inside ? (run ? t.last : j + 1) : j < t.first ? t.first : p->kernel_w;
            const ptrdiff_t n = (ptrdiff_t)(until - j) * depth;
            if (inside)
                memcpy(row, w.image + ((ptrdiff_t)at * p->in_w + w.left + j * p->dilation_w) * p->in_c + (ptrdiff_t)group * depth,
                       2 * (size_t)n);
            else
                for (ptrdiff_t c = 0; c < n; c++)
                    row[c] = (int16_t)p->x_zero;
            row += n, j = until;
        }
    }
}

#endif
