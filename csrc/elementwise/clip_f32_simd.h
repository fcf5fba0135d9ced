/* clip_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_CLIP_F32_SIMD_H
#define LB_CLIP_F32_SIMD_H

#include "lb.h"

void LB_SIMD(clip_f32)(const lb_clip_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    const lb_v lo = lb_v_all(p->lo), hi = lb_v_all(p->hi);
    int32_t i = begin;
    for (; i <= end - LB_LANES; i += LB_LANES)
        lb_v_store(out + i, LB_V(clamp)(lb_v_load(x + i), lo, hi));
    for (; i < end; i++)
        out[i] = lb_clampf(x[i], p->lo, p->hi);
}

#endif
