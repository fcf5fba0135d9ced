/* max_pool_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_MAX_POOL_F32_SIMD_H
#define LB_MAX_POOL_F32_SIMD_H

#include "lb.h"
#include "base/window.h"

#include <stddef.h>

void LB_SIMD(max_pool_f32)(const lb_max_pool_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    const ptrdiff_t down = (ptrdiff_t)p->dilation_h * p->in_w * p->channels, across = (ptrdiff_t)p->dilation_w * p->channels;
    for (int32_t item = begin; item < end; item++) {
        const float *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels;
        const int32_t top = item % p->out_h * p->stride_h - p->pad_h;
        const lb_taps rows = lb_taps_inside(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        float *to = out + (ptrdiff_t)item * p->out_w * p->out_stride;
        for (int32_t o = 0; o < p->out_w; o++, to += p->out_stride) {
            const int32_t left = o * p->stride_w - p->pad_w;
            const lb_taps columns = lb_taps_inside(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            const ptrdiff_t corner = ((ptrdiff_t)top * p->in_w + left) * p->channels;
            int32_t c = 0;
            for (; c <= p->channels - LB_LANES; c += LB_LANES) {
                lb_v most = lb_v_all(-LB_INFINITY);
                for (int32_t i = rows.first; i < rows.last; i++)
                    for (int32_t j = columns.first; j < columns.last; j++)
                        most = LB_V(max)(most, lb_v_load(image + corner + i * down + j * across + c));
                lb_v_store(to + c, most);
            }
            for (; c < p->channels; c++) {
                float most = -LB_INFINITY;
                for (int32_t i = rows.first; i < rows.last; i++)
                    for (int32_t j = columns.first; j < columns.last; j++)
                        most = lb_maxf(most, image[corner + i * down + j * across + c]);
                to[c] = most;
            }
        }
    }
}

#endif
