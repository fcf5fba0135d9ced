/* max_pool_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_MAX_POOL_F32_SIMD_H
#define LB_MAX_POOL_F32_SIMD_H

#include "lb.h"
#include "base/window.h"

#include <stddef.h>

void LB_SIMD(max_pool_f32)(const lb_max_pool_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    const ptrdiff_t down = (ptrdiff_t)p->dilation_h * p->in_w * p->channels, across = (ptrdiff_t)p->dilation_w * p->channels;
    const lb_windows g = LB_WINDOWS(p);
    LB_EACH_WINDOW (&g, at) {
        const float *image = x + at.image;
        float *to = out + at.out;
        const ptrdiff_t corner = ((ptrdiff_t)at.top * p->in_w + at.left) * p->channels;
        int32_t c = 0;
        for (; c <= p->channels - LB_LANES; c += LB_LANES) {
            lb_v most = lb_v_all(-LB_INFINITY);
            for (int32_t i = at.rows.first; i < at.rows.last; i++)
                for (int32_t j = at.columns.first; j < at.columns.last; j++)
                    most = LB_V(max)(most, lb_v_load(image + corner + i * down + j * across + c));
            lb_v_store(to + c, most);
        }
        if (c < p->channels) {
            const int32_t left = p->channels - c;
            lb_v most = lb_v_all(-LB_INFINITY);
            for (int32_t i = at.rows.first; i < at.rows.last; i++)
                for (int32_t j = at.columns.first; j < at.columns.last; j++)
                    most = LB_V(max)(most, lb_v_get(image + corner + i * down + j * across + c, left, -LB_INFINITY));
            lb_v_put(to + c, most, left);
        }
    }
}

#endif
