/* conv_s8 by pixels, whose windows become rows. */
#ifndef LB_CONV_MVE_H
#define LB_CONV_MVE_H

#include "conv/conv_ref.h"
#include "base/dot_mve.h"
#include "conv/im2col.h"

LB_INLINE void lb_conv_mve(const lb_conv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                           void *out, lb_kind kind, void *scratch, int32_t begin, int32_t end) {
    const int32_t n = p->out_c / p->groups, k = p->kernel_h * p->kernel_w * (p->in_c / p->groups), last = lb_conv_first(p, end);
    const int8_t *const weights = w;
    int32_t *const start = scratch;
    int8_t *const row = (int8_t *)(start + p->out_c);
    for (int32_t o = 0; o < p->out_c; o++)
        start[o] = lb_start_mve(bias[o], weights + (ptrdiff_t)o * k, k, p->x_zero);
    for (int32_t i = lb_conv_first(p, begin); i < last; i++)
        for (int32_t g = 0; g < p->groups; g++) {
            const int8_t *const columns = weights + (ptrdiff_t)g * n * k;
            lb_gather(p, x, i, g, row);
            const lb_scaling scaling = {multiplier + g * n, p->y_zero, p->lo, p->hi};
            void *to = lb_element(out, (ptrdiff_t)i * p->out_stride + g * n, kind);
            int32_t j = 0;
            for (; j + 4 <= n; j += 4)
                lb_put4_mve(to, j, lb_dot_1x4_mve(start + g * n + j, row, columns + (ptrdiff_t)j * k, k), &scaling, kind);
            for (; j < n; j++)
                lb_put(to, j, lb_dot_mve(start[g * n + j], row, columns + (ptrdiff_t)j * k, k), &scaling, kind);
        }
}

#endif
