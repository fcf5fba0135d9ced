/* conv_s8 on AVX2: the window of each pixel is a row, and rows are multiplied as in linear_s8. */
#ifndef LB_CONV_AVX2_H
#define LB_CONV_AVX2_H

#include "conv/conv_ref.h"
#include "linear/avx2/methods_avx2.h"
#include "base/window.h"

/* The window of a pixel for the channels of a group from `channel` on: in the image, where it lies there in one piece, else in `bytes`. */
static inline const int8_t *lb_window(const lb_conv_s8_params *p, const int8_t *x, int32_t pixel, int32_t channel, int8_t *bytes) {
    const int32_t size = p->out_h * p->out_w, depth = p->in_c / p->groups, row_bytes = p->kernel_w * depth;
    const int32_t top = pixel % size / p->out_w * p->stride_h - p->pad_h, left = pixel % p->out_w * p->stride_w - p->pad_w;
    const int8_t *image = x + (ptrdiff_t)(pixel / size) * p->in_h * p->in_w * p->in_c + channel;
    const int whole = left >= 0 && left + p->kernel_w <= p->in_w && (p->kernel_w == 1 || (p->dilation_w == 1 && p->groups == 1));
    if (p->kernel_h == 1 && whole && top >= 0 && top < p->in_h)
        return image + ((ptrdiff_t)top * p->in_w + left) * p->in_c;
    for (int32_t i = 0; i < p->kernel_h; i++) {
        const int32_t row = top + i * p->dilation_h;
        const int8_t *from = image + ((ptrdiff_t)row * p->in_w + left) * p->in_c;
        int8_t *to = bytes + i * row_bytes;
        if (row < 0 || row >= p->in_h)
            memset(to, p->x_zero, (size_t)row_bytes);
        else if (whole)
            memcpy(to, from, (size_t)row_bytes);
        else
            for (int32_t j = 0; j < p->kernel_w; j++, to += depth) {
                const int32_t column = left + j * p->dilation_w;
                if (column < 0 || column >= p->in_w)
                    memset(to, p->x_zero, (size_t)depth);
                else
                    memcpy(to, from + (ptrdiff_t)j * p->dilation_w * p->in_c, (size_t)depth);
            }
    }
    return bytes;
}

static inline void lb_conv_avx2(const lb_conv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                                void *out, lb_result to, void *scratch, int32_t begin, int32_t end) {
    const int32_t depth = p->in_c / p->groups, k = p->kernel_h * p->kernel_w * depth, n = p->out_c / p->groups;
    const ptrdiff_t group_bytes = lb_weights_bytes(k, n), element = to == LB_TO_F32 ? 4 : to == LB_TO_S16 ? 2 : 1;
    int8_t *bytes = (int8_t *)scratch + lb_rows_bytes(p->block, k);
    const int32_t last = lb_conv_first(p, end);
    for (int32_t g = 0; g < p->groups; g++) {
        const void *packed = (const char *)w + g * group_bytes;
        const lb_method *method = lb_method_of(packed);
        const lb_rows s = method->rows_at(scratch, p->block, k);
        const lb_product product = {method,
                                    packed,
                                    k,
                                    n,
                                    p->x_zero,
                                    bias + g * n,
                                    multiplier + g * n,
                                    (char *)out + element * g * n,
                                    p->out_stride,
                                    to,
                                    lb_clamp16_of(p->y_zero, p->lo, p->hi),
                                    p->y_zero,
                                    p->lo,
                                    p->hi};
        for (int32_t at = lb_conv_first(p, begin); at < last; at += (int32_t)s.rows) {
            const int32_t rows = last - at < s.rows ? last - at : (int32_t)s.rows;
            for (int32_t i = 0; i < rows; i++)
                method->put_rows(&s, i, 1, lb_window(p, x, at + i, g * depth, bytes), k, p->x_zero);
            if (method->prepare)
                method->prepare(&s, rows, k, p->x_zero);
            method->multiply(&product, &s, at, rows, 0, n);
        }
    }
}

#endif
