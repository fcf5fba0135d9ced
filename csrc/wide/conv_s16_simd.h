/* conv_s16 on vectors of any width: windows of some pixels become rows, which are multiplied as those of linear_s16. The words of
 * dot2_avx2.h or dot2_avx512vnni.h stand before this. */
#ifndef LB_CONV_S16_SIMD_H
#define LB_CONV_S16_SIMD_H

#include "wide/conv_s16.h"
#include "wide/dot2_simd.h"

enum { LB_CONV_S16_ROWS = 48 };

/* n elements x_zero. */
static inline void lb_conv_s16_fill(int16_t *to, ptrdiff_t n, int32_t x_zero) {
    for (ptrdiff_t i = 0; i < n; i++)
        to[i] = (int16_t)x_zero;
}

/* The window of a pixel for a group as a row; x_zero outside the image. */
static inline void lb_conv_s16_window(const lb_conv_s16_params *p, const lb_place *w, int32_t group, int16_t *to) {
    const int32_t depth = p->in_c / p->groups, n = p->kernel_w * depth;
    const int whole = w->left >= 0 && w->left + p->kernel_w <= p->in_w && (p->kernel_w == 1 || (p->dilation_w == 1 && p->groups == 1));
    for (int32_t i = 0; i < p->kernel_h; i++, to += n) {
        const int32_t row = w->top + i * p->dilation_h;
        if (row < 0 || row >= p->in_h) {
            lb_conv_s16_fill(to, n, p->x_zero);
            continue;
        }
        const int16_t *line = w->image + (ptrdiff_t)row * p->in_w * p->in_c + (ptrdiff_t)group * depth;
        if (whole) {
            lb_dot2_copy(to, line + (ptrdiff_t)w->left * p->in_c, n);
            continue;
        }
        for (int32_t j = 0; j < p->kernel_w; j++) {
            const int32_t column = w->left + j * p->dilation_w;
            if (column < 0 || column >= p->in_w)
                lb_conv_s16_fill(to + j * depth, depth, p->x_zero);
            else
                lb_dot2_copy(to + j * depth, line + (ptrdiff_t)column * p->in_c, depth);
        }
    }
}

/* The windows of `count` pixels from `pixel` on. */
static void lb_conv_s16_windows(const lb_conv_s16_params *p, const int16_t *x, int32_t pixel, int32_t count, int32_t group, int16_t *to,
                                int32_t k) {
    const int32_t stride = k + (k & 1); /* what stands beside the last of an odd number has weights of 0 */
    const int32_t size = p->out_h * p->out_w, at = pixel % size;
    lb_place w = lb_place_of(p, x, pixel);
    int32_t row = at / p->out_w, column = at % p->out_w;
    for (; count > 0; count--, to += stride) {
        lb_conv_s16_window(p, &w, group, to);
        if (k & 1)
            to[k] = 0;
        w.left += p->stride_w;
        if (++column < p->out_w)
            continue;
        column = 0, w.left = -p->pad_w, w.top += p->stride_h;
        if (++row == p->out_h)
            row = 0, w.top = -p->pad_h, w.image += (ptrdiff_t)p->in_h * p->in_w * p->in_c;
    }
}

static void lb_dot2_conv(const lb_conv_s16_params *p, const int16_t *x, const void *packed, const int64_t *bias, const float *multiplier,
                         void *out, void *scratch, int32_t begin, int32_t end) {
    const int32_t n = p->out_c / p->groups, k = p->kernel_h * p->kernel_w * (p->in_c / p->groups), last = lb_conv_s16_first(p, end);
    const char *weights = packed;
    for (int32_t g = 0; g < p->groups; g++, weights += lb_dot2_bytes(weights, n, k)) {
        const lb_dot2_product product = {.packed = weights,
                                         .n = n,
                                         .k = k + (k & 1),
                                         .x_zero = p->x_zero,
                                         .bias = bias + g * n,
                                         .multiplier = multiplier + g * n,
                                         .x = scratch,
                                         .stride = k + (k & 1),
                                         .out = (char *)out + (ptrdiff_t)p->out_bytes * g * n,
                                         .out_stride = p->out_stride,
                                         .target = lb_dot2_target_of(p->out_bytes, p->y_zero, p->lo, p->hi)};
        for (int32_t first = lb_conv_s16_first(p, begin), rows; first < last; first += rows) {
            rows = last - first < LB_CONV_S16_ROWS ? last - first : LB_CONV_S16_ROWS;
            lb_conv_s16_windows(p, x, first, rows, g, scratch, k);
            lb_dot2_multiply(&product, rows, first, 0, n);
        }
    }
}

#endif
