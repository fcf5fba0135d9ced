/* Windows of images: which of their taps are inside the image, along an axis and for a pixel of the output. */
#ifndef LB_WINDOW_H
#define LB_WINDOW_H

#include <stddef.h>
#include <stdint.h>

/* The first tap inside the image, and the one after the last. */
typedef struct {
    int32_t first, last;
} lb_taps;

/* Taps i of 0 ... kernel - 1 for which lo <= start + i * dilation < hi. */
static inline lb_taps lb_taps_inside(int32_t start, int32_t kernel, int32_t dilation, int32_t lo, int32_t hi) {
    const int32_t first = start < lo ? (lo - start + dilation - 1) / dilation : 0;
    const int32_t last = start < hi ? (hi - start + dilation - 1) / dilation : 0;
    const lb_taps t = {first < kernel ? first : kernel, last < kernel ? last : kernel};
    return t.first < t.last ? t : (lb_taps){0, 0};
}

static inline int32_t lb_taps_count(lb_taps t) {
    return t.last - t.first;
}

/* The geometry of a pool or a depthwise convolution; LB_WINDOWS(p) takes it from the params of any. */
typedef struct {
    int32_t in_h, in_w, channels, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, out_stride;
} lb_windows;

#define LB_WINDOWS(p)                                                                                                                      \
    {(p)->in_h,     (p)->in_w,     (p)->channels, (p)->out_h, (p)->out_w,      (p)->kernel_h,   (p)->kernel_w,                             \
     (p)->stride_h, (p)->stride_w, (p)->pad_h,    (p)->pad_w, (p)->dilation_h, (p)->dilation_w, (p)->out_stride}

/* The window of a pixel: where it begins in its image, its taps inside, and where image and result are, in elements. */
typedef struct {
    int32_t top, left;
    lb_taps rows, columns;
    ptrdiff_t image, out;
} lb_window_at;

/* Pixel `column` of row `item` of the output, rows counted through the batch. */
static inline lb_window_at lb_window_of(const lb_windows *g, int32_t item, int32_t column) {
    const int32_t top = item % g->out_h * g->stride_h - g->pad_h, left = column * g->stride_w - g->pad_w;
    return (lb_window_at){top,
                          left,
                          lb_taps_inside(top, g->kernel_h, g->dilation_h, 0, g->in_h),
                          lb_taps_inside(left, g->kernel_w, g->dilation_w, 0, g->in_w),
                          (ptrdiff_t)(item / g->out_h) * g->in_h * g->in_w * g->channels,
                          ((ptrdiff_t)item * g->out_w + column) * g->out_stride};
}

/* The windows `at` of all pixels of rows begin ... end - 1 of the output. */
#define LB_EACH_WINDOW(g, at)                                                                                                              \
    for (int32_t item = begin; item < end; item++)                                                                                         \
        for (int32_t o = 0; o < (g)->out_w; o++)                                                                                           \
            for (lb_window_at at = lb_window_of(g, item, o), *once = &at; once; once = NULL)

/* Element (0 of the channels) of tap (i, j), from the image on. */
static inline ptrdiff_t lb_tap_at(const lb_windows *g, const lb_window_at *at, int32_t i, int32_t j) {
    return ((ptrdiff_t)(at->top + i * g->dilation_h) * g->in_w + at->left + j * g->dilation_w) * g->channels;
}

#endif
