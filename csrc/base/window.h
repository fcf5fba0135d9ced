/* The taps of a window that are inside the image along one axis: the first one, and the one after the last. */
#ifndef LB_WINDOW_H
#define LB_WINDOW_H

#include <stdint.h>

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

#endif
