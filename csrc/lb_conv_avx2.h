/* conv_s8 on AVX2: the window of each pixel is widened into a row, and rows are multiplied as in linear_s8. */
#ifndef LB_CONV_AVX2_H
#define LB_CONV_AVX2_H

#include "lb_conv_ref.h"
#include "lb_product_avx2.h"
#include "lb_window.h"

/* The window of a pixel for channels from `channel` on, widened; gives the sum of a0 a1, negated. `bytes` holds a window. */
static inline int32_t lb_pack_window(const lb_conv_s8_params *p, const int8_t *x, int32_t pixel, int32_t channel, int8_t *bytes,
                                     int16_t *out) {
    const int32_t size = p->out_h * p->out_w, depth = p->in_c / p->groups, row_bytes = p->kernel_w * depth;
    const int32_t top = pixel % size / p->out_w * p->stride_h - p->pad_h, left = pixel % p->out_w * p->stride_w - p->pad_w;
    const int8_t *image = x + (ptrdiff_t)(pixel / size) * p->in_h * p->in_w * p->in_c + channel;
    const int whole = left >= 0 && left + p->kernel_w <= p->in_w && p->dilation_w == 1 && p->groups == 1;
    const int direct = depth % LB_STEP == 0; /* every tap is a whole number of steps: no need to bring them together first */
    int32_t pairs = 0;
    for (int32_t i = 0; i < p->kernel_h; i++) {
        const int32_t row = top + i * p->dilation_h;
        const int inside = row >= 0 && row < p->in_h;
        const int8_t *from = image + ((ptrdiff_t)row * p->in_w + left) * p->in_c;
        if (!inside) {
            if (direct)
                memset(out + i * row_bytes, 0, 2 * (size_t)row_bytes);
            else
                memset(bytes + i * row_bytes, p->x_zero, (size_t)row_bytes);
        } else if (whole) {
            if (direct)
                pairs += lb_pack_row(from, row_bytes, 0, p->x_zero, out + i * row_bytes);
            else
                memcpy(bytes + i * row_bytes, from, (size_t)row_bytes);
        } else
            for (int32_t j = 0; j < p->kernel_w; j++) {
                const int32_t column = left + j * p->dilation_w, at = i * row_bytes + j * depth;
                const int8_t *tap = from + (ptrdiff_t)j * p->dilation_w * p->in_c;
                if (column < 0 || column >= p->in_w) {
                    if (direct)
                        memset(out + at, 0, 2 * (size_t)depth);
                    else
                        memset(bytes + at, p->x_zero, (size_t)depth);
                } else if (direct)
                    pairs += lb_pack_row(tap, depth, 0, p->x_zero, out + at);
                else
                    memcpy(bytes + at, tap, (size_t)depth);
            }
    }
    return direct ? pairs : lb_pack_row(bytes, p->kernel_h * row_bytes, 0, p->x_zero, out);
}

static inline void lb_conv_avx2(const lb_conv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                                void *out, lb_result to, void *scratch, int32_t begin, int32_t end) {
    const int32_t depth = p->in_c / p->groups, k = p->kernel_h * p->kernel_w * depth, n = p->out_c / p->groups;
    const lb_cut cut = lb_cut_of(k, k);
    const lb_scratch s = lb_scratch_at(scratch, p->block, cut);
    int8_t *bytes = (int8_t *)scratch + s.bytes;
    const ptrdiff_t group_bytes = lb_round_up(n, LB_PANEL) * (4 + cut.depth * 2); /* as gemm_s8_sizes */
    const int32_t last = lb_conv_first(p, end);
    for (int32_t at = lb_conv_first(p, begin); at < last; at += (int32_t)s.rows) {
        const int32_t rows = last - at < s.rows ? last - at : (int32_t)s.rows;
        for (int32_t g = 0; g < p->groups; g++) {
            const lb_product product = {cut,
                                        (const char *)w + g * group_bytes,
                                        n,
                                        bias + g * n,
                                        multiplier + g * n,
                                        (char *)out + (ptrdiff_t)(to == LB_TO_F32   ? 4
                                                                  : to == LB_TO_S16 ? 2
                                                                                    : 1) *
                                                          g * n,
                                        p->out_stride,
                                        to,
                                        lb_clamp16_of(p->y_zero, p->lo, p->hi),
                                        p->y_zero,
                                        p->lo,
                                        p->hi};
            for (int32_t i = 0; i < rows; i++)
                s.a_pairs[i] = lb_pack_window(p, x, at + i, g * depth, bytes, s.a + i * s.stride);
            lb_multiply(&product, &s, at, rows, 0, n);
        }
    }
}

#endif
