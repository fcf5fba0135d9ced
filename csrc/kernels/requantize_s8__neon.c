#include "lb.h"
#include "lb_numerics.h"
#include "lb_requantize_neon.h"

lb_requantize_s8_fn lb_requantize_s8__neon;

void lb_requantize_s8__neon(const lb_requantize_s8_params *p, const int8_t *x, int8_t *out, int32_t begin, int32_t end) {
    const lb_clamp16 clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi);
    int32_t i = begin;
    for (; i <= end - 16; i += 16) {
        int32x4_t q[4];
        float32x4_t v[4];
        lb_widen16(vld1q_s8(x + i), q);
        for (int j = 0; j < 4; j++)
            v[j] = vmulq_n_f32(vcvtq_f32_s32(vsubq_s32(q[j], vdupq_n_s32(p->x_zero))), p->multiplier);
        vst1q_s8(out + i, lb_round16(v, &clamp));
    }
    for (; i < end; i++)
        out[i] = (int8_t)lb_requantize(x[i] - p->x_zero, p->multiplier, p->y_zero, p->lo, p->hi);
}
