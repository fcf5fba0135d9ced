/* Windows of binary images: which taps of a pixel are inside, and where their bits are. */
#ifndef LB_B1_WINDOW_H
#define LB_B1_WINDOW_H

#include "lb.h"
#include "base/window.h"

#include <stddef.h>

/* Words of 64 bits in a run of n. */
static inline int32_t lb_b1_words(int32_t n) {
    return n / 64 + (n % 64 != 0);
}

/* The window of one pixel: its image's bits, its taps inside, and where the first tap of the kernel would lie. */
typedef struct {
    const uint8_t *image;
    int32_t top, left;
    lb_taps rows, columns;
} lb_b1_window;

static inline lb_b1_window lb_b1_window_of(const lb_conv_b1_s8_params *p, const uint8_t *x, int32_t pixel) {
    const int32_t size = p->out_h * p->out_w;
    const int32_t top = pixel % size / p->out_w * p->stride_h - p->pad_h, left = pixel % p->out_w * p->stride_w - p->pad_w;
    return (lb_b1_window){x + (ptrdiff_t)(pixel / size) * p->in_h * p->in_w * lb_b1_words(p->in_c) * 8, top, left,
                          lb_taps_inside(top, p->kernel_h, p->dilation_h, 0, p->in_h),
                          lb_taps_inside(left, p->kernel_w, p->dilation_w, 0, p->in_w)};
}

/* The bits of tap (i, j). */
static inline const uint8_t *lb_b1_tap(const lb_conv_b1_s8_params *p, const lb_b1_window *at, int32_t i, int32_t j) {
    const ptrdiff_t row = at->top + i * p->dilation_h, column = at->left + j * p->dilation_w;
    return at->image + (row * p->in_w + column) * lb_b1_words(p->in_c) * 8;
}

/* Products that a sum has: its channels at the taps inside. */
static inline int32_t lb_b1_products(const lb_conv_b1_s8_params *p, const lb_b1_window *at) {
    return lb_taps_count(at->rows) * lb_taps_count(at->columns) * p->in_c;
}

/* The pixels of items begin ... end - 1: from lb_b1_pixel(begin) to before lb_b1_pixel(end). */
static inline int32_t lb_b1_pixel(const lb_conv_b1_s8_params *p, int32_t item) {
    const int64_t all = (int64_t)p->batch * p->out_h * p->out_w, at = (int64_t)item * p->block;
    return (int32_t)(at < all ? at : all);
}

#endif
